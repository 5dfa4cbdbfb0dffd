"""CG: the smallest eigenvalue of a sparse symmetric matrix by inverse iteration (NPB 3.4, CG/cg.f).

The ranks stand in a grid of two dimensions. Each holds one block of the matrix; sums along a row of the grid and
exchanges with the transposed rank go by Irecv, Send and Wait.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from npb import constants, generator
from ranks.kernel import Kernel, Verification, power_of_two

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STEPS = 25  # of the conjugate gradient in each iteration


class Block(NamedTuple):
    """The rows and columns, half open, of the matrix that a rank holds."""

    rows: range
    columns: range


class Sparse(NamedTuple):
    """A block by compressed rows: row i has values[starts[i]:starts[i + 1]] in the columns of the same places."""

    values: np.ndarray  # float64
    columns: np.ndarray  # int64, within the block
    starts: np.ndarray  # int64, one more than rows


class Exchange(NamedTuple):
    """One stage of a sum along the grid's row, as views of the work arrays made once."""

    peer: int
    tag: int
    sent: np.ndarray
    received: np.ndarray
    summed: np.ndarray


class Grid:
    """Where a rank stands, by setup_submatrix_info of CG/cg.f, with offsets that begin at 0."""

    def __init__(self, order: int, rank: int, ranks: int) -> None:
        power = ranks.bit_length() - 1
        self.down = 2 ** (power // 2)
        self.across = ranks // self.down
        self.row, self.column = divmod(rank, self.across)
        self.rank = rank
        self.square = self.across == self.down
        rows = _share(order, self.down, self.row)
        if self.square:
            columns = _share(order, self.across, self.column)
        else:
            pair = _share(order, self.across // 2, self.column // 2)
            middle = pair.start + (len(pair) + 1) // 2
            columns = range(pair.start, middle) if rank % 2 == 0 else range(middle, pair.stop)
        self.block = Block(rows, columns)
        # The part of the row's sum that this rank passes to its transposed rank.
        half = (len(rows) + 1) // 2
        if self.square:
            self.passed = slice(0, len(rows))
            self.transposed = rank % self.down * self.down + rank // self.down
        else:
            self.passed = slice(0, half) if rank % 2 == 0 else slice(half, len(rows))
            self.transposed = 2 * (rank // 2 % self.down * self.down + rank // 2 // self.down) + rank % 2
        self.stages = self.across.bit_length() - 1

    def peer(self, stage: int) -> int:
        """The partner in a stage, 1 to stages, of a sum along the row: a butterfly whose span halves."""
        span = self.across >> (stage - 1)
        return self.row * self.across + (self.column + span // 2) % span + self.column // span * span

    def sent(self, stage: int) -> slice:
        """What of the product goes to the partner of a stage: at first its half, later the sum so far."""
        if self.square or stage != self.stages:
            return self.passed
        length = len(self.block.rows)
        return slice(self.passed.stop, length) if self.rank % 2 == 0 else slice(0, self.passed.start)


def _share(length: int, parts: int, part: int) -> range:
    """One of the parts of 0..length, the first ones longer by one where it does not divide."""
    size, longer = divmod(length, parts)
    start = part * size + min(part, longer)
    return range(start, start + size + (part < longer))


class Numpy:
    """CG's arithmetic in vectors."""

    def matrix(self, problem: Any, block: Block) -> Sparse:
        """A block of the sum of random vectors' outer products; rcond - shift on the diagonal (makea of CG/cg.f)."""
        vectors, places, lengths = self.vectors(problem)
        width = places.shape[1]
        weights = (constants.CG_RCOND ** (1 / problem.rows)) ** np.arange(problem.rows)
        used = np.arange(width) < lengths[:, None]
        in_rows = used & (places >= block.rows.start) & (places < block.rows.stop)
        in_columns = used & (places >= block.columns.start) & (places < block.columns.stop)
        span = len(block.columns)
        keys, values = [], []
        for one in range(width):  # every column of one place meets every row of another
            for other in range(width):
                chosen = np.flatnonzero(in_columns[:, one] & in_rows[:, other])
                keys.append(
                    (places[chosen, other] - block.rows.start) * span + places[chosen, one] - block.columns.start
                )
                values.append(vectors[chosen, other] * (vectors[chosen, one] * weights[chosen]))
        both = np.arange(max(block.rows.start, block.columns.start), min(block.rows.stop, block.columns.stop))
        keys.append((both - block.rows.start) * span + both - block.columns.start)
        values.append(np.full(len(both), constants.CG_RCOND - problem.shift))
        return self.summed(np.concatenate(keys), np.concatenate(values), len(block.rows), span)

    def vectors(self, problem: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each row a sparse vector: values and places (rows x nonzeros + 1), how many are used (sprnvc, vecset)."""
        order, width = problem.rows, problem.nonzeros
        power = 1 << (order - 1).bit_length()
        needed = order * width
        while True:
            pairs = generator.uniform(generator.SEED, 2 * (needed * power // order + 64) + 1)[1:].reshape(-1, 2)
            places = (power * pairs[:, 1]).astype(np.int64)
            inside = places < order
            places, values = places[inside], pairs[inside, 0]
            kept = np.ones(len(places), bool)
            kept[_repeated(places, width)] = False
            places, values = places[kept], values[kept]
            if len(places) >= order * width:
                break
            needed += order * width - len(places) + width
        vectors = np.empty((order, width + 1))
        spots = np.empty((order, width + 1), np.int64)
        vectors[:, :width] = values[: order * width].reshape(order, width)
        spots[:, :width] = places[: order * width].reshape(order, width)
        own = np.arange(order)
        on_diagonal = spots[:, :width] == own[:, None]
        vectors[:, :width][on_diagonal] = 0.5
        vectors[:, width] = 0.5
        spots[:, width] = own
        return vectors, spots, np.where(on_diagonal.any(axis=1), width, width + 1)

    def summed(self, keys: np.ndarray, values: np.ndarray, rows: int, span: int) -> Sparse:
        """Elements of one place added; keys are row * span + column."""
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        values = values[order]
        first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        keys = keys[first]
        starts = np.searchsorted(keys, np.arange(rows + 1) * span)
        return Sparse(np.add.reduceat(values, first), keys % span, starts)

    def take(self, matrix: Sparse) -> None:
        """Keeps the block and makes what its product needs."""
        self.values, self.columns, starts = matrix
        self.filled = np.flatnonzero(starts[1:] > starts[:-1])
        self.starts = starts[self.filled]
        self.terms = np.empty_like(self.values)
        self.some = np.empty(len(self.filled))

    def take_lengths(self, length: int) -> None:
        self.scaled = np.empty(length)

    def product(self, vector: np.ndarray, out: np.ndarray) -> None:
        """out = block @ vector."""
        np.take(vector, self.columns, out=self.terms, mode="clip")
        np.multiply(self.terms, self.values, out=self.terms)
        if len(self.filled) == len(out):
            np.add.reduceat(self.terms, self.starts, out=out)
        else:
            np.add.reduceat(self.terms, self.starts, out=self.some)
            out[:] = 0
            out[self.filled] = self.some

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        target[:] = source

    def clear(self, target: np.ndarray) -> None:
        target[:] = 0

    def add(self, part: np.ndarray, total: np.ndarray) -> None:
        total += part

    def dot(self, one: np.ndarray, other: np.ndarray) -> float:
        return float(one @ other)

    def advance(self, target: np.ndarray, factor: float, direction: np.ndarray) -> None:
        """target += factor * direction."""
        np.multiply(direction, factor, out=self.scaled)
        target += self.scaled

    def turn(self, direction: np.ndarray, factor: float, residual: np.ndarray) -> None:
        """direction = residual + factor * direction."""
        direction *= factor
        direction += residual

    def scale(self, source: np.ndarray, factor: float, target: np.ndarray) -> None:
        np.multiply(source, factor, out=target)

    def distance(self, one: np.ndarray, other: np.ndarray) -> float:
        """The sum of the squared differences."""
        np.subtract(one, other, out=self.scaled)
        return float(self.scaled @ self.scaled)


def _repeated(places: np.ndarray, width: int) -> list[int]:
    """Which places repeat one of their own row, where a row ends once it has width different ones.

    Only a place seen within the last 2 * width can repeat one of its row; these few are looked at in turn.
    """
    order = np.argsort(places, kind="stable")
    same = places[order[1:]] == places[order[:-1]]
    later, before = order[1:][same], order[:-1][same]
    near = later - before < 2 * width
    later, before = later[near], before[near]
    in_turn = np.argsort(later)
    repeated: list[int] = []
    for place, seen in zip(later[in_turn].tolist(), before[in_turn].tolist(), strict=True):
        if (place - len(repeated)) // width == (seen - bisect_left(repeated, seen)) // width:
            repeated.append(place)
    return repeated


class Numba(Numpy):
    """The sum of the matrix's elements and its product as compiled loops."""

    def __init__(self) -> None:
        import numba

        @numba.njit
        def product(values, columns, starts, vector, out):  # type: ignore[no-untyped-def]
            for row in range(len(out)):
                total = 0.0
                for place in range(starts[row], starts[row + 1]):
                    total += values[place] * vector[columns[place]]
                out[row] = total

        self._product = product

    def take(self, matrix: Sparse) -> None:
        # Numba looks at a signed index whether it counts from the end: unsigned ones take half the time
        self.values, self.starts = matrix.values, matrix.starts.astype(np.uint64)
        self.columns = matrix.columns.astype(np.uint32)
        self._product(self.values[:0], self.columns[:0], self.starts[:1], np.empty(0), np.empty(0))

    def product(self, vector: np.ndarray, out: np.ndarray) -> None:
        self._product(self.values, self.columns, self.starts, vector, out)


class Skeleton(Numpy):
    """The same messages, nothing computed."""

    def matrix(self, problem: Any, block: Block) -> Sparse:
        return Sparse(np.empty(0), np.empty(0, np.int64), np.zeros(1, np.int64))

    def take(self, matrix: Sparse) -> None:
        pass

    def take_lengths(self, length: int) -> None:
        pass

    def product(self, vector: np.ndarray, out: np.ndarray) -> None:
        pass

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        pass

    def clear(self, target: np.ndarray) -> None:
        pass

    def add(self, part: np.ndarray, total: np.ndarray) -> None:
        pass

    def dot(self, one: np.ndarray, other: np.ndarray) -> float:
        return 1.0

    def advance(self, target: np.ndarray, factor: float, direction: np.ndarray) -> None:
        pass

    def turn(self, direction: np.ndarray, factor: float, residual: np.ndarray) -> None:
        pass

    def scale(self, source: np.ndarray, factor: float, target: np.ndarray) -> None:
        pass

    def distance(self, one: np.ndarray, other: np.ndarray) -> float:
        return 1.0


class CG(Kernel):
    """Fifteen or more inverse iterations, each of 25 steps of the conjugate gradient."""

    name = "CG"
    problems = constants.CG
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "numba": Numba, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Any) -> None:
        super().__init__(comm, problem, arithmetic)
        self.of = self.problems[problem]
        self.size, self.iterations = str(self.of.rows), self.of.iterations

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        return power_of_two

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        of = cls.problems[problem]
        # Each rank makes all vectors; elements not yet summed have values, keys and their order, twice while sorted.
        vectors = of.rows * (of.nonzeros + 1) * 8 * 8
        return ranks * vectors + of.rows * (of.nonzeros + 1) ** 2 * 8 * 6

    def prepare(self) -> None:
        comm = self.comm
        grid = Grid(self.of.rows, comm.Get_rank(), comm.Get_size())
        rows, columns = len(grid.block.rows), len(grid.block.columns)
        self.arithmetic.take(self.arithmetic.matrix(self.of, grid.block))
        self.arithmetic.take_lengths(columns)
        length = max(rows, columns)
        x, z, p, q, r, w = (np.zeros(length) for _ in range(6))
        self.x, self.z, self.p, self.q, self.r = (array[:columns] for array in (x, z, p, q, r))
        self.w = w[:rows]
        self.passed = w[grid.passed]
        self.transposed = grid.transposed
        self.along = [(grid.peer(stage), stage) for stage in range(1, grid.stages + 1)]
        self.into_q = self._exchanges(grid, w, q)
        self.into_r = self._exchanges(grid, w, r)
        self.number, self.other_number = np.zeros(1), np.zeros(1)
        self.pair, self.other_pair = np.zeros(2), np.zeros(2)
        self.zeta = self.residual = 0.0
        self.x[:] = 1
        self._iterate()

    def _exchanges(self, grid: Grid, product: np.ndarray, into: np.ndarray) -> list[Exchange]:
        return [
            Exchange(grid.peer(stage), stage, product[grid.sent(stage)], into[grid.passed], product[grid.passed])
            for stage in range(grid.stages, 0, -1)
        ]

    def run(self) -> None:
        self.x[:] = 1
        for _ in range(self.iterations):
            self._iterate()

    def _iterate(self) -> None:
        arithmetic = self.arithmetic
        self._conjugate_gradient()
        self.pair[0] = arithmetic.dot(self.x, self.z)
        self.pair[1] = arithmetic.dot(self.z, self.z)
        self._sum_along(self.pair, self.other_pair)
        self.zeta = self.of.shift + 1 / self.pair[0]
        arithmetic.scale(self.z, 1 / self.pair[1] ** 0.5, self.x)

    def _conjugate_gradient(self) -> None:
        arithmetic = self.arithmetic
        arithmetic.clear(self.z)
        arithmetic.copy(self.x, self.r)
        arithmetic.copy(self.x, self.p)
        rho = self._sum(arithmetic.dot(self.r, self.r))
        for _ in range(STEPS):
            self._multiply(self.p, self.q, self.into_q)
            alpha = rho / self._sum(arithmetic.dot(self.p, self.q))
            arithmetic.advance(self.z, alpha, self.p)
            arithmetic.advance(self.r, -alpha, self.q)
            before, rho = rho, self._sum(arithmetic.dot(self.r, self.r))
            arithmetic.turn(self.p, rho / before, self.r)
        self._multiply(self.z, self.r, self.into_r)
        self.residual = self._sum(arithmetic.distance(self.x, self.r)) ** 0.5

    def _multiply(self, vector: np.ndarray, out: np.ndarray, exchanges: list[Exchange]) -> None:
        """out = A @ vector: the block's product, summed along the grid's row, exchanged with the transposed rank."""
        comm, arithmetic = self.comm, self.arithmetic
        arithmetic.product(vector, self.w)
        for peer, tag, sent, received, summed in exchanges:
            request = comm.Irecv(received, peer, tag)
            comm.Send(sent, peer, tag)
            request.Wait()
            arithmetic.add(received, summed)
        if exchanges:
            request = comm.Irecv(out, self.transposed, 1)
            comm.Send(self.passed, self.transposed, 1)
            request.Wait()
        else:
            arithmetic.copy(self.w, out)

    def _sum(self, part: float) -> float:
        self.number[0] = part
        self._sum_along(self.number, self.other_number)
        return float(self.number[0])

    def _sum_along(self, total: np.ndarray, other: np.ndarray) -> None:
        """The sum over the grid's row, on each of its ranks; its short addition stands in a skeleton as well."""
        comm = self.comm
        for peer, tag in self.along:
            request = comm.Irecv(other, peer, tag)
            comm.Send(total, peer, tag)
            request.Wait()
            total += other

    def verify(self) -> Verification:
        return Verification.relative([("zeta", self.zeta, self.of.zeta)], constants.CG_ACCEPTED)

    def operations(self) -> float:
        filled = self.of.nonzeros * (self.of.nonzeros + 1)
        return 2 * self.iterations * self.of.rows * (3 + filled + STEPS * (5 + filled) + 3)
