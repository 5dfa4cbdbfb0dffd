"""The records that Comm handles refer to: groups of ranks with contexts of their own."""

from __future__ import annotations

from fastsock.core.binding._requests import MessageError
from fastsock.system.forkable import new_lock, new_recursive_lock

from ..constants import ANY_SOURCE, ANY_TAG, ERR_COMM, ERR_RANK, ERR_REVOKED, ERR_ROOT, ERR_TAG, PROC_NULL
from ..exceptions import Exception as MPIException
from ..failures import translated
from ..handle import Record
from ._records import CommunicatorState
from .declining import NO_START, NO_TEAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..collectives._object_collectives import TeamObjectCalls
    from ..collectives.object_collectives import ObjectCalls


NOBODY = "PROC_NULL"
_making_locks = new_lock()  # held for the moment in which a communicator gets its own


class NoCommunicator(Record):
    """The record of the null handle: it answers every question with ERR_COMM."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise MPIException(ERR_COMM, "the communicator is null: it was freed, or this process is not a member")


class _NotThere(NoCommunicator):
    """The record of a communicator that an operation under way makes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise MPIException(ERR_COMM, "the communicator is not there yet: wait for the request that makes it")


class Communicator(CommunicatorState):
    """A group of ranks with contexts of its own."""

    __slots__ = ()

    # Errors

    def fail(self, code: int, detail: str) -> BaseException:
        """Tells the error handler. Returns the exception that the caller is to raise."""
        return self.failed(MPIException(code, detail))

    def failed(self, error: BaseException) -> BaseException:
        """Makes an MPI exception of an error of the engine and tells the error handler; returns what to raise."""
        exception = translated(error, self)
        if isinstance(exception, MPIException):
            self.errhandler.invoke(self, exception)
        return exception

    # Failures

    @staticmethod
    def not_there() -> NoCommunicator:
        """Returns what stands for a record that is still to be made."""
        return _NotThere()

    def failures(self) -> list[tuple[int, int]]:
        """The members of both groups that have failed, in the order in which the engine heard of it, and the place."""
        found: list[tuple[int, int]] = self.engine.failures({*self.ranks, *self.peers})
        return found

    def unrevoked(self) -> None:
        """Raises where it is revoked."""
        if self.engine.is_revoked(self.context):
            raise self.fail(ERR_REVOKED, f"{self.title} is revoked")

    def revoked(self) -> None:
        """What the engine knows nothing of ends: the next call begins anew, and is refused."""
        self.teamed, self.team_calls, self.team_objects, self.starting = False, NO_TEAM, None, None
        members = self.members_
        if members is not None:
            members.team = members.host_team = None

    # Ranks and tags

    def sends_to_nobody(self, dest: int, tag: int) -> bool:
        """Returns whether a message goes to PROC_NULL. Its tag must be one all the same."""
        if dest != PROC_NULL:
            return False
        self._check_sent(tag, NOBODY)
        return True

    def receives_from_nobody(self, source: int, tag: int) -> bool:
        """Returns whether a message comes from PROC_NULL. Its tag must be one all the same."""
        if source != PROC_NULL:
            return False
        self._check_received(tag, NOBODY)
        return True

    def _check_sent(self, tag: int, whom: str) -> None:
        if whom == NOBODY:
            self.unrevoked()
        if tag < 0:
            raise self.fail(ERR_TAG, f"tag {tag} of a message to {whom}: a tag is 0 or more")

    def _check_received(self, tag: int, whom: str) -> None:
        if whom == NOBODY:
            self.unrevoked()
        if tag < 0 and tag != ANY_TAG:
            raise self.fail(ERR_TAG, f"tag {tag} of a message from {whom}: a tag is 0 or more, or ANY_TAG")

    def target(self, dest: int, tag: int) -> int:
        """Returns the world's rank of the one that a message goes to."""
        self._check_sent(tag, f"rank {dest}")
        if 0 <= dest < len(self.peers):
            return self.peers[dest]
        raise self.fail(ERR_RANK, f"no rank {dest} among the {len(self.peers)} of {self.title}")

    def origin(self, source: int, tag: int) -> int:
        """Returns the world's rank of the one that a message comes from, or ANY_SOURCE."""
        self._check_received(tag, f"rank {source}")
        if 0 <= source < len(self.peers):
            return self.peers[source]
        if source == ANY_SOURCE:
            return ANY_SOURCE
        raise self.fail(ERR_RANK, f"no rank {source} among the {len(self.peers)} of {self.title}")

    def root(self, root: int, members: int) -> int:
        """Returns `root` where it is a rank below `members`."""
        if 0 <= root < members:
            return root
        raise self.fail(ERR_ROOT, f"no root {root} among the {members} ranks of {self.title}")

    def rank_of(self, world_rank: int) -> int:
        """Returns the rank here of a peer."""
        return world_rank if self.index is None else self.index.get(world_rank, ANY_SOURCE)

    @property
    def title(self) -> str:
        """The name of the communicator in error messages."""
        return self.name or f"communicator {self.context // 2}"

    def fill(self, status: Any, envelope: Any, error: int = 0) -> None:
        """Says in a status what arrived."""
        status._set(self.rank_of(envelope.source), envelope.tag, envelope.length, error)

    # Collective operations

    @property
    def making(self) -> Any:
        """The lock that the thread holds which makes what the first call needs."""
        if self.making_ is None:
            with _making_locks:
                self.making_ = self.making_ or new_recursive_lock()
        return self.making_

    @property
    def hosts(self) -> tuple[Any, ...]:
        """Which host each member is on. Waits until all ranks have joined."""
        if self.mixed:
            return tuple([self.world.host_of(rank) for rank in self.ranks])
        hosts = self.world.hosts
        return tuple([hosts[rank] for rank in self.ranks])

    @property
    def members(self) -> Any:
        """The members (the local group) as the collective algorithms see them."""
        if self.members_ is None:
            from ..collectives.exchange import Members

            self.opened()
            with self.making:
                if self.members_ is None:
                    numbers = self.engine.collective_numbers()
                    self.members_ = Members(
                        self.engine, self.context + 1, self.rank, self.ranks, self.hosts, numbers=numbers
                    )
        return self.members_

    @property
    def remote(self) -> Any:
        """Both groups of an intercommunicator as the collective algorithms see them."""
        if self.remote_ is None:
            from ..collectives.exchange import Inter

            with self.making:
                if self.remote_ is None:
                    self.remote_ = Inter(self.members, self.peers, self.context + 1)
        return self.remote_

    @property
    def start_calls(self) -> Any:
        """Collective calls on plain arrays that go on by themselves."""
        found = self.starting
        if found is None:
            self.unrevoked()
            if self.inter:
                self.starting = found = NO_START
            else:
                from ..collectives._collectives import StartCalls

                self.starting = found = StartCalls(self, self.members)
                self.world.revocations.heed(self.context, self)
        return found

    def exchange(self) -> Any:
        """The next blocking collective call. The first one lets members on one host share memory."""
        if not self.teamed:
            self._share_memory(self.members)
        return self.members.exchange()

    @property
    def object_calls(self) -> ObjectCalls | TeamObjectCalls:
        """Blocking collective calls on objects: natively where all members share memory. All ask before one."""
        if not self.teamed and not self.inter:
            self._share_memory(self.members)
        return self.objects

    def _share_memory(self, members: Any) -> None:
        with self.making:
            if not self.teamed:
                self.unrevoked()
                try:
                    self._form_team(members)
                except MessageError as error:
                    raise self.failed(error) from error
                finally:
                    self.teamed = True
                    self.world.revocations.heed(self.context, self)

    def _form_team(self, members: Any) -> None:
        near = members.near
        if len(near) == 1 < self.size:
            self._by_messages(members)
            return
        from ..collectives import team

        ranks = tuple([self.ranks[member] for member in near])
        beyond = len(near) < self.size
        crowded = self.world.job.crowded
        formed = team.form(self.engine, self.context + 1, ranks, near.index(self.rank), crowded=crowded, beyond=beyond)
        if beyond:
            members.host_team = formed
            return
        members.team = formed
        if formed is None:
            self._by_messages(members)
        else:
            from ..collectives._collectives import TeamCalls
            from ..collectives._object_collectives import TeamObjectCalls

            self.team_calls = TeamCalls(self, members)
            self.team_objects = TeamObjectCalls(self, members)

    def _by_messages(self, members: Any) -> None:
        if members.hierarchy is None:
            from ..collectives._collectives import MessageCalls

            self.team_calls = MessageCalls(self, members)


class Intercommunicator(Communicator):
    """Two groups of ranks, each of which sends to the other one."""

    __slots__ = ()
