"""NPB's EP: pairs of normal deviates by acceptance and rejection, counted in square annuli (EP/ep.f).

Batches of 2^16 pairs are dealt to the ranks in blocks. The only communication is at the end: three sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from mpi4py import MPI
from npb import constants, generator
from ranks.kernel import Kernel, Verification

PAIRS = 1 << constants.EP_BATCH_LOG2
PIECE = 1 << 13  # pairs at a time: the arrays stay in the nearest caches


class Numpy:
    def reserve(self) -> None:
        """The arrays of a piece."""
        self.uniform = np.empty(2 * PIECE)
        self.squares = np.empty(PIECE)

    def batch(self, number: int, sums: np.ndarray, counts: np.ndarray) -> None:
        """Add the sums and the counts of one batch."""
        seed = generator.jump(generator.SEED_EP, 2 * PAIRS * number)
        for _ in range(0, PAIRS, PIECE):
            generator.uniform(seed, 2 * PIECE, out=self.uniform)
            seed = generator.jump(seed, 2 * PIECE)
            self._piece(sums, counts)

    def _piece(self, sums: np.ndarray, counts: np.ndarray) -> None:
        uniform = self.uniform
        uniform *= 2
        uniform -= 1
        x, y = uniform[0::2], uniform[1::2]
        np.multiply(x, x, out=self.squares)
        self.squares += y * y
        inside = self.squares <= 1
        t = self.squares[inside]
        factor = np.sqrt(-2 * np.log(t) / t)
        x, y = x[inside] * factor, y[inside] * factor
        largest = np.maximum(np.abs(x), np.abs(y)).astype(np.intp)
        counts += np.bincount(largest, minlength=len(counts))
        sums += x.sum(), y.sum()


class Skeleton(Numpy):
    def batch(self, number: int, sums: np.ndarray, counts: np.ndarray) -> None:
        pass


class EP(Kernel):
    name = "EP"
    problems = constants.EP
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "skeleton": Skeleton}
    counted = "Random numbers generated"

    def __init__(self, comm: Any, problem: str, arithmetic: Numpy) -> None:
        super().__init__(comm, problem, arithmetic)
        self.of = constants.EP[problem]
        self.size = str(2 << self.of.pairs_log2)
        self.iterations = 0  # as NPB's block says
        batches, ranks, rank = 1 << (self.of.pairs_log2 - constants.EP_BATCH_LOG2), comm.Get_size(), comm.Get_rank()
        each, more = divmod(batches, ranks)
        first = rank * each + min(rank, more)
        self.batches = range(first, first + each + (rank < more))

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        batches = 1 << (constants.EP[problem].pairs_log2 - constants.EP_BATCH_LOG2)
        return lambda ranks: 1 <= ranks <= batches

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        # numbers, states, powers, and the temporaries of a piece
        return ranks * 8 * (2 * generator.BLOCK + 12 * PIECE)

    def prepare(self) -> None:
        self.arithmetic.reserve()
        self.sums, self.counts = np.zeros(2), np.zeros(constants.EP_ANNULI)
        self.total_sums, self.total_counts = np.zeros(2), np.zeros(constants.EP_ANNULI)
        # NPB calls the generator and the functions once before the clock
        self.arithmetic.batch(0, np.zeros(2), np.zeros(constants.EP_ANNULI))

    def run(self) -> None:
        for number in self.batches:
            self.arithmetic.batch(number, self.sums, self.counts)
        for axis in range(2):
            self.comm.Allreduce(self.sums[axis : axis + 1], self.total_sums[axis : axis + 1], MPI.SUM)
        self.comm.Allreduce(self.counts, self.total_counts, MPI.SUM)

    def verify(self) -> Verification:
        x, y = map(float, self.total_sums)
        return Verification.relative(
            [("sum of x", x, self.of.sum_x), ("sum of y", y, self.of.sum_y)], constants.EP_ACCEPTED
        )

    def operations(self) -> float:
        return float(2 << self.of.pairs_log2)
