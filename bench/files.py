"""What do files cost that ranks share, beside mpi4py on MPICH and on Open MPI?

python bench/files.py         after `python bench/mpj.py --install`, which brings the others

The files lie in the folder for temporary files (TMPDIR), and mostly in the kernel's page cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common import mpi, mpi_command, mpi_targets, question, summary
from common.interleave import Sample
from common.question import Options
from common.target import Result

PROGRAM = "files"
RANKS = 2
BYTES = {"32 MiB each": 64 << 20, "columns": 8 << 20}
# How many times as fast as each of the others, in the same run.
BESIDE_OTHERS = (
    "write 32 MiB each",
    "read 32 MiB each",
    "write columns together",
    "read columns together",
    "write columns alone",
    "read columns alone",
    "Write_shared",
    "Open and Close",
)
# What was wanted when the others reached 1.6, 0.68 and 1.17 GB/s, 14.7 and 915 us, on another machine. Their
# quotients are no bar here, where the others are faster, too.
WANTED = {
    "write columns together": 3.0,  # GB/s
    "read columns together": 2.0,
    "write columns alone": 1.5,
    "Write_shared": 4.0,  # us
    "Open and Close": 250.0,
}
# The kernel lets one rank after the other write, in one call: so do all MPIs, and the same call by itself.
BARE = {"write 32 MiB each": "bare write of 32 MiB each", "read 32 MiB each": "bare read of 32 MiB each"}
NOISE = 0.03
NOISE_OF_LONG = 0.06  # so much such calls differ from run to run, of one MPI and of none


def measure(options: Options) -> list[Result]:
    said = ["--seconds", str(options.pick(0.05, 0.3)), "--cores", ",".join(map(str, options.cores))]
    mpi_command.beside_others(options, RANKS, PROGRAM, said)
    return results(options.samples)


def results(samples: Sequence[Sample]) -> list[Result]:
    """The targets of what the program told."""
    found = [_beside(samples, call) for call in BESIDE_OTHERS]
    found += [_wanted(samples, call) for call in WANTED]
    return found + [_beside_bare(samples, call) for call in BARE]


def _values(samples: Sequence[Sample], call: str, peer: str) -> dict[int, float]:
    what = mpi_targets.name(call, RANKS, False)
    return {sample.turn: sample.value for sample in samples if (sample.what, sample.peer) == (what, peer)}


def _ratio(values: Mapping[int, float], others: Mapping[int, float]) -> float | None:
    ratios = [others[turn] / value for turn, value in values.items() if turn in others]
    return summary.median(ratios) if ratios else None


def _line(samples: Sequence[Sample], call: str, text: str, times: float | None, noise: float) -> Result:
    cores = summary.placements(samples, mpi_targets.name(call, RANKS, False), 0)
    return Result(text, times, "x", 1.0, None, cores, "" if times is not None else "not measured", noise)


def _beside(samples: Sequence[Sample], call: str) -> Result:
    """Beside the better of the others: the one that does best in the median of all turns."""
    own = _values(samples, call, mpi.FASTSOCK)
    ratios = [_ratio(own, _values(samples, call, other)) for other in mpi.OTHERS]
    times = min((ratio for ratio in ratios if ratio is not None), default=None)
    text = f"{mpi_targets.name(call, RANKS, False)}{_told(samples, call)}"
    return _line(samples, call, text, times, NOISE_OF_LONG if call in BARE else NOISE)


def _beside_bare(samples: Sequence[Sample], call: str) -> Result:
    times = _ratio(_values(samples, call, mpi.FASTSOCK), _values(samples, BARE[call], mpi.FASTSOCK))
    return _line(samples, call, f"{call}, beside the bare call", times, NOISE_OF_LONG)


def _wanted(samples: Sequence[Sample], call: str) -> Result:
    values = _values(samples, call, mpi.FASTSOCK).values()
    median = summary.median(list(values)) if values else None
    note = "" if values else "not measured"
    if nbytes := _nbytes(call):
        return Result(call, None if median is None else nbytes / median / 1e3, "GB/s", WANTED[call], None, note=note)
    return Result(call, median, "us", None, WANTED[call], note=note)


def _nbytes(call: str) -> int:
    return next((nbytes for part, nbytes in BYTES.items() if part in call), 0)


def _told(samples: Sequence[Sample], call: str) -> str:
    """The median of each: gigabytes in a second, or microseconds."""
    nbytes, words = _nbytes(call), []
    for peer in (mpi.FASTSOCK, *mpi.OTHERS):
        if values := list(_values(samples, call, peer).values()):
            median = summary.median(values)
            words.append(f"{nbytes / median / 1e3:.2f} GB/s" if nbytes else f"{median:.1f} us")
    return f" ({', '.join(words)})" if words else ""


if __name__ == "__main__":
    question.run(measure, __doc__)
