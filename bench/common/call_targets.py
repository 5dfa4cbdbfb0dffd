"""Calls beside Send, Recv and collectives on plain arrays: none is slower than the better MPI's in the same turn."""

from __future__ import annotations

from collections.abc import Sequence

from . import mpi, mpi_targets, summary
from .interleave import Sample
from .target import Result

RANKS = {2: "", 4: "MINLOC,Iallreduce"}  # which calls, all where none is named
MARK = "call "  # before the names of calls


def measured(peer: mpi.Mpi, ranks: int, cores: str) -> list[dict]:
    """What one MPI needs for them."""
    if ranks not in RANKS:
        return []
    found = mpi.run(peer, ranks, "calls", ["--cores", cores, "--seconds", "0.02", "--what", RANKS[ranks]])
    return [{**each, "what": MARK + each["what"]} for each in found]


def results(samples: Sequence[Sample]) -> list[Result]:
    """A line for each call that was measured."""
    found = []
    for what in dict.fromkeys(sample.what for sample in samples if sample.what.startswith(MARK)):
        ratio = mpi_targets.against_best(samples, what, 0)
        note = "" if ratio is not None else "not measured"
        cores = summary.placements(samples, what, 0)
        found.append(Result(what.removeprefix(MARK), ratio, "x", 1.0, None, cores, note, mpi_targets.NOISE))
    return found
