"""SparseMatmult: y += A x, two hundred times, A as triplets in no order.

Each rank has a block of the triplets and adds to its own y; an Allreduce adds those up after each product
(section2/sparsematmult/SparseMatmult.java). A compiled loop gained 1.65 and 1.84 times over this product in two runs. A
kernel has one only where it gains twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from jgf.blocks import Blocks
from jgf.checking import near, verdict
from jgf.constants import SPARSE, SPARSE_ACCEPTED, SPARSE_ITERATIONS, SPARSE_SEED, TITLE
from jgf.java_random import JavaRandom, as_doubles, as_ints
from mpi4py import MPI
from ranks.kernel import Kernel, Verification

STATES = 4  # of the generator, for a triplet: row, column, two for the value


class Numpy:
    def generate(self, rows: int, nonzeros: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """x, then rows, columns and values of the nonzeros; row, column and value are drawn by turns."""
        random = JavaRandom(SPARSE_SEED)
        x = random.doubles(rows) * 1e-6
        states = random.states(STATES * nonzeros).reshape(nonzeros, STATES)
        row, column = (np.abs(as_ints(states[:, i]).astype(np.int64)) % rows for i in (0, 1))
        return x, row.astype(np.intc), column.astype(np.intc), as_doubles(states[:, 2], states[:, 3])

    def reserve(self, x: np.ndarray, row: np.ndarray, column: np.ndarray, values: np.ndarray) -> None:
        self.x, self.values = x, values
        self.row, self.column = row.astype(np.intp), column.astype(np.intp)
        self.products = np.empty_like(values)

    def multiply(self, y: np.ndarray) -> None:
        """y += A x, of this rank's triplets."""
        np.take(self.x, self.column, out=self.products, mode="clip")  # any other mode copies through a buffer
        self.products *= self.values
        y += np.bincount(self.row, self.products, len(y))

    def total(self, y: np.ndarray, row: np.ndarray) -> float:
        return float(y[row].sum())


class Skeleton(Numpy):
    def generate(self, rows: int, nonzeros: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros(rows), np.zeros(nonzeros, np.intc), np.zeros(nonzeros, np.intc), np.zeros(nonzeros)

    def reserve(self, x: np.ndarray, row: np.ndarray, column: np.ndarray, values: np.ndarray) -> None:
        pass

    def multiply(self, y: np.ndarray) -> None:
        pass


class SparseMatmult(Kernel):
    name = "SparseMatmult"
    title = TITLE
    problems = SPARSE
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Numpy) -> None:
        super().__init__(comm, problem, arithmetic)
        self.rows = SPARSE[problem].rows
        self.blocks = Blocks(SPARSE[problem].nonzeros, comm.Get_size())
        self.size = f"{self.rows} rows, {self.blocks.total} nonzeros"
        self.iterations = SPARSE_ITERATIONS

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        return lambda ranks: Blocks(SPARSE[problem].nonzeros, ranks).usable

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        sizes = SPARSE[problem]
        generating = 8 * 3 * STATES * sizes.nonzeros
        return max(generating, 56 * sizes.nonzeros) + 8 * 4 * ranks * sizes.rows

    def prepare(self) -> None:
        """Rank 0 draws the matrix and deals the triplets."""
        comm, rank, ranks = self.comm, self.comm.Get_rank(), self.comm.Get_size()
        own = self.blocks.length(rank)
        if rank == 0:
            x, self.row, column, values = self.arithmetic.generate(self.rows, self.blocks.total)
            for other in range(1, ranks):
                for tag, array in enumerate((self.row, column, values), 1):
                    comm.Ssend(array[self.blocks.of(other)], dest=other, tag=tag)
            mine = (self.row[:own], column[:own], values[:own])
        else:
            x = self.arithmetic.generate(self.rows, 0)[0]
            mine = (np.empty(own, np.intc), np.empty(own, np.intc), np.empty(own))
            for tag, array in enumerate(mine, 1):
                comm.Recv(array, source=0, tag=tag)
        self.arithmetic.reserve(x, *mine)
        self.own, self.y = np.zeros((2, self.rows))

    def run(self) -> None:
        self.comm.Barrier()
        for _ in range(self.iterations):
            self.arithmetic.multiply(self.own)
            self.comm.Allreduce(self.own, self.y, op=MPI.SUM)
        self.comm.Barrier()

    def verify(self) -> Verification:
        if self.comm.Get_rank() != 0:
            return verdict()
        total = self.arithmetic.total(self.y, self.row)
        return verdict(near("sum of y over the nonzeros", total, SPARSE[self.problem].total, SPARSE_ACCEPTED))

    def operations(self) -> float:
        return 0.0  # JGF counts iterations
