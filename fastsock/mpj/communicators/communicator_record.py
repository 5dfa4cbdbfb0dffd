"""The records that Comm handles refer to: groups of ranks with contexts of their own."""

from __future__ import annotations

from collections.abc import Sequence

from fastsock.system.forkable import new_lock, new_recursive_lock

from ..collectives.object_collectives import ObjectCalls
from ..constants import ANY_SOURCE, ANY_TAG, ERR_COMM, ERR_RANK, ERR_ROOT, ERR_TAG, PROC_NULL
from ..exceptions import Exception as MPIException
from ..failures import translated
from ..handle import Record
from ..messages._point_to_point import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..collectives._object_collectives import TeamObjectCalls
    from .world import World


_making_locks = new_lock()  # held for the moment in which a communicator gets its own


class _Declining:
    """Stands for an object with a call for each collective, where that does none of them."""

    def __init__(self, answer: bool | None) -> None:
        self._answer = answer

    def _declined(self, *arguments: Any) -> bool | None:
        return self._answer

    barrier = bcast = gather = gatherv = scatter = scatterv = allgather = allgatherv = _declined
    alltoall = alltoallv = alltoallw = reduce = allreduce = reduce_scatter = reduce_scatter_block = _declined
    scan = exscan = _declined


NO_TEAM = _Declining(False)  # for TeamCalls or MessageCalls: neither suits, or members have not called yet
NO_START = _Declining(None)  # for StartCalls: messages go between two groups


