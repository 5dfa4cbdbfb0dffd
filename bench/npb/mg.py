"""MG: V-cycles of a multigrid solver for Poisson's equation on a periodic cube (NPB 3.4, MG/mg.f).

Every grid level is divided over the ranks in three dimensions, with one layer of halo on each side. Faces across the
two inner dimensions are packed into buffers made once; faces across the outer one are planes and are sent as they lie.
Coarse levels may have fewer points than ranks: some ranks stand idle there, and are given their borders when the levels
become finer again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from mpi4py import MPI
from npb import constants, generator
from ranks.kernel import Kernel, Verification, power_of_two

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CHARGES = 10  # of each sign
SLAB = 1 << 15  # elements worked on at a time, so that temporaries stay in the cache
RESIDUAL = (-8 / 3, 0.0, 1 / 6, 1 / 12)  # a of MG/mg.f
INSIDE = slice(1, -1)


class Level(NamedTuple):
    """One grid level on one rank. Axes are numbered as in the arrays: 0 outermost, 2 contiguous."""

    shape: tuple[int, int, int]  # with halo
    idle: bool
    neighbours: tuple[tuple[int, int], ...]  # for each axis, towards lower and higher
    gives: tuple[bool, ...]  # for each axis, borders to a rank that was idle on the next coarser level
    takes: tuple[bool, ...]


class Place:
    """The division of all levels, by setup of MG/mg.f."""

    def __init__(self, log2: int, rank: int, ranks: int) -> None:
        power = ranks.bit_length() - 1
        inner = power // 3
        middle = (power - inner) // 2
        self.parts = (ranks >> (inner + middle), 1 << middle, 1 << inner)
        self.at = (rank >> (inner + middle), (rank >> inner) % self.parts[1], rank % self.parts[2])
        size = 1 << log2
        self.begins = tuple(size * at // parts for at, parts in zip(self.at, self.parts, strict=True))
        self.levels: list[Level] = []
        steps = [1, 1, 1]
        gives, takes = [False] * 3, [False] * 3
        for level in range(log2, 0, -1):
            points = 1 << level
            shape, gives_next, takes_next = [], [False] * 3, [False] * 3
            for axis in range(3):
                own, other = (
                    self._length(axis, self.at[axis], points),
                    self._length(axis, self.at[axis] + steps[axis], points),
                )
                if 0 in (own, other):
                    steps[axis] *= 2
                gives_next[axis] = other == 0 and own == 1
                takes_next[axis] = other == 1 and own == 0
                shape.append(own + 2)
            if self.levels:
                self.levels[-1] = self.levels[-1]._replace(gives=tuple(gives_next), takes=tuple(takes_next))
            neighbours = tuple((self._rank(axis, -steps[axis]), self._rank(axis, steps[axis])) for axis in range(3))
            self.levels.append(
                Level((shape[0], shape[1], shape[2]), 2 in shape, neighbours, tuple(gives), tuple(takes))
            )
        self.levels.reverse()

    def _length(self, axis: int, at: int, points: int) -> int:
        return (at + 1) * points // self.parts[axis] - at * points // self.parts[axis]

    def _rank(self, axis: int, step: int) -> int:
        at = list(self.at)
        at[axis] = (at[axis] + step) % self.parts[axis]
        return at[2] + self.parts[2] * (at[1] + self.parts[1] * at[0])


class Transfer(NamedTuple):
    """One message. Where view is None the buffer is the face itself."""

    peer: int
    tag: int
    buffer: np.ndarray
    view: np.ndarray | None


class Stage(NamedTuple):
    """The messages along one axis; copies instead where a single rank is its own neighbour."""

    receives: list[Transfer]
    sends: list[Transfer]
    copies: list[tuple[np.ndarray, np.ndarray]]


def _tag(axis: int, direction: int) -> int:
    return 100 * (direction + 2 + 10 * (3 - axis))


class Borders:
    """The halo of one array: what it exchanges on its level, and what idle ranks are given."""

    def __init__(self, array: np.ndarray, level: Level, ranks: int, buffers: dict[tuple[int, ...], np.ndarray]) -> None:
        self.array, self.level, self.buffers = array, level, buffers
        self.halo = [self._halo(axis, ranks) for axis in (2, 1, 0)]
        self.expansion = [self._expansion(axis) for axis in (2, 1, 0) if level.takes[axis] or level.gives[axis]]

    def _halo(self, axis: int, ranks: int) -> Stage:
        # The contiguous axis goes first, without halos; each later one takes the earlier ones' halos with it.
        others = (
            (INSIDE, INSIDE, slice(None))
            if axis == 1
            else (INSIDE, INSIDE, INSIDE)
            if axis == 2
            else (slice(None),) * 3
        )
        lower, higher = self.level.neighbours[axis]
        last = self.level.shape[axis] - 1
        face = [self._view(axis, slice(place, place + 1), others) for place in (0, 1, last - 1, last)]
        if ranks == 1:
            return Stage([], [], [(face[2], face[0]), (face[1], face[3])])
        receives = [self._transfer(higher, axis, -1, face[3], 0), self._transfer(lower, axis, 1, face[0], 1)]
        sends = [self._transfer(higher, axis, 1, face[2], 2), self._transfer(lower, axis, -1, face[1], 3)]
        return Stage(receives, sends, [])

    def _expansion(self, axis: int) -> Stage:
        whole = (slice(None),) * 3
        lower, higher = self.level.neighbours[axis]
        last = self.level.shape[axis] - 1
        if self.level.takes[axis]:
            one, two = self._view(axis, slice(last, last + 1), whole), self._view(axis, slice(0, 2), whole)
            return Stage([self._transfer(higher, axis, -1, one, 0), self._transfer(lower, axis, 1, two, 1)], [], [])
        one, two = self._view(axis, slice(1, 2), whole), self._view(axis, slice(last - 1, last + 1), whole)
        return Stage([], [self._transfer(higher, axis, 1, two, 2), self._transfer(lower, axis, -1, one, 3)], [])

    def _view(self, axis: int, place: slice, others: Sequence[slice]) -> np.ndarray:
        return self.array[tuple(place if each == axis else others[each] for each in range(3))]

    def _transfer(self, peer: int, axis: int, direction: int, view: np.ndarray, number: int) -> Transfer:
        if view.flags.c_contiguous:
            return Transfer(peer, _tag(axis, direction), view, None)
        key = (number, *view.shape)
        if key not in self.buffers:
            self.buffers[key] = np.empty(view.shape)
        return Transfer(peer, _tag(axis, direction), self.buffers[key], view)


def _even(fine: int, coarse: int) -> tuple[slice, slice]:
    """Where fine points lie on coarse ones: the fine places and the coarse places."""
    first = 2 if fine == 3 else 1
    return slice(first - 1, first - 1 + 2 * (coarse - first), 2), slice(first - 1, coarse - 1)


def _between(fine: int, coarse: int) -> slice:
    """Where fine points lie between two coarse ones."""
    begin = 0 if fine == 3 else 1
    return slice(begin, begin + 2 * (coarse - 1), 2)


class Numpy:
    """MG's arithmetic in vectors, by slabs of planes."""

    def take(self, levels: Sequence[Level]) -> None:
        """Makes the temporary arrays, large enough for a slab of any level."""
        largest = max(
            max(SLAB, shape[1] * shape[2]) + 2 * shape[1] * shape[2] for shape in (level.shape for level in levels)
        )
        self.temporary = [np.empty(largest) for _ in range(4)]
        self.slabs = {level.shape: self._slabs(level.shape) for level in levels}

    def _slabs(
        self, shape: tuple[int, int, int]
    ) -> list[tuple[int, int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """For each slab: first plane, plane behind the last, and the temporaries in its shape."""
        planes, rows, length = shape
        if min(shape) < 3:
            return []
        step = max(1, SLAB // (rows * length))
        slabs = []
        for begin in range(1, planes - 1, step):
            end = min(begin + step, planes - 1)
            made = [self._temporary(0, (end - begin + 2, rows - 2, length))]
            made += [self._temporary(number, (end - begin, rows - 2, length)) for number in (1, 2)]
            made += [self._temporary(3, (end - begin, rows - 2, length - 2))]
            slabs.append((begin, end, made[0], made[1], made[2], made[3]))
        return slabs

    def _temporary(self, number: int, shape: tuple[int, int, int]) -> np.ndarray:
        return self.temporary[number][: shape[0] * shape[1] * shape[2]].reshape(shape)

    def smooth(self, r: np.ndarray, u: np.ndarray, c: Sequence[float]) -> None:
        """u += C r, with 27 points of three weights."""
        for begin, end, across, near, far, term in self.slabs[r.shape]:
            self._neighbours(r, begin, end, across, near, far)
            middle, into = r[begin:end, INSIDE], u[begin:end, INSIDE, INSIDE]
            into += np.multiply(middle[:, :, INSIDE], c[0], out=term)
            np.add(middle[:, :, :-2], middle[:, :, 2:], out=term)
            term += near[:, :, INSIDE]
            term *= c[1]
            into += term
            np.add(near[:, :, :-2], near[:, :, 2:], out=term)
            term += far[:, :, INSIDE]
            term *= c[2]
            into += term

    def residual(self, u: np.ndarray, v: np.ndarray, r: np.ndarray) -> None:
        """r = v - A u; v and r may be the same."""
        for begin, end, across, near, far, term in self.slabs[r.shape]:
            self._neighbours(u, begin, end, across, near, far)
            into = r[begin:end, INSIDE, INSIDE]
            np.multiply(u[begin:end, INSIDE, INSIDE], RESIDUAL[0], out=term)
            np.subtract(v[begin:end, INSIDE, INSIDE], term, out=into)
            np.add(near[:, :, :-2], near[:, :, 2:], out=term)
            term += far[:, :, INSIDE]
            term *= RESIDUAL[2]
            into -= term
            np.add(far[:, :, :-2], far[:, :, 2:], out=term)
            term *= RESIDUAL[3]
            into -= term

    def _neighbours(
        self, a: np.ndarray, begin: int, end: int, across: np.ndarray, near: np.ndarray, far: np.ndarray
    ) -> None:
        """near: the sum of the four lines beside each line of the contiguous axis; far: of the four across edges."""
        around = a[begin - 1 : end + 1]
        np.add(around[:, :-2], around[:, 2:], out=across)
        np.add(around[:-2, INSIDE], around[2:, INSIDE], out=near)
        near += across[INSIDE]
        np.add(across[:-2], across[2:], out=far)

    def restrict(self, r: np.ndarray, s: np.ndarray) -> None:
        """s = P r, onto the next coarser level."""
        count = [length - 2 for length in s.shape]
        if 0 in count:
            return
        below, at, above = zip(
            *(self._thirds(fine, many) for fine, many in zip(r.shape, count, strict=True)), strict=True
        )
        planes = max(1, SLAB // (count[1] * r.shape[2]))
        for begin in range(0, count[0], planes):
            many = min(planes, count[0] - begin)
            lower, middle, upper = (r[place[0]][begin : begin + many] for place in (below, at, above))
            near = self._temporary(1, (many, count[1], r.shape[2]))
            far = self._temporary(2, near.shape)
            np.add(middle[:, below[1]], middle[:, above[1]], out=near)
            near += lower[:, at[1]]
            near += upper[:, at[1]]
            np.add(lower[:, below[1]], lower[:, above[1]], out=far)
            far += upper[:, below[1]]
            far += upper[:, above[1]]
            into = s[1 + begin : 1 + begin + many, INSIDE, INSIDE]
            term = self._temporary(3, into.shape)
            lines = middle[:, at[1]]
            np.multiply(lines[:, :, at[2]], 0.5, out=into)
            for weight, first, second, third in (
                (0.25, lines, lines, near),
                (0.125, near, near, far),
                (0.0625, far, far, None),
            ):
                np.add(first[:, :, below[2]], second[:, :, above[2]], out=term)
                if third is not None:
                    term += third[:, :, at[2]]
                term *= weight
                into += term

    def _thirds(self, fine: int, count: int) -> tuple[slice, slice, slice]:
        """The fine places below, at and above each inner coarse place."""
        first = 0 if fine == 3 else 1
        return tuple(slice(begin, begin + 2 * count - 1, 2) for begin in (first, first + 1, first + 2))  # type: ignore[return-value]

    def prolong(self, z: np.ndarray, u: np.ndarray) -> None:
        """u += Q z, from the next coarser level, halos included."""
        even = [_even(fine, coarse) for fine, coarse in zip(u.shape, z.shape, strict=True)]
        between = [_between(fine, coarse) for fine, coarse in zip(u.shape, z.shape, strict=True)]
        planes = max(1, SLAB // (z.shape[1] * z.shape[2]))
        for begin in range(0, z.shape[0] - 1, planes):
            part = z[begin : begin + planes + 1]
            pairs = self._temporary(1, (len(part) - 1, *z.shape[1:]))
            np.add(part[:-1], part[1:], out=pairs)
            self._prolong_planes(pairs, u[between[0]][begin : begin + planes], even, between, 0.5)
        planes_at, coarse_at = even[0]
        fine, coarse = u[planes_at], z[coarse_at]
        for begin in range(0, len(coarse), planes):
            self._prolong_planes(coarse[begin : begin + planes], fine[begin : begin + planes], even, between, 1.0)

    def _prolong_planes(
        self, z: np.ndarray, u: np.ndarray, even: Sequence[tuple[slice, slice]], between: Sequence[slice], weight: float
    ) -> None:
        pairs = self._temporary(2, (z.shape[0], z.shape[1] - 1, z.shape[2]))
        np.add(z[:, :-1], z[:, 1:], out=pairs)
        for lines, rows, scale in ((z[:, even[1][1]], even[1][0], weight), (pairs, between[1], weight / 2)):
            points = lines[:, :, even[2][1]]
            term = self._temporary(3, points.shape)
            into = u[:, rows, even[2][0]]
            into += np.multiply(points, scale, out=term)
            term = self._temporary(3, (*lines.shape[:2], lines.shape[2] - 1))
            np.add(lines[:, :, :-1], lines[:, :, 1:], out=term)
            term *= scale / 2
            into = u[:, rows, between[2]]
            into += term

    def norms(self, r: np.ndarray) -> tuple[float, float]:
        """The sum of the squares and the largest magnitude inside."""
        squares, largest = 0.0, 0.0
        for begin, end, _, _, _, term in self.slabs[r.shape]:
            np.abs(r[begin:end, INSIDE, INSIDE], out=term)
            largest = max(largest, float(term.max()))
            flat = term.ravel()
            squares += float(flat @ flat)
        return squares, largest

    def clear(self, array: np.ndarray) -> None:
        array[:] = 0

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        target[:] = source

    def extremes(self, begins: Sequence[int], lengths: Sequence[int], size: int) -> tuple[np.ndarray, np.ndarray]:
        """Values and places in the whole grid (2 x CHARGES) of the smallest and largest random numbers here (zran3)."""
        values, places = np.empty(0), np.empty(0, np.int64)
        along = np.arange(lengths[2])
        for plane in range(begins[0], begins[0] + lengths[0]):
            lines = (plane * size + begins[1] + np.arange(lengths[1])) * size + begins[2]
            if lengths[2] == size:
                made = generator.uniform(generator.jump(generator.SEED, int(lines[0])), lengths[1] * size)
            else:
                made = np.concatenate(
                    [generator.uniform(generator.jump(generator.SEED, int(line)), lengths[2]) for line in lines]
                )
            values = np.concatenate((values, made))
            places = np.concatenate((places, (lines[:, None] + along).ravel()))
            if len(values) > 2 * CHARGES:
                order = np.argpartition(values, (CHARGES - 1, -CHARGES))
                kept = np.concatenate((order[:CHARGES], order[-CHARGES:]))
                values, places = values[kept], places[kept]
        order = np.argsort(values)
        values, places = values[order], places[order]
        found = np.full((2, CHARGES), (1.0,)), np.full((2, CHARGES), -1, np.int64)
        found[0][1] = 0.0
        some = min(CHARGES, len(values))
        found[0][0, :some], found[1][0, :some] = values[:some], places[:some]
        found[0][1, :some], found[1][1, :some] = values[-some:], places[-some:]
        return found

    def charge(self, v: np.ndarray, values: np.ndarray, places: np.ndarray, begins: Sequence[int], size: int) -> None:
        """-1 at the ten smallest and +1 at the ten largest of all ranks, as far as they lie here."""
        for row, sign in ((0, -1.0), (1, 1.0)):
            order = np.argsort(values[:, row].ravel())
            chosen = places[:, row].ravel()[order[:CHARGES] if row == 0 else order[-CHARGES:]]
            at = np.array(np.unravel_index(chosen, (size,) * 3)).T - np.array(begins)
            inside = ((at >= 0) & (at < np.array(v.shape) - 2)).all(axis=1)
            v[tuple(at[inside].T + 1)] = sign


class Numba(Numpy):
    """The smoother and the residual, compiled."""

    def __init__(self) -> None:
        import numba

        @numba.njit
        def smooth(r, u, c0, c1, c2, near, far):  # type: ignore[no-untyped-def]
            planes, rows, length = r.shape
            for i in range(1, planes - 1):
                for j in range(1, rows - 1):
                    for k in range(length):
                        near[k] = r[i, j - 1, k] + r[i, j + 1, k] + r[i - 1, j, k] + r[i + 1, j, k]
                        far[k] = r[i - 1, j - 1, k] + r[i - 1, j + 1, k] + r[i + 1, j - 1, k] + r[i + 1, j + 1, k]
                    for k in range(1, length - 1):
                        u[i, j, k] += (
                            c0 * r[i, j, k]
                            + c1 * (r[i, j, k - 1] + r[i, j, k + 1] + near[k])
                            + c2 * (far[k] + near[k - 1] + near[k + 1])
                        )

        @numba.njit
        def residual(u, v, r, a0, a2, a3, near, far):  # type: ignore[no-untyped-def]
            planes, rows, length = r.shape
            for i in range(1, planes - 1):
                for j in range(1, rows - 1):
                    for k in range(length):
                        near[k] = u[i, j - 1, k] + u[i, j + 1, k] + u[i - 1, j, k] + u[i + 1, j, k]
                        far[k] = u[i - 1, j - 1, k] + u[i - 1, j + 1, k] + u[i + 1, j - 1, k] + u[i + 1, j + 1, k]
                    for k in range(1, length - 1):
                        r[i, j, k] = (
                            v[i, j, k]
                            - a0 * u[i, j, k]
                            - a2 * (far[k] + near[k - 1] + near[k + 1])
                            - a3 * (far[k - 1] + far[k + 1])
                        )

        self._smooth, self._residual = smooth, residual

    def take(self, levels: Sequence[Level]) -> None:
        super().take(levels)
        longest = max(level.shape[2] for level in levels)
        self.near, self.far = np.empty(longest), np.empty(longest)

    def smooth(self, r: np.ndarray, u: np.ndarray, c: Sequence[float]) -> None:
        self._smooth(r, u, c[0], c[1], c[2], self.near, self.far)

    def residual(self, u: np.ndarray, v: np.ndarray, r: np.ndarray) -> None:
        self._residual(u, v, r, RESIDUAL[0], RESIDUAL[2], RESIDUAL[3], self.near, self.far)


class Skeleton(Numpy):
    """The same messages, nothing computed or packed."""

    def take(self, levels: Sequence[Level]) -> None:
        pass

    def smooth(self, r: np.ndarray, u: np.ndarray, c: Sequence[float]) -> None:
        pass

    def residual(self, u: np.ndarray, v: np.ndarray, r: np.ndarray) -> None:
        pass

    def restrict(self, r: np.ndarray, s: np.ndarray) -> None:
        pass

    def prolong(self, z: np.ndarray, u: np.ndarray) -> None:
        pass

    def norms(self, r: np.ndarray) -> tuple[float, float]:
        return 1.0, 1.0

    def clear(self, array: np.ndarray) -> None:
        pass

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        pass

    def extremes(self, begins: Sequence[int], lengths: Sequence[int], size: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((2, CHARGES)), np.zeros((2, CHARGES), np.int64)

    def charge(self, v: np.ndarray, values: np.ndarray, places: np.ndarray, begins: Sequence[int], size: int) -> None:
        pass


class Grid(NamedTuple):
    """The arrays of one level and their borders."""

    level: Level
    u: np.ndarray
    r: np.ndarray
    u_borders: Borders
    r_borders: Borders


class MG(Kernel):
    """Four or twenty V-cycles, and the residual after each."""

    name = "MG"
    problems = constants.MG
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "numba": Numba, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Any) -> None:
        super().__init__(comm, problem, arithmetic)
        self.of = self.problems[problem]
        self.iterations = self.of.iterations
        self.points = 1 << self.of.log2
        self.size = f"{self.points} x {self.points} x {self.points}"

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        most = 1 << 3 * cls.problems[problem].log2
        return lambda ranks: power_of_two(ranks) and ranks <= most

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        log2 = cls.problems[problem].log2
        total = 0
        finest = Place(log2, 0, ranks).levels[-1].shape
        total = (finest[0] * finest[1] * finest[2]) * 8
        # u and r on all levels (an eighth each time) and v; faces; four slabs and the random numbers of a plane.
        plane = finest[1] * finest[2] * 8
        return ranks * (total * 3 + total * 2 // 7 + 10 * plane + 4 * (8 * SLAB + 3 * plane) + 8 * plane)

    def prepare(self) -> None:
        comm, arithmetic = self.comm, self.arithmetic
        ranks = comm.Get_size()
        place = Place(self.of.log2, comm.Get_rank(), ranks)
        arithmetic.take(place.levels)
        self.grids: list[Grid] = []
        buffers: dict[tuple[int, ...], np.ndarray] = {}
        for level in place.levels:
            u, r = np.zeros(level.shape), np.zeros(level.shape)
            self.grids.append(Grid(level, u, r, Borders(u, level, ranks, buffers), Borders(r, level, ranks, buffers)))
        self.finest = self.grids[-1]
        self.v = np.zeros(self.finest.level.shape)
        self.part, self.whole = np.zeros(1), np.zeros(1)
        self._charge(place, Borders(self.v, self.finest.level, ranks, buffers))
        self._residual(self.finest, self.v)
        self.norm = self._norm()
        self._cycle()
        self._residual(self.finest, self.v)
        self.finest.u[:] = 0

    def _charge(self, place: Place, borders: Borders) -> None:
        lengths = [length - 2 for length in self.v.shape]
        values, places = self.arithmetic.extremes(place.begins, lengths, self.points)
        ranks = self.comm.Get_size()
        all_values, all_places = np.empty((ranks, *values.shape)), np.empty((ranks, *places.shape), np.int64)
        self.comm.Allgather(values, all_values)
        self.comm.Allgather(places, all_places)
        self.arithmetic.charge(self.v, all_values, all_places, place.begins, self.points)
        self._exchange(borders)

    def run(self) -> None:
        self._residual(self.finest, self.v)
        self.norm = self._norm()
        for _ in range(self.iterations):
            self._cycle()
            self._residual(self.finest, self.v)
        self.norm = self._norm()

    def _cycle(self) -> None:
        arithmetic, grids = self.arithmetic, self.grids
        for fine, coarse in zip(grids[:0:-1], grids[-2::-1], strict=True):
            arithmetic.restrict(fine.r, coarse.r)
            self._exchange(coarse.r_borders)
        coarse = grids[0]
        arithmetic.clear(coarse.u)
        self._smooth(coarse)
        for fine in grids[1:]:
            if fine is not self.finest:
                arithmetic.clear(fine.u)
            arithmetic.prolong(coarse.u, fine.u)
            self._pass(fine.u_borders.expansion)
            self._residual(fine, self.v if fine is self.finest else fine.r)
            self._smooth(fine)
            coarse = fine

    def _smooth(self, grid: Grid) -> None:
        self.arithmetic.smooth(grid.r, grid.u, self.of.smoother)
        self._exchange(grid.u_borders)

    def _residual(self, grid: Grid, v: np.ndarray) -> None:
        self.arithmetic.residual(grid.u, v, grid.r)
        self._exchange(grid.r_borders)

    def _exchange(self, borders: Borders) -> None:
        if borders.level.idle:
            self.arithmetic.clear(borders.array)
        else:
            self._pass(borders.halo)

    def _pass(self, stages: list[Stage]) -> None:
        """One axis after the other: receives posted, faces sent, what came unpacked."""
        comm, copy = self.comm, self.arithmetic.copy
        for receives, sends, copies in stages:
            requests = [comm.Irecv(buffer, peer, tag) for peer, tag, buffer, _ in receives]
            for peer, tag, buffer, view in sends:
                if view is not None:
                    copy(view, buffer)
                comm.Send(buffer, peer, tag)
            for request, (_, _, buffer, view) in zip(requests, receives, strict=True):
                request.Wait()
                if view is not None:
                    copy(buffer, view)
            for source, target in copies:
                copy(source, target)

    def _norm(self) -> float:
        squares, largest = self.arithmetic.norms(self.finest.r)
        self.part[0] = largest
        self.comm.Allreduce(self.part, self.whole, MPI.MAX)
        self.part[0] = squares
        self.comm.Allreduce(self.part, self.whole, MPI.SUM)
        return float((self.whole[0] / self.points**3) ** 0.5)

    def verify(self) -> Verification:
        return Verification.relative([("L2 norm", self.norm, self.of.norm)], constants.MG_ACCEPTED)

    def operations(self) -> float:
        return 58 * self.iterations * self.points**3
