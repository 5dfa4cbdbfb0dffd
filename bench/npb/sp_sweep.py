"""SP's line solver in numpy: pentadiagonal elimination and back substitution of a cell's lines along one direction.

From SP/lhsx.f and SP/x_solve.f (y, z). NPB pushes a row's share into the two rows behind it; here a row pulls the
shares of the two before it. The operations are the same, and the rows that another rank sent are rows like the others.
"""

from __future__ import annotations

import numpy as np
from npb.sp_equations import C1C5, C3C4, Equations
from npb.sp_field import BACKWARD, FORWARD, RHO, SOUND, Lines, U


class Sweep:
    """The views of every row, made once.

    Row i of a matrix holds a, b, c, d and e, which multiply the unknowns i - 2 to i + 2. There are three matrices
    (factors): the velocity's, for three right-hand sides, and those of velocity plus and minus sound, for one each. a
    and e are one number for a whole row at first. An eliminated row has c = 1, and neither a nor b.
    """

    def __init__(self, lines: Lines, equations: Equations, middle: np.ndarray, temporary: np.ndarray) -> None:
        """middle: memory for `values(lines)` numbers; temporary: for five numbers of each row and of two more."""
        self.lines, self.equations = lines, equations
        rows, points, shape = lines.rows, lines.points, lines.shape
        middle = middle[: Sweep.values(lines)]
        self.c, self.b = middle.reshape(rows, 2, 3, *shape).swapaxes(0, 1)  # each (row, factor, plane, column)
        self.d = lines.eliminated[2:, 3:6]
        self.right = lines.eliminated[2:, 6:].swapaxes(0, 1)  # (component, row, plane, column)
        length = (rows + 2) * points
        self.spread, self.moved, self.sound = temporary[: 3 * length].reshape(3, rows + 2, *shape)

        # temporary is free again once the matrices are filled
        self._six = temporary[: 6 * points].reshape(6, points)
        self._pair = self._six.reshape(2, 3, points)
        self._five = temporary[6 * points : 11 * points].reshape(5, points)
        matrices = middle.reshape(rows, 6, points)
        done = lines.eliminated.reshape(rows + 2, FORWARD, points)
        solved = lines.solved.reshape(rows + 2, BACKWARD, points)
        self._rows = [
            (float(a), float(e), matrices[i], done[i], done[i + 1], done[i + 2])
            for i, (a, _, _, _, e) in enumerate(lines.differences)
        ]
        self._solved = [(done[i + 2], solved[i], solved[i + 1], solved[i + 2]) for i in reversed(range(rows))]

    @staticmethod
    def values(lines: Lines) -> int:
        """Numbers of b and c."""
        return 6 * lines.rows * lines.points

    def fill(self) -> None:
        """The matrices, from the state of the iteration's begin; the right-hand side, in the sweep's order."""
        lines, equations = self.lines, self.equations
        primitive, axis, dt = lines.primitive, lines.axis, equations.dt
        first, second = dt * equations.first_difference, dt * equations.second_difference
        spread, moved, sound = self.spread, self.moved, self.sound
        # NPB takes the largest of four: with one dissipation and a positive density it is always this
        np.multiply(primitive[RHO], second * C1C5 * C3C4, out=spread)
        spread += second * equations.dissipation[axis]
        np.multiply(primitive[U + axis], first, out=moved)
        np.multiply(primitive[SOUND], first, out=sound)

        b, c, d = self.b, self.c, self.d
        _, by_b, by_c, by_d, _ = lines.differences.T[:, :, None, None]
        np.multiply(spread[1:-1], 2.0, out=c[:, 0])
        c[:, 0] += 1.0 + by_c
        c[:, 1:] = c[:, :1]
        np.add(moved[:-2], spread[:-2], out=b[:, 0])
        np.subtract(by_b, b[:, 0], out=b[:, 0])
        np.subtract(b[:, 0], sound[:-2], out=b[:, 1])
        np.add(b[:, 0], sound[:-2], out=b[:, 2])
        np.subtract(moved[2:], spread[2:], out=d[:, 0])
        d[:, 0] += by_d
        np.add(d[:, 0], sound[2:], out=d[:, 1])
        np.subtract(d[:, 0], sound[2:], out=d[:, 2])
        np.copyto(self.right, lines.rhs)
        if lines.first:
            lines.eliminated[:2] = 0.0

    def eliminate(self) -> None:
        six, pair, five = self._six, self._pair, self._five
        for a, e, matrix, second, first, row in self._rows:
            c, b = matrix[:3], matrix[3:]
            right = row[6:]
            # the row two before: its e reaches c, its d reaches b
            np.multiply(second[:6], a, out=six)
            matrix -= six
            np.multiply(second[6:], a, out=five)
            right -= five
            # the row before: its e reaches d, its d reaches c
            np.multiply(first[:6].reshape(pair.shape), b, out=pair)
            row[3:6] -= six[:3]
            c -= six[3:]
            np.multiply(first[6:9], b[0], out=five[:3])
            np.multiply(first[9:], b[1:], out=five[3:])
            right -= five
            np.divide(1.0, c, out=c)
            np.multiply(c, e, out=row[:3])
            row[3:6] *= c
            right[:3] *= c[0]
            right[3:] *= c[1:]

    def substitute(self) -> None:
        if self.lines.last:
            self.lines.solved[-2:] = 0.0
        five = self._five
        for row, found, first, second in self._solved:
            np.multiply(first[:3], row[3], out=five[:3])
            np.multiply(first[3:], row[4:6], out=five[3:])
            np.subtract(row[6:], five, out=found)
            np.multiply(second[:3], row[0], out=five[:3])
            np.multiply(second[3:], row[1:3], out=five[3:])
            found -= five
