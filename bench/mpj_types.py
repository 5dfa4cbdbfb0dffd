"""What does the way to name a buffer cost, and what do derived datatypes, beside mpi4py on MPICH and on Open MPI?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from common import mpi, mpi_command, mpi_targets, question, summary
from common.interleave import Sample
from common.question import Options
from common.target import Result

PROGRAM = "buffers_and_types"
RANKS = 2
AS_BARE = 0.9  # a call is as fast however its buffer is named, but for a tenth
BARE = "array"
BARES = {"complex 2 x 2": "array of 8"}  # of as many bytes
DATATYPES = "datatypes"
NOISE = 0.03


def words(seconds: float, cores: Sequence[int]) -> list[str]:
    """What the program is told."""
    return ["--seconds", str(seconds), "--cores", ",".join(map(str, cores))]


def measure(options: Options) -> list[Result]:
    said = words(options.pick(0.01, 0.05), options.cores)
    mpi_command.beside_others(options, RANKS, PROGRAM, said)
    return results(options.samples)


def results(samples: Sequence[Sample]) -> list[Result]:
    """The targets of what the program told; other samples are nothing to it."""
    found = []
    for what in dict.fromkeys(sample.what for sample in samples):
        call, colon, kind = what.removesuffix(mpi_targets.name("", RANKS, False)).partition(": ")
        cores = summary.placements(samples, what, 0)
        if call == DATATYPES:
            times = mpi_targets.against_best(samples, what, 0)
            found.append(Result(what, times, "x", 1, None, cores, "" if times else "not measured", NOISE))
        elif colon and kind != BARE and kind not in BARES.values():
            bare = mpi_targets.name(f"{call}: {BARES.get(kind, BARE)}", RANKS, False)
            found.append(
                Result(f"{what}, beside a bare array", _beside(samples, bare, what), "x", AS_BARE, None, cores)
            )
    return found


def _beside(samples: Iterable[Sample], bare: str, what: str) -> float | None:
    """How long a call takes with the bare array, in the time that it takes so: fastsock's best of all turns."""
    best: dict[str, float] = {}
    for sample in samples:
        if sample.peer == mpi.FASTSOCK and sample.what in (bare, what):
            best[sample.what] = min(best.get(sample.what, sample.value), sample.value)
    return best[bare] / best[what] if len(best) == 2 else None


if __name__ == "__main__":
    question.run(measure, __doc__)
