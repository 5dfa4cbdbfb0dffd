"""Runs mpi4py's tests of mpi4py.futures and mpi4py.util.pool over fastsock.mpj, and prints the table.

    python tests/mpi4py_suite/futures.py                    1, 2, 3 and 5 ranks, iodev and sysvdev
    python tests/mpi4py_suite/futures.py --ranks 3 --device iodev --details

Under `-m mpi4py.futures` rank 0 runs the tests, and the others are its workers. In the rows `communicator` all ranks
run them: those of MPICommExecutor, and those that need no workers.

Exit status: as of run.py.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.mpi4py_suite import exclusions, running, source  # noqa: E402
from tests.mpi4py_suite.run import BAD, DEVICES  # noqa: E402


def ways(python: str, device: str) -> list[running.Way]:
    run = (python, "-m", "fastsock.mpj.run", "-n", "{ranks}", "--timeout", "{limit}", "--as-mpi4py", "--device", device)
    shared = running.Way(device, (*run, "-m", "mpi4py.futures"), testing=1)
    return [shared, running.Way(f"{device}, communicator", run)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1,2,3,5", help="numbers of ranks, with commas (default: %(default)s)")
    parser.add_argument("--device", action="append", help=f"may be repeated (default: {', '.join(DEVICES)})")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds for a module (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the ranks (default: this one)")
    parser.add_argument("--source", type=Path, default=HERE / ".source", help="where mpi4py's sources are kept")
    parser.add_argument("--details", action="store_true", help="print tracebacks")
    options = parser.parse_args(argv)
    try:
        excluded = exclusions.read(HERE / "exclusions.toml")
        tests = source.tests(options.source)
    except (exclusions.ExclusionError, source.SourceError) as error:
        print(error, file=sys.stderr)
        return 2
    folders = {"test_futures": tests.parent / "demo" / "futures", "test_util_pool": tests}
    bad = []
    total: Counter[str] = Counter()
    for device in options.device or DEVICES:
        for way in ways(options.python, device):
            for ranks in map(int, options.ranks.split(",")):
                if way.testing is None and ranks == 1:
                    continue  # it would start workers during the run
                for module, folder in folders.items():
                    left_out = [entry.test for entry in excluded]
                    if way.testing:  # here the pool has workers
                        left_out = [test for test in left_out if not test.startswith("test_util_pool")]
                    found = running.run_module(way, folder, module, ranks, left_out, options.limit)
                    counts = Counter(outcome.outcome for outcome in found.outcomes.values())
                    total += counts
                    where = f"{module}, {way.name}, {ranks} ranks"
                    print(f"{where:48} " + ", ".join(f"{number} {kind}" for kind, number in counts.items()), flush=True)
                    if found.trouble:
                        bad.append((where, "trouble", found.trouble))
                    for test, outcome in found.outcomes.items():
                        if outcome.outcome in BAD:
                            bad.append((f"{test} ({where})", outcome.outcome, outcome.detail))
    for name, outcome, detail in bad:
        print(f"{outcome}: {name}")
        if options.details:
            print("    " + detail.strip().replace("\n", "\n    "))
    print(", ".join(f"{number} {kind}" for kind, number in sorted(total.items())) or "nothing ran")
    return 1 if bad or not total else 0


if __name__ == "__main__":
    sys.exit(main())
