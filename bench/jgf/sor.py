"""SOR: a hundred sweeps of successive over-relaxation over a square grid, red points first, then black ones.

Each rank has a block of rows with a halo of one row on each side, exchanged after each colour. Rank 0 receives the
blocks at the end (section2/sor/SOR.java).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from jgf.blocks import Blocks
from jgf.checking import near, verdict
from jgf.constants import SOR_ACCEPTED, SOR_ITERATIONS, SOR_OMEGA, SOR_SEED, SORS, TITLE
from jgf.java_random import JavaRandom
from ranks.kernel import Kernel, Verification

PAIR = 2  # rows are dealt in pairs: the colours of a block do not depend on its rank
UPWARDS, DOWNWARDS = 2, 1  # tags
CHUNK = 16_384  # points at a time: they stay in the nearest caches


class Numpy:
    def generate(self, order: int) -> np.ndarray:
        return (JavaRandom(SOR_SEED).doubles(order * order) * 1e-6).reshape(order, order)

    def reserve(self, order: int) -> None:
        self.work = np.empty((2, max(CHUNK, order)))

    def relax(self, grid: np.ndarray, first: int, last: int, colour: int) -> None:
        """Relax the points of rows `first` to `last` - 1 whose row and column add up to odd (0) or even (1)."""
        width = grid.shape[1]
        rows = max(1, CHUNK // (width // 2)) * 2
        for start in (first, first + 1):
            left = 1 if (start + 1 + colour) % 2 else 2  # the first inner column of that colour
            for begin in range(start, last, rows):
                self._relax(grid, begin, min(begin + rows, last), left)

    def _relax(self, grid: np.ndarray, begin: int, end: int, left: int) -> None:
        """Every second row from `begin` on, in it every second column from `left` on."""
        inner = grid.shape[1] - 1
        points = grid[begin:end:2, left:inner:2]
        total, rest = (work[: points.size].reshape(points.shape) for work in self.work)
        np.add(grid[begin - 1 : end - 1 : 2, left:inner:2], grid[begin + 1 : end + 1 : 2, left:inner:2], out=total)
        total += grid[begin:end:2, left - 1 : inner - 1 : 2]
        total += grid[begin:end:2, left + 1 : inner + 1 : 2]
        total *= SOR_OMEGA * 0.25
        np.multiply(points, 1.0 - SOR_OMEGA, out=rest)
        np.add(total, rest, out=points)

    def total(self, grid: np.ndarray) -> float:
        """The sum of the inner points, one after the other as JGF adds them."""
        return float(np.cumsum(grid[1:-1, 1:-1])[-1])


class Skeleton(Numpy):
    def generate(self, order: int) -> np.ndarray:
        return np.zeros((order, order))

    def reserve(self, order: int) -> None:
        pass

    def relax(self, grid: np.ndarray, first: int, last: int, colour: int) -> None:
        pass


class SOR(Kernel):
    name = "SOR"
    title = TITLE
    problems = SORS
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Numpy) -> None:
        super().__init__(comm, problem, arithmetic)
        self.order = SORS[problem].order
        self.blocks = Blocks(self.order, comm.Get_size(), PAIR)
        self.size = f"{self.order} x {self.order}"
        self.iterations = SOR_ITERATIONS

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        return lambda ranks: Blocks(SORS[problem].order, ranks, PAIR).usable

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        order = SORS[problem].order
        return 8 * order * (6 * order + 2 * ranks) + 16 * CHUNK * ranks  # the most while rank 0 draws the grid

    def prepare(self) -> None:
        """Rank 0 draws the grid and deals the blocks with their halos; beyond the grid these are zero."""
        comm, rank, ranks = self.comm, self.comm.Get_rank(), self.comm.Get_size()
        self.arithmetic.reserve(self.order)
        self.mine = np.zeros((self.blocks.length(rank) + 2, self.order))
        above, below = int(rank > 0), int(rank < ranks - 1)
        mine = self.mine[1 - above : len(self.mine) - 1 + below]
        if rank == 0:
            self.grid = self.arithmetic.generate(self.order)
            mine[:] = self.grid[: len(mine)]
            for other in range(1, ranks):
                block = self.blocks.of(other)
                comm.Send(self.grid[block.start - 1 : block.stop + 1], dest=other, tag=other)
        else:
            comm.Recv(mine, source=0, tag=rank)

    def run(self) -> None:
        comm, rank, ranks = self.comm, self.comm.Get_rank(), self.comm.Get_size()
        first = 2 if rank == 0 else 1  # the grid's own first and last row stay as they are
        last = len(self.mine) - (2 if rank == ranks - 1 else 1)
        comm.Barrier()
        for half in range(2 * self.iterations):
            self.arithmetic.relax(self.mine, first, last, half % 2)
            self.exchange()
        comm.Barrier()
        self.collect()
        comm.Barrier()

    def exchange(self) -> None:
        """The halos, with the rank below first, as JGF has it."""
        comm, rank, mine = self.comm, self.comm.Get_rank(), self.mine
        if rank < comm.Get_size() - 1:
            comm.Sendrecv(mine[-2], rank + 1, DOWNWARDS, recvbuf=mine[-1], source=rank + 1, recvtag=UPWARDS)
        if rank > 0:
            comm.Sendrecv(mine[1], rank - 1, UPWARDS, recvbuf=mine[0], source=rank - 1, recvtag=DOWNWARDS)

    def collect(self) -> None:
        comm, rank = self.comm, self.comm.Get_rank()
        if rank != 0:
            comm.Ssend(self.mine[1:-1], dest=0, tag=rank)
            return
        self.grid[self.blocks.of(0)] = self.mine[1:-1]
        for other in range(1, comm.Get_size()):
            comm.Recv(self.grid[self.blocks.of(other)], source=other, tag=other)

    def verify(self) -> Verification:
        if self.comm.Get_rank() != 0:
            return verdict()
        total = self.arithmetic.total(self.grid)
        return verdict(near("sum of the inner points", total, SORS[self.problem].total, SOR_ACCEPTED))

    def operations(self) -> float:
        return 0.0  # JGF counts iterations
