"""Runs mpi4py's own tests, from its source distribution, over fastsock.mpj, and prints the table.

    python tests/mpi4py_suite/run.py                                    1 to 5 ranks, iodev and sysvdev
    python tests/mpi4py_suite/run.py --ranks 1,2 --device iodev --module 'test_p2p_*' --details
    python tests/mpi4py_suite/run.py --quick                            a few modules, 1 and 3 ranks, iodev
    python tests/mpi4py_suite/run.py --mpiexec 'mpiexec -n {ranks}' --python PATH
                                                                        the same tests over another MPI, to compare

Exit status: 0 nothing failed nor hung but what exclusions.toml names, 1 something did, 2 it could not run.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.mpi4py_suite import exclusions, running, source  # noqa: E402

DEVICES = ("iodev", "sysvdev")
QUICK = ("test_p2p_buf", "test_p2p_obj", "test_cco_buf", "test_cco_nb_vec", "test_cco_obj", "test_comm", "test_request")
BAD = ("fail", "error", "hang", "crash")


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1,2,3,4,5", help="numbers of ranks, with commas (default: %(default)s)")
    parser.add_argument("--device", action="append", help=f"may be repeated (default: {', '.join(DEVICES)})")
    parser.add_argument("--module", action="append", default=[], metavar="GLOB", help="only these test modules")
    parser.add_argument("--leave-out", action="append", default=[], metavar="GLOB", help="tests, module.Class.test")
    parser.add_argument("--quick", action="store_true", help="a few modules, 1 and 3 ranks, the first device")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a module (default: %(default)s)")
    parser.add_argument("--mpiexec", metavar="COMMAND", help="another MPI's; {ranks} is filled in")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the ranks (default: this one)")
    parser.add_argument("--excluded", action="store_true", help="run what exclusions.toml leaves out, and nothing else")
    parser.add_argument("--source", type=Path, default=HERE / ".source", help="where mpi4py's sources are kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome")
    parser.add_argument("--details", action="store_true", help="print tracebacks")
    return parser.parse_args(argv)


def ways(options: argparse.Namespace) -> list[running.Way]:
    if options.mpiexec:
        return [running.Way("mpiexec", (*shlex.split(options.mpiexec), options.python))]
    devices = options.device or (DEVICES[:1] if options.quick else DEVICES)
    run = (options.python, "-m", "fastsock.mpj.run", "-n", "{ranks}", "--timeout", "{limit}", "--as-mpi4py")
    return [running.Way(device, (*run, "--device", device)) for device in devices]


def choose(tests: Path, options: argparse.Namespace, excluded: list[exclusions.Exclusion]) -> list[str]:
    names = sorted(file.stem for file in tests.glob("test_*.py"))
    wanted = options.module or (QUICK if options.quick else ["*"])
    chosen = [name for name in names if any(Path(name).match(pattern) for pattern in wanted)]
    return [name for name in chosen if any(entry.holds(name) for entry in excluded) == options.excluded]


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    try:
        excluded = exclusions.read(HERE / "exclusions.toml")
        tests = source.tests(options.source)
    except (exclusions.ExclusionError, source.SourceError) as error:
        print(error, file=sys.stderr)
        return 2
    modules = choose(tests, options, excluded)
    numbers = [1, 3] if options.quick else [int(number) for number in options.ranks.split(",")]
    left_out = options.leave_out + [entry.test for entry in excluded if "." in entry.test and not options.excluded]
    columns = [(way, ranks) for way in ways(options) for ranks in numbers]
    print(f"mpi4py {source.VERSION}'s tests: passed/skipped, then what failed. {len(modules)} modules.")
    print(f"{'module':24}" + "".join(f"{f'{way.name} {ranks}':>16}" for way, ranks in columns), flush=True)
    records, bad = [], []
    for module in modules:
        print(f"{module:24}", end="", flush=True)
        for way, ranks in columns:
            found = running.run_module(way, tests, module, ranks, left_out, options.limit)
            counts = Counter(outcome.outcome for outcome in found.outcomes.values())
            failed = sum(counts[kind] for kind in BAD)
            cell = f"{counts['pass']}/{counts['skip']}" + (f" F{failed}" if failed else "")
            print(f"{cell + ('!' if found.trouble else ''):>16}", end="", flush=True)
            where = f"{way.name}, {ranks} ranks"
            if found.trouble:
                bad.append((module, where, "trouble", found.trouble))
            for test, outcome in found.outcomes.items():
                records.append({"device": way.name, "ranks": ranks, "module": module, "test": test, **vars(outcome)})
                if outcome.outcome in BAD:
                    bad.append((test, f"{where}, rank {outcome.ranks}", outcome.outcome, outcome.detail))
        print(flush=True)
    for name, where, outcome, detail in bad:
        print(f"{outcome}: {name} ({where})")
        if options.details:
            print("    " + detail.strip().replace("\n", "\n    "))
    total = Counter(record["outcome"] for record in records)
    print(", ".join(f"{number} {kind}" for kind, number in sorted(total.items())) or "nothing ran")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1), encoding="utf-8")
    return 1 if bad or not records else 0


if __name__ == "__main__":
    sys.exit(main())
