"""Buffers seen as one block per rank."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .exchange import Exchange
    from .protocols import Data, View


Placed = tuple[memoryview, list[int], list[int]]
"""A buffer, and the sizes and places of blocks in it."""


class Blocks:
    """One block per rank, one after the other in one buffer."""

    __slots__ = ("_start", "bounds", "data")

    def __init__(self, data: View, bounds: Sequence[int], first: int = 0) -> None:
        """Block i is at bounds[i] to bounds[i + 1]; `data` begins with block `first`."""
        self.data, self.bounds, self._start = data, bounds, bounds[first]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, rank: int) -> View:
        return self.data[self.bounds[rank] - self._start : self.bounds[rank + 1] - self._start]

    def range(self, first: int, end: int) -> Data:
        """The blocks of ranks first to end - 1, as what one message carries."""
        return self.data[self.bounds[first] - self._start : self.bounds[end] - self._start]

    def nbytes(self, first: int, end: int) -> int:
        """How many bytes these blocks are."""
        return self.bounds[end] - self.bounds[first]

    def fresh(self, exchange: Exchange, first: int, end: int) -> Blocks:
        """Blocks of the same sizes in new memory, for ranks first to end - 1 only."""
        return Blocks(exchange.scratch(self.nbytes(first, end)), self.bounds, first)

    def shape(self, memory: list[View]) -> Hashable:
        """All but the memory, which is added to the list."""
        memory.append(self.data)
        return Blocks, len(self.data), tuple(self.bounds), self._start

    def on(self, buffer: Callable[[View], Any]) -> Blocks:
        """The same blocks in what `buffer` gives for their memory."""
        other = Blocks(buffer(self.data), self.bounds)
        other._start = self._start
        return other

    def placed(self) -> Placed:
        """The buffer, and the blocks' sizes and places in it."""
        bounds = self.bounds
        return self.data, [end - start for start, end in pairwise(bounds)], list(bounds[:-1])


class Separate:
    """One block per rank, each somewhere in memory, each possibly in several pieces."""

    __slots__ = ("_placed", "views")

    def __init__(self, views: Sequence[Data], placed: Placed | None = None) -> None:
        self.views, self._placed = views, placed

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, rank: int) -> View:
        view = self.views[rank]
        assert not isinstance(view, list), "a block in pieces goes by range() only"
        return view

    def range(self, first: int, end: int) -> Data:
        """The blocks of ranks first to end - 1, as what one message carries."""
        if end - first == 1:
            return self.views[first]
        return pieces(self.views[first:end])

    def nbytes(self, first: int, end: int) -> int:
        """How many bytes these blocks are."""
        return sum(map(length, self.views[first:end]))

    def fresh(self, exchange: Exchange, first: int, end: int) -> Blocks:
        """Blocks of the same sizes in new memory, for ranks first to end - 1 only."""
        bounds = [0] * (len(self.views) + 1)
        for rank in range(first, end):
            bounds[rank + 1] = bounds[rank] + length(self.views[rank])
        return Blocks(exchange.scratch(bounds[end]), bounds, first)

    def shape(self, memory: list[View]) -> Hashable:
        """All but the memory, which is added to the list."""
        lengths: list[Any] = []
        for view in self.views:
            for piece in view if isinstance(view, list) else [view]:
                memory.append(piece)
            lengths.append(tuple(map(len, view)) if isinstance(view, list) else len(view))
        return Separate, tuple(lengths)

    def on(self, buffer: Callable[[Data], Any]) -> Separate:
        """The same blocks in what `buffer` gives for their memory."""
        return Separate([buffer(view) for view in self.views])

    def placed(self) -> Placed | None:
        """The buffer, and the blocks' sizes and places in it; None where there is no such buffer."""
        return self._placed


AnyBlocks = Blocks | Separate


def equal(data: View, size: int) -> Blocks:
    """As many blocks of the same size as there are ranks."""
    each, left = divmod(len(data), size)
    if left:
        raise ValueError(f"{len(data)} bytes are no {size} blocks of one size")
    return Blocks(data, _bounds(each, size))


def sized(each: int, size: int) -> Blocks:
    """Blocks of a size, without memory yet: for `fresh`."""
    return Blocks(memoryview(b""), _bounds(each, size))


def _bounds(each: int, size: int) -> Sequence[int]:
    return range(0, each * (size + 1), each) if each else (0,) * (size + 1)


def counted(data: View, counts: Sequence[int], displacements: Sequence[int]) -> AnyBlocks:
    """Blocks of these sizes at these places, in bytes."""
    bounds = [0]
    for count in counts:
        bounds.append(bounds[-1] + count)
    if list(displacements) == bounds[:-1]:
        return Blocks(data[: bounds[-1]], bounds)
    views = [data[at : at + count] for at, count in zip(displacements, counts, strict=True)]
    return Separate(views, (data, list(counts), list(displacements)))


def separate(views: Sequence[Data]) -> Separate:
    """A block per rank, each with memory of its own."""
    return Separate(views)


def grouped(blocks: AnyBlocks, groups: Iterable[Sequence[int]]) -> Separate:
    """The blocks of several ranks as one block for each group of them."""
    return Separate(
        [
            blocks.range(ranks[0], ranks[-1] + 1)
            if ranks[-1] - ranks[0] == len(ranks) - 1
            else pieces([blocks.range(rank, rank + 1) for rank in ranks])
            for ranks in groups
        ]
    )


def arranged(exchange: Exchange, blocks: Blocks, groups: Sequence[Sequence[int]]) -> Blocks:
    """One block for each group of ranks, one after the other: a copy unless they stand so already."""
    bounds = [0]
    for ranks in groups:
        bounds.append(bounds[-1] + sum(blocks.nbytes(rank, rank + 1) for rank in ranks))
    order = [rank for ranks in groups for rank in ranks]
    if order == sorted(order):
        return Blocks(blocks.data, bounds)
    data = exchange.scratch(bounds[-1])
    at = 0
    for rank in order:
        block = blocks[rank]
        data[at : at + len(block)] = block
        at += len(block)
    return Blocks(data, bounds)


def chosen(blocks: AnyBlocks, ranks: Sequence[int]) -> Separate:
    """The blocks of some ranks only."""
    return Separate([blocks.range(rank, rank + 1) for rank in ranks])


def cut(nbytes: int, itemsize: int, parts: int) -> list[int]:
    """Bounds that cut a vector into parts of about one size, between elements only."""
    items = nbytes // itemsize
    return [items * part // parts * itemsize for part in range(parts)] + [nbytes]


def pieces(several: Iterable[Data]) -> list[View]:
    """What several messages would carry, as one message's pieces."""
    found: list[View] = []
    for data in several:
        if isinstance(data, list):
            found.extend(data)
        else:
            found.append(data)
    return found


def length(data: Data) -> int:
    """How many bytes a message with these data carries."""
    return sum(map(len, data)) if isinstance(data, list) else len(data)
