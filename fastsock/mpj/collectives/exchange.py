"""The ranks of a communicator, and the messages of one collective call among them.

An algorithm is a generator function over an `Exchange`. It posts sends and receives and yields the requests that it
must see complete before it goes on. So the same text serves calls that block (`drive`) and calls that do not
(`schedule.start`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import count

from ..tags import NOBODYS, TAGS
from .hierarchy import Hierarchy
from .scratch import scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocols import Data, Recorder, Request, Steps

MESSAGES, HOST, HOSTS = "messages", "host", "hosts"
"""How ranks reach each other, for the selection table: by messages on one host, through memory that all share, or by
messages between hosts."""

ANY = -1
PATIENCE_S = 0.25


class Members:
    """The ranks of a communicator, where they are, and what its collective calls share."""

    __slots__ = (
        "context",
        "engine",
        "hierarchy",
        "host_team",
        "hosts",
        "numbers",
        "rank",
        "ranks",
        "schedules",
        "several_hosts",
        "size",
        "team",
    )

    def __init__(
        self,
        engine: Any,
        context: int,
        rank: int,
        ranks: Sequence[int],
        hosts: Sequence[Hashable],
        team: Any = None,
        host_team: Any = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        """`ranks` and `hosts` give each member's world rank and host; `team` is the shared memory of all members,
        `host_team` of those on this host. All members must agree on whether there is a team. `numbers`: of its calls,
        from 0 on."""
        self.engine, self.context = engine, context
        self.rank, self.ranks, self.size = rank, tuple(ranks), len(ranks)
        self.hosts = tuple(hosts)
        self.team, self.host_team = team, host_team
        self.hierarchy = Hierarchy.of(rank, self.hosts)
        self.several_hosts = len(set(self.hosts)) > 1
        self.numbers = count() if numbers is None else numbers
        self.schedules: dict[Any, Any] | None = {}

    @property
    def near(self) -> tuple[int, ...]:
        """The members on this one's host, itself among them."""
        here = self.hosts[self.rank]
        return tuple([member for member, host in enumerate(self.hosts) if host == here])

    def exchange(self, blocking: bool = True) -> Exchange:
        """The next collective call among these ranks; only one that blocks may use the shared memory of a team."""
        return Exchange(self, next(self.numbers) % TAGS, blocking)


