"""FT: a diffusion equation by Fourier transforms in three dimensions (NPB 3.4, FT/ft.f).

Up to as many ranks as the grid has planes each hold a slab of planes; more ranks hold pencils. Transforms go along axes
that lie whole on a rank; between them Alltoall turns the division.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from mpi4py import MPI
from npb import constants, generator
from ranks.kernel import Kernel, Verification, power_of_two

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

POINTS = 1024  # of which a checksum is made
BLOCK = 64  # columns transposed at a time
SLAB = 1 << 16  # points transformed at a time


class Layout(NamedTuple):
    """How the grid is divided. Shapes have the contiguous axis last."""

    across: int  # parts of the middle axis
    deep: int  # parts of the outer axis
    at_across: int
    at_deep: int
    physical: tuple[int, int, int]  # z, y, x
    between: tuple[int, int, int] | None  # z, x, y: pencils only
    spectral: tuple[int, int, int]  # y, x, z; z, y, x on a single rank


def layout(grid: tuple[int, int, int], rank: int, ranks: int) -> Layout:
    """The division by setup of FT/ft.f. grid is x, y, z."""
    nx, ny, nz = grid
    if ranks == 1:
        return Layout(1, 1, 0, 0, (nz, ny, nx), None, (nz, ny, nx))
    across = 1 if ranks <= nz else nz
    deep = ranks // across
    physical = (nz // deep, ny // across, nx)
    between = (nz // deep, nx // across, ny) if across > 1 else None
    return Layout(across, deep, rank // deep, rank % deep, physical, between, (ny // deep, nx // across, nz))


class Numpy:
    """FT's arithmetic in vectors; transforms by numpy.fft."""

    def take(self, middle: int) -> None:
        """Makes the temporary array of a transposition; middle is the longest middle axis of those turned."""
        # One column more than a block: equal places of its lines do not share a set of the cache.
        self.block = np.empty(max(BLOCK, middle) * (BLOCK + 1), np.complex128)

    def initial(self, grid: tuple[int, int, int], place: Layout, u: np.ndarray) -> None:
        """Random numbers, real and imaginary parts in turn, in the order of the whole grid."""
        nx, ny, _ = grid
        for plane in range(len(u)):
            first = ((place.at_deep * len(u) + plane) * ny + place.at_across * u.shape[1]) * nx
            u[plane] = (
                generator.uniform(generator.jump(generator.SEED, 2 * first), 2 * u[plane].size)
                .view(np.complex128)
                .reshape(u[plane].shape)
            )

    def decay(self, grid: tuple[int, int, int], place: Layout, out: np.ndarray) -> None:
        """exp(-4 pi^2 alpha |k|^2) for the wave numbers that lie here."""
        nx, ny, nz = grid
        squares = [((np.arange(length) + length // 2) % length - length // 2) ** 2 for length in (nx, ny, nz)]
        if place.across * place.deep == 1:
            outer, middle, inner = squares[2], squares[1], squares[0]
        else:
            outer = squares[1][place.at_deep * out.shape[0] :][: out.shape[0]]
            middle = squares[0][place.at_across * out.shape[1] :][: out.shape[1]]
            inner = squares[2]
        factor = -4 * np.pi * np.pi * constants.FT_ALPHA
        plane = middle[:, None] + inner
        for target, square in zip(out, outer, strict=True):
            np.multiply(plane + square, factor, out=target)
            np.exp(target, out=target)

    def evolve(self, spectrum: np.ndarray, decay: np.ndarray, out: np.ndarray) -> None:
        for source, factor, target in zip(spectrum, decay, out, strict=True):
            source *= factor
            target[:] = source

    def transform(self, u: np.ndarray, axis: int, forward: bool) -> None:
        """In place along one axis, not normalised, by slabs that stay in the cache."""
        change = np.fft.fft if forward else np.fft.ifft
        if axis == 0:
            step = max(1, SLAB // (u.shape[0] * u.shape[2]))
            parts = [u[:, begin : begin + step] for begin in range(0, u.shape[1], step)]
        else:
            step = max(1, SLAB // (u.shape[1] * u.shape[2]))
            parts = [u[begin : begin + step] for begin in range(0, u.shape[0], step)]
        for part in parts:
            change(part, axis=axis, norm="backward" if forward else "forward", out=part)

    def pack(self, u: np.ndarray, out: np.ndarray, middle_first: bool) -> None:
        """The last axis becomes the first: out[k, j, i] = u[i, j, k], or out[k, i, j] where middle_first is false."""
        outer, middle, length = u.shape
        step = max(1, BLOCK // middle)
        for first in range(0, outer, step):
            for begin in range(0, length, BLOCK):
                part = u[first : first + step, :, begin : begin + BLOCK]
                lines, _, columns = part.shape
                block = self.block[: lines * middle * (columns + 1)].reshape(lines, middle, columns + 1)[:, :, :columns]
                block[:] = part
                if middle_first:
                    out[begin : begin + BLOCK, :, first : first + step] = block.transpose(2, 1, 0)
                else:
                    out[begin : begin + BLOCK, first : first + step] = block.transpose(2, 0, 1)

    def unpack(self, u: np.ndarray, out: np.ndarray, order: tuple[int, int, int, int]) -> None:
        """Joins what came from each rank (the first axis of u) along the last axis of out."""
        turned = u.transpose(order)
        out.reshape(turned.shape)[:] = turned

    def checksum(self, u: np.ndarray, places: tuple[np.ndarray, ...], points: int) -> complex:
        return complex(u[places].sum() / points)


class Skeleton(Numpy):
    """The same calls, nothing computed."""

    def take(self, middle: int) -> None:
        pass

    def initial(self, grid: tuple[int, int, int], place: Layout, u: np.ndarray) -> None:
        pass

    def decay(self, grid: tuple[int, int, int], place: Layout, out: np.ndarray) -> None:
        pass

    def evolve(self, spectrum: np.ndarray, decay: np.ndarray, out: np.ndarray) -> None:
        pass

    def transform(self, u: np.ndarray, axis: int, forward: bool) -> None:
        pass

    def pack(self, u: np.ndarray, out: np.ndarray, middle_first: bool) -> None:
        pass

    def unpack(self, u: np.ndarray, out: np.ndarray, order: tuple[int, int, int, int]) -> None:
        pass

    def checksum(self, u: np.ndarray, places: tuple[np.ndarray, ...], points: int) -> complex:
        return 0j


class FT(Kernel):
    """One transform forward, then six or twenty steps in time, each transformed back and summed at 1024 points."""

    name = "FT"
    problems = constants.FT
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Any) -> None:
        super().__init__(comm, problem, arithmetic)
        self.of = self.problems[problem]
        self.grid, self.iterations = self.of.points, self.of.iterations
        self.points = self.grid[0] * self.grid[1] * self.grid[2]
        self.size = " x ".join(map(str, self.grid))

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        nx, ny, nz = cls.problems[problem].points
        most = nz * min(ny, nz) if nz <= min(nx, ny) else min(ny, nz)
        return lambda ranks: power_of_two(ranks) and ranks <= most

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        nx, ny, nz = cls.problems[problem].points
        # Three complex arrays and the decay; a plane's random numbers and a block of the transposition.
        return nx * ny * nz * (3 * 16 + 8) + ranks * (nx * ny * 16 * 4 + max(nx, ny) * (BLOCK + 1) * 16)

    def prepare(self) -> None:
        comm, arithmetic = self.comm, self.arithmetic
        place = self.place = layout(self.grid, comm.Get_rank(), comm.Get_size())
        self.deep_ranks = comm.Split(place.at_across, place.at_deep)
        self.across_ranks = comm.Split(place.at_deep, place.at_across)
        mine = self.points // comm.Get_size()
        # Written, not only reserved: their pages are no part of what is timed.
        self.spectrum, self.one, self.other = (np.full(mine, 0j) for _ in range(3))
        self.decay = np.zeros(place.spectral)
        arithmetic.take(max(place.physical[1], place.between[1], place.spectral[1]) if place.between else 1)
        self.places = self._places()
        self.part, self.whole = np.zeros(1, np.complex128), np.zeros(1, np.complex128)
        self.sums = np.zeros(self.iterations, np.complex128)
        self._begin()

    def _places(self) -> tuple[np.ndarray, ...]:
        """Those of the 1024 points that lie here, as indices of the physical array."""
        j = np.arange(1, POINTS + 1)
        nx, ny, nz = self.grid
        z, y, x = self.place.physical
        across, deep = self.place.at_across * y, self.place.at_deep * z
        at = (5 * j % nz - deep, 3 * j % ny - across, j % nx)
        here = (at[0] >= 0) & (at[0] < z) & (at[1] >= 0) & (at[1] < y) & (at[2] < x)
        return tuple(axis[here] for axis in at)

    def _begin(self) -> None:
        """What NPB does once untimed and once more timed: the decay, the initial values and their transform."""
        arithmetic, place = self.arithmetic, self.place
        arithmetic.decay(self.grid, place, self.decay)
        arithmetic.initial(self.grid, place, self.one.reshape(place.physical))
        self._forward()

    def run(self) -> None:
        self._begin()
        shape = self.place.spectral
        for iteration in range(self.iterations):
            self.arithmetic.evolve(self.spectrum.reshape(shape), self.decay, self.one.reshape(shape))
            self.part[0] = self.arithmetic.checksum(self._back(), self.places, self.points)
            self.comm.Reduce(self.part, self.whole, MPI.SUM, 0)
            self.sums[iteration] = self.whole[0]

    def _forward(self) -> None:
        """From self.one to self.spectrum."""
        place, transform = self.place, self.arithmetic.transform
        u = self.one.reshape(place.physical)
        transform(u, 2, True)
        if place.between:
            transform(self._turn_across(place.physical, place.between), 2, True)
            transform(self._turn_deep(place.between, place.spectral), 2, True)
        else:
            transform(u, 1, True)
            if place.deep == 1:
                transform(u, 0, True)
            else:
                transform(self._turn_deep((len(u), 1, u[0].size), place.spectral), 2, True)
        self.one, self.spectrum = self.spectrum, self.one

    def _back(self) -> np.ndarray:
        """From self.one to the physical array that is returned."""
        place, transform = self.place, self.arithmetic.transform
        u = self.one.reshape(place.spectral)
        if place.across * place.deep == 1:
            transform(u, 0, False)
            transform(u, 1, False)
        else:
            transform(u, 2, False)
            if place.between:
                transform(self._turn_deep(place.spectral, place.between), 2, False)
                u = self._turn_across(place.between, place.physical)
            else:
                u = self._turn_deep((u.shape[0] * u.shape[1], 1, u.shape[2]), place.physical)
                transform(u, 1, False)
        transform(u, 2, False)
        return u

    def _turn_deep(self, shape: tuple[int, int, int], turned: tuple[int, int, int]) -> np.ndarray:
        """The outer axis becomes whole and contiguous; the contiguous one is divided in its place."""
        return self._turn(self.deep_ranks, shape, turned, True)

    def _turn_across(self, shape: tuple[int, int, int], turned: tuple[int, int, int]) -> np.ndarray:
        """The middle axis and the contiguous one change places, the outer one stays."""
        return self._turn(self.across_ranks, shape, turned, False)

    def _turn(self, comm: Any, shape: tuple[int, int, int], turned: tuple[int, int, int], deep: bool) -> np.ndarray:
        """self.one in shape packed, exchanged by Alltoall, and joined; the result is self.one anew."""
        outer, middle, length = shape
        ranks = comm.Get_size()
        packed = (length, middle, outer) if deep else (length, outer, middle)
        self.arithmetic.pack(self.one.reshape(shape), self.other.reshape(packed), deep)
        comm.Alltoall(self.other, self.one)
        came = self.one.reshape(ranks, length // ranks, *packed[1:])
        self.arithmetic.unpack(came, self.other, (1, 2, 0, 3) if deep else (2, 1, 0, 3))
        self.one, self.other = self.other, self.one
        return self.one.reshape(turned)

    def verify(self) -> Verification:
        self.comm.Bcast(self.sums, 0)
        rows = [
            (f"checksum {number}", value, known)
            for number, (value, known) in enumerate(zip(self.sums.tolist(), self.of.checksums, strict=True), 1)
        ]
        return Verification.relative(rows, constants.FT_ACCEPTED)

    def operations(self) -> float:
        log = float(np.log(self.points))
        return self.points * (14.8157 + 7.19641 * log + (5.23518 + 7.21113 * log) * self.iterations)
