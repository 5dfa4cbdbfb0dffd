"""Runs other projects' own test suites plain and under the launcher, and compares test by test.

    python tests/suites/run.py --install              makes a virtual environment for the running interpreter
    python tests/suites/run.py                        uses it, or the running interpreter if it has all that is needed
    python tests/suites/run.py --suite tornado --path shm --details

Exit status: 0 the same results, 1 a test that passes plain does not under the
launcher, 2 it could not run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cpython"))

from referee import exclusions, interpreters, match, report  # noqa: E402
from referee.modules import Module  # noqa: E402
from referee.process import stop_all  # noqa: E402

REQUIREMENTS = (
    "tornado", "twisted[tls,test]",
    "pytest", "pytest-httpbin", "pytest-trio", "pytest-asyncio", "pytest-mock", "trustme", "uvicorn", "chardet",
    "hypothesis", "pyOpenSSL", "astor",
    "httpcore[http2,socks,asyncio,trio]", "httpx[http2,socks,brotli,cli,zstd]", "hypercorn", "aiosmtpd", "trio",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Suite:
    """A project's tests: the script that runs them and the packages it is given, one process each.

    unpacked: whether they come with the source distribution only, which --install fetches in the installed version.
    """

    script: str
    packages: tuple[str, ...]
    unpacked: bool = False


SUITES = {
    "tornado": Suite("run_tornado.py", ("tornado.test",)),
    "twisted": Suite(
        "run_trial.py",
        (
            "twisted.internet",
            "twisted.protocols",
            "twisted.test.test_tcp",
            "twisted.test.test_ssl",
            "twisted.test.test_internet",
        ),
    ),
    "httpcore": Suite("run_pytest.py", ("httpcore/tests",), unpacked=True),
    "httpx": Suite("run_pytest.py", ("httpx/tests",), unpacked=True),
    "hypercorn": Suite("run_pytest.py", ("hypercorn/tests",), unpacked=True),
    "aiosmtpd": Suite("run_pytest.py", ("aiosmtpd/aiosmtpd",), unpacked=True),
    "trio": Suite(
        "run_pytest.py",
        (
            "trio._tests.test_socket",
            "trio._tests.test_ssl",
            "trio._tests.test_highlevel_socket",
            "trio._tests.test_highlevel_open_tcp_listeners",
            "trio._tests.test_highlevel_open_tcp_stream",
            "trio._tests.test_highlevel_ssl_helpers",
            "trio._core._tests.test_io",
        ),
    ),
}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=SUITES, help="may be repeated (default: all)")
    parser.add_argument(
        "--python",
        action="append",
        metavar="VERSION|PATH",
        help="3.11, 3.11.7 or a path; may be repeated (default: the running interpreter)",
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="first install the checkout and the suites into a virtual environment per interpreter",
    )
    parser.add_argument(
        "--venvs", type=Path, default=HERE / ".venvs", help="where these are kept (default: %(default)s)"
    )
    parser.add_argument(
        "--path",
        action="append",
        choices=exclusions.PATHS,
        help="the path preferred; may be repeated (default: each in turn)",
    )
    parser.add_argument("--match", action="append", default=[], metavar="GLOB", help="only tests whose id matches")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (default: %(default)s)")
    parser.add_argument(
        "--times",
        type=int,
        default=3,
        help="how often a test that fails is run again, alone, on both sides (default: %(default)s)",
    )
    parser.add_argument("--nice", type=int, default=10, help="added niceness of the tests (default: %(default)s)")
    parser.add_argument(
        "--against",
        choices=("launcher", "plain"),
        default="launcher",
        help="plain: compare plain with plain, to see which tests are flaky",
    )
    parser.add_argument(
        "--launcher",
        default="-m fastsock.launcher",
        metavar="ARGUMENTS",
        help="what goes between the interpreter and the script (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every test's outcome and seconds")
    parser.add_argument("--details", action="store_true", help="print whole tracebacks")
    return parser.parse_args(argv)


def _has(python: str, names: list[str]) -> bool:
    statement = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    return (
        subprocess.run([python, "-c", statement, *names], env=interpreters.clean_environment(), cwd="/").returncode == 0
    )


def unpack(python: str, project: str) -> None:
    """The source distribution of the project's installed version, below the virtual environment's folder."""
    folder = Path(python).parent.parent / "sources"
    folder.mkdir(exist_ok=True)
    statement = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    told = subprocess.run([python, "-c", statement, project], check=True, capture_output=True, text=True)
    wanted = f"{project}=={told.stdout.strip()}"
    with tempfile.TemporaryDirectory(prefix="suites-") as fetched:
        pip = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", project, "--dest", fetched]
        subprocess.run([*pip, wanted], check=True)
        (archive,) = Path(fetched).glob("*.tar.gz")
        shutil.unpack_archive(archive, fetched, filter="data")
        shutil.rmtree(folder / project, ignore_errors=True)
        (source,) = (path for path in Path(fetched).iterdir() if path.is_dir())
        shutil.move(source, folder / project)


def choose_interpreter(wanted: str, options: argparse.Namespace, suites: list[str]) -> interpreters.Interpreter:
    """The interpreter itself or its virtual environment, whichever has fastsock and the suites."""
    executable = interpreters.find(wanted)
    names = suites + (["fastsock"] if options.against == "launcher" else [])
    if options.install:
        python = interpreters.install(executable, options.venvs, HERE.parent.parent, REQUIREMENTS)
        for project in (name for name in suites if SUITES[name].unpacked):
            unpack(python, project)
    else:
        python = str(interpreters.environment_of(executable, options.venvs) / "bin" / "python")
    for candidate in (python, executable):
        if Path(candidate).exists() and _has(candidate, names):
            return interpreters.probe(candidate)
    raise interpreters.InterpreterError(f"{executable} has not all of {', '.join(names)}: run once with --install")


def run(options: argparse.Namespace) -> list[match.Played]:
    suites = options.suite or list(SUITES)
    chosen = [choose_interpreter(wanted, options, suites) for wanted in options.python or [sys.executable]]
    ways = match.ways(options.against, tuple(shlex.split(options.launcher)), options.path, options.nice)
    all_played: list[match.Played] = []
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        futures = []
        for interpreter in chosen:
            print(interpreter, flush=True)
            for suite in (SUITES[name] for name in suites):
                rules = match.Rules(
                    str(HERE / "child" / suite.script), tuple(options.match), (), options.times, options.nice
                )
                futures += [
                    pool.submit(match.play, interpreter, Module(package), ways, rules, exclusions.Ledger([]))
                    for package in suite.packages
                ]
        try:
            for future in concurrent.futures.as_completed(futures):
                for played in future.result():
                    all_played.append(played)
                    print(report.progress(played), flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise
    return all_played


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    started = time.monotonic()
    try:
        all_played = run(options)
    except interpreters.InterpreterError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    print(report.text(all_played, options.details))
    complaints = report.not_run(all_played)
    for complaint in complaints:
        print(f"\nCOMPLAINT: {complaint}")
    if options.json:
        options.json.write_text(json.dumps(report.as_json(all_played, complaints), indent=1), encoding="utf-8")
    regressions = sum(len(played.of_kind("regression")) for played in all_played)
    print(f"\n{regressions} regressions, {len(complaints)} complaints, {time.monotonic() - started:.0f} s")
    return 1 if regressions or complaints else 0


if __name__ == "__main__":
    sys.exit(main())
