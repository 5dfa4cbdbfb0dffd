"""SP's multi-partition: which cells of the grid a rank owns, and whose are the cells beside them.

p^2 ranks share a grid of p^3 cells. Each owns p of them, one in each layer of each direction, so in every stage of a
sweep every rank has work. The cells beside a rank's cells in one direction all belong to one other rank. From
SP/make_set.f and SP/setup_mpi.f.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

SMALLEST = 3  # points of a cell along a direction: the fourth differences reach over two


@dataclass(frozen=True)
class Cell:
    """One block of the grid. A triple holds x, y and z."""

    place: tuple[int, int, int]  # among the p^3 cells
    low: tuple[int, int, int]  # its first point in the grid
    size: tuple[int, int, int]  # points
    starts: tuple[int, int, int]  # 1 where its first plane is the grid's border, else 0
    ends: tuple[int, int, int]  # 1 where its last plane is

    @property
    def inner(self) -> tuple[int, int, int]:
        """Points that are not on the grid's border."""
        x, y, z = (size - start - end for size, start, end in zip(self.size, self.starts, self.ends, strict=True))
        return x, y, z


class Partition:
    """The cells of one rank, from the bottom upwards."""

    def __init__(self, rank: int, ranks: int, points: int) -> None:
        side = self.side = isqrt(ranks)
        column, row = rank % side, rank // side
        self.cells = [self._cell(((column + c) % side, (row - c) % side, c), points) for c in range(side)]
        # by direction: the rank whose cells lie before these, and the one whose cells lie behind
        self.predecessor = (
            (column - 1) % side + side * row,
            column + side * ((row - 1) % side),
            (column + 1) % side + side * ((row - 1) % side),
        )
        self.successor = (
            (column + 1) % side + side * row,
            column + side * ((row + 1) % side),
            (column - 1) % side + side * ((row + 1) % side),
        )
        # by direction and stage of a sweep: the number of the cell
        self.stages = [sorted(range(side), key=lambda c, d=d: self.cells[c].place[d]) for d in range(3)]

    @staticmethod
    def possible(ranks: int, points: int) -> bool:
        """Whether so many ranks can share a cube of so many points."""
        side = isqrt(ranks)
        return side * side == ranks and points // side >= SMALLEST

    def _cell(self, place: tuple[int, int, int], points: int) -> Cell:
        size, more = divmod(points, self.side)

        def three(of):  # type: ignore[no-untyped-def]
            return tuple(of(number) for number in place)

        return Cell(
            place,
            low=three(lambda number: number * size + min(number, more)),
            size=three(lambda number: size + (number < more)),
            starts=three(lambda number: int(number == 0)),
            ends=three(lambda number: int(number == self.side - 1)),
        )
