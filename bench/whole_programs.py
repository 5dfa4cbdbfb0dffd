"""Is every unmodified program at least as fast under the launcher, on each path, and faster where it moves 1 MiB?

The run fails where a row is below 0.97 in the median of its runs, or where a program does not end well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from apps import FAILED, Comparison, compare
from common import programs, question, record, target
from common.question import Options
from common.target import Result

FLOOR = 0.97  # times plain: below it a program is slower than without fastsock
RUNS = 5
# Over shared memory, 1 MiB: times plain. All else: not slower.
LARGE = {
    "asyncio_echo": 2.0,
    "aiohttp_http": 2.0,
    "dask_tasks": 1.3,
    "http_urllib": 1.5,
    "manager_calls": 2.5,
    "pyro5_calls": 2.0,
    "socketserver_threads": 2.5,
    "tornado_http": 2.0,
    "xmlrpc_calls": 2.0,
}
MAKING = 1 / 1.3  # connections and nothing else: their two ends must meet


def measure(options: Options) -> list[Result]:
    found, failed = compare(
        programs.names(),
        turns=options.times(1, RUNS),
        seconds=options.pick(0.2, 0.7),
        cores=options.cores,
        paths=programs.PATHS,
    )
    return results(found, failed)


def results(found: Sequence[Comparison], failed: dict[str, str]) -> list[Result]:
    """One line for each program, payload and path, then one for each program that was not measured."""
    told = []
    for each in found:
        least = LARGE.get(each.app, 1.0) if (each.payload, each.path) == ("large", "shm") else 1.0
        least = MAKING if each.payload == "made at once" else least
        what = each.payload.replace("large", "1 MiB")
        told.append(
            Result(
                f"{each.app}, {what}, {each.path}",
                each.ratio, "x", at_least=least, cores=each.cores,
                note=f"{each.rates()} calls a second, {each.connections()}",
                noise=question.NOISE if least == 1.0 else 0,
            )
        )  # fmt: skip
    return told + [Result(app, None, "x", at_least=1.0, note=reason) for app, reason in failed.items()]


def faults(told: Sequence[Result]) -> list[str]:
    """What fails the run, one line each."""
    slower = [
        f"{result.what}: {result.measured:.2f} of plain"
        for result in told
        if result.measured is not None and result.measured < min(FLOOR, result.at_least or FLOOR)
    ]
    return slower + [f"{result.what}: {result.note}" for result in told if result.note.startswith(FAILED)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    question.add_options(parser)
    parser.add_argument("--runs", type=int, help=f"of each program, plain and on each path (default: {RUNS})")
    parser.add_argument("--paths", default=",".join(programs.PATHS), help="separated by commas (default: %(default)s)")
    parser.add_argument("--apps", help=f"separated by commas, of: {', '.join(programs.names())}")
    parser.add_argument("--seconds", type=float, help="length of each rate's measurement (default: 0.7)")
    words = parser.parse_args()
    options = Options(words.quick, words.pin)
    apps, paths = words.apps.split(",") if words.apps else programs.names(), words.paths.split(",")
    if unknown := {*apps, *paths} - {*programs.names(), *programs.PATHS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    found, failed = compare(
        apps,
        turns=words.runs or options.times(1, RUNS),
        seconds=words.seconds or options.pick(0.2, 0.7),
        cores=options.cores,
        paths=paths,
    )
    told = results(found, failed)
    wrong = faults(told)
    print(target.report(told))
    print(target.count(told))
    for fault in wrong:
        print(f"FAULT: {fault}")
    if words.json:
        record.write(words.json, {"results": told, "programs": found, "faults": wrong})
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
