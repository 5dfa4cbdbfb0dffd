"""What is drawn: figures of panels, panels of curves or of bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MEASURED, ESTIMATED = "measured", "estimated"  # empty and filled symbols, as in A 2.2


class Missing(Exception):
    """A figure without its data: one line that says what to do."""


@dataclass(frozen=True)
class Curve:
    """Points of one line; symbols: MEASURED, ESTIMATED or the line's own."""

    label: str
    points: Sequence[tuple[float, float]]
    symbols: str = ""


@dataclass(frozen=True)
class Bars:
    """For each label a value in each category; None where there is none.

    stacked: on top of each other instead of beside. tops: what stands above a category's bar.
    """

    categories: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    stacked: bool = False
    tops: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """One pair of axes. logarithmic: "x", "y", "xy" or none; lengths: x are bytes."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve] = ()
    bars: Bars | None = None
    logarithmic: str = ""
    lengths: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure of a paper. panels: reads the records. Raises Missing where they lack its data."""

    name: str  # "A 2.1"
    title: str
    sources: Sequence[str]  # names in records.SOURCES
    panels: Callable[[Any], list[Panel]]
    across: int = 2  # panels in a row
    note: str = ""  # what stands for what, in the caption
    of: Sequence[str] = ()  # what it shows of the records, by its groups (Records.samples); none: all

    @property
    def file(self) -> str:
        """Without the ending."""
        return self.name.replace(" ", "-")


def with_data(panels: Sequence[Panel], figure: str) -> list[Panel]:
    """The panels that have any. Raises Missing where none has."""
    found = [panel for panel in panels if panel.bars is not None or any(curve.points for curve in panel.curves)]
    if not found:
        raise Missing(f"{figure}: the records hold none of its points")
    return found
