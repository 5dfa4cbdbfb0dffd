"""Communicators of one group: how others are made of them, scans, and ranks of other jobs."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ranks
from ..collectives import reductions
from ..constants import ERR_GROUP, SUCCESS
from ..datatypes.op import SUM, Op
from ..handle import public
from ..info import INFO_NULL, Info
from ..messages.operation_records import Persistent
from ..messages.request import Prequest, Request
from ..tags import APART
from . import creation, dynamic_calls, introduction, topology_creation
from .comm import Comm
from .communicator_record import Communicator, Intercommunicator
from .errhandler import Errhandler
from .group import Group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..collectives.objects import Function


@public
class Intracomm(Comm, wraps=Communicator):
    """A communicator of one group of processes (MPI 4.1, chapter 7)."""

    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Any:
        """Returns another handle of an intracommunicator, a null handle without an argument. Raises TypeError."""
        if comm is not None and comm and isinstance(comm, Comm) and comm.ob.inter:
            raise TypeError("expecting an intracommunicator")
        return super().__new__(cls, comm)

    # Making others

    def Create_group(self, group: Group, tag: int = 0) -> Any:
        """Return a communicator of the processes in `group`. Only these call it.

        Any other process gets COMM_NULL at once. Calls that several threads make at the same time need different tags.
        Raises MPI.Exception (ERR_GROUP) where the group has a process that is no member.
        """
        communicator = self.ob
        members = group._members().ranks
        if communicator.world.rank not in members:
            return Comm()
        if not set(members) <= set(communicator.ranks):
            raise communicator.fail(ERR_GROUP, f"the group has members that are not in {communicator.title}")
        return Intracomm.of(creation.from_group(communicator.world, members, APART + communicator.context + 1, tag))

    @classmethod
    def Create_from_group(
        cls,
        group: Group,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Errhandler | None = None,
    ) -> Any:
        """Return a communicator of the processes in `group`, without another communicator. Only these call it.

        Any other process gets COMM_NULL at once. Calls at the same time need different string tags.
        """
        home = ranks.current()
        members = group._members().ranks
        if home.rank not in members:
            return Comm()
        tag = creation.group_tag(home, stringtag, members)
        record = creation.from_group(home, members, home.internal_context, tag)
        if errhandler is not None:
            record.errhandler = errhandler._defined()
        return Intracomm.of(record)

    def Create_cart(self, dims: Sequence[int], periods: Sequence[bool] | None = None, reorder: bool = False) -> Any:
        """Return a communicator whose first members form a grid of `dims`, in row-major order (MPI 4.1, chapter 8).

        `periods`: whether each dimension is closed to a ring. `reorder` changes nothing: ranks stay in order. All other
        members get COMM_NULL. Raises MPI.Exception (ERR_DIMS) where the grid has more places than there are ranks, or
        an extent below 1.
        """
        return Comm._wrap(topology_creation.create_cart(self.ob, dims, periods))

    def Create_graph(self, index: Sequence[int], edges: Sequence[int], reorder: bool = False) -> Any:
        """Return a communicator whose first members form a graph (MPI 4.1, chapter 8).

        `index[i]` is the number of edges that the nodes 0 to i have; an index that begins with 0, as a list of offsets,
        is taken too. `edges` are the neighbours of node 0, then of node 1, and so on. `reorder` changes nothing. All
        other members get COMM_NULL. Raises MPI.Exception (ERR_ARG) where there are more nodes than ranks, or an edge
        leads to no node.
        """
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
        """Return a communicator of a graph; each member gives the edges to it and from it (MPI 4.1, chapter 8).

        `info` and `reorder` change nothing. Raises MPI.Exception (ERR_RANK) for a rank that is not there, and
        ValueError where there are not as many weights as edges.
        """
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
        """Return a communicator of a graph; each member gives any edges, of other members too (MPI 4.1, chapter 8).

        `degrees[i]` edges lead from `sources[i]` to the next of `destinations`. `info` and `reorder` change nothing.
        Raises MPI.Exception (ERR_RANK) for a rank that is not there, and ValueError where the lengths of the lists
        disagree.
        """
        return Comm._wrap(topology_creation.create_distributed(self.ob, sources, degrees, destinations, weights))

    def Create_intercomm(self, local_leader: int, peer_comm: Intracomm, remote_leader: int, tag: int = 0) -> Any:
        """Return the intercommunicator of this group and another one. All members of both call it.

        The leaders of the groups know each other in `peer_comm`; only the leader's `peer_comm` and `remote_leader`
        matter. Raises MPI.Exception: ERR_ROOT where `local_leader` is no rank here, ERR_RANK where `remote_leader` is
        none there.
        """
        return Comm._wrap(introduction.bridge(self.ob, local_leader, peer_comm.ob, remote_leader, tag))

    def Cart_map(self, dims: Sequence[int], periods: Sequence[bool] | None = None) -> int:
        """Return the rank that this process would have in a grid; UNDEFINED where it would have none."""
        return topology_creation.cart_map(self.ob, dims)

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        """Return the rank that this process would have in a graph; UNDEFINED where it would have none."""
        return topology_creation.graph_map(self.ob, index)

    # Scans

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combine the messages of ranks 0 to i in `recvbuf` of each rank i (MPI 4.1, chapter 6)."""
        if not self.ob.team_calls.scan(sendbuf, recvbuf, op):
            reductions.scan(self.ob, sendbuf, recvbuf, op).run()

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combine the messages of ranks 0 to i - 1 in `recvbuf` of each rank i; rank 0's stays as it is."""
        if not self.ob.team_calls.exscan(sendbuf, recvbuf, op):
            reductions.exscan(self.ob, sendbuf, recvbuf, op).run()

    # Non-blocking

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Start what `Scan` does."""
        started = self.ob.start_calls.scan(sendbuf, recvbuf, op)
        return Request.of(reductions.scan(self.ob, sendbuf, recvbuf, op).start()) if started is None else started

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Start what `Exscan` does."""
        started = self.ob.start_calls.exscan(sendbuf, recvbuf, op)
        return Request.of(reductions.exscan(self.ob, sendbuf, recvbuf, op).start()) if started is None else started

    # Persistent

    def Scan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Scan` does."""
        begin = self.ob.start_calls.scan(sendbuf, recvbuf, op, True)
        return Prequest.of(
            reductions.scan(self.ob, sendbuf, recvbuf, op).persistent() if begin is None else Persistent(begin)
        )

    def Exscan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """Create a persistent request for what `Exscan` does."""
        begin = self.ob.start_calls.exscan(sendbuf, recvbuf, op, True)
        return Prequest.of(
            reductions.exscan(self.ob, sendbuf, recvbuf, op).persistent() if begin is None else Persistent(begin)
        )

    # Objects

    def scan(self, sendobj: Any, op: Function = SUM) -> Any:
        """Return the combination of the objects of ranks 0 to this one, in their order."""
        return self.ob.object_calls.scan(self._codec, sendobj, op)

    def exscan(self, sendobj: Any, op: Function = SUM) -> Any:
        """Return the combination of the objects of the ranks below this one, in their order; None at rank 0."""
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
        """Start ranks of a program; return the intercommunicator with them. All members call it.

        The arguments count at the root. `command`: the program, found on the PATH; `args`: its arguments; `maxprocs`:
        how many ranks. `info`: wdir, the folder to run in; path, where to look first; host or hostfile, as of
        mpiexec; env, lines of NAME=value. `errcodes`: becomes as many times SUCCESS. The call returns when the ranks
        have called Init. Raises MPI.Exception (ERR_SPAWN) where they cannot be started, or end before.
        """
        asked = [(command, args, maxprocs, info)] if self.ob.rank == root else []
        return self._spawned(asked, root, errcodes, several=False)

    def Spawn_multiple(
        self,
        command: Any,
        args: Any = None,
        maxprocs: Sequence[int] | int | None = None,
        info: Any = INFO_NULL,
        root: int = 0,
        errcodes: list[list[int]] | None = None,
    ) -> Any:
        """Start ranks of several programs as one job; return the intercommunicator with them. All members call it.

        As `Spawn`, with a sequence for each argument; `maxprocs` and `info` may be one for all. A rank's attribute
        APPNUM says which of the commands it runs. Raises ValueError where the sequences have different lengths, and as
        `Spawn` does.
        """
        if self.ob.rank != root:
            return self._spawned([], root, errcodes, several=True)
        count = len(command)
        every = [
            command,
            [None] * count if args is None else list(args),
            [maxprocs or 1] * count if maxprocs is None or isinstance(maxprocs, int) else list(maxprocs),
            [info] * count if isinstance(info, Info) or info is None else list(info),
        ]
        if isinstance(command, str) or any(len(each) != count for each in every):
            raise ValueError(f"Spawn_multiple: {count} commands, but {[len(each) for each in every[1:]]} of the others")
        return self._spawned(list(zip(*every, strict=True)), root, errcodes, several=True)

    def _spawned(self, asked: list[tuple[Any, Any, Any, Any]], root: int, errcodes: Any, *, several: bool) -> Any:
        calls = dynamic_calls.calls
        programs = []
        for command, args, count, info in asked:
            hints = dict(info.items()) if info else {}
            programs.append(calls.program(command, list(args or ()), count, hints))
        made = calls.spawn(self.ob, programs, root)
        codes = [[SUCCESS] * count for count in self.bcast([program.count for program in programs], root)]
        if errcodes is not None:
            errcodes[:] = codes if several else codes[0]
        return Intracomm.wrapper(Intercommunicator).of(made)

    def Accept(self, port_name: str, info: Info = INFO_NULL, root: int = 0) -> Any:
        """Wait for a group that connects to the root's port; return the intercommunicator. All members call it.

        Raises MPI.Exception (ERR_PORT) where the root has no such port open, or the other group is lost meanwhile.
        """
        return Intracomm.wrapper(Intercommunicator).of(dynamic_calls.calls.accept(self.ob, port_name, root))

    def Connect(self, port_name: str, info: Info = INFO_NULL, root: int = 0) -> Any:
        """Connect to the group that accepts at a port; return the intercommunicator. All members call it.

        Waits until the other group accepts. Raises MPI.Exception (ERR_PORT) where nothing listens there.
        """
        return Intracomm.wrapper(Intercommunicator).of(dynamic_calls.calls.connect(self.ob, port_name, root))
