"""Collective operations on memory: the upper-case calls, blocking, non-blocking and persistent."""

from __future__ import annotations

from collections.abc import Sequence

from ..datatypes.op import SUM, Op
from ..handle import Handle
from ..info import INFO_NULL, Info
from ..messages.request import Prequest, Request
from . import prepared, reductions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Collective(Handle):
    """Collective operations on memory."""

    __slots__ = ()

    # Blocking

    def Barrier(self) -> None:
        """Barrier synchronization."""
        if not self.ob.team_calls.barrier():
            prepared.barrier(self.ob).run()

    def barrier(self) -> None:
        """Barrier synchronization."""
        self.Barrier()

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Broadcast data from one process to all."""
        if not self.ob.team_calls.bcast(buf, root):
            prepared.bcast(self.ob, buf, root).run()

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Gather data to one process."""
        if not self.ob.team_calls.gather(sendbuf, recvbuf, root):
            prepared.gather(self.ob, sendbuf, recvbuf, root, False).run()

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Gather blocks of different sizes to one process."""
        if not self.ob.team_calls.gatherv(sendbuf, recvbuf, root):
            prepared.gather(self.ob, sendbuf, recvbuf, root, True).run()

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Scatter data from one process."""
        if not self.ob.team_calls.scatter(sendbuf, recvbuf, root):
            prepared.scatter(self.ob, sendbuf, recvbuf, root, False).run()

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Scatter blocks of different sizes from one process."""
        if not self.ob.team_calls.scatterv(sendbuf, recvbuf, root):
            prepared.scatter(self.ob, sendbuf, recvbuf, root, True).run()

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Gather data to all."""
        if not self.ob.team_calls.allgather(sendbuf, recvbuf):
            prepared.allgather(self.ob, sendbuf, recvbuf, False).run()

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Gather blocks of different sizes to all."""
        if not self.ob.team_calls.allgatherv(sendbuf, recvbuf):
            prepared.allgather(self.ob, sendbuf, recvbuf, True).run()

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """All to all scatter/gather."""
        if not self.ob.team_calls.alltoall(sendbuf, recvbuf):
            prepared.alltoall(self.ob, sendbuf, recvbuf, False).run()

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """All to all scatter/gather of blocks of different sizes."""
        if not self.ob.team_calls.alltoallv(sendbuf, recvbuf):
            prepared.alltoall(self.ob, sendbuf, recvbuf, True).run()

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """All to all scatter/gather of blocks of different types."""
        if not self.ob.team_calls.alltoallw(sendbuf, recvbuf):
            prepared.alltoallw(self.ob, sendbuf, recvbuf).run()

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """Reduce to root."""
        if not self.ob.team_calls.reduce(sendbuf, recvbuf, op, root):
            reductions.reduce(self.ob, sendbuf, recvbuf, op, root).run()

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce to all."""
        if not self.ob.team_calls.allreduce(sendbuf, recvbuf, op):
            reductions.allreduce(self.ob, sendbuf, recvbuf, op).run()

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduce and scatter blocks of one size."""
        if not self.ob.team_calls.reduce_scatter_block(sendbuf, recvbuf, op):
            reductions.reduce_scatter_block(self.ob, sendbuf, recvbuf, op).run()

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM) -> None:
        """Reduce and scatter blocks."""
        if not self.ob.team_calls.reduce_scatter(sendbuf, recvbuf, recvcounts, op):
            reductions.reduce_scatter(self.ob, sendbuf, recvbuf, recvcounts, op).run()

    # Non-blocking

    def Ibarrier(self) -> Request:
        """Nonblocking barrier synchronization."""
        return Request.of(prepared.barrier(self.ob).start())

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        """Nonblocking broadcast data from one process to all."""
        return Request.of(prepared.bcast(self.ob, buf, root).start())

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Nonblocking gather data to one process."""
        return Request.of(prepared.gather(self.ob, sendbuf, recvbuf, root, False).start())

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Nonblocking gather blocks of different sizes to one process."""
        return Request.of(prepared.gather(self.ob, sendbuf, recvbuf, root, True).start())

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Nonblocking scatter data from one process."""
        return Request.of(prepared.scatter(self.ob, sendbuf, recvbuf, root, False).start())

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Nonblocking scatter blocks of different sizes from one process."""
        return Request.of(prepared.scatter(self.ob, sendbuf, recvbuf, root, True).start())

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking gather data to all."""
        return Request.of(prepared.allgather(self.ob, sendbuf, recvbuf, False).start())

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking gather blocks of different sizes to all."""
        return Request.of(prepared.allgather(self.ob, sendbuf, recvbuf, True).start())

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking all to all scatter/gather."""
        return Request.of(prepared.alltoall(self.ob, sendbuf, recvbuf, False).start())

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking all to all scatter/gather of blocks of different sizes."""
        return Request.of(prepared.alltoall(self.ob, sendbuf, recvbuf, True).start())

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking all to all scatter/gather of blocks of different types."""
        return Request.of(prepared.alltoallw(self.ob, sendbuf, recvbuf).start())

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request:
        """Nonblocking reduce to root."""
        return Request.of(reductions.reduce(self.ob, sendbuf, recvbuf, op, root).start())

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Nonblocking reduce to all."""
        return Request.of(reductions.allreduce(self.ob, sendbuf, recvbuf, op).start())

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Nonblocking reduce and scatter blocks of one size."""
        return Request.of(reductions.reduce_scatter_block(self.ob, sendbuf, recvbuf, op).start())

    def Ireduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Request:
        """Nonblocking reduce and scatter blocks."""
        return Request.of(reductions.reduce_scatter(self.ob, sendbuf, recvbuf, recvcounts, op).start())

    # Persistent

    def Barrier_init(self, info: Info = INFO_NULL) -> Prequest:
        """Persistent barrier synchronization."""
        return Prequest.of(prepared.barrier(self.ob).persistent())

    def Bcast_init(self, buf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Persistent broadcast data from one process to all."""
        return Prequest.of(prepared.bcast(self.ob, buf, root).persistent())

    def Gather_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Persistent gather data to one process."""
        return Prequest.of(prepared.gather(self.ob, sendbuf, recvbuf, root, False).persistent())

    def Gatherv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Persistent gather blocks of different sizes to one process."""
        return Prequest.of(prepared.gather(self.ob, sendbuf, recvbuf, root, True).persistent())

    def Scatter_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Persistent scatter data from one process."""
        return Prequest.of(prepared.scatter(self.ob, sendbuf, recvbuf, root, False).persistent())

    def Scatterv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Persistent scatter blocks of different sizes from one process."""
        return Prequest.of(prepared.scatter(self.ob, sendbuf, recvbuf, root, True).persistent())

    def Allgather_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent gather data to all."""
        return Prequest.of(prepared.allgather(self.ob, sendbuf, recvbuf, False).persistent())

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent gather blocks of different sizes to all."""
        return Prequest.of(prepared.allgather(self.ob, sendbuf, recvbuf, True).persistent())

    def Alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent all to all scatter/gather."""
        return Prequest.of(prepared.alltoall(self.ob, sendbuf, recvbuf, False).persistent())

    def Alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent all to all scatter/gather of blocks of different sizes."""
        return Prequest.of(prepared.alltoall(self.ob, sendbuf, recvbuf, True).persistent())

    def Alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent all to all scatter/gather of blocks of different types."""
        return Prequest.of(prepared.alltoallw(self.ob, sendbuf, recvbuf).persistent())

    def Reduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """Persistent reduce to root."""
        return Prequest.of(reductions.reduce(self.ob, sendbuf, recvbuf, op, root).persistent())

    def Allreduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """Persistent reduce to all."""
        return Prequest.of(reductions.allreduce(self.ob, sendbuf, recvbuf, op).persistent())

    def Reduce_scatter_block_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """Persistent reduce and scatter blocks of one size."""
        return Prequest.of(reductions.reduce_scatter_block(self.ob, sendbuf, recvbuf, op).persistent())

    def Reduce_scatter_init(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM, info: Info = INFO_NULL
    ) -> Prequest:
        """Persistent reduce and scatter blocks."""
        return Prequest.of(reductions.reduce_scatter(self.ob, sendbuf, recvbuf, recvcounts, op).persistent())
