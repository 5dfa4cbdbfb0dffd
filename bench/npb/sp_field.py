"""What SP keeps of one cell, and the same memory seen along x, along y and along z.

Arrays of a cell are ordered (component, z, y, x). A sweep has its own order, (row, component, plane, column): the rows
that it goes along are outermost, whatever their direction. So one text serves three directions, and what a cell sends
to the next lies together: the last two rows forwards, the first two backwards.
"""

from __future__ import annotations

import numpy as np
from npb.sp_equations import Equations
from npb.sp_partition import Cell

HALO = 2  # planes of u around a cell
FORWARD, BACKWARD = 11, 5  # components of a row: three e, three d and five right-hand sides; five solutions
RHO, U, V, W, Q, PRESSURE, SOUND = range(7)  # of Field.primitive


class Field:
    """Arrays of one cell.

    u: the five unknowns, with two planes around the cell. primitive: what follows from u at one point (1 / density,
    three velocities, kinetic energy by mass, pressure, speed of sound), with one plane around. rhs, forcing: five
    components, of the inner points only.
    """

    def __init__(self, cell: Cell, equations: Equations) -> None:
        self.cell = cell
        x, y, z = cell.size
        self.u = np.empty((5, z + 2 * HALO, y + 2 * HALO, x + 2 * HALO))
        self.own = self.u[:, HALO:-HALO, HALO:-HALO, HALO:-HALO]
        self.inner = inner(self.u, cell, HALO)
        self.primitive = np.empty((7, z + 2, y + 2, x + 2))
        self.near = self.u[:, 1:-1, 1:-1, 1:-1]  # where primitive is known
        self.inner_primitive = inner(self.primitive, cell, 1)
        self.rhs = np.empty((5, *cell.inner[::-1]))
        self.forcing = np.zeros_like(self.rhs)
        eliminated, solved = (np.empty(sweep_length(cell, part)) for part in (FORWARD, BACKWARD))
        self.lines = [Lines(self, axis, equations, eliminated, solved) for axis in range(3)]

    def face(self, axis: int, begin: int, end: int) -> np.ndarray:
        """Planes begin to end of u across a direction; 0 is the cell's first, and the other directions have no halo."""
        across = [slice(HALO, -HALO)] * 3
        across[2 - axis] = slice(begin + HALO, end + HALO)
        return self.u[(slice(None), *across)]


class Lines:
    """A cell along one direction. `eliminated` and `solved` are memory that the three directions share."""

    def __init__(
        self, field: Field, axis: int, equations: Equations, eliminated: np.ndarray, solved: np.ndarray
    ) -> None:
        cell = field.cell
        self.axis = axis
        self.first, self.last = bool(cell.starts[axis]), bool(cell.ends[axis])
        # (component, row, plane, column), the inner points, and as many rows more as there is halo
        self.u = along(inner(field.u, cell, HALO, axis), axis)
        self.primitive = along(inner(field.primitive, cell, 1, axis), axis)
        self.rhs = along(field.rhs, axis)
        self.rows, self.shape = self.rhs.shape[1], self.rhs.shape[2:]
        self.points = self.shape[0] * self.shape[1]
        self.eliminated = _rows(eliminated, self.rows + 2, FORWARD, self.shape)  # two rows of the cell before it first
        self.solved = _rows(solved, self.rows + 2, BACKWARD, self.shape)  # two rows of the cell behind it last
        self.differences = differences(self.rows, self.first, self.last) * equations.fourth * equations.dt

    @property
    def from_before(self) -> np.ndarray:
        """What the cell before sends forwards: 22 values for each line."""
        return self.eliminated[:2]

    @property
    def to_behind(self) -> np.ndarray:
        return self.eliminated[-2:]

    @property
    def from_behind(self) -> np.ndarray:
        """What the cell behind sends backwards: 10 values for each line."""
        return self.solved[-2:]

    @property
    def to_before(self) -> np.ndarray:
        return self.solved[:2]


def inner(array: np.ndarray, cell: Cell, halo: int, axis: int | None = None) -> np.ndarray:
    """The inner points of a cell in an array with so many planes around it; along `axis` with those planes, too."""
    parts: list[slice] = []
    for d in (2, 1, 0):
        more = halo if d == axis else 0
        begin = halo + cell.starts[d]
        parts.append(slice(begin - more, begin + cell.inner[d] + more))
    return array[(slice(None), *parts)]


def along(array: np.ndarray, axis: int) -> np.ndarray:
    """(component, z, y, x) seen as (component, row, plane, column), rows along a direction."""
    return np.moveaxis(array, 3 - axis, 1)


def across(array: np.ndarray, axis: int) -> np.ndarray:
    """(row, component, plane, column) seen as (component, z, y, x)."""
    return np.moveaxis(array.swapaxes(0, 1), 1, 3 - axis)


def sweep_length(cell: Cell, components: int) -> int:
    """Values that hold the rows of one sweep, in the direction that needs most."""
    x, y, z = cell.inner
    return components * (x * y * z + 2 * max(y * z, x * z, x * y))


def differences(rows: int, first: bool, last: bool) -> np.ndarray:
    """Coefficients (rows, 5) of the fourth difference. What it would take from the border is left out, as NPB does."""
    found = np.tile([1.0, -4.0, 6.0, -4.0, 1.0], (rows, 1))
    if first:
        found[0] = 0.0, 0.0, 5.0, -4.0, 1.0
        found[1, 0] = 0.0
    if last:
        found[-2, 4] = 0.0
        found[-1] = 1.0, -4.0, 5.0, 0.0, 0.0
    return found


def _rows(memory: np.ndarray, rows: int, components: int, shape: tuple[int, ...]) -> np.ndarray:
    whole = (rows, components, *shape)
    return memory[: int(np.prod(whole))].reshape(whole)
