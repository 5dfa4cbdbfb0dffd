"""What do files cost that ranks share, beside mpi4py on MPICH and on Open MPI?

python bench/files.py         after `python bench/mpj.py --install`, which brings the others

The files lie in the folder for temporary files (TMPDIR), and mostly in the kernel's page cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common import mpi, mpi_command, mpi_targets, question
from common.interleave import Sample
from common.question import Options
from common.target import Result

PROGRAM = "files"
RANKS = 2
BARS = {  # how many times as fast as the better of the others
    "write 32 MiB each": 1.0,
    "read 32 MiB each": 1.0,
    "write columns together": 1.9,
    "read columns together": 2.9,
    "write columns alone": 1.3,
    "Write_shared": 3.7,
    "Open and Close": 3.7,
}
BYTES = {"32 MiB each": 64 << 20, "columns": 8 << 20}


def measure(options: Options) -> list[Result]:
    said = ["--seconds", str(options.pick(0.05, 0.3)), "--cores", ",".join(map(str, options.cores))]
    mpi_command.beside_others(options, RANKS, PROGRAM, said)
    return results(options.samples)


def results(samples: Sequence[Sample]) -> list[Result]:
    """The targets of what the program told."""
    return mpi_targets.calls(samples, BARS, RANKS, _told)


def _told(call: str, values: Mapping[str, Sequence[float]]) -> str:
    """The best value of each: gigabytes in a second, or microseconds."""
    nbytes = next((nbytes for part, nbytes in BYTES.items() if part in call), 0)
    best = [min(values[peer]) for peer in (mpi.FASTSOCK, *mpi.OTHERS) if peer in values]
    return ", ".join(f"{nbytes / least / 1e3:.2f} GB/s" if nbytes else f"{least:.1f} us" for least in best)


if __name__ == "__main__":
    question.run(measure, __doc__)
