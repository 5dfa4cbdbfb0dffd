"""Asymptotic bandwidth and specific performance, their aggregates and peaks over ranks (2.2): tables 2.1 to 2.4."""

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
    """f(p) of a call, of its algorithms and of the combinations in its place; 1 for point to point."""
    stem = what.partition(":")[0].partition("=")[0].removesuffix("_init")
    if stem in TWO_RANKS:
        return lambda p: 1
    if stem not in TRANSFERRED and stem[:1] == "i":
        stem = stem[1:]
    for name in (stem, stem.removesuffix("_block"), stem[:-1]):  # the v and w forms move what theirs move
        if name in TRANSFERRED:
            return TRANSFERRED[name]
    return lambda p: 1


def rate(parameter: Line | None, ranks: int) -> float | None:
    """Thousands a second of t0 in microseconds, MB/s of tb in nanoseconds a byte: pi0(p) and Bw_as(p).

    A start-up or a transfer time that is not above zero for some p (a line through noise) has no rate there.
    """
    return 1e3 / parameter.at(ranks) if parameter is not None and parameter.at(ranks) > 0 else None


def aggregate(what: str, parameter: Line | None, ranks: int) -> float | None:
    """f(p) times the rate."""
    one = rate(parameter, ranks)
    return None if one is None else transferred(what)(ranks) * one


def peaks(what: str, t0: Line, tb: Line | None, ranks: Iterable[int]) -> Peaks:
    """The peaks of t0 in microseconds and tb in nanoseconds a byte."""
    ranks = list(ranks)
    specific, bandwidth = (
        max((value for p in ranks if (value := aggregate(what, line, p)) is not None), default=None)
        for line in (t0, tb)
    )
    return Peaks(specific, bandwidth)


def nanoseconds(line: Line) -> Line:
    """Of microseconds."""
    return Line(line.intercept * 1e3, line.slope * 1e3, line.form)


NOT = "N/A"  # as the thesis writes where a call moves nothing
PARAMETERS = ["primitive", "library", "t0(p), us", "ti(p), us", "tb(p), ns/byte", "peak pi0, thousand/s",
              "peak Bw, MB/s"]  # fmt: skip
RATES = ["primitive", "library", "p", "pi0(p), thousand/s", "Bw(p), MB/s", "all: pi0, thousand/s",
         "all: Bw, MB/s"]  # fmt: skip


def report(found: Sequence[Fit]) -> str:
    """Tables 2.1 to 2.4: for each primitive the libraries' models and peaks. Then what the peaks are taken from."""
    models, rates = [], []
    for what in dict.fromkeys(each.what for each in found):
        for each in (each for each in found if each.what == what):
            tb = None if what.partition(":")[0] in ONE_LENGTH else nanoseconds(each.tb)
            got = peaks(what, each.t0, tb, each.ranks)
            name = [what if each.kind == "bytes" else f"{what} ({each.kind})", each.mpi]
            lines_in_p = [NOT, NOT] if tb is None else [str(each.ti), str(tb)]
            bandwidth = NOT if tb is None else table.number(got.bandwidth)
            models.append([*name, str(each.t0), *lines_in_p, table.number(got.specific), bandwidth])
            for p in each.ranks:
                told = [rate(each.t0, p), rate(tb, p), aggregate(what, each.t0, p), aggregate(what, tb, p)]
                words = [NOT if tb is None and i % 2 else table.number(value) for i, value in enumerate(told)]
                rates.append([*name, str(p), *words])
    cores = ", ".join(dict.fromkeys(each.distance for each in found))
    return (
        f"analytical models and peak aggregated metrics (lp = log2 p; cores {cores})\n"
        + table.lines(PARAMETERS, models)
        + "\n\nby the number of ranks: a rank's rates, and f(p) times these for all ranks\n"
        + table.lines(RATES, rates)
    )
