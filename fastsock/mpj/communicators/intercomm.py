"""Communicators between two groups."""

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
    """Intercommunicator."""

    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Any:
        """Returns another handle of an intercommunicator; a null handle without an argument."""
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
        """Create communicator from groups."""
        home = ranks.current()
        local, remote = local_group._members().ranks, remote_group._members().ranks
        if home.rank not in local:
            return Comm()
        if set(local) & set(remote):
            raise home.everyone.fail(ERR_GROUP, "the two groups of an intercommunicator have a common member")
        tag = creation.string_tag(f"{stringtag} {sorted([local, remote])}")
        record = creation.from_groups(home, local, local_leader, remote, remote_leader, tag)
        if errhandler is not None:
            record.errhandler = errhandler._defined()
        return Intercomm.of(record)

    def Get_remote_group(self) -> Group:
        """Access the remote group associated with the inter-communicator."""
        communicator = self.ob
        return Group.of(GroupRecord(communicator.peers, communicator.world.rank))

    @property
    def remote_group(self) -> Group:
        """Remote group."""
        return self.Get_remote_group()

    def Get_remote_size(self) -> int:
        """Intercommunicator remote size."""
        return len(self.ob.peers)

    @property
    def remote_size(self) -> int:
        """Number of remote processes."""
        return self.Get_remote_size()

    def Merge(self, high: bool = False) -> Intracomm:
        """Merge intercommunicator into an intracommunicator."""
        return Intracomm.of(creation.merge(self.ob, high))
