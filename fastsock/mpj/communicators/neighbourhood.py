"""Collective operations among the neighbours of a topology, blocking, non-blocking and persistent."""

from __future__ import annotations

from ..collectives import prepared
from ..collectives.neighbourhood import order
from ..collectives.object_collectives import ObjectCalls
from ..handle import Handle
from ..info import INFO_NULL, Info
from ..messages.request import Prequest, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from ..messages.pickling import Codec


class Neighbourhood(Handle):
    """Collective operations among neighbours."""

    __slots__ = ()

    _codec: ClassVar[Codec]

    # Blocking

    def Neighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Gather from all neighbours."""
        if not prepared.neighbour_calls(self.ob).allgather(sendbuf, recvbuf):
            prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, False).run()

    def Neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Gather blocks of different sizes from all neighbours."""
        if not prepared.neighbour_calls(self.ob).allgatherv(sendbuf, recvbuf):
            prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, True).run()

    def Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Scatter to and gather from all neighbours."""
        if not prepared.neighbour_calls(self.ob).alltoall(sendbuf, recvbuf):
            prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, False).run()

    def Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Scatter to and gather from all neighbours blocks of different sizes."""
        if not prepared.neighbour_calls(self.ob).alltoallv(sendbuf, recvbuf):
            prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, True).run()

    def Neighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """Scatter to and gather from all neighbours blocks of different types."""
        prepared.neighbour_alltoallw(self.ob, sendbuf, recvbuf).run()

    # Non-blocking

    def Ineighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking gather from all neighbours."""
        return Request.of(prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, False).start())

    def Ineighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking gather blocks of different sizes from all neighbours."""
        return Request.of(prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, True).start())

    def Ineighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking scatter to and gather from all neighbours."""
        return Request.of(prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, False).start())

    def Ineighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking scatter to and gather from all neighbours blocks of different sizes."""
        return Request.of(prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, True).start())

    def Ineighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Nonblocking scatter to and gather from all neighbours blocks of different types."""
        return Request.of(prepared.neighbour_alltoallw(self.ob, sendbuf, recvbuf).start())

    # Persistent

    def Neighbor_allgather_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent gather from all neighbours."""
        return Prequest.of(prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, False).persistent())

    def Neighbor_allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent gather blocks of different sizes from all neighbours."""
        return Prequest.of(prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, True).persistent())

    def Neighbor_alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent scatter to and gather from all neighbours."""
        return Prequest.of(prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, False).persistent())

    def Neighbor_alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent scatter to and gather from all neighbours blocks of different sizes."""
        return Prequest.of(prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, True).persistent())

    def Neighbor_alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Persistent scatter to and gather from all neighbours blocks of different types."""
        return Prequest.of(prepared.neighbour_alltoallw(self.ob, sendbuf, recvbuf).persistent())

    # Objects

    def neighbor_allgather(self, sendobj: Any) -> list[Any]:
        """Neighbor gather to all."""
        _, destinations = prepared.neighbours(self.ob)
        return self.neighbor_alltoall([sendobj] * len(destinations))

    def neighbor_alltoall(self, sendobj: list[Any]) -> list[Any]:
        """Neighbor all to all scatter/gather."""
        sources, destinations = prepared.neighbours(self.ob)
        places = order(destinations, self.ob.topology.cartesian)
        return ObjectCalls(self.ob).neighbor_alltoall(self._codec, sendobj, sources, destinations, places)
