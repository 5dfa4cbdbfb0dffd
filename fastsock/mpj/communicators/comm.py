"""Communicators: what all of them have in common."""

from __future__ import annotations

import sys

from .. import ranks
from ..attributes import Attributed
from ..collectives.collective import Collective
from ..collectives.objects import ObjectCollective
from ..constants import (
    APPNUM,
    COMM_TYPE_HW_GUIDED,
    COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_SHARED,
    CONGRUENT,
    ERR_ARG,
    ERR_COMM,
    IDENT,
    IO,
    LASTUSEDCODE,
    SIMILAR,
    TAG_UB,
    UNDEFINED,
    UNEQUAL,
    UNIVERSE_SIZE,
    WTIME_IS_GLOBAL,
)
from ..exceptions import Exception as MPIException
from ..handle import public
from ..info import INFO_NULL, Info
from ..messages._point_to_point import NativePointToPoint
from ..messages.buffered import Buffered, Flush
from ..messages.objects import Objects
from ..messages.point_to_point import PointToPoint
from ..messages.request import Request
from ..recovery.calls import Recovery
from . import creation, dynamic_calls
from .communicator_record import Communicator, Intercommunicator, NoCommunicator
from .group import Group, GroupRecord
from .named import Hinted, Named, hints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar, NoReturn

RESOURCE_TYPE = "mpi_hw_resource_type"
SHARED_MEMORY = "mpi_shared_memory"


