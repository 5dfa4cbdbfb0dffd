"""Runs other projects' own test suites plain and under the launcher, and compares test by test.

    python tests/suites/run.py --install              makes a virtual environment for the running interpreter
    python tests/suites/run.py                        uses it, or the running interpreter if it has all that is needed
    python tests/suites/run.py --suite tornado --path shm --details
    python tests/suites/run.py --path shm --upgrade-after pays

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
    "aiohttp[speedups]", "blockbuster", "freezegun", "proxy.py", "pytest-xdist", "pytest-timeout", "pytest-cov",
    "websockets", "python-socks[asyncio]", "distributed",
)  # fmt: skip
# By a second run of pip: httpbin asks for an older greenlet, of which no test here makes use.
AFTERWARDS = ("gevent", "psutil")


@dataclasses.dataclass(frozen=True)
class Suite:
    """A project's tests: the script that runs them and the packages it is given, one process each.

    unpacked: whether they come with the source distribution only, which --install fetches in the installed version.
    repository: where they come from if the source distribution has none either; its tags are the versions.
    under_launcher: whether the launcher puts fastsock there, or the script does.
    known: tests that need not pass, with the reason.
    """

    script: str
    packages: tuple[str, ...]
    unpacked: bool = False
    repository: str = ""
    under_launcher: bool = True
    known: tuple[exclusions.Exclusion, ...] = ()


SUITES = {
    "tornado": Suite(
        "run_tornado.py",
        ("tornado.test",),
        known=(
            exclusions.Exclusion(
                "*IOStreamSSL*test_write_bytearray_resizable_after_close_while_writing*",
                "wants a write of 10 MiB to stay unfinished: memory and TCP together hold that",
            ),
        ),
    ),
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
    "aiohttp": Suite(
        "run_pytest.py",
        tuple(
            f"aiohttp/tests/test_{name}.py"
            for name in (
                "client_functional", "client_proto", "client_session", "client_ws", "client_ws_functional", "connector",
                "leaks", "proxy_functional", "resolver", "run_app", "tcp_helpers", "test_utils", "web_functional",
                "web_protocol", "web_runner", "web_sendfile", "web_sendfile_functional", "web_server",
                "web_urldispatcher", "web_websocket_functional",
            )
        ),
        unpacked=True,
    ),
    "gevent": Suite(
        "run_gevent.py",
        tuple(
            f"gevent.tests.test__{name}"
            for name in (
                "backdoor", "close_backend_fd", "greenio", "makefile_ref", "monkey_select", "monkey_selectors", "os",
                "pywsgi", "refcount", "select", "selectors", "server", "server_pywsgi", "socket", "socket_close",
                "socket_errors", "socket_ex", "socket_send_memoryview", "socket_ssl", "socket_timeout", "socketpair",
                "ssl", "threadpool",
            )
        ),
    ),
    "websockets": Suite(
        "run_pytest.py",
        tuple(
            f"websockets/tests/{name}"
            for name in ("asyncio", "sync", "trio", "legacy")
        ),
        repository="https://github.com/python-websockets/websockets",
    ),
    "distributed": Suite(
        "run_dask.py",
        tuple(
            f"distributed/distributed/{name}.py"
            for name in ("comm/tests/test_comms", "comm/tests/test_tcp", "tests/test_core", "tests/test_batched")
        ),
        repository="https://github.com/dask/distributed",
        under_launcher=False,
        known=(
            exclusions.Exclusion(
                "*test_stop_listener_during_handle_stream*", "replaces methods of tornado's server, which is not there"
            ),
            exclusions.Exclusion("*test_getaddrinfo_invalid_af*", "asks tornado's client, which is not there"),
        ),
    ),
}  # fmt: skip


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
    parser.add_argument(
        "--upgrade-after",
        default="0",
        metavar="CALLS",
        help="on the path shm: as FASTSOCK_UPGRADE_AFTER (default: %(default)s)",
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


def source_of(python: str, project: str) -> Path:
    """Where the project's source is kept: below the virtual environment's folder."""
    return Path(python).parent.parent / "sources" / project


def fetch(python: str, project: str) -> None:
    """The source of the project's installed version; where it cannot be had, a line says why."""
    statement = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    told = subprocess.run([python, "-c", statement, project], check=True, capture_output=True, text=True)
    version, place = told.stdout.strip(), source_of(python, project)
    with tempfile.TemporaryDirectory(prefix="suites-") as fetched:
        if SUITES[project].repository:
            source = Path(fetched, project)
            git = ["git", "clone", "--quiet", "--depth", "1", "--branch", version]
            answer = subprocess.run(
                [*git, SUITES[project].repository, str(source)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            if answer.returncode != 0:
                print(f"{project}: no source of version {version}: {answer.stderr.strip()}", file=sys.stderr)
                shutil.rmtree(place, ignore_errors=True)  # an older one's tests are not this version's
                return
        else:
            pip = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", project, "--dest", fetched]
            subprocess.run([*pip, f"{project}=={version}"], check=True)
            (archive,) = Path(fetched).glob("*.tar.gz")
            shutil.unpack_archive(archive, fetched, filter="data")
            (source,) = (path for path in Path(fetched).iterdir() if path.is_dir())
        place.parent.mkdir(exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        shutil.move(source, place)


def choose_interpreter(wanted: str, options: argparse.Namespace, suites: list[str]) -> interpreters.Interpreter:
    """The interpreter itself or its virtual environment, whichever has fastsock and the suites."""
    executable = interpreters.find(wanted)
    names = suites + (["fastsock"] if options.against == "launcher" else [])
    if options.install:
        python = interpreters.install(executable, options.venvs, HERE.parent.parent, REQUIREMENTS)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *AFTERWARDS], check=True)
        for project in (name for name in suites if SUITES[name].unpacked or SUITES[name].repository):
            fetch(python, project)
    else:
        python = str(interpreters.environment_of(executable, options.venvs) / "bin" / "python")
    for candidate in (python, executable):
        if Path(candidate).exists() and _has(candidate, names):
            return interpreters.probe(candidate)
    raise interpreters.InterpreterError(f"{executable} has not all of {', '.join(names)}: run once with --install")


def run(options: argparse.Namespace) -> list[match.Played]:
    suites = options.suite or list(SUITES)
    chosen = [choose_interpreter(wanted, options, suites) for wanted in options.python or [sys.executable]]
    launcher = tuple(shlex.split(options.launcher))
    all_played: list[match.Played] = []
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        futures = []
        for interpreter in chosen:
            print(interpreter, flush=True)
            for name in suites:
                suite = SUITES[name]
                if suite.repository and not source_of(interpreter.executable, name).is_dir():
                    print(f"{name} left out: its tests are only in {suite.repository}, which --install could not clone")
                    continue
                rules = match.Rules(
                    str(HERE / "child" / suite.script), tuple(options.match), (), options.times, options.nice
                )
                ways = match.ways(
                    options.against,
                    launcher if suite.under_launcher else (),
                    options.path,
                    options.nice,
                    options.upgrade_after,
                )
                ledger = exclusions.Ledger(list(suite.known))
                futures += [
                    pool.submit(match.play, interpreter, Module(package), ways, rules, ledger)
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
