"""Virtual topologies: the neighbours of each rank."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..constants import CART, DIST_GRAPH, ERR_DIMS, GRAPH, PROC_NULL
from ..exceptions import Exception as MPIException

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

Neighbours = tuple[list[int], list[int]]


class Cartesian:
    """A grid; each dimension may be closed to a ring."""

    kind = CART
    cartesian = True

    def __init__(self, dims: Sequence[int], periods: Sequence[bool]) -> None:
        self.dims = list(dims)
        self.periods = list(periods)
        self._parts: dict[tuple[int, ...], Part] = {}

    def coordinates(self, rank: int) -> list[int]:
        """Returns where a rank is."""
        found = []
        for extent in reversed(self.dims):
            rank, coordinate = divmod(rank, extent)
            found.append(coordinate)
        return found[::-1]

    def rank(self, coordinates: Sequence[int]) -> int:
        """Returns the rank at a place, or PROC_NULL outside the grid."""
        rank = 0
        for coordinate, extent, period in zip(coordinates, self.dims, self.periods, strict=True):
            if period:
                coordinate %= extent
            elif not 0 <= coordinate < extent:
                return PROC_NULL
            rank = rank * extent + coordinate
        return rank

    def part(self, remain: tuple[int, ...]) -> Part:
        """Returns the parts of the grid in which only some dimensions remain: those that are not 0."""
        found = self._parts.get(remain)
        if found is None:
            stays = tuple([each != 0 for each in remain])  # and 0 and 1 find them too
            self._parts[stays] = found = self._parts.get(stays) or Part(self, stays)
        return found

    def shift(self, rank: int, direction: int, displacement: int) -> tuple[int, int]:
        """Returns the source and the destination of this rank when all data move along a dimension."""
        place = self.coordinates(rank)
        at = place[direction]
        ends = []
        for moved in (at - displacement, at + displacement):
            place[direction] = moved
            ends.append(self.rank(place))
        return ends[0], ends[1]

    def neighbours(self, rank: int) -> Neighbours:
        """Returns where messages come from and where they go to."""
        found = [end for direction in range(len(self.dims)) for end in self.shift(rank, direction, 1)]
        return found, found


class Part:
    """The parts of a grid that differ in the dimensions that do not remain. `grid`: each of them."""

    __slots__ = ("_kept", "_members", "grid")

    def __init__(self, whole: Cartesian, stays: Sequence[bool]) -> None:
        kept = [place for place, remains in enumerate(stays) if remains]
        self._kept = [(whole.dims[place], prod(whole.dims[place + 1 :])) for place in kept]
        self._members: dict[int, tuple[int, ...]] = {}
        self.grid = Cartesian([whole.dims[place] for place in kept], [whole.periods[place] for place in kept])

    def around(self, rank: int) -> tuple[int, ...]:
        """Returns the ranks that are in the same part as this one, in the order of its grid."""
        found = self._members.get(rank)
        if found is None:
            first = rank
            for extent, stride in self._kept:
                first -= first // stride % extent * stride
            places = [first]
            for extent, stride in self._kept:
                places = [each + at * stride for each in places for at in range(extent)]
            self._members[rank] = found = tuple(places)
        return found


class General:
    """A graph that every member knows whole."""

    kind = GRAPH
    cartesian = False

    def __init__(self, index: Sequence[int], edges: Sequence[int]) -> None:
        self.index = list(index)
        self.edges = list(edges)

    def of(self, rank: int) -> list[int]:
        """Returns the neighbours of a rank."""
        return self.edges[self.index[rank - 1] if rank else 0 : self.index[rank]]

    def neighbours(self, rank: int) -> Neighbours:
        """Returns where messages come from and where they go to."""
        found = self.of(rank)
        return found, found


class Distributed:
    """A directed graph of which each member knows its own edges; `weights` of those in and out, if it has any."""

    kind = DIST_GRAPH
    cartesian = False

    def __init__(
        self, sources: Sequence[int], destinations: Sequence[int], weights: tuple[list[int], list[int]] | None
    ) -> None:
        self.sources = list(sources)
        self.destinations = list(destinations)
        self.weights = weights

    def neighbours(self, rank: int) -> Neighbours:
        """Returns where messages come from and where they go to."""
        return self.sources, self.destinations


def balanced(nodes: int, dims: Sequence[int]) -> list[int]:
    """Returns dimensions whose product is `nodes`, those that are 0 as equal as can be and in falling order."""
    found = [int(extent) for extent in dims]
    if any(extent < 0 for extent in found):
        raise MPIException(ERR_DIMS, f"dimensions {found}: none is negative")
    fixed = prod(extent for extent in found if extent)
    free = [place for place, extent in enumerate(found) if extent == 0]
    if nodes < 1 or nodes % fixed or (not free and nodes != fixed):
        raise MPIException(ERR_DIMS, f"{nodes} processes do not fill the dimensions {found}")
    for place, extent in zip(free, _factors(nodes // fixed, len(free)), strict=True):
        found[place] = extent
    return found


def _factors(number: int, count: int) -> list[int]:
    """Returns `count` factors of a number, in falling order, the largest as small as can be."""
    if count == 0:
        return []
    best = [number] + [1] * (count - 1)
    pending: list[tuple[list[int], int]] = [([], number)]
    while pending:
        chosen, rest = pending.pop()
        if len(chosen) == count - 1:
            candidate = [*chosen, rest]
            if rest <= (chosen[-1] if chosen else rest) and candidate < best:
                best = candidate
            continue
        limit = chosen[-1] if chosen else min(rest, best[0])
        left = count - len(chosen)
        for factor in range(1, min(rest, limit) + 1):
            if rest % factor == 0 and factor**left >= rest:
                pending.append(([*chosen, factor], rest // factor))
    return best
