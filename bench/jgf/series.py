"""Series: the first Fourier coefficients of (x + 1)^x on [0, 2], each by the trapezoidal rule of a thousand steps.

Each rank has a block of the pairs; rank 0 gathers the two arrays (section2/series/SeriesTest.java).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from jgf.blocks import Blocks
from jgf.checking import near, verdict
from jgf.constants import SERIES, SERIES_ACCEPTED, SERIES_FIRST, SERIES_STEPS, TITLE
from ranks.kernel import Kernel, Verification

CHUNK = 32  # coefficients at a time: the angles stay in the nearest caches


class Numpy:
    def reserve(self) -> None:
        """The abscissas, by adding up the step as JGF does, and the function's values there with their weights.

        JGF's loop ends one step early: the point before the upper bound is left out, and the accepted values with it.
        """
        step = 2.0 / SERIES_STEPS
        inner = np.cumsum(np.full(SERIES_STEPS - 2, step))
        self.points = np.concatenate(([0.0], inner, [2.0]))
        self.values = (self.points + 1.0) ** self.points * step
        self.values[[0, -1]] *= 0.5
        self.angles = np.empty((CHUNK, len(self.points)))
        self.waves = np.empty_like(self.angles)

    def coefficients(self, first: int, cosines: np.ndarray, sines: np.ndarray) -> None:
        """Fill in the pairs from number `first` on."""
        for begin in range(0, len(cosines), CHUNK):
            end = min(begin + CHUNK, len(cosines))
            angles, waves = self.angles[: end - begin], self.waves[: end - begin]
            np.multiply(np.pi * np.arange(first + begin, first + end)[:, None], self.points, out=angles)
            np.matmul(np.cos(angles, out=waves), self.values, out=cosines[begin:end])
            np.matmul(np.sin(angles, out=waves), self.values, out=sines[begin:end])
        if first == 0:
            cosines[0] /= 2.0


class Skeleton(Numpy):
    def reserve(self) -> None:
        pass

    def coefficients(self, first: int, cosines: np.ndarray, sines: np.ndarray) -> None:
        pass


class Series(Kernel):
    name = "Series"
    title = TITLE
    problems = SERIES
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Numpy) -> None:
        super().__init__(comm, problem, arithmetic)
        self.blocks = Blocks(SERIES[problem], comm.Get_size())
        self.size = f"{SERIES[problem]} pairs"
        self.iterations = 1

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        return lambda ranks: Blocks(SERIES[problem], ranks).usable

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        return 16 * (2 * SERIES[problem] + ranks * CHUNK * SERIES_STEPS)

    def prepare(self) -> None:
        rank = self.comm.Get_rank()
        self.arithmetic.reserve()
        self.mine = np.zeros((2, self.blocks.length(rank)))
        if rank == 0:
            self.pairs = np.zeros((2, self.blocks.total))

    def run(self) -> None:
        comm, rank, ranks = self.comm, self.comm.Get_rank(), self.comm.Get_size()
        self.arithmetic.coefficients(self.blocks.of(rank).start, self.mine[0], self.mine[1])
        comm.Barrier()
        if rank == 0:
            self.pairs[:, self.blocks.of(0)] = self.mine
            for other in range(1, ranks):
                comm.Recv(self.pairs[0, self.blocks.of(other)], source=other, tag=other)
                comm.Recv(self.pairs[1, self.blocks.of(other)], source=other, tag=other + ranks)
        else:
            comm.Ssend(self.mine[0], dest=0, tag=rank)
            comm.Ssend(self.mine[1], dest=0, tag=rank + ranks)
        comm.Barrier()

    def verify(self) -> Verification:
        if self.comm.Get_rank() != 0:
            return verdict()
        return verdict(
            *(
                near(f"{letter}[{i}]", float(self.pairs[row, i]), SERIES_FIRST[i][row], SERIES_ACCEPTED)
                for i in range(len(SERIES_FIRST))
                for row, letter in enumerate("ab")
            )
        )

    def operations(self) -> float:
        return 0.0  # JGF counts coefficients
