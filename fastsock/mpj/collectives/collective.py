"""Collective operations on memory: the upper-case calls, blocking, non-blocking and persistent."""

from __future__ import annotations

from collections.abc import Sequence

from ..datatypes.op import SUM, Op
from ..handle import Handle
from ..info import INFO_NULL, Info
from ..messages.operation_records import Persistent
from ..messages.request import Prequest, Request
from . import prepared, reductions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Collective(Handle):
    """Collective operations on memory (MPI 4.1, chapter 6). All members call them, in the same order.

    Buffers are those of point-to-point calls. Where one holds a block for each rank, a count is that of each block;
    without a count the memory is cut evenly. In calls whose name ends in `v`, counts and displacements are lists, in
    items; in `w` calls there is also a list of types, and displacements are bytes. IN_PLACE as one buffer says that the
    data are in the other one. An operation that does not commute is applied in the order of the ranks.

    Raises ValueError where buffers do not fit each other, and MPI.Exception: ERR_ROOT for a root that is not there,
    ERR_OP for an operation that is not defined on the type, ERR_PROC_FAILED where a member has failed.
    """

    __slots__ = ()

    # Blocking

    def Barrier(self) -> None:
        """Wait until all members have called it."""
        if not self.ob.team_calls.barrier():
            prepared.barrier(self.ob).run()

    def barrier(self) -> None:
        """Wait until all members have called it."""
        self.Barrier()

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Bring the root's `buf` to the `buf` of all."""
        if not self.ob.team_calls.bcast(buf, root):
            prepared.bcast(self.ob, buf, root).run()

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Bring the `sendbuf` of each rank i to block i of the root's `recvbuf`. All blocks have one size."""
        if not self.ob.team_calls.gather(sendbuf, recvbuf, root):
            prepared.gather(self.ob, sendbuf, recvbuf, root, False).run()

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Bring the `sendbuf` of each rank i to block i of the root's `recvbuf`. Blocks have sizes of their own."""
        if not self.ob.team_calls.gatherv(sendbuf, recvbuf, root):
            prepared.gather(self.ob, sendbuf, recvbuf, root, True).run()

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Bring block i of the root's `sendbuf` to the `recvbuf` of rank i. All blocks have one size."""
        if not self.ob.team_calls.scatter(sendbuf, recvbuf, root):
            prepared.scatter(self.ob, sendbuf, recvbuf, root, False).run()

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Bring block i of the root's `sendbuf` to the `recvbuf` of rank i. Blocks have sizes of their own."""
        if not self.ob.team_calls.scatterv(sendbuf, recvbuf, root):
            prepared.scatter(self.ob, sendbuf, recvbuf, root, True).run()

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Bring the `sendbuf` of each rank i to block i of every `recvbuf`. All blocks have one size."""
        if not self.ob.team_calls.allgather(sendbuf, recvbuf):
            prepared.allgather(self.ob, sendbuf, recvbuf, False).run()

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Bring the `sendbuf` of each rank i to block i of every `recvbuf`. Blocks have sizes of their own."""
        if not self.ob.team_calls.allgatherv(sendbuf, recvbuf):
            prepared.allgather(self.ob, sendbuf, recvbuf, True).run()

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Bring block j of rank i's `sendbuf` to block i of rank j's `recvbuf`. All blocks have one size."""
        if not self.ob.team_calls.alltoall(sendbuf, recvbuf):
            prepared.alltoall(self.ob, sendbuf, recvbuf, False).run()

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Bring block j of rank i's `sendbuf` to block i of rank j's `recvbuf`. Blocks have sizes of their own."""
        if not self.ob.team_calls.alltoallv(sendbuf, recvbuf):
            prepared.alltoall(self.ob, sendbuf, recvbuf, True).run()

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """Bring block j of rank i's `sendbuf` to block i of rank j's `recvbuf`. Blocks have types of their own."""
        if not self.ob.team_calls.alltoallw(sendbuf, recvbuf):
            prepared.alltoallw(self.ob, sendbuf, recvbuf).run()

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """Combine the `sendbuf` of all ranks, element by element, in the root's `recvbuf`."""
        if not self.ob.team_calls.reduce(sendbuf, recvbuf, op, root):
            reductions.reduce(self.ob, sendbuf, recvbuf, op, root).run()

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combine the `sendbuf` of all ranks, element by element, in every `recvbuf`."""
        if not self.ob.team_calls.allreduce(sendbuf, recvbuf, op):
            reductions.allreduce(self.ob, sendbuf, recvbuf, op).run()

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combine block i of all ranks' `sendbuf` in the `recvbuf` of rank i. All blocks have one size."""
        if not self.ob.team_calls.reduce_scatter_block(sendbuf, recvbuf, op):
            reductions.reduce_scatter_block(self.ob, sendbuf, recvbuf, op).run()

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM) -> None:
        """Combine block i of all ranks' `sendbuf` in the `recvbuf` of rank i. Blocks have sizes of their own.

        `recvcounts`: the items of each block. Without it the ranks ask each other; it is needed in place and on an
        intercommunicator (TypeError).
        """
        if not self.ob.team_calls.reduce_scatter(sendbuf, recvbuf, recvcounts, op):
            reductions.reduce_scatter(self.ob, sendbuf, recvbuf, recvcounts, op).run()

    # Non-blocking

    def Ibarrier(self) -> Request:
        """Start what `Barrier` does."""
        started = self.ob.start_calls.barrier()
        return Request.of(prepared.barrier(self.ob).start()) if started is None else started

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        """Start what `Bcast` does."""
        started = self.ob.start_calls.bcast(buf, root)
        return Request.of(prepared.bcast(self.ob, buf, root).start()) if started is None else started

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Start what `Gather` does."""
        started = self.ob.start_calls.gather(sendbuf, recvbuf, root)
        return (
            Request.of(prepared.gather(self.ob, sendbuf, recvbuf, root, False).start()) if started is None else started
        )

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Start what `Gatherv` does."""
        started = self.ob.start_calls.gatherv(sendbuf, recvbuf, root)
        return (
            Request.of(prepared.gather(self.ob, sendbuf, recvbuf, root, True).start()) if started is None else started
        )

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Start what `Scatter` does."""
        started = self.ob.start_calls.scatter(sendbuf, recvbuf, root)
        return (
            Request.of(prepared.scatter(self.ob, sendbuf, recvbuf, root, False).start()) if started is None else started
        )

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Start what `Scatterv` does."""
        started = self.ob.start_calls.scatterv(sendbuf, recvbuf, root)
        return (
            Request.of(prepared.scatter(self.ob, sendbuf, recvbuf, root, True).start()) if started is None else started
        )

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Allgather` does."""
        started = self.ob.start_calls.allgather(sendbuf, recvbuf)
        return Request.of(prepared.allgather(self.ob, sendbuf, recvbuf, False).start()) if started is None else started

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Allgatherv` does."""
        started = self.ob.start_calls.allgatherv(sendbuf, recvbuf)
        return Request.of(prepared.allgather(self.ob, sendbuf, recvbuf, True).start()) if started is None else started

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Alltoall` does."""
        started = self.ob.start_calls.alltoall(sendbuf, recvbuf)
        return Request.of(prepared.alltoall(self.ob, sendbuf, recvbuf, False).start()) if started is None else started

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Alltoallv` does."""
        started = self.ob.start_calls.alltoallv(sendbuf, recvbuf)
        return Request.of(prepared.alltoall(self.ob, sendbuf, recvbuf, True).start()) if started is None else started

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Alltoallw` does."""
        started = self.ob.start_calls.alltoallw(sendbuf, recvbuf)
        return Request.of(prepared.alltoallw(self.ob, sendbuf, recvbuf).start()) if started is None else started

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request:
        """Start what `Reduce` does."""
        started = self.ob.start_calls.reduce(sendbuf, recvbuf, op, root)
        return (
            Request.of(reductions.reduce(self.ob, sendbuf, recvbuf, op, root).start()) if started is None else started
        )

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Start what `Allreduce` does."""
        started = self.ob.start_calls.allreduce(sendbuf, recvbuf, op)
        return Request.of(reductions.allreduce(self.ob, sendbuf, recvbuf, op).start()) if started is None else started

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Start what `Reduce_scatter_block` does."""
        started = self.ob.start_calls.reduce_scatter_block(sendbuf, recvbuf, op)
        return (
            Request.of(reductions.reduce_scatter_block(self.ob, sendbuf, recvbuf, op).start())
            if started is None
            else started
        )

    def Ireduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Request:
        """Start what `Reduce_scatter` does."""
        started = self.ob.start_calls.reduce_scatter(sendbuf, recvbuf, recvcounts, op)
        return (
            Request.of(reductions.reduce_scatter(self.ob, sendbuf, recvbuf, recvcounts, op).start())
            if started is None
            else started
        )

    # Persistent

    def Barrier_init(self, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Barrier` does."""
        begin = self.ob.start_calls.barrier(True)
        return Prequest.of(prepared.barrier(self.ob).persistent() if begin is None else Persistent(begin))

    def Bcast_init(self, buf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Bcast` does."""
        begin = self.ob.start_calls.bcast(buf, root, True)
        return Prequest.of(prepared.bcast(self.ob, buf, root).persistent() if begin is None else Persistent(begin))

    def Gather_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Gather` does."""
        begin = self.ob.start_calls.gather(sendbuf, recvbuf, root, True)
        return Prequest.of(
            prepared.gather(self.ob, sendbuf, recvbuf, root, False).persistent() if begin is None else Persistent(begin)
        )

    def Gatherv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Gatherv` does."""
        begin = self.ob.start_calls.gatherv(sendbuf, recvbuf, root, True)
        return Prequest.of(
            prepared.gather(self.ob, sendbuf, recvbuf, root, True).persistent() if begin is None else Persistent(begin)
        )

    def Scatter_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Scatter` does."""
        begin = self.ob.start_calls.scatter(sendbuf, recvbuf, root, True)
        return Prequest.of(
            prepared.scatter(self.ob, sendbuf, recvbuf, root, False).persistent()
            if begin is None
            else Persistent(begin)
        )

    def Scatterv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Scatterv` does."""
        begin = self.ob.start_calls.scatterv(sendbuf, recvbuf, root, True)
        return Prequest.of(
            prepared.scatter(self.ob, sendbuf, recvbuf, root, True).persistent() if begin is None else Persistent(begin)
        )

    def Allgather_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Allgather` does."""
        begin = self.ob.start_calls.allgather(sendbuf, recvbuf, True)
        return Prequest.of(
            prepared.allgather(self.ob, sendbuf, recvbuf, False).persistent() if begin is None else Persistent(begin)
        )

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Allgatherv` does."""
        begin = self.ob.start_calls.allgatherv(sendbuf, recvbuf, True)
        return Prequest.of(
            prepared.allgather(self.ob, sendbuf, recvbuf, True).persistent() if begin is None else Persistent(begin)
        )

    def Alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Alltoall` does."""
        begin = self.ob.start_calls.alltoall(sendbuf, recvbuf, True)
        return Prequest.of(
            prepared.alltoall(self.ob, sendbuf, recvbuf, False).persistent() if begin is None else Persistent(begin)
        )

    def Alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Alltoallv` does."""
        begin = self.ob.start_calls.alltoallv(sendbuf, recvbuf, True)
        return Prequest.of(
            prepared.alltoall(self.ob, sendbuf, recvbuf, True).persistent() if begin is None else Persistent(begin)
        )

    def Alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Alltoallw` does."""
        begin = self.ob.start_calls.alltoallw(sendbuf, recvbuf, True)
        return Prequest.of(
            prepared.alltoallw(self.ob, sendbuf, recvbuf).persistent() if begin is None else Persistent(begin)
        )

    def Reduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Reduce` does."""
        begin = self.ob.start_calls.reduce(sendbuf, recvbuf, op, root, True)
        return Prequest.of(
            reductions.reduce(self.ob, sendbuf, recvbuf, op, root).persistent() if begin is None else Persistent(begin)
        )

    def Allreduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Allreduce` does."""
        begin = self.ob.start_calls.allreduce(sendbuf, recvbuf, op, True)
        return Prequest.of(
            reductions.allreduce(self.ob, sendbuf, recvbuf, op).persistent() if begin is None else Persistent(begin)
        )

    def Reduce_scatter_block_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Reduce_scatter_block` does."""
        begin = self.ob.start_calls.reduce_scatter_block(sendbuf, recvbuf, op, True)
        return Prequest.of(
            reductions.reduce_scatter_block(self.ob, sendbuf, recvbuf, op).persistent()
            if begin is None
            else Persistent(begin)
        )

    def Reduce_scatter_init(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM, info: Info = INFO_NULL
    ) -> Prequest:
        """Create a persistent request for what `Reduce_scatter` does."""
        begin = self.ob.start_calls.reduce_scatter(sendbuf, recvbuf, recvcounts, op, True)
        return Prequest.of(
            reductions.reduce_scatter(self.ob, sendbuf, recvbuf, recvcounts, op).persistent()
            if begin is None
            else Persistent(begin)
        )
