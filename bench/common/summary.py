"""Medians, and ratios of what was measured side by side."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from .interleave import Sample
from .placement import NEAR, UNKNOWN


@dataclass(frozen=True)
class Row:
    """What one peer reached for one size in one placement."""

    what: str
    peer: str
    size: int
    placement: str
    count: int
    median: float
    least: float
    most: float
    ratio: float | None  # how many times faster than the baseline, median over the turns that hold both
    baseline: str
    probe: float | None  # microseconds, median
    disturbed: int  # how many of the samples

    @property
    def latency(self) -> bool:
        """Whether less is better."""
        return smaller_is_better(self.what)


def smaller_is_better(what: str) -> bool:
    """Streams are told in bytes a second, everything else in time."""
    return not what.startswith("stream")


def rows(samples: Iterable[Sample], baselines: dict[str, str]) -> list[Row]:
    """One row for each kind of measurement, size, peer and placement, in the order in which they were met.

    Samples during which the placement changed are left out, unless there is nothing else.
    """
    groups: dict[tuple[str, int, str], dict[str, list[Sample]]] = {}
    by_turn: dict[tuple[int, str], Sample] = {}
    for sample in samples:
        groups.setdefault((sample.what, sample.size, sample.peer), {}).setdefault(sample.placement, []).append(sample)
        by_turn[sample.turn, sample.peer] = sample
    found = []
    for (what, size, peer), placements in groups.items():
        if len(placements) > 1:
            placements.pop("mixed", None)
        baseline = baselines[peer]
        for placement, group in placements.items():
            values = [sample.value for sample in group]
            ratios = [
                ratio(what, sample.value, beside.value)
                for sample in group
                if (beside := by_turn.get((sample.turn, baseline))) and beside.placement == placement
            ]
            found.append(
                Row(
                    what, peer, size, placement, len(group),
                    statistics.median(values), min(values), max(values),
                    statistics.median(ratios) if ratios else None, baseline,
                    _median([x for s in group for x in (s.before, s.after) if x is not None]),
                    sum(s.disturbed for s in group),
                )
            )  # fmt: skip
    return found


def compare(
    samples: Iterable[Sample], what: str, size: int, peer: str, against: str, placements: Collection[str] | None = None
) -> float | None:
    """How many times better ``peer`` is than ``against``: the median over the turns that hold both, or None.

    ``placements`` limits it to turns in which both were measured in one and the same of these.
    """
    return compare_with_best(samples, what, size, peer, [against], placements)


def compare_here(samples: Sequence[Sample], what: str, size: int, peer: str, against: str) -> tuple[float | None, bool]:
    """The same over the turns that were measured near, and True; where there is none, over all turns, and False."""
    near = compare(samples, what, size, peer, against, (NEAR, UNKNOWN))
    return (near, True) if near is not None else (compare(samples, what, size, peer, against), False)


def compare_with_best(
    samples: Iterable[Sample],
    what: str,
    size: int,
    peer: str,
    against: Sequence[str],
    placements: Collection[str] | None = None,
) -> float | None:
    """The same for the best of several in each turn. Turns that lack one of them are left out."""
    turns: dict[int, dict[str, Sample]] = {}
    for sample in samples:
        if sample.what == what and sample.size == size and sample.peer in (peer, *against):
            turns.setdefault(sample.turn, {})[sample.peer] = sample
    ratios = []
    for turn in turns.values():
        if len(turn) != len({peer, *against}):
            continue
        seen = {sample.placement for sample in turn.values()}
        if placements is None or (len(seen) == 1 and seen <= set(placements)):
            ratios.append(min(ratio(what, turn[peer].value, turn[other].value) for other in against))
    return _median(ratios)


def medians(samples: Iterable[Sample], what: str, size: int, placements: Collection[str] | None = None) -> str:
    """Each peer's median in words, for a note."""
    values: dict[str, list[float]] = {}
    for sample in samples:
        if sample.what == what and sample.size == size and (placements is None or sample.placement in placements):
            values.setdefault(sample.peer, []).append(sample.value)
    unit = "us" if smaller_is_better(what) else "GB/s"
    words = ", ".join(f"{peer} {in_words(statistics.median(found))}" for peer, found in values.items())
    return f"{words} {unit}" if words else ""


def placements(samples: Iterable[Sample], what: str, size: int) -> str:
    """How the cores stood while these were taken, in words."""
    counts = Counter(s.placement for s in samples if s.what == what and s.size == size)
    if len(counts) < 2:
        return "".join(counts)
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def in_words(value: float) -> str:
    """Two or three significant digits, no exponent above one."""
    if 0 < abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio(what: str, value: float, baseline: float) -> float:
    """How many times better ``value`` is than ``baseline``."""
    return baseline / value if smaller_is_better(what) else value / baseline


def median(values: Sequence[float]) -> float:
    """The median of at least one value."""
    return statistics.median(values)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
