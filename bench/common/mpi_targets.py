"""What message passing must reach, beside the better of MPICH and Open MPI in the same turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from . import mpi, summary
from .interleave import Sample
from .target import Result

# more is better; everything else is microseconds
RATES = ("bandwidth", "both ways", "rate")
NOISE = 0.03
UNITS = {"rate": "million/s", "bandwidth": "GB/s", "both ways": "GB/s"}


def name(what: str, ranks: int, one_core: bool) -> str:
    """A measurement's name: what, on how many ranks and where."""
    return f"{what}, {ranks} ranks" + (" on one core" if one_core else "")


def against_best(samples: Iterable[Sample], what: str, size: int, peer: str = mpi.FASTSOCK) -> float | None:
    """How many times better ``peer`` is than the best of MPICH and Open MPI: the median over turns."""
    turns: dict[int, dict[str, float]] = {}
    for sample in samples:
        if (sample.what, sample.size) == (what, size):
            turns.setdefault(sample.turn, {})[sample.peer] = sample.value
    more = what.split(",")[0] in RATES
    ratios = []
    for turn in turns.values():
        others = [turn[other] for other in mpi.OTHERS if other in turn]
        if peer in turn and others:
            ratios.append(turn[peer] / max(others) if more else min(others) / turn[peer])
    return summary.median(ratios) if ratios else None


def calls(
    samples: Sequence[Sample],
    bars: Mapping[str, float],
    ranks: int,
    told: Callable[[str, Mapping[str, Sequence[float]]], str],
) -> list[Result]:
    """The targets of calls: how many times as fast as the better of the others each is to be.

    `told(call, values by peer)`: what stands behind the name of a call that was measured.
    """
    found = []
    for call, least in bars.items():
        what = name(call, ranks, False)
        times = against_best(samples, what, 0)
        values: dict[str, list[float]] = {}
        for sample in samples:
            if sample.what == what:
                values.setdefault(sample.peer, []).append(sample.value)
        text = f"{what} ({told(call, values)})" if mpi.FASTSOCK in values else what
        note = "" if times is not None else "not measured"
        noise = NOISE if least == 1 else 0
        found.append(Result(text, times, "x", least, None, summary.placements(samples, what, 0), note, noise))
    return found


def point_to_point(samples: Sequence[Sample]) -> list[Result]:
    """The targets of bench/mpj.py."""
    results = []

    def line(what: str, size: int, text: str, at_least: float, noise: float = 0.0) -> None:
        measured = against_best(samples, what, size)
        cores = summary.placements(samples, what, size)
        if any((s.what, s.size) == (what, size) for s in samples):
            note = "" if measured is not None else "not measured"
            results.append(Result(text, measured, "x", at_least, None, cores, note, noise))

    two = [s.size for s in samples if s.what == name("latency", 2, False)]
    for size in sorted(set(two)):
        least = 1.5 if size == 8 else 1.0
        line(name("latency", 2, False), size, f"Send/Recv latency, {size} B", least, 0 if size == 8 else NOISE)
    for size in sorted(set(two)):
        if size >= 1 << 16:
            least = 1.5 if size <= 1 << 20 else 1.0
            line(name("bandwidth", 2, False), size, f"bandwidth, {size} B", least, NOISE if least == 1 else 0)
    line(name("dict", 2, False), 0, "send/recv of a small dict", 2)
    line(name("array", 2, False), 1 << 20, "send/recv of a 1 MiB float64 array", 10)
    line(name("latency", 2, True), 8, "both ranks on one core, 8 B", 2)
    for ranks in (2, 4):  # a tenth longer at most
        line(name("start-up", ranks, False), 0, f"start-up of {ranks} ranks", 1 / 1.1)
    line(name("start-up", 8, False), 0, "start-up of 8 ranks", 1, NOISE)
    return results
