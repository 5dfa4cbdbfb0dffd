"""What the benches of remote calls send: an object of about 3 KB, and a small one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy


@dataclass(frozen=True)
class Reading:
    sensor: int
    value: float
    name: str


@dataclass
class Grid:
    shape: tuple[int, int]
    spacing: float
    cells: numpy.ndarray[Any, Any]


@dataclass
class Simulation:
    """About 3 KB: nested objects, scalars, small arrays, as in the thesis's figure 4.11."""

    name: str
    step: int
    time: float
    is_done: bool
    grid: Grid
    velocity: numpy.ndarray[Any, Any]
    marks: numpy.ndarray[Any, Any]
    last: Reading
    best: Reading


def simulation() -> Simulation:
    return Simulation(
        "heat",
        1200,
        3.75,
        False,
        Grid((16, 16), 0.01, numpy.linspace(0.0, 1.0, 256).reshape(16, 16)),
        numpy.arange(64, dtype="f8"),
        numpy.arange(64, dtype="i4"),
        Reading(7, 21.5, "north"),
        Reading(9, 21.25, "south"),
    )


SIMULATION_BYTES = 256 * 8 + 64 * 8 + 64 * 4 + 6 * 8 + 1 + 5 * 8 + 14  # arrays, integers and floats of 8, a bool, text
