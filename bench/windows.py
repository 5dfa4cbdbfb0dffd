"""What do one-sided calls cost, beside mpi4py on MPICH and on Open MPI?

python bench/windows.py         after `python bench/mpj.py --install`, which brings the others
"""

from __future__ import annotations

from collections.abc import Sequence

from common import mpi, mpi_command, mpi_targets, question
from common.interleave import Sample
from common.question import Options
from common.target import Result

PROGRAM = "windows"
RANKS = 2
BARS = {  # how many times as fast as the better of the others
    "Put, 8 B": 1.8,
    "Get, 8 B": 1.8,
    "Fetch_and_op": 1.9,
    "Compare_and_swap": 2.0,
    "Lock, Put, Unlock": 1.3,
    "Fence": 1.2,
    "Put, 1 MiB": 1.0,
    "Get, 1 MiB": 1.0,
    "Accumulate, 8 KiB": 0.95,
    "Get while the target computes": 7.0,
    "Put, 8 B, Create": 1.0,
    "Get, 8 B, Create": 1.0,
    "Get, 1 MiB, Create": 1.0,
    "Allocate_shared, Free": 1.0,
}


def measure(options: Options) -> list[Result]:
    said = ["--seconds", str(options.pick(0.02, 0.1)), "--cores", ",".join(map(str, options.cores))]
    mpi_command.beside_others(options, RANKS, PROGRAM, said)
    return results(options.samples)


def results(samples: Sequence[Sample]) -> list[Result]:
    """The targets of what the program told."""
    return mpi_targets.calls(samples, BARS, RANKS, lambda _, values: f"{min(values[mpi.FASTSOCK]):.2f} us")


if __name__ == "__main__":
    question.run(measure, __doc__)
