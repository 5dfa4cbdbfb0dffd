"""The trees along which data spread and results gather (the F-MPJ thesis, section 5.2, figures 5.2 to 5.4)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


class Child:
    """A rank below another, and the ranks of its whole subtree: first to end - 1."""

    __slots__ = ("end", "first", "rank")

    def __init__(self, rank: int, first: int = -1, end: int = -1) -> None:
        self.rank, self.first, self.end = rank, first, end


class Tree:
    """One rank's place in a tree: the parent (-1 at the root), the children in the order in which data that spread
    reach them, and this rank's own subtree, where subtrees are runs of ranks."""

    __slots__ = ("children", "end", "first", "parent")

    def __init__(self, parent: int, children: Iterable[Child], first: int = -1, end: int = -1) -> None:
        self.parent, self.children = parent, tuple(children)
        self.first, self.end = first, end


@lru_cache(4096)
def minimum_spanning(rank: int, size: int, root: int) -> Tree:
    """Halve the ranks: the root serves one of the other half, then each half goes on by itself (figure 5.3)."""
    first, end, parent = 0, size, -1
    children: list[Child] = []
    low, high = (0, size) if rank == root else (rank, rank + 1)
    while end - first > 1:
        middle = (first + end + 1) // 2
        if root < middle:
            other, lower, upper = end - 1, middle, end
        else:
            other, lower, upper = first, first, middle
        if rank == root:
            children.append(Child(other, lower, upper))
        if lower <= rank < upper:  # this rank's half is the one that is served
            if rank == other:
                parent, low, high = root, lower, upper
            root, first, end = other, lower, upper
        elif root < middle:
            end = middle
        else:
            first = middle
    return Tree(parent, children, low, high)


@lru_cache(4096)
def binomial(rank: int, size: int, root: int) -> Tree:
    """In step i ranks 0 to 2^(i-1) serve those 2^(i-1) above them, counted from the root."""
    place = (rank - root) % size
    high = place.bit_length()
    parent = -1 if place == 0 else (place - (1 << (high - 1)) + root) % size
    children = []
    distance = 1 << high
    while place + distance < size:
        below = (place + distance + root) % size
        children.append(Child(below))
        distance <<= 1
    return Tree(parent, children)


@lru_cache(4096)
def binomial_reversed(rank: int, size: int, root: int) -> Tree:
    """In step i the places that are odd multiples of 2^(i-1) give to those 2^(i-1) below: subtrees are runs of
    places (of ranks where the root is 0), so partial results keep the ranks' order."""
    place = (rank - root) % size
    children = []
    distance = 1
    while not place & distance and place + distance < size:
        children.append(Child((place + distance + root) % size))
        distance <<= 1
    parent = -1 if place == 0 else ((place & (place - 1)) + root) % size
    return Tree(parent, reversed(children))


@lru_cache(4096)
def four_ary(rank: int, size: int, root: int) -> Tree:
    """Each rank has up to four children."""
    place = (rank - root) % size
    parent = -1 if place == 0 else ((place - 1) // 4 + root) % size
    below = range(4 * place + 1, min(4 * place + 5, size))
    return Tree(parent, [Child((child + root) % size) for child in below])


@lru_cache(4096)
def flat(rank: int, size: int, root: int) -> Tree:
    """The root serves all others itself."""
    if rank != root:
        return Tree(root, (), rank, rank + 1)
    return Tree(-1, [Child(other, other, other + 1) for other in range(size) if other != root], 0, size)