class Exchange:
    """The messages of one collective call."""

    __slots__ = (
        "_irecv",
        "_isend",
        "_ranks",
        "blocking",
        "context",
        "engine",
        "hierarchy",
        "host_team",
        "rank",
        "reach",
        "schedules",
        "scratch",
        "size",
        "tag",
        "team",
    )

    def __init__(self, members: Members, tag: int, blocking: bool) -> None:
        self.engine = engine = members.engine
        self.schedules: dict[Any, Any] | None = members.schedules
        self.scratch = scratch
        self._isend, self._irecv, self._ranks = engine.isend, engine.irecv, members.ranks
        self.context, self.tag, self.blocking = members.context, tag, blocking
        self.rank, self.size, self.hierarchy = members.rank, members.size, members.hierarchy
        self.team: Any = members.team if blocking else None
        self.host_team: Any = members.host_team if blocking else None
        self.reach = HOST if self.team is not None else HOSTS if members.several_hosts else MESSAGES

    def among(self, ranks: Sequence[int]) -> Exchange:
        """The same call among some of its ranks only. This rank is one of them; each is on a host of its own."""
        part = self.elsewhere([self._ranks[rank] for rank in ranks], self.context, self.tag)
        part.rank = ranks.index(self.rank)
        return part

    def elsewhere(self, ranks: Sequence[int], context: int, tag: int) -> Exchange:
        """An exchange with other (world) ranks, under another tag."""
        other = object.__new__(Exchange)
        other.engine, other._isend, other._irecv = self.engine, self._isend, self._irecv
        other.schedules, other.scratch = None, self.scratch
        other.context, other.tag, other.blocking = context, tag, self.blocking
        other._ranks, other.rank, other.size = tuple(ranks), self.rank, len(ranks)
        other.hierarchy = other.team = other.host_team = None
        other.reach = HOSTS
        return other

    @property
    def contexts(self) -> tuple[int, ...]:
        """The contexts of its messages, one for each channel of a schedule."""
        return (self.context,)

    @property
    def tags(self) -> tuple[int, ...]:
        """The tags of its messages, one for each channel of a schedule."""
        return (self.tag,)

    def recorded(self, recorder: Recorder, channel: int = 0) -> Exchange:
        """The same call, whose messages are written down."""
        part = self.elsewhere(self._ranks, self.context, channel)
        part.hierarchy, part.reach = self.hierarchy, self.reach
        part.engine, part._isend, part._irecv = recorder, recorder.isend, recorder.irecv
        part.scratch = recorder.scratch
        return part

    def on_host(self) -> Exchange:
        """The same call among the ranks of this rank's host."""
        assert self.hierarchy is not None
        part = self.among(self.hierarchy.local)
        part.team = self.host_team
        part.reach = MESSAGES if part.team is None else HOST
        return part

    def send(self, data: Data, to: int) -> Request:
        """Start to send to a rank."""
        request: Request = self._isend(data, self._ranks[to], self.tag, self.context)
        return request

    def receive(self, data: Data, source: int) -> Request:
        """Start to receive from a rank."""
        request: Request = self._irecv(data, self._ranks[source], self.tag, self.context)
        return request

    def receive_new(self, source: int) -> Request:
        """Start to receive a message of unknown size: its bytes are the request's `payload`."""
        request: Request = self.engine.irecv_new(self._ranks[source], self.tag, self.context)
        return request

    def give(self, data: Data, to: int) -> None:
        """Send to a rank, and return when that is done."""
        self.engine.send(data, self._ranks[to], self.tag, self.context)

    def take(self, source: int) -> Any:
        """The bytes of a message of unknown size, once it is there."""
        return self.engine.recv_new(self._ranks[source], self.tag, self.context)[0]


class Inter:
    """The two groups of an intercommunicator, as one rank sees them."""

    __slots__ = ("_context", "_numbers", "_schedules", "local", "remote")

    def __init__(self, local: Members, remote: Sequence[int], context: int) -> None:
        """`local`: the members of this rank's group, in a context of their own; `remote`: the world ranks of the
        other group; `context`: what messages between the groups go in."""
        self.local, self.remote = local, tuple(remote)
        self._context, self._numbers = context, count()
        self._schedules: dict[Any, Any] = {}

    def exchange(self, blocking: bool = True) -> InterExchange:
        """The next collective call."""
        local = self.local.exchange(blocking)
        remote = local.elsewhere(self.remote, self._context, next(self._numbers) % TAGS)
        return InterExchange(local, remote, self._schedules)


class InterExchange:
    """The messages of one collective call: `local` inside the group, `remote` to and from the other one."""

    __slots__ = ("engine", "local", "rank", "remote", "schedules")

    def __init__(self, local: Exchange, remote: Exchange, schedules: dict[Any, Any] | None = None) -> None:
        self.engine, self.local, self.rank = local.engine, local, local.rank
        self.remote, self.schedules = remote, schedules

    @property
    def contexts(self) -> tuple[int, ...]:
        """The contexts of its messages, one for each channel of a schedule."""
        return (self.local.context, self.remote.context)

    @property
    def tags(self) -> tuple[int, ...]:
        """The tags of its messages, one for each channel of a schedule."""
        return (self.local.tag, self.remote.tag)

    def recorded(self, recorder: Recorder) -> InterExchange:
        """The same call, whose messages are written down."""
        return InterExchange(self.local.recorded(recorder), self.remote.recorded(recorder, 1))


def drive(exchange: Exchange, steps: Steps) -> None:
    """Run an algorithm to its end."""
    wait_all = exchange.engine.wait_all
    for requests in steps:
        while not wait_all(requests, PATIENCE_S):
            # what is waited for may never come because its sender waits for a rank that failed: raises for that one
            exchange.engine.iprobe(ANY, NOBODYS, exchange.context)
        for request in requests:
            if request.error is not None:
                raise request.error
