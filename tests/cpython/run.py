"""Runs CPython's own tests plain and under the launcher, and compares test by test.

    python tests/cpython/run.py                       the running interpreter, every path
    python tests/cpython/run.py --all --install       every Python 3.10 to 3.15 found, one virtual environment each
    python tests/cpython/run.py --quick               the subset for a change under way
    python tests/cpython/run.py --path shm --modules test_socket --match '*testRecv*' --details

Exit status: 0 no regression, 1 a regression or an exclusion that is not
needed, 2 it could not run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shlex
import sys
import time
from pathlib import Path

from referee import exclusions, interpreters, match, modules, report
from referee.process import stop_all

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--python",
        action="append",
        metavar="VERSION|PATH",
        help="3.11, 3.11.7 or a path; may be repeated (default: the running interpreter)",
    )
    which.add_argument("--all", action="store_true", help="every Python 3.10 to 3.15 found by pyenv or on PATH")
    parser.add_argument(
        "--install",
        action="store_true",
        help="first make a virtual environment per interpreter and install the checkout into it",
    )
    parser.add_argument(
        "--venvs", type=Path, default=HERE / ".venvs", help="where these are kept (default: %(default)s)"
    )
    parser.add_argument(
        "--path",
        action="append",
        choices=exclusions.PATHS,
        help="the path preferred; may be repeated (default: each of the default chain in turn)",
    )
    parser.add_argument(
        "--upgrade-after",
        default="0",
        metavar="CALLS",
        help="on the path shm: as FASTSOCK_UPGRADE_AFTER (default: %(default)s)",
    )
    parser.add_argument(
        "--modules",
        default="",
        metavar="NAMES",
        help="comma-separated globs: test_socket, test_asyncio, test_asyncio.test_events, multiprocessing*",
    )
    parser.add_argument(
        "--host",
        default="",
        metavar="ADDRESS",
        help="the tests' servers listen there, not at the loopback address: where a device is (--path rdma)",
    )
    parser.add_argument("--match", action="append", default=[], metavar="GLOB", help="only tests whose id matches")
    parser.add_argument(
        "--quick", action="store_true", help="leave out modules and tests without sockets, and slow ones"
    )
    parser.add_argument("--check-exclusions", action="store_true", help="run only the tests that are excluded")
    parser.add_argument(
        "--jobs",
        type=int,
        default=2 * (os.cpu_count() or 1),
        help="modules run at once; most of their time is waiting (default: %(default)s)",
    )
    parser.add_argument(
        "--times",
        type=int,
        default=3,
        help="how often a test that fails is run again, alone, on both sides (default: %(default)s)",
    )
    parser.add_argument("--nice", type=int, default=10, help="added niceness of the tests (default: %(default)s)")
    parser.add_argument(
        "--against",
        choices=("launcher", "library", "plain"),
        default="launcher",
        help="library: the preloaded library alone; plain: compare plain with plain, to see which tests are flaky",
    )
    parser.add_argument(
        "--launcher",
        default="-m fastsock.launcher",
        metavar="ARGUMENTS",
        help="what goes between the interpreter and the script (default: %(default)s)",
    )
    parser.add_argument("--exclusions", type=Path, default=HERE / "exclusions.toml", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every test's outcome and seconds")
    parser.add_argument("--details", action="store_true", help="print whole tracebacks")
    return parser.parse_args(argv)


def choose_interpreters(options: argparse.Namespace) -> list[interpreters.Interpreter]:
    if options.all:
        executables = interpreters.find_all()
    else:
        executables = [interpreters.find(wanted) for wanted in options.python or [sys.executable]]
    chosen = []
    for executable in executables:
        if options.install:
            executable = interpreters.install(executable, options.venvs, CHECKOUT)
        chosen.append(interpreters.ready(executable, options.venvs, need_fastsock=options.against == "launcher"))
    return chosen


def choose_modules(options: argparse.Namespace, interpreter: interpreters.Interpreter) -> list[modules.Module]:
    chosen = modules.of(interpreter)
    if options.quick:
        chosen = modules.quick(chosen)
    if options.modules:
        chosen = modules.select(chosen, options.modules.split(","))
    return chosen


def run(options: argparse.Namespace) -> tuple[list[match.Played], list[str]]:
    """Everything that was played, and what is wrong with the exclusions or the paths taken."""
    ledger = exclusions.Ledger(exclusions.read(options.exclusions) if options.against == "launcher" else [])
    patterns = list(options.match)
    if options.check_exclusions:
        if not ledger.exclusions:
            return [], []
        patterns += [exclusion.test for exclusion in ledger.exclusions]
    chosen = choose_interpreters(options)
    launcher = tuple(shlex.split(options.launcher))
    ways = match.ways(options.against, launcher, options.path, options.nice, options.upgrade_after)
    for interpreter in chosen:
        print(interpreter, flush=True)
    rules = match.Rules(
        str(HERE / "child" / "run_module.py"),
        tuple(patterns),
        () if options.quick else ("cpu", "walltime"),
        options.times,
        options.nice,
        options.host,
    )

    all_played: list[match.Played] = []
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        futures = [
            pool.submit(match.play, interpreter, module, ways, rules, ledger)
            for interpreter in chosen
            for module in choose_modules(options, interpreter)
        ]
        try:
            for future in concurrent.futures.as_completed(futures):
                for played in future.result():
                    if played.plain.outcomes.keys() - {f"exit ({played.module})"}:
                        all_played.append(played)
                        print(report.progress(played), flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise

    partial = bool(options.match or options.modules or options.quick)
    complaints = ledger.complaints(
        everything_ran=not partial and not options.path and len(chosen) == len(interpreters.SUPPORTED)
    )
    complaints += report.not_run(all_played)
    if not partial and not options.check_exclusions and options.against != "plain":
        complaints += report.not_exercised(all_played)
    return all_played, complaints


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    started = time.monotonic()
    try:
        all_played, complaints = run(options)
    except (interpreters.InterpreterError, exclusions.ExclusionError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    print(report.text(all_played, options.details))
    for complaint in complaints:
        print(f"\nCOMPLAINT: {complaint}")
    if options.json:
        options.json.write_text(json.dumps(report.as_json(all_played, complaints), indent=1), encoding="utf-8")
    regressions = sum(len(played.of_kind("regression")) for played in all_played)
    print(f"\n{regressions} regressions, {len(complaints)} complaints, {time.monotonic() - started:.0f} s")
    return 1 if regressions or complaints else 0


if __name__ == "__main__":
    sys.exit(main())
