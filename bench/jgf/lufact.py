"""LUFact: Linpack's LU factorisation with partial pivoting, then the solution of one system.

Columns are dealt to the ranks cyclically. For each column its owner finds the pivot, computes the multipliers and
broadcasts the column, then the pivot; every rank eliminates in its own columns. Rank 0 receives the factors column by
column and solves (section2/lufact/Linpack.java).

The generator has a period of 16,384, so in size C row i + 1024 is row i: the rank is 1024 of 2000, and the last pivots
are rounding errors or zero. JGF's solution is then no number, and its check lets that pass. Here it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from jgf.checking import verdict
from jgf.congruential import sequence
from jgf.constants import LUFACT, LUFACT_MULTIPLIER, LUFACT_SEED, TITLE
from ranks.kernel import Kernel, Verification

CHUNK = 16_384  # elements of a product at a time: it stays in the nearest caches


class Numpy:
    """A matrix is an array of columns, one element longer than its order, as Linpack's leading dimension is."""

    def reserve(self, order: int) -> None:
        self.order = order
        self.product = np.empty(max(CHUNK, order))

    def generate(self, order: int) -> np.ndarray:
        """Linpack's matrix: in (-2, 2), row after row from one generator."""
        states = sequence(LUFACT_SEED, LUFACT_MULTIPLIER, 0, 16, order * order)
        columns = np.zeros((order, order + 1))
        columns[:, :order] = ((states.astype(np.float64) - 32768.0) / 16384.0).reshape(order, order).T
        return columns

    def right_side(self, columns: np.ndarray) -> np.ndarray:
        """The sums of the matrix's rows: the solution is all ones."""
        return np.add.reduce(columns[:, :-1], axis=0)

    def multipliers(self, column: np.ndarray, k: int) -> int:
        """The row of column `k`'s pivot. The column then holds the pivot at `k`, the negated factors below it."""
        below = column[k : self.order]
        pivot = k + int(np.argmax(np.abs(below)))
        if column[pivot] != 0.0:
            column[k], column[pivot] = column[pivot], column[k]
            below[1:] *= -1.0 / column[k]
        return pivot

    def eliminate(self, columns: np.ndarray, column: np.ndarray, k: int, pivot: int) -> None:
        """Exchange rows `k` and `pivot` of `columns`, all right of column `k`; add multiples of row `k` below."""
        if column[k] == 0.0:
            return
        factors = columns[:, pivot].copy()
        if pivot != k:
            columns[:, pivot] = columns[:, k]
            columns[:, k] = factors
        multipliers = column[k + 1 : self.order]
        width = len(multipliers)
        step = max(1, CHUNK // width)
        for begin in range(0, len(columns), step):
            part = columns[begin : begin + step, k + 1 : self.order]
            product = self.product[: part.size].reshape(part.shape)
            np.multiply(factors[begin : begin + step, None], multipliers, out=product)
            part += product

    def solve(self, columns: np.ndarray, pivots: np.ndarray, b: np.ndarray) -> np.ndarray:
        """A solution, from the factors. Where a pivot is zero the unknown is free: Linpack divides, here it is zero."""
        n, x = self.order, b.copy()
        for k, pivot in enumerate(pivots[: n - 1]):
            x[k], x[pivot] = x[pivot], x[k]
            x[k + 1 :] += x[k] * columns[k, k + 1 : n]
        for k in range(n - 1, -1, -1):
            x[k] = x[k] / columns[k, k] if columns[k, k] != 0.0 else 0.0
            x[:k] -= x[k] * columns[k, :k]
        return x

    def residual(self, x: np.ndarray) -> float:
        """Linpack's normalised residual of `x`. The matrix's norm is its largest element, as in JGF."""
        columns = self.generate(self.order)
        left = np.abs(x @ columns[:, :-1] - self.right_side(columns)).max()
        return float(left / (self.order * columns.max() * np.abs(x).max() * np.finfo(float).eps))


class Skeleton(Numpy):
    def reserve(self, order: int) -> None:
        pass

    def generate(self, order: int) -> np.ndarray:
        return np.full((order, order + 1), 0.0)  # written, as the numbers would be: page faults are no calls

    def right_side(self, columns: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def multipliers(self, column: np.ndarray, k: int) -> int:
        return k

    def eliminate(self, columns: np.ndarray, column: np.ndarray, k: int, pivot: int) -> None:
        pass

    def solve(self, columns: np.ndarray, pivots: np.ndarray, b: np.ndarray) -> np.ndarray:
        return b


class LUFact(Kernel):
    name = "LUFact"
    title = TITLE
    problems = LUFACT
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Numpy) -> None:
        super().__init__(comm, problem, arithmetic)
        self.order = LUFACT[problem].order
        self.size = f"{self.order} x {self.order}"
        self.iterations = 1

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        return lambda ranks: 1 <= ranks <= LUFACT[problem].order

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        order = LUFACT[problem].order
        return 8 * (4 * order * (order + 1) + ranks * (CHUNK + 3 * order))  # the most while rank 0 generates

    def prepare(self) -> None:
        """Rank 0 generates the matrix and deals the columns."""
        comm, rank, ranks = self.comm, self.comm.Get_rank(), self.comm.Get_size()
        self.arithmetic.reserve(self.order)
        self.received = np.zeros(self.order + 1)
        self.pivots = np.zeros(self.order, np.intc)
        self.pivots[-1] = self.order - 1
        if rank == 0:
            self.matrix = self.arithmetic.generate(self.order)
            self.b = self.arithmetic.right_side(self.matrix)
            self.columns = self.matrix[::ranks].copy()
            for j in range(self.order):
                if j % ranks != 0:
                    comm.Send(self.matrix[j], dest=j % ranks, tag=10)
        else:
            self.columns = np.empty((len(range(rank, self.order, ranks)), self.order + 1))
            for column in self.columns:
                comm.Recv(column, source=0, tag=10)

    def run(self) -> None:
        comm, rank = self.comm, self.comm.Get_rank()
        comm.Barrier()
        self.factorise()
        self.collect()
        if rank == 0:
            self.x = self.arithmetic.solve(self.matrix, self.pivots, self.b)
        comm.Barrier()

    def factorise(self) -> None:
        comm, arithmetic, rank, ranks = self.comm, self.arithmetic, self.comm.Get_rank(), self.comm.Get_size()
        mine = 0  # of my columns, those at or left of k
        for k in range(self.order - 1):
            owner = k % ranks
            column, pivot = self.received, self.pivots[k : k + 1]
            if owner == rank:
                column = self.columns[mine]
                pivot[0] = arithmetic.multipliers(column, k)
                mine += 1
            comm.Bcast(column, root=owner)
            comm.Bcast(pivot, root=owner)
            arithmetic.eliminate(self.columns[mine:], column, k, int(pivot[0]))

    def collect(self) -> None:
        comm, rank, ranks = self.comm, self.comm.Get_rank(), self.comm.Get_size()
        if rank != 0:
            for column in self.columns:
                comm.Send(column, dest=0, tag=10)
            return
        self.matrix[::ranks] = self.columns
        for j in range(self.order):
            if j % ranks != 0:
                comm.Recv(self.matrix[j], source=j % ranks, tag=10)

    def verify(self) -> Verification:
        if self.comm.Get_rank() != 0:
            return verdict()
        residual = self.arithmetic.residual(self.x)
        return verdict(("normalised residual", residual, 0.0, residual, LUFACT[self.problem].residual))

    def operations(self) -> float:
        return 2.0 / 3.0 * self.order**3 + 2.0 * self.order**2
