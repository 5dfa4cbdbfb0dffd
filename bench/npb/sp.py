"""NPB's pseudo-application SP: a scalar pentadiagonal solver by alternating directions, on the multi-partition.

Every iteration copies faces of cells to the six neighbours, then sweeps along x, y and z. In each stage of a sweep a
rank receives the rows before its cell, works, and sends its own last rows on; then the same backwards. From SP/sp.f,
SP/adi.f, SP/copy_faces.f, SP/x_solve.f (y, z) and SP/verify.f. The arithmetic is in the modules beside this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from mpi4py import MPI
from npb import constants
from npb.sp_arithmetic import Numpy
from npb.sp_equations import Equations
from npb.sp_faces import Face
from npb.sp_field import Field
from npb.sp_numba import Numba
from npb.sp_partition import Partition
from npb.sp_skeleton import Skeleton
from ranks.kernel import Kernel, Verification

SWEEP = 0  # the tag of rows


class SP(Kernel):
    """Takes NPB's number of time steps on one class's grid."""

    name = "SP"
    problems = constants.SP
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "numba": Numba, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Any) -> None:
        self.comm, self.problem, self.arithmetic = comm, self.problems[problem], arithmetic
        points = self.problem.points
        self.size, self.iterations = f"{points} x {points} x {points}", self.problem.iterations

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        return lambda ranks: Partition.possible(ranks, cls.problems[problem].points)

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        points = cls.problems[problem].points
        cells = [cell for rank in range(ranks) for cell in Partition(rank, ranks, points).cells]
        largest = max((cell.size for cell in cells), key=np.prod)
        return sum(Numpy.memory(cell.size) for cell in cells) + ranks * Numpy.temporary(largest)

    def prepare(self) -> None:
        comm = self.comm
        self.partition = Partition(comm.Get_rank(), comm.Get_size(), self.problem.points)
        # as in NPB, faces and rows have a communicator each
        self.faces, self.rows = comm.Dup(), comm.Dup()
        self.equations = Equations(self.problem.points, self.problem.dt)
        self.arithmetic.prepare(self.equations, self.partition.cells)
        self.fields: list[Field] = self.arithmetic.fields
        # successors before predecessors, x before y before z
        self.sides = [Face(self.partition, self.fields, axis, behind) for axis in range(3) for behind in (True, False)]
        for field in self.fields:
            self.arithmetic.initialize(field)
            self.arithmetic.force(field)
            self.arithmetic.initialize(field)
        self._step()
        for field in self.fields:
            self.arithmetic.initialize(field)

    def run(self) -> None:
        for _ in range(self.iterations):
            self._step()

    def verify(self) -> Verification:
        error = self._norms(self.arithmetic.error)
        self._right_hand_side()
        residual = self._norms(self.arithmetic.residual) / self.problem.dt
        rows = []
        for what, got, due in (("residual", residual, self.problem.residual), ("error", error, self.problem.error)):
            rows += [(f"{what} {n + 1}", float(got[n]), due[n]) for n in range(5)]
        return Verification.relative(rows, constants.SP_ACCEPTED)

    def operations(self) -> float:
        n = float(self.problem.points)
        return self.iterations * (881.174 * n**3 - 4683.91 * n**2 + 11484.5 * n - 19272.4)

    def _step(self) -> None:
        self._right_hand_side()
        for field in self.fields:
            self.arithmetic.precondition(field)
        for axis in range(3):
            self._solve(axis)
        for field in self.fields:
            self.arithmetic.add(field)

    def _right_hand_side(self) -> None:
        if self.partition.side > 1:
            self._copy_faces()
        for field in self.fields:
            self.arithmetic.right_hand_side(field)

    def _copy_faces(self) -> None:
        faces, arithmetic = self.faces, self.arithmetic
        for side in self.sides:
            for plane, buffer in side.leaving:
                arithmetic.pack(plane, buffer)
        requests = [faces.Irecv(side.received, side.rank, side.receive_tag) for side in self.sides]
        requests += [faces.Isend(side.sent, side.rank, side.send_tag) for side in self.sides]
        MPI.Request.Waitall(requests)
        for side in self.sides:
            for buffer, plane in side.arriving:
                arithmetic.unpack(buffer, plane)

    def _solve(self, axis: int) -> None:
        """Both sweeps. What can be computed without a message is computed while it is under way."""
        rows, arithmetic = self.rows, self.arithmetic
        before, behind = self.partition.predecessor[axis], self.partition.successor[axis]
        fields = [self.fields[number] for number in self.partition.stages[axis]]
        sent: Any = None
        for field in fields:
            lines = field.lines[axis]
            if lines.first:
                arithmetic.left_hand_side(lines)
            else:
                received = rows.Irecv(lines.from_before, before, SWEEP)
                arithmetic.left_hand_side(lines)
                MPI.Request.Waitall([received, sent])
            arithmetic.eliminate(lines)
            if not lines.last:
                sent = rows.Isend(lines.to_behind, behind, SWEEP)
        finished: Any = None
        for field in reversed(fields):
            lines = field.lines[axis]
            if not lines.last:
                received = rows.Irecv(lines.from_behind, behind, SWEEP)
                arithmetic.invert(finished, axis)
                MPI.Request.Waitall([received, sent])
            arithmetic.substitute(lines)
            if not lines.first:
                sent = rows.Isend(lines.to_before, before, SWEEP)
            finished = field
        arithmetic.invert(finished, axis)

    def _norms(self, squares: Callable[[Field], np.ndarray]) -> np.ndarray:
        own, whole = np.zeros(5), np.zeros(5)
        for field in self.fields:
            own += squares(field)
        self.comm.Allreduce(own, whole, MPI.SUM)
        return np.sqrt(whole / (self.problem.points - 2.0) ** 3)