@public
class Comm(
    NativePointToPoint, PointToPoint, Objects, Collective, ObjectCollective, Recovery, Attributed, Named, Hinted
):
    """A group of processes with messages of its own (MPI 4.1, chapter 7).

    A call on a null communicator raises MPI.Exception (ERR_COMM).
    """

    __slots__ = ()

    null: ClassVar[NoCommunicator] = NoCommunicator()
    _null_name = "MPI_COMM_NULL"
    ob: Any

    # Handles

    @classmethod
    def for_record(cls, record: Any) -> Any:
        """Returns the constant of a record that has one, else a new handle of the class that suits it."""
        if record.constant is None and record.topology is not None:
            return cls.wrapper(type(record.topology)).of(record)
        return super().for_record(record)

    @staticmethod
    def _wrap(record: Communicator | None) -> Any:
        """Returns a handle of the class that suits a communicator; the null handle without one."""
        if record is None:
            return Comm()
        topology = record.topology
        return Comm.wrapper(type(record if topology is None else topology)).of(record)  # it was made just now

    # Group

    def Get_group(self) -> Group:
        """Return the group of the members: on an intercommunicator, those of the local group."""
        communicator = self.ob
        return Group.of(GroupRecord(communicator.ranks, communicator.world.rank))

    @property
    def group(self) -> Group:
        """The group of the members."""
        return self.Get_group()

    def Get_size(self) -> int:
        """Return the number of members: on an intercommunicator, of the local group."""
        size: int = self.ob.size
        return size

    @property
    def size(self) -> int:
        """Number of processes."""
        size: int = self.ob.size
        return size

    def Get_rank(self) -> int:
        """Return the rank of this process, from 0 on."""
        rank: int = self.ob.rank
        return rank

    @property
    def rank(self) -> int:
        """Rank of this process."""
        rank: int = self.ob.rank
        return rank

    def Compare(self, comm: Comm) -> int:
        """Return how this communicator and another are alike.

        IDENT: they are the same; CONGRUENT: the same members in the same order; SIMILAR: the same members; UNEQUAL:
        neither.
        """
        one, other = self.ob, comm.ob
        if one.context == other.context and one is other:
            return IDENT
        if one.inter != other.inter:
            return UNEQUAL
        if one.ranks == other.ranks and one.peers == other.peers:
            return CONGRUENT
        if set(one.ranks) == set(other.ranks) and set(one.peers) == set(other.peers):
            return SIMILAR
        return UNEQUAL

    # Making others

    def Clone(self) -> Any:
        """Do what `Dup` does."""
        return self.Dup()

    def _duplicated(self, record: Communicator, info: Info | None) -> Any:
        self._copy_attributes(record)
        record.info = self.ob.info if info is None else hints(info)
        return type(self).of(record)

    def Dup(self, info: Info | None = None) -> Any:
        """Return a communicator of the same members, with this one's topology and attributes. All members call it."""
        return self._duplicated(creation.duplicate(self.ob), info)

    def Dup_with_info(self, info: Info) -> Any:
        """Do what `Dup` does; the new communicator has these hints."""
        return self.Dup(info)

    def Idup(self, info: Info | None = None) -> tuple[Any, Request]:
        """Start to duplicate; the new communicator may be used when the request is complete."""
        record, operation = creation.start_duplicate(self.ob)
        return self._duplicated(record, info), Request.of(operation)

    def Idup_with_info(self, info: Info) -> tuple[Any, Request]:
        """Start to duplicate; the new communicator has these hints."""
        return self.Idup(info)

    def Create(self, group: Group) -> Any:
        """Return a communicator of the processes in `group`; COMM_NULL in all others. All members call it.

        Raises MPI.Exception (ERR_ARG) where the group has a process that is no member.
        """
        communicator = self.ob
        communicator.alive()
        members = group._members().ranks
        ranks: Sequence[int] = members
        if not communicator.plain or communicator.inter:  # else the ranks of a group are the members' own
            places = {rank: place for place, rank in enumerate(communicator.ranks)}
            ranks = [places.get(rank, -1) for rank in members]
        if ranks and not 0 <= min(ranks) <= max(ranks) < communicator.size:
            raise communicator.fail(ERR_ARG, f"the group has members that are not in {communicator.title}")
        among = creation.among_both if communicator.inter else creation.among
        return Comm._wrap(among(communicator, ranks))

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Return a communicator of the members that give the same `color`. All members call it.

        `key` orders them, then their ranks. COMM_NULL where the color is UNDEFINED. Raises MPI.Exception (ERR_ARG) for
        any other negative color.
        """
        communicator = self.ob
        communicator.alive()
        if color < 0 and color != UNDEFINED:
            raise communicator.fail(ERR_ARG, f"color {color}: it is 0 or more, or UNDEFINED")
        return Comm._wrap(creation.split(communicator, color, key))

    def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Any:
        """Return a communicator of the members on this host. All members call it.

        `key` orders them, then their ranks. COMM_TYPE_SHARED always splits so. COMM_TYPE_HW_GUIDED and
        COMM_TYPE_RESOURCE_GUIDED do where the hint `mpi_hw_resource_type` is `mpi_shared_memory`, COMM_TYPE_HW_UNGUIDED
        where the members are on several hosts. Otherwise, and for UNDEFINED, COMM_NULL is returned. Raises
        MPI.Exception (ERR_ARG) for an unknown type.
        """
        communicator = self.ob
        by_host = communicator.hosts.index(communicator.hosts[communicator.rank])
        color = UNDEFINED
        if split_type == COMM_TYPE_SHARED:
            color = by_host
        elif split_type in (COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED):
            if info and info.Get(RESOURCE_TYPE) == SHARED_MEMORY:
                color = by_host
        elif split_type == COMM_TYPE_HW_UNGUIDED:
            # only where the result is smaller
            if len(set(communicator.hosts)) > 1:
                color = by_host
                if info:
                    info.Set(RESOURCE_TYPE, SHARED_MEMORY)
        elif split_type != UNDEFINED:
            raise communicator.fail(ERR_ARG, f"unknown split type {split_type}")
        return Comm._wrap(creation.split(communicator, color, key))

    def Free(self) -> None:
        """Free the communicator: this handle becomes null. Operations under way complete.

        Raises MPI.Exception (ERR_COMM) where it is null or predefined.
        """
        communicator = self.ob
        if communicator is self.null:
            raise MPIException(ERR_COMM, "the communicator is null: it was freed, or this process is not a member")
        if communicator.predefined:
            raise communicator.fail(ERR_COMM, f"{communicator.title} is predefined: it is not freed")
        self._delete_attributes()
        communicator.close()
        self._forget()

    def Disconnect(self) -> None:
        """Wait until all members have got here, or have ended; then do what `Free` does. All members call it.

        Where nothing else connects the members' jobs, the failure of one does not end the other from now on.
        """
        communicator = self.ob
        if isinstance(communicator, Communicator) and communicator.mixed:
            creation.part(communicator)
        self.Free()

    # Fault tolerance

    def Get_failed(self) -> Group:
        """Return the group of the members that this process knows to have failed, of an intercommunicator both groups'.

        They stand in the order in which it heard of them: a later group begins with the earlier one.
        """
        communicator = self.ob
        failed = [rank for rank, _ in communicator.failures()]
        return Group.of(GroupRecord(failed, communicator.world.rank))

    # Buffered sends

    def Attach_buffer(self, buf: Any) -> None:
        """Let buffered sends on this communicator take as many bytes as `buf` has.

        None or BUFFER_AUTOMATIC: any number. A message takes its length and BSEND_OVERHEAD bytes. The copies lie
        elsewhere: `buf` stays as it is. Raises MPI.Exception (ERR_BUFFER) where a buffer is attached already.
        """
        buffered = Buffered() if self.ob.buffered is None else self.ob.buffered
        buffered.attach(buf)
        self.ob.buffered = buffered

    def Detach_buffer(self) -> Any:
        """Wait until the buffered messages are on their way; return what was attached, or None."""
        communicator = self.ob
        buffered, communicator.buffered = communicator.buffered, None
        return None if buffered is None else buffered.detach(communicator.engine)

    def Flush_buffer(self) -> None:
        """Wait until the buffered messages are on their way."""
        communicator = self.ob
        if communicator.buffered is not None:
            communicator.buffered.flush(communicator.engine)

    def Iflush_buffer(self) -> Request:
        """Return a request that is complete when the present buffered messages are on their way."""
        communicator = self.ob
        pending = [] if communicator.buffered is None else communicator.buffered.pending()
        return Request.of(Flush(communicator.engine, pending))

    # What it is

    def Is_inter(self) -> bool:
        """Return whether the communicator is an intercommunicator."""
        inter: bool = self.ob.inter
        return inter

    @property
    def is_inter(self) -> bool:
        """Whether this is an intercommunicator."""
        return self.Is_inter()

    def Is_intra(self) -> bool:
        """Return whether the communicator is an intracommunicator."""
        return not self.ob.inter

    @property
    def is_intra(self) -> bool:
        """Whether this is an intracommunicator."""
        return self.Is_intra()

    def Get_topology(self) -> int:
        """Return the kind of topology: CART, GRAPH, DIST_GRAPH, or UNDEFINED without one."""
        topology = self.ob.topology
        return UNDEFINED if topology is None else topology.kind

    @property
    def topology(self) -> int:
        """The kind of topology."""
        return self.Get_topology()

    @property
    def is_topo(self) -> bool:
        """Whether there is a topology."""
        return not self.ob.inter and self.ob.topology is not None

    # Dynamic processes

    @classmethod
    def Get_parent(cls) -> Any:
        """Return the intercommunicator with those that spawned this job; COMM_NULL where there is none."""
        record = ranks.current().parent
        return cls.wrapper(Intercommunicator)() if record is None else cls.for_record(record)

    @classmethod
    def Join(cls, fd: int) -> Any:
        """Return the intercommunicator of this process and the one at the other end of a connected socket.

        `fd`: its descriptor, which stays open; both ends call it, and nothing else is in it. Raises MPI.Exception
        (ERR_OTHER) where the other end does not answer so.
        """
        return cls.wrapper(Intercommunicator).of(dynamic_calls.calls.join(ranks.current(), fd))

    # Attributes

    _predefined_keys = frozenset({TAG_UB, IO, WTIME_IS_GLOBAL, UNIVERSE_SIZE, APPNUM, LASTUSEDCODE})

    def _predefined_attribute(self, keyval: int) -> Any:
        communicator = self.ob
        if not isinstance(communicator, Communicator):
            raise MPIException(ERR_COMM, "the communicator is null: it was freed, or this process is not a member")
        return communicator.world.attribute(keyval)

    # Errors

    def _record(self) -> Communicator:
        communicator = self.ob
        communicator.alive()
        return communicator  # type: ignore[no-any-return]

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End all ranks of the job; the job's exit status is `errorcode`."""
        where = self.ob.title if isinstance(self.ob, Communicator) else "the null communicator"
        sys.stdout.flush()
        ranks.current().job.abort(errorcode, f"Abort({errorcode}) was called on {where}")
        raise SystemExit(errorcode)
