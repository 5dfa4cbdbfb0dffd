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
    """Collective operations among the neighbours of a topology (MPI 4.1, chapter 8). All members call them.

    Block i belongs to the i-th neighbour, in the order of `inedges` and `outedges`; a block that would come from
    PROC_NULL stays as it is. Raises MPI.Exception (ERR_TOPOLOGY) without a topology, and otherwise as other collective
    operations do.
    """

    __slots__ = ()

    _codec: ClassVar[Codec]

    # Blocking

    def Neighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Bring the `sendbuf` of each source to a block of `recvbuf`. All blocks have one size."""
        if not prepared.neighbour_calls(self.ob).allgather(sendbuf, recvbuf):
            prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, False).run()

    def Neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Bring the `sendbuf` of each source to a block of `recvbuf`. Blocks have sizes of their own."""
        if not prepared.neighbour_calls(self.ob).allgatherv(sendbuf, recvbuf):
            prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, True).run()

    def Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block of `sendbuf` to each destination; receive one of each source. All blocks have one size."""
        if not prepared.neighbour_calls(self.ob).alltoall(sendbuf, recvbuf):
            prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, False).run()

    def Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block of `sendbuf` to each destination; receive one of each source. Blocks have sizes of their own."""
        if not prepared.neighbour_calls(self.ob).alltoallv(sendbuf, recvbuf):
            prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, True).run()

    def Neighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block of `sendbuf` to each destination; receive one of each source. Blocks have types of their own."""
        prepared.neighbour_alltoallw(self.ob, sendbuf, recvbuf).run()

    # Non-blocking

    def Ineighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Neighbor_allgather` does."""
        return Request.of(prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, False).start())

    def Ineighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Neighbor_allgatherv` does."""
        return Request.of(prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, True).start())

    def Ineighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Neighbor_alltoall` does."""
        return Request.of(prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, False).start())

    def Ineighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Neighbor_alltoallv` does."""
        return Request.of(prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, True).start())

    def Ineighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start what `Neighbor_alltoallw` does."""
        return Request.of(prepared.neighbour_alltoallw(self.ob, sendbuf, recvbuf).start())

    # Persistent

    def Neighbor_allgather_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Neighbor_allgather` does."""
        return Prequest.of(prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, False).persistent())

    def Neighbor_allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Neighbor_allgatherv` does."""
        return Prequest.of(prepared.neighbour_allgather(self.ob, sendbuf, recvbuf, True).persistent())

    def Neighbor_alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Neighbor_alltoall` does."""
        return Prequest.of(prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, False).persistent())

    def Neighbor_alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Neighbor_alltoallv` does."""
        return Prequest.of(prepared.neighbour_alltoall(self.ob, sendbuf, recvbuf, True).persistent())

    def Neighbor_alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Neighbor_alltoallw` does."""
        return Prequest.of(prepared.neighbour_alltoallw(self.ob, sendbuf, recvbuf).persistent())

    # Objects

    def neighbor_allgather(self, sendobj: Any) -> list[Any]:
        """Return the list of the objects of all sources."""
        _, destinations = prepared.neighbours(self.ob)
        return self.neighbor_alltoall([sendobj] * len(destinations))

    def neighbor_alltoall(self, sendobj: list[Any]) -> list[Any]:
        """Send an object to each destination; return the list of those that the sources sent."""
        sources, destinations = prepared.neighbours(self.ob)
        places = order(destinations, self.ob.topology.cartesian)
        return ObjectCalls(self.ob).neighbor_alltoall(self._codec, sendobj, sources, destinations, places)
