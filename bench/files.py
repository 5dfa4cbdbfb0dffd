"""What do files cost that ranks share, beside mpi4py on MPICH and on Open MPI?

python bench/files.py         after `python bench/mpj.py --install`, which brings the others

The files lie in the folder for temporary files (TMPDIR), and mostly in the kernel's page cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from common import mpi, mpi_command, mpi_targets, question, summary
from common.interleave import Sample
from common.question import NOISE, Options
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
    found = []
    for call, least in BARS.items():
        what = mpi_targets.name(call, RANKS, False)
        times = mpi_targets.against_best(samples, what, 0)
        cores = summary.placements(samples, what, 0)
        note = "" if times is not None else "not measured"
        text = f"{what} ({_told(call, samples, what)})"
        found.append(Result(text, times, "x", least, None, cores, note, NOISE if least == 1 else 0))
    return found


def _told(call: str, samples: Sequence[Sample], what: str) -> str:
    """The best value of each: gigabytes in a second, or microseconds."""
    nbytes = next((nbytes for part, nbytes in BYTES.items() if part in call), 0)
    told = []
    for peer in (mpi.FASTSOCK, *mpi.OTHERS):
        values = [sample.value for sample in samples if (sample.what, sample.peer) == (what, peer)]
        if values:
            told.append(f"{nbytes / min(values) / 1e3:.2f} GB/s" if nbytes else f"{min(values):.1f} us")
    return ", ".join(told)


if __name__ == "__main__":
    question.run(measure, __doc__)
