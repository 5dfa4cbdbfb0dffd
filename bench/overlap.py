"""How much of a non-blocking collective numpy work hides, beside mpi4py on MPICH and on Open MPI.

python bench/overlap.py --install              first time: MPICH and Open MPI from their wheels, into bench/.venvs
python bench/overlap.py --ranks 2,4 --sizes 8,64k,1m --what iallreduce,ibcast --json FILE

alone: started and waited for, microseconds; with work: the same with as long a piece of work in between; hidden: the
share of `alone` that this saves (1: it cost nothing; below 0: more than one after the other), in one piece, and in
eight with a test behind each. Where ranks have no core to spare, only waiting can be hidden: a copy needs a core too.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from common import mpi, mpi_command, mpi_targets, sizes, summary
from common.interleave import Sample, Skipped
from common.target import Result

HIDDEN = " hidden"
NOISE = 0.1  # of a share


def main() -> int:
    parser = mpi_command.options(__doc__, "two turns, three sizes, 2 ranks", "not here")
    parser.add_argument("--what", default="", help="names, with commas (default: all)")
    parser.add_argument("--seconds", type=float, default=0.05, help="for each measurement")
    parser.set_defaults(ranks=[2, 4], sizes=sizes.parse("8,4k,64k,1m,4m"))
    words = parser.parse_args()
    if words.quick:
        words.turns, words.ranks, words.sizes = 2, [2], sizes.parse("8,64k,1m")
    skipped = Skipped()
    samples = mpi_command.turns(words, mpi_command.find(words, skipped), skipped, "overlap")
    for ranks in words.ranks:
        print(mpi_command.lines(samples, ranks, False, words.peers, "us, or share"))
    mpi_command.report(words, samples, results(samples), skipped)
    return 0 if samples else 1


def results(samples: list[Sample]) -> list[Result]:
    """The share hidden beside the better of the others; and the whole time of both."""
    found = []
    for what, size in dict.fromkeys((sample.what, sample.size) for sample in samples):
        if HIDDEN in what:
            others = [share for peer in mpi.OTHERS if (share := _share(samples, what, size, peer)) is not None]
            least = max(others) - NOISE if others else None
            mine = _share(samples, what, size, mpi.FASTSOCK)
            found.append(Result(f"{what}, {size} B", mine, "of it", least, None, _cores(samples, what, size)))
        elif " with work" in what:
            measured = mpi_targets.against_best(samples, what, size)
            found.append(Result(f"{what}, {size} B", measured, "x", 1, None, _cores(samples, what, size), "", NOISE))
    return found


def _share(samples: list[Sample], what: str, size: int, peer: str) -> float | None:
    values = [s.value for s in samples if (s.what, s.size, s.peer) == (what, size, peer)]
    return summary.median(values) if values else None


def _cores(samples: list[Sample], what: str, size: int) -> str:
    return summary.placements(samples, what, size)


if __name__ == "__main__":
    sys.exit(main())
