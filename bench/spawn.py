"""What does it cost to spawn ranks, and to meet those of another job, beside mpi4py on MPICH and on Open MPI?

python bench/spawn.py         after `python bench/mpj.py --install`, which brings the others
"""

from __future__ import annotations

from collections.abc import Sequence

from common import mpi, mpi_command, mpi_targets, question, summary
from common.interleave import Sample
from common.question import NOISE, Options
from common.target import Result

PROGRAM = "spawn"
RANKS = 2
BARS = {"Spawn of 2 Pythons": 0.84, "Accept, Connect, Disconnect": 1.0}  # times as fast as the better of the others
INSIDE, BETWEEN = "8 B, inside a job", "8 B, between jobs"


def measure(options: Options) -> list[Result]:
    cores = ",".join(map(str, options.cores))
    mpi_command.beside_others(options, RANKS, PROGRAM, ["--cores", cores])
    return results(options.samples)


def results(samples: Sequence[Sample]) -> list[Result]:
    """The targets of what the program told."""
    found = mpi_targets.calls(samples, BARS, RANKS, lambda _, values: f"{min(values[mpi.FASTSOCK]) / 1e3:.1f} ms")
    inside, between = _own(samples, INSIDE), _own(samples, BETWEEN)
    times = summary.median(inside) / summary.median(between) if inside and between else None
    where = summary.placements(samples, mpi_targets.name(BETWEEN, RANKS, False), 0)
    found.append(Result("8 B between jobs, beside inside one", times, "x", 1.0, None, where, "", NOISE))
    return found


def _own(samples: Sequence[Sample], call: str) -> list[float]:
    what = mpi_targets.name(call, RANKS, False)
    return [sample.value for sample in samples if sample.what == what and sample.peer == mpi.FASTSOCK]


if __name__ == "__main__":
    question.run(measure, __doc__)