class NoCommunicator(Record):
    """The record of the null handle: it answers every question with ERR_COMM."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise MPIException(ERR_COMM, "the communicator is null: it was freed, or this process is not a member")


_LATE = frozenset(("buffered", "making_", "neighbour_calls", "remote_", "starting"))
"""Attributes that most communicators never get. They are None until then."""


class Communicator(NoCommunicator):
    """
    A group of ranks with contexts of its own.

    `ranks` are the members' ranks in the world; `peers` are those that messages go to: the members of an
    intracommunicator, the remote group of an intercommunicator.
    """

    __slots__ = (
        "attributes",
        "buffered",
        "context",
        "engine",
        "errhandler",
        "index",
        "info",
        "locks",
        "making_",
        "members_",
        "name",
        "neighbour_calls",
        "objects",
        "path",
        "peers",
        "rank",
        "ranks",
        "remote_",
        "size",
        "starting",
        "team_calls",
        "teamed",
        "topology",
        "world",
    )

    inter = False

    buffered: Any
    making_: Any
    neighbour_calls: Any
    remote_: Any
    starting: Any

    def __init__(
        self,
        world: World,
        number: int,
        ranks: Sequence[int],
        remote: Sequence[int] | None = None,
        like: Communicator | None = None,
    ) -> None:
        """`like`: a communicator of the same ranks in the same order, where there is one."""
        super().__init__()
        self.world: World = world
        self.engine: Any = world.engine
        self.ranks: tuple[int, ...] = tuple(ranks)
        self.rank: int = self.ranks.index(world.rank) if like is None else like.rank
        self.size: int = len(self.ranks)
        self.peers: tuple[int, ...] = self.ranks if remote is None else tuple(remote)
        # None: ranks here are ranks in the world
        self.index: dict[int, int] | None = _index(self.peers) if like is None else like.index
        self.name: str = ""
        self.attributes: dict[int, Any] = {}
        self.errhandler: Any = world.default_errhandler
        self.info: Any = None
        self.topology: Any = None
        self.members_: Any = None
        self.teamed: bool = False
        self.team_calls: Any = NO_TEAM  # blocking collective calls on plain arrays
        self.objects: ObjectCalls | TeamObjectCalls = ObjectCalls(self)
        self.locks: dict[Any, Any] = {}
        self.context: int = -1
        self.path: Any = None  # the calls that programs make most go by it
        if number >= 0:
            self.open(number)

    def __getattr__(self, name: str) -> Any:
        return None if name in _LATE else super().__getattr__(name)

    def alive(self) -> None:
        """Does nothing; the null communicator refuses it, as it refuses everything."""

    def open(self, number: int) -> None:
        """Gives it its contexts: one for messages between two ranks, the next one for collective operations."""
        self.context = 2 * number
        self.world.open_context(self.context, self._everybody() if self.inter else self.ranks)
        self.path = Path(self)

    def _everybody(self) -> tuple[int, ...]:
        """The ranks in the world of all who use the contexts."""
        return self.ranks + self.peers if self.inter else self.ranks

    def close(self) -> None:
        """Forgets all that the process keeps for it. Operations under way complete. Nothing new can start."""
        self.world.close_context(self.context, self._everybody() if self.inter else self.ranks)
        self.members_ = self.remote_ = self.neighbour_calls = self.starting = None
        if self.teamed:
            self.team_calls, self.objects = NO_TEAM, ObjectCalls(self)

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

    # Ranks and tags

    def sends_to_nobody(self, dest: int, tag: int) -> bool:
        """Returns whether a message goes to PROC_NULL. Its tag must be one all the same."""
        if dest != PROC_NULL:
            return False
        self._check_sent(tag, "PROC_NULL")
        return True

    def receives_from_nobody(self, source: int, tag: int) -> bool:
        """Returns whether a message comes from PROC_NULL. Its tag must be one all the same."""
        if source != PROC_NULL:
            return False
        self._check_received(tag, "PROC_NULL")
        return True

    def _check_sent(self, tag: int, whom: str) -> None:
        if tag < 0:
            raise self.fail(ERR_TAG, f"tag {tag} of a message to {whom}: a tag is 0 or more")

    def _check_received(self, tag: int, whom: str) -> None:
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
        hosts = self.world.hosts
        return tuple([hosts[rank] for rank in self.ranks])

    @property
    def members(self) -> Any:
        """The members (the local group) as the collective algorithms see them."""
        if self.members_ is None:
            from ..collectives.exchange import Members

            with self.making:
                if self.members_ is None:
                    self.members_ = Members(self.engine, self.context + 1, self.rank, self.ranks, self.hosts)
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
            if self.inter:
                self.starting = found = NO_START
            else:
                from ..collectives._collectives import StartCalls

                self.starting = found = StartCalls(self, self.members)
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
                try:
                    self._form_team(members)
                finally:
                    self.teamed = True

    def _form_team(self, members: Any) -> None:
        near = members.near
        if len(near) == 1 < self.size:
            self._by_messages(members)
            return
        from ..collectives import team

        ranks = tuple([self.ranks[member] for member in near])
        formed = team.form(self.engine, self.context + 1, ranks, near.index(self.rank), crowded=self.world.job.crowded)
        if len(near) < self.size:
            members.host_team = formed
            return
        members.team = formed
        if formed is None:
            self._by_messages(members)
        else:
            from ..collectives._collectives import TeamCalls
            from ..collectives._object_collectives import TeamObjectCalls

            self.team_calls = TeamCalls(self, members)
            self.objects = TeamObjectCalls(self, members)

    def _by_messages(self, members: Any) -> None:
        if members.levels is None:
            from ..collectives._collectives import MessageCalls

            self.team_calls = MessageCalls(self, members)


def _index(peers: tuple[int, ...]) -> dict[int, int] | None:
    """The place of each peer, by its rank in the world; None where these are the same."""
    if peers == tuple(range(len(peers))):
        return None
    return {peer: place for place, peer in enumerate(peers)}


class Intercommunicator(Communicator):
    """Two groups of ranks, each of which sends to the other one."""

    __slots__ = ()

    inter = True

    def __init__(self, world: World, number: int, ranks: Sequence[int], remote: Sequence[int]) -> None:
        super().__init__(world, number, ranks, remote)
