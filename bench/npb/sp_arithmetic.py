"""SP's arithmetic in numpy: a method for each step, on one cell. Sweeps loop over rows, in vectors of whole planes.

From SP/rhs.f, SP/exact_rhs.f, SP/txinvr.f, SP/lhsx.f (and y, z), SP/x_solve.f (y, z), SP/ninvr.f, SP/pinvr.f,
SP/tzetar.f, SP/add.f and SP/error.f.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from npb.sp_equations import C1, C2, FAR, FOUR_THIRDS, HALF_ROOT, Equations, coordinates, exact, initial
from npb.sp_field import BACKWARD, FORWARD, HALO, PRESSURE, RHO, Field, Lines, Q, U, V, W, across
from npb.sp_partition import Cell
from npb.sp_sweep import Sweep


class Numpy:
    """Vectors of whole cells and of whole planes."""

    def prepare(self, equations: Equations, cells: Sequence[Cell]) -> None:
        """Makes all arrays. Cells are worked on one after the other, so one set of temporary ones is enough."""
        self.equations = equations
        self.fields = [Field(cell, equations) for cell in cells]
        most = max(rows.size for field in self.fields for rows in (lines.u[0, 1:-1] for lines in field.lines))
        self._first, self._second, self._third = np.empty(5 * most), np.empty(5 * most), np.empty(most)
        middle = np.empty(max(Sweep.values(lines) for field in self.fields for lines in field.lines))
        self._sweeps = {
            id(lines): Sweep(lines, self.equations, middle, self._first)
            for field in self.fields
            for lines in field.lines
        }

    @staticmethod
    def memory(size: tuple[int, int, int]) -> int:
        """Bytes of a cell's arrays: u, what follows from it, rhs and forcing, rows of the sweeps."""
        x, y, z = size
        with_two, with_one = (x + 4) * (y + 4) * (z + 4), (x + 2) * (y + 2) * (z + 2)
        return 8 * (5 * with_two + 7 * with_one + 10 * x * y * z + (FORWARD + BACKWARD) * with_one)

    @staticmethod
    def temporary(size: tuple[int, int, int]) -> int:
        """Bytes that the cells of a rank share, of the largest one's size: arrays, and what `initial` makes."""
        x, y, z = size
        return 8 * ((5 + 5 + 1 + 6) * (x + 2) * (y + 2) * (z + 2) + 6 * 5 * x * y * z)

    # --- the field

    def initialize(self, field: Field) -> None:
        """The field that the iterations begin with."""
        field.u[...] = FAR[:, None, None, None]
        field.own[...] = initial(field.cell.low, field.cell.size, self.equations.points)

    def force(self, field: Field) -> None:
        """The forcing term that makes the exact solution a steady state. Leaves the exact solution in u."""
        cell = field.cell
        field.u[...] = exact(*coordinates(cell.low, cell.size, HALO, self.equations.points))
        field.forcing.fill(0.0)
        self.right_hand_side(field)
        np.multiply(field.rhs, -1.0 / self.equations.dt, out=field.forcing)

    def pack(self, face: np.ndarray, buffer: np.ndarray) -> None:
        """Copies planes of u into a part of a buffer of the same shape."""
        np.copyto(buffer, face)

    def unpack(self, buffer: np.ndarray, face: np.ndarray) -> None:
        np.copyto(face, buffer)

    def add(self, field: Field) -> None:
        """The step's end: u gains what was solved for."""
        field.inner += field.rhs

    # --- the right-hand side

    def right_hand_side(self, field: Field) -> None:
        """rhs = dt (forcing + the differences of fluxes, viscosity and dissipation in three directions)."""
        self._primitive(field)
        np.copyto(field.rhs, field.forcing)
        for lines in field.lines:
            self._fluxes(lines)
        field.rhs *= self.equations.dt

    def _primitive(self, field: Field) -> None:
        rho, u, v, w, q, pressure, sound = field.primitive
        np.divide(1.0, field.near[0], out=rho)
        np.multiply(field.near[1:4], rho, out=field.primitive[U : W + 1])
        # the pressure's place holds terms of the energy until it is known
        np.multiply(u, u, out=q)
        for velocity in (v, w):
            np.multiply(velocity, velocity, out=pressure)
            q += pressure
        q *= 0.5
        np.multiply(q, field.near[0], out=pressure)
        np.subtract(field.near[4], pressure, out=pressure)
        pressure *= C2
        np.multiply(pressure, rho, out=sound)
        sound *= C1
        np.sqrt(sound, out=sound)

    def _fluxes(self, lines: Lines) -> None:
        """Adds one direction's differences: second ones of `smooth`, central ones of `flux`."""
        equations, axis = self.equations, lines.axis
        shape = (5, lines.rows + 2, *lines.shape)
        length = int(np.prod(shape))
        smooth, flux = self._first[:length].reshape(shape), self._second[:length].reshape(shape)
        one = self._third[: length // 5].reshape(shape[1:])
        values, primitive, rhs = lines.u, lines.primitive, lines.rhs
        middle = values[:, 1:-1]
        along = primitive[U + axis]

        # the fourth difference is the second one of the second one
        dissipation, fourth = equations.dissipation[axis] * equations.second_difference, equations.fourth
        np.add(values[:, 2:], values[:, :-2], out=smooth)
        smooth *= -fourth
        np.multiply(middle, dissipation + 2.0 * fourth, out=flux)
        smooth += flux
        if lines.first:
            np.multiply(middle[:, 0], dissipation, out=smooth[:, 0])
            smooth[:, 1] += fourth * middle[:, 0]
        if lines.last:
            np.multiply(middle[:, -1], dissipation, out=smooth[:, -1])
            smooth[:, -2] += fourth * middle[:, -1]

        for velocity in (U, V, W):
            factor = equations.viscosity * (FOUR_THIRDS if velocity == U + axis else 1.0)
            np.multiply(primitive[velocity], factor, out=one)
            smooth[velocity] += one
        np.multiply(primitive[Q], equations.energy, out=one)
        smooth[4] += one
        np.multiply(along, along, out=one)
        one *= equations.squares
        smooth[4] += one
        np.multiply(middle[4], primitive[RHO], out=one)
        one *= equations.total
        smooth[4] += one

        np.multiply(along, equations.first_difference, out=one)
        np.multiply(middle[1:], one, out=flux[1:])
        np.multiply(middle[1 + axis], equations.first_difference, out=flux[0])
        one *= primitive[PRESSURE]
        flux[4] += one
        np.multiply(primitive[PRESSURE], equations.first_difference, out=one)
        flux[1 + axis] += one

        rhs += smooth[:, 2:]
        rhs += smooth[:, :-2]
        smooth *= 2.0
        rhs -= smooth[:, 1:-1]
        rhs -= flux[:, 2:]
        rhs += flux[:, :-2]

    # --- the factors

    def precondition(self, field: Field) -> None:
        """Multiplies rhs by the inverse of x's eigenvectors (txinvr)."""
        rho, u, v, w, q, _, sound = field.inner_primitive
        r1, r2, r3, r4, r5 = field.rhs
        first, second, third, fourth = (self._first[n * rho.size :][: rho.size].reshape(rho.shape) for n in range(4))
        # first: the pressure's share; second: the velocity's along x; third, fourth: products
        np.multiply(q, r1, out=first)
        for velocity, momentum in ((u, r2), (v, r3), (w, r4)):
            np.multiply(velocity, momentum, out=second)
            first -= second
        first += r5
        first *= C2
        first /= sound
        first /= sound
        np.multiply(u, r1, out=second)
        second -= r2
        np.multiply(rho, HALF_ROOT, out=third)
        second *= third
        third *= sound
        third *= first
        np.multiply(w, r1, out=fourth)
        fourth -= r4
        fourth *= rho
        np.negative(fourth, out=r2)
        np.multiply(v, r1, out=fourth)
        fourth -= r3
        np.multiply(fourth, rho, out=r3)
        r1 -= first
        np.subtract(third, second, out=r4)
        np.add(third, second, out=r5)

    def left_hand_side(self, lines: Lines) -> None:
        """The pentadiagonal matrices of the three factors (velocity, and velocity plus and minus sound) of a cell."""
        self._sweeps[id(lines)].fill()

    def eliminate(self, lines: Lines) -> None:
        """Forward elimination from the two rows before the cell's, which came from the cell before."""
        self._sweeps[id(lines)].eliminate()

    def substitute(self, lines: Lines) -> None:
        """Back substitution from the two rows behind the cell's, which came from the cell behind."""
        self._sweeps[id(lines)].substitute()

    def invert(self, field: Field, axis: int) -> None:
        """Multiplies what was solved by the matrix that leads to the next direction's factors, into rhs."""
        solved = across(field.lines[axis].solved[:-2], axis)
        (self._after_x, self._after_y, self._after_z)[axis](field, solved)

    def _after_x(self, field: Field, solved: np.ndarray) -> None:
        s1, s2, s3, s4, s5 = solved
        r1, r2, r3, r4, r5 = field.rhs
        np.negative(s2, out=r1)
        np.copyto(r2, s1)
        self._rotate(s3, s4, s5, r3, r4, r5)

    def _after_y(self, field: Field, solved: np.ndarray) -> None:
        s1, s2, s3, s4, s5 = solved
        r1, r2, r3, r4, r5 = field.rhs
        self._rotate(s1, s4, s5, r1, r4, r5)
        np.negative(s3, out=r2)
        np.copyto(r3, s2)

    def _rotate(self, *parts: np.ndarray) -> None:
        still, plus, minus, to_still, to_plus, to_minus = parts
        one = self._first[: to_still.size].reshape(to_still.shape)
        np.subtract(plus, minus, out=to_still)
        to_still *= HALF_ROOT
        np.add(plus, minus, out=to_minus)
        to_minus *= 0.5
        np.multiply(still, HALF_ROOT, out=one)
        np.subtract(to_minus, one, out=to_plus)
        to_minus += one

    def _after_z(self, field: Field, solved: np.ndarray) -> None:
        s1, s2, s3, s4, s5 = solved
        r1, r2, r3, r4, r5 = field.rhs
        _, u, v, w, q, _, sound = field.inner_primitive
        density = field.inner[0]
        first, third, one = (self._first[n * r1.size :][: r1.size].reshape(r1.shape) for n in range(3))
        np.multiply(density, HALF_ROOT, out=third)
        np.add(s4, s5, out=first)
        first *= third
        np.subtract(s4, s5, out=one)
        third *= one
        first /= sound
        # r1 is the second of the three sums; the first one becomes the energy's
        np.add(s3, first, out=r1)
        first *= sound
        first *= sound
        first *= 1.0 / C2
        np.multiply(q, r1, out=one)
        first += one
        np.multiply(w, third, out=one)
        first += one
        np.multiply(w, r1, out=r4)
        r4 += third
        np.multiply(density, s2, out=third)
        np.multiply(u, r1, out=r2)
        r2 -= third
        third *= u
        first -= third
        np.multiply(density, s1, out=third)
        np.multiply(v, r1, out=r3)
        r3 += third
        third *= v
        np.add(first, third, out=r5)

    # --- the norms

    def error(self, field: Field) -> np.ndarray:
        """Five sums of squares of the distance from the exact solution."""
        away = field.own - exact(*coordinates(field.cell.low, field.cell.size, 0, self.equations.points))
        return np.sum(away * away, axis=(1, 2, 3))

    def residual(self, field: Field) -> np.ndarray:
        """Five sums of squares of rhs."""
        return np.sum(field.rhs * field.rhs, axis=(1, 2, 3))
