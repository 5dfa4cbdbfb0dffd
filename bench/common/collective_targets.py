"""What collectives must reach, beside the better of MPICH and Open MPI in the same turn."""

from __future__ import annotations

from collections.abc import Sequence

from . import mpi, mpi_targets, summary
from .interleave import Sample
from .target import Result

WANTED = ("bcast", "reduce", "allreduce", "allgather", "alltoall", "barrier")
NOISE = 0.05  # where "not slower" is asked
KIB, MIB = 1 << 10, 1 << 20


def results(samples: Sequence[Sample]) -> list[Result]:
    """One line for each collective that has a target, number of ranks and size."""
    found = []
    for what, size in dict.fromkeys((sample.what, sample.size) for sample in samples):
        name, ranks = what.split(",")[0], int(what.split(", ")[1].split()[0])
        if name not in WANTED or size > MIB:
            continue
        least = 1.5 if ranks > 2 and size <= 8 else 1.0
        text = f"{name}, {ranks} ranks" + (f", {size} B" if size else "")
        measured = mpi_targets.against_best(samples, what, size)
        cores = summary.placements(samples, what, size)
        note = "" if measured is not None else "not measured"
        found.append(Result(text, measured, "x", least, None, cores, note, NOISE if least == 1 else 0))
    for name, size in (("bcast", KIB), ("bcast", MIB), ("reduce", KIB), ("reduce", MIB)):
        what = mpi_targets.name(name, 2, False)
        measured = summary.compare(samples, what, size, mpi.FASTSOCK, mpi.FASTSOCK_TCP)
        if measured is not None:
            text = f"{name}, 2 ranks, {size} B, beside plain TCP"
            found.append(Result(text, measured, "x", 5, None, summary.placements(samples, what, size)))
    return found
