"""E 2, 3 and 5 to 12: arrays copied, pinned and handed over; the matrix product by each; active messages in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

import curves
import pmm
from buffers import COPY, COPY_NEW, HANDED, PIN, PIN_NEW
from common.exchange import PING_PONG, STREAM
from common.interleave import Sample

from .figure import Bars, Figure, Missing, Panel, with_data
from .reading import LENGTH, curve
from .records import Records

SOURCE, PRODUCT, BULKS = "buffers", "pmm", "bulks"
JAVIA_1 = [curves.RAW, COPY, COPY_NEW, PIN, PIN_NEW]
JAVIA_2 = [curves.RAW, HANDED, PIN, COPY]
JAM = [curves.RAW, HANDED, curves.POOL, curves.SEGMENT, curves.FRESH]
SHORT = 32 << 10  # bytes, up to which round trips are drawn


def _round_trips(figure: str, source: str, peers: Sequence[str], records: Records) -> list[Panel]:
    samples, _ = records.samples(source)
    lines = [curve(samples, PING_PONG, peer, lambda _, t: t, keep=lambda n: n <= SHORT) for peer in peers]
    return with_data([Panel("round trip", LENGTH, "us", lines, lengths=True)], figure)


def _bandwidth(figure: str, source: str, peers: Sequence[str], records: Records) -> list[Panel]:
    samples, _ = records.samples(source)
    lines = [curve(samples, STREAM, peer, lambda _, rate: rate * 1e3) for peer in peers]
    return with_data([Panel("stream", LENGTH, "bandwidth, MB/s", lines, logarithmic="x", lengths=True)], figure)


def _products(records: Records, size: int, what: str) -> dict[tuple[int, str], float]:
    """Median microseconds by the number of workers and the variant."""
    samples, _ = records.samples(PRODUCT)
    found: dict[tuple[int, str], list[Sample]] = {}
    for sample in samples:
        case, _, kind = sample.what.partition(": ")
        if sample.size == size and kind == what:
            found.setdefault((int(case.split()[0]), sample.peer), []).append(sample)
    if not found:
        raise Missing(f"{records.path(PRODUCT)} has no products of {size} x {size}: delete it and measure again")
    return {key: median([s.value for s in of]) for key, of in found.items()}


def _communication(figure: str, size: int, records: Records) -> list[Panel]:
    moving, whole = _products(records, size, pmm.MOVING), _products(records, size, pmm.WHOLE)
    most = max(workers for workers, _ in moving)
    variants = [variant for variant in pmm.VARIANTS if (most, variant) in moving]
    tops = {variant: f"{moving[most, variant] / whole[most, variant]:.0%}" for variant in variants}
    bars = Bars(variants, {"communication": [moving[most, v] / 1e3 for v in variants]}, tops=tops)
    return with_data([Panel(f"{size} x {size}, {most} workers", "", "time in communication, ms", bars=bars)], figure)


def rates(records: Records, size: int) -> dict[tuple[int, str], float]:
    """Mflop/s by the number of workers and the variant. Raises Missing."""
    return {key: 2 * size**3 / took for key, took in _products(records, size, pmm.WHOLE).items()}


def _rate(figure: str, size: int, records: Records) -> list[Panel]:
    reached = rates(records, size)
    numbers = sorted({workers for workers, _ in reached})
    variants = [variant for variant in pmm.VARIANTS if any((n, variant) in reached for n in numbers)]
    values = {variant: [reached.get((n, variant)) for n in numbers] for variant in variants}
    bars = Bars([str(n) for n in numbers], values)
    return with_data([Panel(f"{size} x {size}", "workers", "Mflop/s", bars=bars)], figure)


_COPIES = "The bare ring stands for raw. Copy: through the ring. Pin: read out of the sender's memory."
_FEW = "2 cores: of more workers several share one."
FIGURES = [
    Figure("E 2", "round trips of copied and pinned arrays", [SOURCE],
           partial(_round_trips, "E 2", SOURCE, JAVIA_1), 1, _COPIES),
    Figure("E 3", "bandwidth of copied and pinned arrays", [SOURCE],
           partial(_bandwidth, "E 3", SOURCE, JAVIA_1), 1, _COPIES),
    Figure("E 5", "round trips of registered buffers", [SOURCE],
           partial(_round_trips, "E 5", SOURCE, JAVIA_2), 1, _COPIES),
    Figure("E 6", "bandwidth of registered buffers", [SOURCE],
           partial(_bandwidth, "E 6", SOURCE, JAVIA_2), 1, f"{_COPIES} A handed buffer is not read."),
    Figure("E 7", "communication of a matrix product, 64 x 64", [PRODUCT],
           partial(_communication, "E 7", 64), 1, f"Above each bar its share of the whole time. {_FEW}"),
    Figure("E 8", "communication of a matrix product, 256 x 256", [PRODUCT],
           partial(_communication, "E 8", 256), 1, f"Above each bar its share of the whole time. {_FEW}"),
    Figure("E 9", "rate of a matrix product, 64 x 64", [PRODUCT], partial(_rate, "E 9", 64), 1, _FEW),
    Figure("E 10", "rate of a matrix product, 256 x 256", [PRODUCT], partial(_rate, "E 10", 256), 1, _FEW),
    Figure("E 11", "round trips of active messages in bulk", [BULKS],
           partial(_round_trips, "E 11", BULKS, JAM), 1, "A bulk that is answered by one of the same size."),
    Figure("E 12", "bandwidth of active messages in bulk", [BULKS], partial(_bandwidth, "E 12", BULKS, JAM), 1,
           "Pool: Jam's second design. Fresh array: its first. Segment: AM-II's own."),
]  # fmt: skip
