"""Between ranks, beside mpi4py on MPICH and on Open MPI: latency, bandwidth, message rate, objects, start-up.

python bench/mpj.py --install          first time: MPICH and Open MPI from their wheels, into bench/.venvs
python bench/mpj.py --ranks 2,4,8 --sizes 8,1k,64k,1m,16m --json FILE --plot FILE.png
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import mpj_types
import start_ranks
from common import call_targets, mpi, mpi_command, mpi_curves, mpi_targets, sizes
from common.interleave import Sample, Skipped
from common.placement import Placement


def main() -> int:
    words = _arguments()
    skipped = Skipped()
    samples = measure(words, mpi_command.find(words, skipped), skipped)
    for ranks, cores in _cases(words):
        print(mpi_command.lines(samples, ranks, _one(cores), words.peers, "what"))
    results = mpi_targets.point_to_point(samples) + mpj_types.results(samples) + call_targets.results(samples)
    mpi_command.report(words, samples, results, skipped)
    if words.plot:
        mpi_curves.write(words.plot, samples, f"2 ranks, cores {words.pin[0]} and {words.pin[1]}")
    return 0 if samples else 1


def _arguments() -> argparse.Namespace:
    words = mpi_command.options(
        __doc__, "two turns, four sizes, 2 ranks", "draw latency and bandwidth curves"
    ).parse_args()
    if words.quick:
        words.turns, words.ranks, words.sizes = 2, [2], sizes.parse("8,64k,1m,16m")
    return words


def _cases(words: argparse.Namespace) -> list[tuple[int, str]]:
    """Numbers of ranks with the cores of the ranks: r on the r-th. Partners are half of all ranks apart."""
    cases = []
    for ranks in words.ranks:
        halves = [str(words.pin[0])] * (ranks // 2) + [str(words.pin[1])] * (ranks // 2)
        cases.append((ranks, ",".join(halves)))
    return [*cases, (2, str(words.pin[0]))]


def _one(cores: str) -> bool:
    return "," not in cores


def measure(words: argparse.Namespace, peers: list[mpi.Mpi], skipped: Skipped) -> list[Sample]:
    placement = Placement(words.pin)
    samples: list[Sample] = []
    turn = 0
    for ranks, cores in _cases(words):
        # where nobody sleeps, one core is for seconds where two are for microseconds
        what = "latency" if _one(cores) else ""
        wanted = [8] if _one(cores) else words.sizes
        said = ["--sizes", ",".join(map(str, wanted)), "--cores", cores, "--what", what, "--seconds", "0.05"]

        def each(peer: mpi.Mpi, ranks: int = ranks, cores: str = cores, said: list[str] = said) -> list[dict]:
            found = mpi.run(peer, ranks, "point_to_point", said)
            if not _one(cores):
                found += call_targets.measured(peer, ranks, cores)
                if ranks == mpj_types.RANKS:
                    found += mpi.run(peer, ranks, mpj_types.PROGRAM, mpj_types.words(0.02, words.pin))
            return [*found, start_ranks.timed(peer, ranks)]

        for _ in range(words.turns):
            turn += 1
            samples += mpi_command.turn(turn, peers, skipped, placement, ranks, _one(cores), each)
    return samples


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
