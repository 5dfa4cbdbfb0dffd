"""Curves and bars out of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from common.interleave import Sample

from .figure import Curve, Panel

SHORT, LONG = 1 << 10, 1 << 10  # bytes: latency is drawn up to the one, bandwidth from the other
MBPS = "bandwidth, Mbit/s"
LATENCY = "latency, us"
LENGTH = "message length, bytes"


def medians(samples: Iterable[Sample], what: str, peer: str) -> list[tuple[int, float]]:
    """The median for each size, rising."""
    by_size: dict[int, list[float]] = {}
    for sample in samples:
        if (sample.what, sample.peer) == (what, peer):
            by_size.setdefault(sample.size, []).append(sample.value)
    return [(size, median(values)) for size, values in sorted(by_size.items())]


def curve(
    samples: Iterable[Sample], what: str, peer: str, value: Callable[[int, float], float], label: str = "",
    keep: Callable[[int], bool] = lambda size: True,
) -> Curve:  # fmt: skip
    """A peer's medians, each as value(size, median)."""
    return Curve(label or peer, [(n, value(n, t)) for n, t in medians(samples, what, peer) if keep(n)])


def half(_: int, there_and_back: float) -> float:
    """Half of a round trip, microseconds."""
    return there_and_back / 2


def megabits(size: int, there_and_back: float) -> float:
    """A size over half of its round trip."""
    return size * 16 / there_and_back


def latency_and_bandwidth(
    samples: Sequence[Sample], what: str, peers: Sequence[str], title: str = "", short: int = SHORT, long: int = LONG
) -> list[Panel]:
    """NetPIPE's two panels, both from half of a round trip: short messages in time, long ones in bandwidth."""
    head = f"{title}, " if title else ""
    return [
        Panel(f"{head}short messages", LENGTH, LATENCY, logarithmic="x", lengths=True,
              curves=[curve(samples, what, peer, half, keep=lambda n: 0 < n <= short) for peer in peers]),
        Panel(f"{head}long messages", LENGTH, MBPS, logarithmic="x", lengths=True,
              curves=[curve(samples, what, peer, megabits, keep=lambda n: n >= long) for peer in peers]),
    ]  # fmt: skip


def peers_of(samples: Iterable[Any], name: str = "peer") -> list[str]:
    """In the order in which they were met."""
    return list(dict.fromkeys(getattr(sample, name) for sample in samples))
