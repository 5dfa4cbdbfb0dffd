"""MolDyn: particles under a Lennard-Jones potential in a periodic cube, fifty moves.

Every rank moves all particles, and computes the forces between each p-th particle and those after it; six Allreduce a
move add up the forces' three components, potential energy, virial and number of interactions (section3/moldyn/md.java).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from jgf.checking import near, verdict
from jgf.congruential import sequence
from jgf.constants import (
    MOLDYN,
    MOLDYN_ACCEPTED,
    MOLDYN_CUBE_ROOT,
    MOLDYN_DENSITY,
    MOLDYN_MOVES,
    MOLDYN_MULTIPLIER,
    MOLDYN_RESCALE,
    MOLDYN_SCALE,
    MOLDYN_STEP,
    MOLDYN_TEMPERATURE,
    TITLE,
)
from mpi4py import MPI
from ranks.kernel import Kernel, Verification

PER_CELL = 4
CHUNK = 16_384  # distances at a time: they stay in the nearest caches


class Numpy:
    """Arrays of three rows, a coordinate each. Sums that the accepted value feels go one by one, as JGF's."""

    def reserve(self, cells: int) -> None:
        self.particles = PER_CELL * cells**3
        self.side = (self.particles / MOLDYN_DENSITY) ** MOLDYN_CUBE_ROOT
        self.cut = (cells / 4.0) ** 2  # interactions end at this squared distance
        self.heat = 16.0 / (self.particles - 1.0)  # kinetic energy times this is the temperature
        self.work = np.empty((3, max(CHUNK, self.particles)))

    def place(self, cells: int) -> np.ndarray:
        """Coordinates of a face-centred lattice, in JGF's order."""
        edge = self.side / cells
        grid = np.stack(np.meshgrid(*3 * [np.arange(cells) * edge], indexing="ij")).reshape(3, -1)
        half = edge * 0.5
        shifts = ((0.0, 0.0, 0.0), (half, half, 0.0), (half, 0.0, half), (0.0, half, half))
        return np.concatenate([grid + np.reshape(shift, (3, 1)) for shift in shifts], axis=1)

    def velocities(self) -> np.ndarray:
        """Normal ones by Marsaglia's polar method, without drift, at the reference temperature."""
        needed = 3 * self.particles // 2
        states = sequence(1, MOLDYN_MULTIPLIER, 0, 31, 4 * needed)  # a pair is taken with probability pi / 4
        pairs = 2.0 * (MOLDYN_SCALE * states.reshape(-1, 2)) - 1.0
        radius = pairs[:, 0] * pairs[:, 0] + pairs[:, 1] * pairs[:, 1]
        taken = np.flatnonzero(radius < 1.0)[:needed]
        radius = radius[taken]
        normal = np.sqrt(-2.0 * np.log(radius) / radius)[:, None] * pairs[taken]
        velocity = normal.reshape(3, self.particles)
        velocity -= np.cumsum(velocity, axis=1)[:, -1:] / self.particles
        energy = np.cumsum(velocity * velocity)[-1]
        return velocity * (MOLDYN_STEP * math.sqrt(MOLDYN_TEMPERATURE / (self.heat * energy)))

    def move(self, position: np.ndarray, velocity: np.ndarray, force: np.ndarray) -> None:
        position += velocity
        position += force
        position[position < 0.0] += self.side
        position[position > self.side] -= self.side
        velocity += force

    def forces(self, position: np.ndarray, force: np.ndarray, first: int, step: int) -> tuple[float, float, int]:
        """Forces of each `step`-th particle from `first` on with those after it; energy, virial, interactions."""
        i, j = self.near(position, first, step)
        apart = position[:, i] - position[:, j]
        apart[apart < -0.5 * self.side] += self.side
        apart[apart > 0.5 * self.side] -= self.side
        squared = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]
        r2 = 1.0 / squared
        r4 = r2 * r2
        r6, r8 = r4 * r2, r4 * r4
        r12 = r4 * r8
        strength = r12 * r2 - 0.5 * r8
        apart *= strength
        for total, between in zip(force, apart, strict=True):
            np.subtract(np.bincount(i, between, self.particles), np.bincount(j, between, self.particles), out=total)
        return float((r12 - r6).sum()), -float((squared * strength).sum()), len(i)

    def near(self, position: np.ndarray, first: int, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The pairs that interact: of every pair the distance is computed, by the nearest image."""
        found_i, found_j = [], []
        begin = first
        while begin < self.particles - 1:
            others = position[:, begin + 1 :]
            mine = np.arange(begin, self.particles - 1, step)[: max(1, CHUNK // others.shape[1])]
            shape = (len(mine), others.shape[1])
            squared, apart, image = (work[: math.prod(shape)].reshape(shape) for work in self.work)
            for axis in range(3):
                np.subtract(position[axis, mine, None], others[axis], out=apart)
                np.abs(apart, out=apart)
                np.subtract(self.side, apart, out=image)
                np.minimum(apart, image, out=apart)
                np.multiply(apart, apart, out=image if axis else squared)
                if axis:
                    squared += image
            i, j = np.divmod(np.flatnonzero(squared <= self.cut), shape[1])
            i, j = mine[i], j + (begin + 1)
            after = j > i
            found_i.append(i[after])
            found_j.append(j[after])
            begin = int(mine[-1]) + step
        return np.concatenate(found_i or [np.zeros(0, np.intp)]), np.concatenate(found_j or [np.zeros(0, np.intp)])

    def kick(self, velocity: np.ndarray, force: np.ndarray) -> float:
        """The velocities after the forces. Returns the kinetic energy."""
        force *= 0.5 * MOLDYN_STEP * MOLDYN_STEP
        velocity += force
        squared = velocity[0] * velocity[0] + velocity[1] * velocity[1] + velocity[2] * velocity[2]
        return float(np.cumsum(squared)[-1]) / (MOLDYN_STEP * MOLDYN_STEP)

    def speeds(self, velocity: np.ndarray) -> tuple[float, int]:
        """The mean speed, and how many particles are faster than JGF's mean."""
        fast = 1.13 * math.sqrt(MOLDYN_TEMPERATURE / 24.0) * MOLDYN_STEP
        speed = np.sqrt(velocity[0] * velocity[0] + velocity[1] * velocity[1] + velocity[2] * velocity[2])
        return float(speed.sum()) / MOLDYN_STEP / self.particles, int(np.count_nonzero(speed > fast))

    def rescale(self, velocity: np.ndarray, energy: float) -> float:
        """Bring the velocities to the reference temperature. Returns the kinetic energy."""
        velocity *= math.sqrt(MOLDYN_TEMPERATURE / (self.heat * energy))
        return MOLDYN_TEMPERATURE / self.heat


class Numba(Numpy):
    def reserve(self, cells: int) -> None:
        import numba

        super().reserve(cells)

        @numba.njit
        def compiled(position: Any, force: Any, first: int, step: int, side: float, cut: float) -> Any:
            x, y, z = position[0], position[1], position[2]
            half = 0.5 * side
            energy = virial = 0.0
            interactions = 0
            force[:] = 0.0
            for i in range(first, len(x), step):
                fx = fy = fz = 0.0
                for j in range(i + 1, len(x)):
                    dx, dy, dz = x[i] - x[j], y[i] - y[j], z[i] - z[j]
                    if dx < -half:
                        dx += side
                    if dx > half:
                        dx -= side
                    if dy < -half:
                        dy += side
                    if dy > half:
                        dy -= side
                    if dz < -half:
                        dz += side
                    if dz > half:
                        dz -= side
                    squared = dx * dx + dy * dy + dz * dz
                    if squared <= cut:
                        r2 = 1.0 / squared
                        r4 = r2 * r2
                        r6, r8 = r4 * r2, r4 * r4
                        r12 = r4 * r8
                        strength = r12 * r2 - 0.5 * r8
                        energy += r12 - r6
                        virial -= squared * strength
                        fx += dx * strength
                        fy += dy * strength
                        fz += dz * strength
                        force[0, j] -= dx * strength
                        force[1, j] -= dy * strength
                        force[2, j] -= dz * strength
                        interactions += 1
                force[0, i] += fx
                force[1, i] += fy
                force[2, i] += fz
            return energy, virial, interactions

        self.compiled = compiled
        self.compiled(np.zeros((3, 0)), np.zeros((3, 0)), 0, 1, self.side, self.cut)  # compiled before the clock

    def forces(self, position: np.ndarray, force: np.ndarray, first: int, step: int) -> tuple[float, float, int]:
        energy, virial, interactions = self.compiled(position, force, first, step, self.side, self.cut)
        return energy, virial, interactions


class Skeleton(Numpy):
    def place(self, cells: int) -> np.ndarray:
        return np.zeros((3, self.particles))

    def velocities(self) -> np.ndarray:
        return np.zeros((3, self.particles))

    def move(self, position: np.ndarray, velocity: np.ndarray, force: np.ndarray) -> None:
        pass

    def forces(self, position: np.ndarray, force: np.ndarray, first: int, step: int) -> tuple[float, float, int]:
        return 0.0, 0.0, 0

    def kick(self, velocity: np.ndarray, force: np.ndarray) -> float:
        return 0.0

    def speeds(self, velocity: np.ndarray) -> tuple[float, int]:
        return 0.0, 0

    def rescale(self, velocity: np.ndarray, energy: float) -> float:
        return 0.0


class MolDyn(Kernel):
    name = "MolDyn"
    title = TITLE
    problems = MOLDYN
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "numba": Numba, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Numpy) -> None:
        super().__init__(comm, problem, arithmetic)
        self.cells = MOLDYN[problem].cells
        self.particles = PER_CELL * self.cells**3
        self.size = f"{self.particles} particles"
        self.iterations = MOLDYN_MOVES

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        return lambda ranks: 1 <= ranks <= PER_CELL * MOLDYN[problem].cells ** 3

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        """Forty pairs a particle are near at most, each with a dozen numbers; velocities are drawn from as many."""
        particles = PER_CELL * MOLDYN[problem].cells ** 3
        near = math.ceil(particles * MOLDYN[problem].cells ** 3 / 400)
        return 8 * ranks * (60 * particles + 3 * max(CHUNK, particles)) + 8 * 12 * near

    def prepare(self) -> None:
        self.arithmetic.reserve(self.cells)
        self.position = self.arithmetic.place(self.cells)
        self.velocity = self.arithmetic.velocities()
        self.force, self.own_force = np.zeros((2, 3, self.particles))
        self.potential, self.virial, self.own_potential, self.own_virial = np.zeros((4, 1))
        self.near, self.own_near = np.zeros((2, 1), np.intc)
        self.interactions = 0
        self.kinetic = 0.0

    def run(self) -> None:
        self.comm.Barrier()
        for move in range(1, self.iterations + 1):
            self.move(move)
        self.comm.Barrier()

    def move(self, move: int) -> None:
        comm, arithmetic = self.comm, self.arithmetic
        arithmetic.move(self.position, self.velocity, self.force)
        comm.Barrier()
        self.own_potential[0], self.own_virial[0], self.own_near[0] = arithmetic.forces(
            self.position, self.own_force, comm.Get_rank(), comm.Get_size()
        )
        comm.Barrier()
        for own, together in itertools.chain(
            zip(self.own_force, self.force, strict=True),
            ((self.own_potential, self.potential), (self.own_virial, self.virial), (self.own_near, self.near)),
        ):
            comm.Allreduce(own, together, op=MPI.SUM)
        comm.Barrier()
        self.interactions += int(self.near[0])
        self.kinetic = arithmetic.kick(self.velocity, self.force)
        self.speed, self.fast = arithmetic.speeds(self.velocity)
        every, until = MOLDYN_RESCALE
        if move < until and move % every == 0:
            self.kinetic = arithmetic.rescale(self.velocity, self.kinetic)

    def verify(self) -> Verification:
        if self.comm.Get_rank() != 0:
            return verdict()
        what = "kinetic energy" if self.problem != "C" else "kinetic energy (JGF has no size C: beside one rank's)"
        return verdict(near(what, 24.0 * self.kinetic, MOLDYN[self.problem].energy, MOLDYN_ACCEPTED))

    def operations(self) -> float:
        return 0.0  # JGF counts interactions
