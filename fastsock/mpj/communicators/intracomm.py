"""Communicators of one group."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ranks
from ..collectives import reductions
from ..constants import ERR_GROUP
from ..datatypes.op import SUM, Op
from ..handle import public
from ..info import INFO_NULL, Info
from ..messages.request import Prequest, Request
from . import creation, topology_creation
from .comm import Comm
from .communicator_record import Communicator
from .errhandler import Errhandler
from .group import Group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..collectives.objects import Function

DYNAMIC = "dynamic processes: {} is not there; start all ranks together"


@public
class Intracomm(Comm, wraps=Communicator):
    """Intracommunicator."""

    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Any:
        """Returns another handle of an intracommunicator; a null handle without an argument."""
        if comm is not None and comm and isinstance(comm, Comm) and comm.ob.inter:
            raise TypeError("expecting an intracommunicator")
        return super().__new__(cls, comm)

    # Making others

    def Create_group(self, group: Group, tag: int = 0) -> Any:
        """Create communicator from group; only the members of the group call it."""
        communicator = self.ob
        members = group._members().ranks
        if communicator.world.rank not in members:
            return Comm()
        if not set(members) <= set(communicator.ranks):
            raise communicator.fail(ERR_GROUP, f"the group has members that are not in {communicator.title}")
        return Intracomm.of(creation.from_group(communicator.world, members, communicator.context + 1, tag))

    @classmethod
    def Create_from_group(
        cls,
        group: Group,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Errhandler | None = None,
    ) -> Any:
        """Create communicator from group; only the members of the group call it."""
        home = ranks.current()
        members = group._members().ranks
        if home.rank not in members:
            return Comm()
        tag = creation.string_tag(f"{stringtag} {members}")
        record = creation.from_group(home, members, home.internal_context, tag)
        if errhandler is not None:
            record.errhandler = errhandler._defined()
        return Intracomm.of(record)

    def Create_cart(self, dims: Sequence[int], periods: Sequence[bool] | None = None, reorder: bool = False) -> Any:
        """Create cartesian communicator."""
        return Comm._wrap(topology_creation.create_cart(self.ob, dims, periods))

    def Create_graph(self, index: Sequence[int], edges: Sequence[int], reorder: bool = False) -> Any:
        """Create graph communicator."""
        return Comm._wrap(topology_creation.create_graph(self.ob, index, edges))

    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int],
        destinations: Sequence[int],
        sourceweights: Sequence[int] | None = None,
        destweights: Sequence[int] | None = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Any:
        """Create distributed graph communicator."""
        return Comm._wrap(topology_creation.create_adjacent(self.ob, sources, destinations, sourceweights, destweights))

    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Sequence[int] | None = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Any:
        """Create distributed graph communicator."""
        return Comm._wrap(topology_creation.create_distributed(self.ob, sources, degrees, destinations, weights))

    def Create_intercomm(self, local_leader: int, peer_comm: Intracomm, remote_leader: int, tag: int = 0) -> Any:
        """Create intercommunicator."""
        return Comm._wrap(creation.bridge(self.ob, local_leader, peer_comm.ob, remote_leader, tag))

    def Cart_map(self, dims: Sequence[int], periods: Sequence[bool] | None = None) -> int:
        """Determine optimal process placement on a Cartesian topology."""
        return topology_creation.cart_map(self.ob, dims)

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        """Determine optimal process placement on a graph topology."""
        return topology_creation.graph_map(self.ob, index)

    # Scans

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Inclusive scan."""
        if not self.ob.team_calls.scan(sendbuf, recvbuf, op):
            reductions.scan(self.ob, sendbuf, recvbuf, op).run()

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Exclusive scan."""
        if not self.ob.team_calls.exscan(sendbuf, recvbuf, op):
            reductions.exscan(self.ob, sendbuf, recvbuf, op).run()

    # Non-blocking

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Nonblocking inclusive scan."""
        return Request.of(reductions.scan(self.ob, sendbuf, recvbuf, op).start())

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Nonblocking exclusive scan."""
        return Request.of(reductions.exscan(self.ob, sendbuf, recvbuf, op).start())

    # Persistent

    def Scan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """Persistent inclusive scan."""
        return Prequest.of(reductions.scan(self.ob, sendbuf, recvbuf, op).persistent())

    def Exscan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """Persistent exclusive scan."""
        return Prequest.of(reductions.exscan(self.ob, sendbuf, recvbuf, op).persistent())

    # Objects

    def scan(self, sendobj: Any, op: Function = SUM) -> Any:
        """Inclusive Scan."""
        return self.ob.object_calls.scan(self._codec, sendobj, op)

    def exscan(self, sendobj: Any, op: Function = SUM) -> Any:
        """Exclusive Scan."""
        return self.ob.object_calls.exscan(self._codec, sendobj, op)

    # Dynamic processes

    def Spawn(
        self,
        command: Any,
        args: Sequence[str] | None = None,
        maxprocs: int = 1,
        info: Info = INFO_NULL,
        root: int = 0,
        errcodes: list[int] | None = None,
    ) -> Any:
        """Spawn instances of a single MPI application."""
        raise NotImplementedError(DYNAMIC.format("Spawn"))

    def Spawn_multiple(
        self,
        command: Any,
        args: Any = None,
        maxprocs: Sequence[int] | None = None,
        info: Any = INFO_NULL,
        root: int = 0,
        errcodes: list[list[int]] | None = None,
    ) -> Any:
        """Spawn instances of multiple MPI applications."""
        raise NotImplementedError(DYNAMIC.format("Spawn_multiple"))

    def Accept(self, port_name: str, info: Info = INFO_NULL, root: int = 0) -> Any:
        """Accept a request to form a new intercommunicator."""
        raise NotImplementedError(DYNAMIC.format("Accept"))

    def Connect(self, port_name: str, info: Info = INFO_NULL, root: int = 0) -> Any:
        """Make a request to form a new intercommunicator."""
        raise NotImplementedError(DYNAMIC.format("Connect"))
