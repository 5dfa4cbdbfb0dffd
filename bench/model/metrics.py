"""Asymptotic bandwidth and specific performance, and their aggregates over ranks (2.2): tables 2.1 to 2.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from common import table

from .fits import ONE_LENGTH, TWO_RANKS, Fit
from .lines import Line

# f(p): bytes that the ranks transfer together, over the message's length (2.2)
TO_ALL: Callable[[int], float] = lambda p: p - 1  # noqa: E731
A_PART_EACH: Callable[[int], float] = lambda p: (p - 1) / p  # noqa: E731
TWICE: Callable[[int], float] = lambda p: 2 * (p - 1)  # noqa: E731
GATHERED: Callable[[int], float] = lambda p: (p * p - 1) / p  # noqa: E731
TRANSFERRED = {
    "barrier": TO_ALL, "bcast": TO_ALL, "alltoall": TO_ALL, "reduce": TO_ALL, "scan": TO_ALL, "exscan": TO_ALL,
    "scatter": A_PART_EACH, "gather": A_PART_EACH, "allreduce": TWICE, "allgather": GATHERED,
    "reduce_scatter": GATHERED, "neighbor_allgather": lambda p: p, "neighbor_alltoall": lambda p: p,
}  # fmt: skip


@dataclass(frozen=True)
class Peaks:
    """The greatest aggregates among numbers of ranks. None where a parameter makes no sense there."""

    specific: float | None  # thousands a second; the thesis writes KB/s
    bandwidth: float | None  # MB/s


def transferred(what: str) -> Callable[[int], float]:
    """f(p) of a call; 1 for point to point."""
    stem = what.partition(":")[0].removesuffix("_init")
    if stem in TWO_RANKS:
        return lambda p: 1
    if stem not in TRANSFERRED and stem[:1] == "i":
        stem = stem[1:]
    for name in (stem, stem.removesuffix("_block"), stem[:-1]):  # the v and w forms move what theirs move
        if name in TRANSFERRED:
            return TRANSFERRED[name]
    return lambda p: 1


def peaks(what: str, t0: Line, tb: Line | None, ranks: Iterable[int]) -> Peaks:
    """The peaks of t0 in microseconds and tb in nanoseconds a byte.

    A start-up or a transfer time that is not above zero for some p (a line through noise) has no rate there.
    """
    f = transferred(what)
    ranks = list(ranks)
    specific = [1e3 * f(p) / t0.at(p) for p in ranks if t0.at(p) > 0]
    bandwidth = [1e3 * f(p) / tb.at(p) for p in ranks if tb is not None and tb.at(p) > 0]
    return Peaks(max(specific, default=None), max(bandwidth, default=None))


def nanoseconds(line: Line) -> Line:
    """Of microseconds."""
    return Line(line.intercept * 1e3, line.slope * 1e3, line.form)


def report(found: Sequence[Fit]) -> str:
    """A line for each primitive and library, as tables 2.1 to 2.4 have them."""
    rows = []
    for what in dict.fromkeys(each.what for each in found):
        for each in (each for each in found if each.what == what):
            one = each.what in ONE_LENGTH
            tb = nanoseconds(each.tb)
            got = peaks(what, each.t0, None if one else tb, each.ranks)
            models = ["-", "-"] if one else [str(each.ti), str(tb)]
            kind = "" if each.kind == "bytes" else f" ({each.kind})"
            rows.append([what + kind, each.mpi, str(each.t0), *models, table.number(got.specific),
                         table.number(got.bandwidth)])  # fmt: skip
    cores = ", ".join(dict.fromkeys(each.distance for each in found))
    return f"cores {cores}; lp = log2 p\n" + table.lines(
        ["primitive", "library", "t0(p), us", "ti(p), us", "tb(p), ns/byte", "peak, thousand/s", "peak, MB/s"], rows
    )
