"""Any number of ranks as a power of two of places, for algorithms that pair them.

Neighbours share a place until their number is a power of two, so that each run of places is a run of ranks: what is
computed on places stays in the order of the ranks.
"""

from __future__ import annotations

from functools import lru_cache


class Folding:
    """One rank's part: its place (-1: the rank below holds that for both), the other rank that shares the place (-1:
    none), how many places there are and how many of them, the first ones, are shared."""

    __slots__ = ("extra", "other", "place", "places")

    def __init__(self, place: int, other: int, places: int, extra: int) -> None:
        self.place, self.other, self.places, self.extra = place, other, places, extra

    @staticmethod
    @lru_cache(4096)
    def of(rank: int, size: int) -> Folding:
        """The part of a rank among so many."""
        places = 1 << (size.bit_length() - 1)
        extra = size - places
        if rank >= 2 * extra:
            return Folding(rank - extra, -1, places, extra)
        if rank % 2:
            return Folding(-1, rank - 1, places, extra)
        return Folding(rank // 2, rank + 1, places, extra)

    def rank(self, place: int) -> int:
        """The first rank of a place (the number of ranks for the place behind the last)."""
        return 2 * place if place < self.extra else place + self.extra
