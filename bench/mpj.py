"""Between ranks, beside mpi4py on MPICH and on Open MPI: latency, bandwidth, message rate, objects, start-up.

python bench/mpj.py --install          first time: MPICH and Open MPI from their wheels, into bench/.venvs
python bench/mpj.py --ranks 2,4,8 --sizes 8,1k,64k,1m,16m --json FILE --plot FILE.png
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from common import machine, mpi, mpi_curves, mpi_targets, record, sizes, summary, table, target
from common.interleave import Sample, Skipped
from common.placement import Placement
from common.process import Broken, Unusable

STARTED = "start-up"
PEERS = (mpi.FASTSOCK, mpi.FASTSOCK_TCP, mpi.MPICH, mpi.OPENMPI)


def main() -> int:
    words = _arguments()
    skipped = Skipped()
    if words.install:
        for name in mpi.OTHERS:
            mpi.install(name)
    peers = []
    for name in words.peers:
        try:
            peers.append(mpi.find(name))
        except Unusable as error:
            skipped.add(name, str(error))
    samples = measure(words, peers, skipped)
    for ranks, cores in _cases(words):
        print(_table(samples, ranks, cores, words.peers))
    results = mpi_targets.point_to_point(samples)
    print(target.report(results) + "\n" + target.count(results))
    if words.json:
        record.write(words.json, {"samples": samples, "results": results, "skipped": skipped})
    if words.plot:
        mpi_curves.write(words.plot, samples, f"2 ranks, cores {words.pin[0]} and {words.pin[1]}")
    return 0 if samples else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks, with commas (default: %(default)s)")
    parser.add_argument("--sizes", default="8,1k,16k,64k,256k,1m,4m,16m", type=sizes.parse)
    parser.add_argument("--peers", default=",".join(PEERS), type=lambda text: text.split(","))
    parser.add_argument("--turns", type=int, default=5, help="runs of each MPI for each number of ranks")
    parser.add_argument("--pin", default="0,1", type=machine.two_cores, help="the cores (default: 0,1)")
    parser.add_argument("--quick", action="store_true", help="two turns, four sizes, 2 ranks")
    parser.add_argument("--install", action="store_true", help="first install MPICH and Open MPI into bench/.venvs")
    parser.add_argument("--json", metavar="FILE", help="write samples and results")
    parser.add_argument("--plot", metavar="FILE.png", help="draw latency and bandwidth curves")
    words = parser.parse_args()
    if words.quick:
        words.turns, words.ranks, words.sizes = 2, "2", sizes.parse("8,64k,1m,16m")
    words.ranks = [int(number) for number in words.ranks.split(",")]
    return words


def _cases(words: argparse.Namespace) -> list[tuple[int, str]]:
    """Numbers of ranks with the cores of the ranks: r on the r-th. Partners are half of all ranks apart."""
    cases = []
    for ranks in words.ranks:
        halves = [str(words.pin[0])] * (ranks // 2) + [str(words.pin[1])] * (ranks // 2)
        cases.append((ranks, ",".join(halves)))
    return [*cases, (2, str(words.pin[0]))]


def measure(words: argparse.Namespace, peers: list[mpi.Mpi], skipped: Skipped) -> list[Sample]:
    placement = Placement(words.pin)
    samples: list[Sample] = []
    turn = 0
    for ranks, cores in _cases(words):
        one_core = "," not in cores
        for _ in range(words.turns):
            turn += 1
            disturbed = machine.wait_until_idle() > 0.15
            before = placement.probe()
            for peer in peers:
                if peer.name in skipped:
                    continue
                # where nobody sleeps, one core is for seconds where two are for microseconds
                what = "latency" if one_core else ""
                wanted = [8] if one_core else words.sizes
                said = ["--sizes", ",".join(map(str, wanted)), "--cores", cores, "--what", what, "--seconds", "0.05"]
                try:
                    found = mpi.run(peer, ranks, "point_to_point", said)
                    start = time.perf_counter()
                    mpi.run(peer, ranks, "nothing", [])
                    found.append({"what": STARTED, "size": 0, "value": (time.perf_counter() - start) * 1e6})
                except Broken as error:
                    skipped.add(peer.name, str(error))
                    continue
                after = placement.probe()
                where = placement.name(before, after) if not one_core else "one core"
                samples += [
                    Sample(
                        mpi_targets.name(entry["what"], ranks, one_core), peer.name, entry["size"], entry["value"],
                        turn, where, before, after, disturbed,
                    )
                    for entry in found
                ]  # fmt: skip
                before = after
    return samples


def _table(samples: list[Sample], ranks: int, cores: str, peers: list[str]) -> str:
    one_core = "," not in cores
    mine = [s for s in samples if s.what.endswith(mpi_targets.name("", ranks, one_core))]
    keys = list(dict.fromkeys((s.what, s.size) for s in mine))
    lines = []
    for what, size in keys:
        row = [what, sizes.name(size) if size else ""]
        for peer in peers:
            values = [s.value for s in mine if (s.what, s.size, s.peer) == (what, size, peer)]
            row.append(table.number(summary.median(values)) if values else "-")
        best = mpi_targets.against_best(samples, what, size)
        row.append(table.number(best))
        row.append(summary.placements(mine, what, size))
        lines.append(row)
    return table.lines(["what", "size", *peers, "times the best other", "cores"], lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
