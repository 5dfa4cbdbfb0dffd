"""Every collective, beside mpi4py on MPICH and on Open MPI; and the selection table of fastsock.mpj, measured anew.

python bench/collectives.py --install          first time: MPICH and Open MPI from their wheels, into bench/.venvs
python bench/collectives.py --ranks 2,4,8 --sizes 8,1k,64k,1m,16m --what bcast,ibcast --json FILE --plot FILE.png
python -m bench.collectives --tune [FILE]      every algorithm, by size and number of ranks: the fastest into the table
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # also as a module of this folder

from common import (
    collective_curves,
    collective_targets,
    collective_tuning,
    machine,
    mpi,
    mpi_targets,
    record,
    sizes,
    summary,
    table,
    target,
)
from common.interleave import Sample, Skipped
from common.placement import Placement
from common.process import Broken, Unusable

PEERS = (mpi.FASTSOCK, mpi.FASTSOCK_TCP, mpi.MPICH, mpi.OPENMPI)


def main() -> int:
    words = _arguments()
    if words.tune:
        return collective_tuning.main(words)
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
    for ranks in words.ranks:
        print(_table(samples, ranks, words.peers))
    results = collective_targets.results(samples)
    print(target.report(results) + "\n" + target.count(results))
    if words.json:
        record.write(words.json, {"samples": samples, "results": results, "skipped": skipped})
    if words.plot:
        collective_curves.write(words.plot, samples, f"cores {words.pin[0]} and {words.pin[1]}")
    return 0 if samples else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks, with commas (default: %(default)s)")
    parser.add_argument("--sizes", default="8,1k,16k,64k,256k,1m,4m,16m", type=sizes.parse)
    parser.add_argument("--what", default="", help="names, with commas; ibcast: the non-blocking form (default: all)")
    parser.add_argument("--peers", default=",".join(PEERS), type=lambda text: text.split(","))
    parser.add_argument("--turns", type=int, default=5, help="runs of each MPI for each number of ranks")
    parser.add_argument("--seconds", type=float, default=0.03, help="for each measurement")
    parser.add_argument("--pin", default="0,1", type=machine.two_cores, help="the cores (default: 0,1)")
    parser.add_argument("--quick", action="store_true", help="two turns, four sizes, the six most used")
    parser.add_argument("--install", action="store_true", help="first install MPICH and Open MPI into bench/.venvs")
    parser.add_argument("--json", metavar="FILE", help="write samples and results")
    parser.add_argument("--plot", metavar="FILE.png", help="draw a panel for each collective")
    parser.add_argument(
        "--tune", nargs="?", const=str(collective_tuning.SHIPPED), metavar="FILE",
        help="measure every algorithm of fastsock.mpj and write its selection table (default: the shipped one)",
    )  # fmt: skip
    words = parser.parse_args()
    if words.quick:
        words.turns, words.sizes = 2, sizes.parse("8,1k,64k,1m")
        words.what = words.what or ",".join(collective_targets.WANTED)
    words.ranks = [int(number) for number in words.ranks.split(",")]
    return words


def measure(words: argparse.Namespace, peers: list[mpi.Mpi], skipped: Skipped) -> list[Sample]:
    placement = Placement(words.pin)
    cores = ",".join(map(str, words.pin))
    said = ["--sizes", ",".join(map(str, words.sizes)), "--cores", cores, "--what", words.what]
    said += ["--seconds", str(words.seconds)]
    samples: list[Sample] = []
    turn = 0
    for _ in range(words.turns):
        for ranks in words.ranks:
            turn += 1
            disturbed = machine.wait_until_idle() > 0.15
            before = placement.probe()
            for peer in peers:
                if peer.name in skipped:
                    continue
                try:
                    found = mpi.run(peer, ranks, "collectives", said, timeout=600)
                except Broken as error:
                    skipped.add(peer.name, str(error))
                    continue
                after = placement.probe()
                where = placement.name(before, after)
                samples += [
                    Sample(
                        mpi_targets.name(entry["what"], ranks, False), peer.name, entry["size"], entry["value"],
                        turn, where, before, after, disturbed,
                    )
                    for entry in found
                ]  # fmt: skip
                before = after
    return samples


def _table(samples: list[Sample], ranks: int, peers: list[str]) -> str:
    mine = [s for s in samples if s.what.endswith(mpi_targets.name("", ranks, False))]
    lines = []
    for what, size in dict.fromkeys((s.what, s.size) for s in mine):
        row = [what, sizes.name(size) if size else ""]
        for peer in peers:
            values = [s.value for s in mine if (s.what, s.size, s.peer) == (what, size, peer)]
            row.append(table.number(summary.median(values)) if values else "-")
        row.append(table.number(mpi_targets.against_best(samples, what, size)))
        row.append(summary.placements(mine, what, size))
        lines.append(row)
    return table.lines(["us", "size", *peers, "times the best other", "cores"], lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
