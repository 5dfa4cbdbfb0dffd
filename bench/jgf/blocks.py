"""How JGF deals a vector to the ranks: equal blocks of whole units, the last rank has the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Blocks:
    total: int
    ranks: int
    unit: int = 1

    @property
    def usual(self) -> int:
        """The length of every block except the last."""
        return -(-(self.total // self.unit) // self.ranks) * self.unit

    def length(self, rank: int) -> int:
        return self.usual if rank < self.ranks - 1 else self.total - self.usual * (self.ranks - 1)

    def of(self, rank: int) -> slice:
        return slice(self.usual * rank, self.usual * rank + self.length(rank))

    @property
    def usable(self) -> bool:
        """Whether every rank has something."""
        return self.length(self.ranks - 1) > 0
