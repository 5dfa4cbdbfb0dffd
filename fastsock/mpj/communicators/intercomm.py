"""Communicators between two groups of processes."""

from __future__ import annotations

from .. import ranks
from ..constants import ERR_GROUP
from ..handle import public
from ..info import INFO_NULL, Info
from . import creation
from .comm import Comm
from .communicator_record import Intercommunicator
from .errhandler import Errhandler
from .group import Group, GroupRecord
from .intracomm import Intracomm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@public
class Intercomm(Comm, wraps=Intercommunicator):
    """A communicator between two groups: messages go to the remote one (MPI 4.1, chapter 7)."""

    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Any:
        """Returns another handle of an intercommunicator, a null handle without an argument. Raises TypeError."""
        if comm is not None and comm and isinstance(comm, Comm) and not comm.ob.inter:
            raise TypeError("expecting an intercommunicator")
        return super().__new__(cls, comm)

    @classmethod
    def Create_from_groups(
        cls,
        local_group: Group,
        local_leader: int,
        remote_group: Group,
        remote_leader: int,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Errhandler | None = None,
    ) -> Any:
        """Return the intercommunicator of two groups, without another communicator. Only their members call it.

        The leaders are ranks in their groups. A process that is not in `local_group` gets COMM_NULL at once. Raises
        MPI.Exception (ERR_GROUP) where the groups have a common member.
        """
        home = ranks.current()
        local, remote = local_group._members().ranks, remote_group._members().ranks
        if home.rank not in local:
            return Comm()
        if set(local) & set(remote):
            raise home.everyone.fail(ERR_GROUP, "the two groups of an intercommunicator have a common member")
        tag = creation.group_tag(home, stringtag, local, remote)
        record = creation.from_groups(home, local, local_leader, remote, remote_leader, tag)
        if errhandler is not None:
            record.errhandler = errhandler._defined()
        return Intercomm.of(record)

    def Get_remote_group(self) -> Group:
        """Return the remote group."""
        communicator = self.ob
        return Group.of(GroupRecord(communicator.peers, communicator.world.rank))

    @property
    def remote_group(self) -> Group:
        """The remote group."""
        return self.Get_remote_group()

    def Get_remote_size(self) -> int:
        """Return the number of processes in the remote group."""
        return len(self.ob.peers)

    @property
    def remote_size(self) -> int:
        """Number of remote processes."""
        return self.Get_remote_size()

    def Merge(self, high: bool = False) -> Intracomm:
        """Return a communicator of both groups; the group that says `high` comes last. All members call it."""
        return Intracomm.of(creation.merge(self.ob, high))
