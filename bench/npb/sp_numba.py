"""SP's arithmetic with compiled loops: one pass over a cell's points where numpy makes many.

The steps, the arrays and their order are those of sp_arithmetic.py and sp_sweep.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace

import numpy as np
from npb.sp_arithmetic import Numpy
from npb.sp_equations import C1, C1C5, C2, C3C4, FOUR_THIRDS, HALF_ROOT, Equations
from npb.sp_field import HALO, Field, Lines, across, differences
from npb.sp_partition import Cell


class Numba(Numpy):
    """Right-hand side, factors and sweeps, compiled."""

    def prepare(self, equations: Equations, cells: Sequence[Cell]) -> None:
        super().prepare(equations, cells)
        self._compiled = compiled()
        self._weights = np.empty((5, max(cell.size[0] for cell in cells)))
        self._stencils = {id(field): [self._stencil(lines) for lines in field.lines] for field in self.fields}

    def _stencil(self, lines: Lines) -> np.ndarray:
        """Viscosity and dissipation: for each row what multiplies u at the five points around it."""
        equations = self.equations
        second = equations.dissipation[lines.axis] * equations.second_difference * np.array([0.0, 1.0, -2.0, 1.0, 0.0])
        return second - equations.fourth * differences(lines.rows, lines.first, lines.last)

    def right_hand_side(self, field: Field) -> None:
        equations, starts = self.equations, np.array(field.cell.starts[::-1])
        self._compiled.primitive(field.u, field.primitive)
        np.copyto(field.rhs, field.forcing)
        for axis, stencil in enumerate(self._stencils[id(field)]):
            viscosity = np.full(3, equations.viscosity)
            viscosity[axis] *= FOUR_THIRDS
            self._compiled.fluxes(
                field.u, field.primitive, field.rhs, starts, axis, stencil, self._weights, viscosity,
                equations.energy, equations.squares, equations.total, equations.first_difference,
            )  # fmt: skip
        field.rhs *= equations.dt

    def precondition(self, field: Field) -> None:
        self._compiled.precondition(field.inner_primitive, field.rhs)

    def left_hand_side(self, lines: Lines) -> None:
        equations = self.equations
        first, second = equations.dt * equations.first_difference, equations.dt * equations.second_difference
        sweep = self._sweeps[id(lines)]
        self._compiled.fill(
            lines.primitive, lines.axis, lines.rhs, lines.differences, sweep.c[:, 0], sweep.b, lines.eliminated, first,
            second * C1C5 * C3C4, second * equations.dissipation[lines.axis],
        )  # fmt: skip
        if lines.first:
            lines.eliminated[:2] = 0.0

    def eliminate(self, lines: Lines) -> None:
        sweep = self._sweeps[id(lines)]
        self._compiled.eliminate(lines.differences, sweep.c[:, 0], sweep.b, lines.eliminated)

    def substitute(self, lines: Lines) -> None:
        if lines.last:
            lines.solved[-2:] = 0.0
        self._compiled.substitute(lines.eliminated, lines.solved)

    def invert(self, field: Field, axis: int) -> None:
        solved = across(field.lines[axis].solved[:-2], axis)
        if axis == 2:
            self._compiled.after_z(solved, field.inner_primitive, field.inner[0], field.rhs)
        else:
            self._compiled.after(solved, axis, field.rhs)


@cache
def compiled() -> SimpleNamespace:
    """The loops, by name. Raises ImportError without Numba."""
    import numba

    @numba.njit
    def primitive(u, values):  # type: ignore[no-untyped-def]
        _, planes, rows, columns = values.shape
        for k in range(planes):
            for j in range(rows):
                for i in range(columns):
                    density = u[0, k + 1, j + 1, i + 1]
                    rho = 1.0 / density
                    x = u[1, k + 1, j + 1, i + 1] * rho
                    y = u[2, k + 1, j + 1, i + 1] * rho
                    z = u[3, k + 1, j + 1, i + 1] * rho
                    q = 0.5 * (x * x + y * y + z * z)
                    pressure = C2 * (u[4, k + 1, j + 1, i + 1] - q * density)
                    values[0, k, j, i] = rho
                    values[1, k, j, i] = x
                    values[2, k, j, i] = y
                    values[3, k, j, i] = z
                    values[4, k, j, i] = q
                    values[5, k, j, i] = pressure
                    values[6, k, j, i] = np.sqrt(C1 * pressure * rho)

    @numba.njit
    def fluxes(  # type: ignore[no-untyped-def]
        u, values, rhs, starts, axis, stencil, weights, viscosity, energy, squares, total, first
    ):
        _, planes, rows, columns = rhs.shape
        dk, dj, di = 1 if axis == 2 else 0, 1 if axis == 1 else 0, 1 if axis == 0 else 0
        ui = starts[2] + HALO  # the first point's column in u, and in values
        vi = ui - 1
        if axis == 0:
            for n in range(5):
                weights[n, :columns] = stencil[:, n]
        for k in range(planes):
            uk, vk = starts[0] + HALO + k, starts[0] + HALO - 1 + k
            for j in range(rows):
                uj, vj = starts[1] + HALO + j, starts[1] + HALO - 1 + j
                if axis != 0:
                    for n in range(5):
                        weights[n, :columns] = stencil[k if axis == 2 else j, n]
                ahead = values[:, vk + dk, vj + dj, vi + di : vi + di + columns]
                at = values[:, vk, vj, vi : vi + columns]
                behind = values[:, vk - dk, vj - dj, vi - di : vi - di + columns]
                for c in range(5):
                    out = rhs[c, k, j]
                    here = u[c, uk, uj, ui : ui + columns]
                    more, less = u[c, uk + dk, uj + dj, ui + di :], u[c, uk - dk, uj - dj, ui - di :]
                    most = u[c, uk + 2 * dk, uj + 2 * dj, ui + 2 * di :]
                    least = u[c, uk - 2 * dk, uj - 2 * dj, ui - 2 * di :]
                    for i in range(columns):
                        out[i] += (
                            weights[0, i] * least[i]
                            + weights[1, i] * less[i]
                            + weights[2, i] * here[i]
                            + weights[3, i] * more[i]
                            + weights[4, i] * most[i]
                        )
                    if c == 0:
                        front, back = u[1 + axis, uk + dk, uj + dj, ui + di :], u[1 + axis, uk - dk, uj - dj, ui - di :]
                        for i in range(columns):
                            out[i] -= first * (front[i] - back[i])
                    else:
                        for i in range(columns):
                            out[i] -= first * (more[i] * ahead[1 + axis, i] - less[i] * behind[1 + axis, i])
                    if c == 1 + axis:
                        for i in range(columns):
                            out[i] -= first * (ahead[5, i] - behind[5, i])
                    if 0 < c < 4:
                        for i in range(columns):
                            out[i] += viscosity[c - 1] * (ahead[c, i] - 2.0 * at[c, i] + behind[c, i])
                    if c == 4:
                        for i in range(columns):
                            to, along, fro = ahead[1 + axis, i], at[1 + axis, i], behind[1 + axis, i]
                            out[i] += (
                                energy * (ahead[4, i] - 2.0 * at[4, i] + behind[4, i])
                                + squares * (to * to - 2.0 * along * along + fro * fro)
                                + total * (more[i] * ahead[0, i] - 2.0 * here[i] * at[0, i] + less[i] * behind[0, i])
                                - first * (ahead[5, i] * to - behind[5, i] * fro)
                            )

    @numba.njit
    def precondition(values, rhs):  # type: ignore[no-untyped-def]
        _, planes, rows, columns = rhs.shape
        for k in range(planes):
            for j in range(rows):
                for i in range(columns):
                    rho, x, y, z = values[0, k, j, i], values[1, k, j, i], values[2, k, j, i], values[3, k, j, i]
                    q, sound = values[4, k, j, i], values[6, k, j, i]
                    r1, r2, r3, r4 = rhs[0, k, j, i], rhs[1, k, j, i], rhs[2, k, j, i], rhs[3, k, j, i]
                    one = C2 * (q * r1 - x * r2 - y * r3 - z * r4 + rhs[4, k, j, i]) / (sound * sound)
                    two = HALF_ROOT * rho * (x * r1 - r2)
                    three = HALF_ROOT * rho * sound * one
                    rhs[0, k, j, i] = r1 - one
                    rhs[1, k, j, i] = -rho * (z * r1 - r4)
                    rhs[2, k, j, i] = rho * (y * r1 - r3)
                    rhs[3, k, j, i] = three - two
                    rhs[4, k, j, i] = three + two

    @numba.njit
    def fill(values, axis, rhs, by, c, b, eliminated, first, spreading, fixed):  # type: ignore[no-untyped-def]
        _, rows, planes, columns = rhs.shape
        for r in range(rows):
            for k in range(planes):
                for j in range(columns):
                    before = first * values[1 + axis, r, k, j] + (spreading * values[0, r, k, j] + fixed)
                    behind = first * values[1 + axis, r + 2, k, j] - (spreading * values[0, r + 2, k, j] + fixed)
                    middle = 2.0 * (spreading * values[0, r + 1, k, j] + fixed) + (1.0 + by[r, 2])
                    lower, upper = by[r, 1] - before, by[r, 3] + behind
                    sound_before, sound_behind = first * values[6, r, k, j], first * values[6, r + 2, k, j]
                    c[r, k, j] = middle
                    b[r, 0, k, j] = lower
                    b[r, 1, k, j] = lower - sound_before
                    b[r, 2, k, j] = lower + sound_before
                    eliminated[r + 2, 3, k, j] = upper
                    eliminated[r + 2, 4, k, j] = upper + sound_behind
                    eliminated[r + 2, 5, k, j] = upper - sound_behind
                    for n in range(5):
                        eliminated[r + 2, 6 + n, k, j] = rhs[n, r, k, j]

    @numba.njit
    def eliminate(by, c, b, done):  # type: ignore[no-untyped-def]
        rows, planes, columns = c.shape
        for r in range(rows):
            a, e = by[r, 0], by[r, 4]
            for factor in range(3):
                begin, end = (0, 3) if factor == 0 else (factor + 2, factor + 3)
                for k in range(planes):
                    for j in range(columns):
                        lower = b[r, factor, k, j] - a * done[r, 3 + factor, k, j]
                        middle = c[r, k, j] - a * done[r, factor, k, j] - lower * done[r + 1, 3 + factor, k, j]
                        upper = done[r + 2, 3 + factor, k, j] - lower * done[r + 1, factor, k, j]
                        over = 1.0 / middle
                        done[r + 2, factor, k, j] = over * e
                        done[r + 2, 3 + factor, k, j] = over * upper
                        for n in range(6 + begin, 6 + end):
                            right = done[r + 2, n, k, j] - a * done[r, n, k, j] - lower * done[r + 1, n, k, j]
                            done[r + 2, n, k, j] = over * right

    @numba.njit
    def substitute(done, solved):  # type: ignore[no-untyped-def]
        rows, planes, columns = solved.shape[0] - 2, solved.shape[2], solved.shape[3]
        for r in range(rows - 1, -1, -1):
            for n in range(5):
                factor = max(0, n - 2)
                for k in range(planes):
                    for j in range(columns):
                        solved[r, n, k, j] = (
                            done[r + 2, 6 + n, k, j]
                            - done[r + 2, 3 + factor, k, j] * solved[r + 1, n, k, j]
                            - done[r + 2, factor, k, j] * solved[r + 2, n, k, j]
                        )

    @numba.njit
    def after(solved, axis, rhs):  # type: ignore[no-untyped-def]
        _, planes, rows, columns = rhs.shape
        still = 2 if axis == 0 else 0
        for k in range(planes):
            for j in range(rows):
                for i in range(columns):
                    plus, minus = solved[3, k, j, i], solved[4, k, j, i]
                    half, one = 0.5 * (plus + minus), HALF_ROOT * solved[still, k, j, i]
                    if axis == 0:
                        rhs[0, k, j, i] = -solved[1, k, j, i]
                        rhs[1, k, j, i] = solved[0, k, j, i]
                    else:
                        rhs[1, k, j, i] = -solved[2, k, j, i]
                        rhs[2, k, j, i] = solved[1, k, j, i]
                    rhs[still, k, j, i] = HALF_ROOT * (plus - minus)
                    rhs[3, k, j, i] = half - one
                    rhs[4, k, j, i] = half + one

    @numba.njit
    def after_z(solved, values, density, rhs):  # type: ignore[no-untyped-def]
        _, planes, rows, columns = rhs.shape
        for k in range(planes):
            for j in range(rows):
                for i in range(columns):
                    x, y, z = values[1, k, j, i], values[2, k, j, i], values[3, k, j, i]
                    q, sound, mass = values[4, k, j, i], values[6, k, j, i], density[k, j, i]
                    s1, s2, s4, s5 = solved[0, k, j, i], solved[1, k, j, i], solved[3, k, j, i], solved[4, k, j, i]
                    one = HALF_ROOT * mass * (s4 + s5)
                    three = HALF_ROOT * mass * (s4 - s5)
                    two = solved[2, k, j, i] + one / sound
                    rhs[0, k, j, i] = two
                    rhs[1, k, j, i] = x * two - mass * s2
                    rhs[2, k, j, i] = y * two + mass * s1
                    rhs[3, k, j, i] = z * two + three
                    rhs[4, k, j, i] = one * sound / C2 + q * two + z * three - mass * s2 * x + mass * s1 * y

    return SimpleNamespace(
        primitive=primitive, fluxes=fluxes, precondition=precondition, fill=fill, eliminate=eliminate,
        substitute=substitute, after=after, after_z=after_z,
    )  # fmt: skip
