"""What SP solves: the numbers of its equations, the exact solution, the field that it begins with.

From SP/set_constants.f, SP/exact_solution.f and SP/initialize.f. NPB gives each of the five equations its own
dissipation in x, y and z. The values differ by direction only, so one stands for five here.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

C1, C2, C3C4 = 1.4, 0.4, 0.1
C1C5 = C1 * 1.4
HALF_ROOT = sqrt(0.5)
FOUR_THIRDS = 4.0 / 3.0

# by equation: the coefficients of 1, x, y, z, x^2, y^2, z^2, x^3, y^3, z^3, x^4, y^4, z^4
EXACT = np.array(
    [
        [2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3],
        [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5],
        [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4],
        [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3],
        [5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2],
    ]
)

# of u, u, ..., where no value came from a neighbour: the speed of sound must exist there too
FAR = np.array([1.0, 0.0, 0.0, 0.0, 1.0])


class Equations:
    """The numbers that depend on the grid and on the time step. A triple holds x, y and z."""

    def __init__(self, points: int, dt: float) -> None:
        self.points, self.dt = points, dt
        across = float(points - 1)  # one over the distance of two points
        self.dissipation = (0.75, 0.75, 1.0)
        self.fourth = 0.25 * max(self.dissipation)
        self.first_difference = 0.5 * across
        self.second_difference = across * across
        # of the viscous terms: velocities, their energy, their squares, the total energy
        self.viscosity = C3C4 * self.second_difference
        self.energy = self.viscosity * (1.0 - C1C5)
        self.squares = self.viscosity / 6.0
        self.total = self.viscosity * C1C5


def exact(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The solution. x, y, z: coordinates, 0 to 1, that broadcast to one shape s. Returns an array (5, *s)."""
    found = []
    for one in EXACT:
        value = one[0]
        for axis, at in enumerate((x, y, z)):
            first, second, third, fourth = one[1 + axis :: 3]
            value = value + at * (first + at * (second + at * (third + at * fourth)))
        found.append(value)
    return np.stack(found)


def coordinates(low: tuple[int, int, int], size: tuple[int, int, int], halo: int, points: int) -> list[np.ndarray]:
    """x, y and z of a block and of so many points around it, shaped to broadcast to (z, y, x)."""
    found = []
    for axis in range(3):
        numbers = np.arange(low[axis] - halo, low[axis] + size[axis] + halo)
        shape = [1, 1, 1]
        shape[2 - axis] = -1
        found.append((numbers / (points - 1.0)).reshape(shape))
    return found


def initial(low: tuple[int, int, int], size: tuple[int, int, int], points: int) -> np.ndarray:
    """The field that SP begins with on one block: the border's exact values, blended (transfinite interpolation).

    Returns an array (5, z, y, x).
    """
    place = coordinates(low, size, 0, points)
    x, y, z = place
    blends = []
    for axis, at in enumerate(place):
        near, far = list(place), list(place)
        near[axis], far[axis] = np.zeros((1, 1, 1)), np.ones((1, 1, 1))
        blends.append(at * exact(*far) + (1.0 - at) * exact(*near))
    by_x, by_y, by_z = blends
    found = by_x + by_y + by_z - by_x * by_y - by_x * by_z - by_y * by_z + by_x * by_y * by_z
    border = np.zeros(found.shape[1:], dtype=bool)
    for at in (x, y, z):
        border |= (at == 0.0) | (at == 1.0)
    return np.where(border, exact(x, y, z), found)
