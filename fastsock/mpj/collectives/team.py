"""How the ranks of a communicator that share a host come to share memory for their collectives.

The leader makes the memory, and hands it to the others (meeting.py) with an eventfd and a descriptor of the process of
every member. Where anything is missing or refused on one host, all members agree that there is no team, and use
messages.
"""

from __future__ import annotations

import _socket
import os
from collections.abc import Sequence
from contextlib import suppress

from fastsock.core.binding._team import TEAM_MOST, Team, create_team_memory
from fastsock.meeting import unix_calls
from fastsock.system.originals import originals
from fastsock.xxdev import settings

from .meeting import meet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fastsock.core.binding._engine import Engine

_WAKE_FLAGS = os.EFD_NONBLOCK | os.EFD_CLOEXEC
SO_PEERPIDFD = 77


def form(
    engine: Engine, context: int, ranks: Sequence[int], index: int, *, crowded: bool, beyond: bool = False
) -> Team | None:
    """The team of the processes `ranks`, of which this is number `index`; None where they cannot share memory.

    A collective call: all of them make it, for the same communicator. `crowded`: their host has more ranks than cores.
    `beyond`: the communicator has members on other hosts, too.
    Raises what the engine raises for a rank that died meanwhile.
    """
    if len(ranks) > TEAM_MOST:
        return None
    if len(ranks) == 1:
        return _alone(engine, ranks[0])
    formed: Team | None = meet(engine, context, ranks, index, _TeamMaking(engine, context, crowded, beyond))
    return formed


def _alone(engine: Engine, rank: int) -> Team | None:
    """One process: nobody is waited for, watched or woken, but its calls are as short as those of several."""
    with suppress(OSError):
        return Team(engine, create_team_memory(1, False), 0, [-1], [-1], [rank])
    return None


class _TeamMaking:
    """`context`: of the collective calls; `crowded`: the host has more ranks than cores; `beyond`: as in `form`."""

    def __init__(self, engine: Engine, context: int, crowded: bool, beyond: bool) -> None:
        self.engine = engine
        self.context = context
        self.crowded = crowded
        self.beyond = beyond

    def count(self, size: int) -> int:
        return 2 * size + 1

    def make(self, streams: dict[int, _socket.socket], size: int) -> list[int]:
        made: list[int] = []
        try:
            made.append(create_team_memory(size, self.crowded))
            for _ in range(size):
                made.append(originals.eventfd(0, _WAKE_FLAGS))
            for index in range(size):
                made.append(_process_of(streams[index]) if index else originals.pidfd_open(originals.getpid()))
        except OSError:
            for descriptor in made:
                originals.close(descriptor)
            raise
        return made

    def open(
        self, descriptors: list[int], ranks: Sequence[int], index: int, identities: bytes, threads: bool
    ) -> Team | None:
        size = len(ranks)
        memory, bells, watches = descriptors[0], descriptors[1 : size + 1], descriptors[size + 1 :]
        try:
            team = Team(self.engine, memory, index, bells, watches, ranks, threads)
        except OSError:
            for descriptor in bells + watches:
                originals.close(descriptor)
            return None
        team.keep(settings.current().shared_memory)
        team.meet(identities)
        team.heed(self.context, self.beyond)
        return team


def _process_of(stream: _socket.socket) -> int:
    """A descriptor of the process at the other end. It becomes readable when that process dies."""
    try:
        return stream.getsockopt(_socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return originals.pidfd_open(unix_calls.peer(stream.fileno())[0])  # it is connected still: the number is its own
