"""A communicator is revoked: how all ranks hear of it, and what becomes of what is under way.

One rank asks the job's server, and the server tells all ranks: all of them hear it, or none, wherever the one that
asked dies. A thread of each rank hears it, so a rank that computes, or waits for somebody, does too.
"""

from __future__ import annotations

import struct
from weakref import WeakSet

from fastsock.system.forkable import new_lock

from ..tags import APART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAGIC = b"revoke"


class Revocations:
    """Those of one rank: what it has heard, and the communicators that hold what the engine knows nothing of."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._lock = new_lock()
        self._users: dict[int, WeakSet[Any]] = {}
        world.job.on_broadcast(self._hear)

    def revoke(self, communicator: Any) -> None:
        """Revokes it for all its members."""
        ranks = sorted({*communicator.ranks, *communicator.peers})
        if len(ranks) > 1:  # first: where that fails, nothing was done
            numbers = struct.pack(f"<{1 + len(ranks)}i", communicator.context, *ranks)
            self._world.job.broadcast(_MAGIC + numbers)
        self._take(communicator.context)

    def heed(self, context: int, communicator: Any) -> None:
        """Where that context is revoked, or was before, the communicator is told, and revoked too."""
        with self._lock:
            self._users.setdefault(context, WeakSet()).add(communicator)
        communicator.heeded = True
        if self._world.engine.is_revoked(context):
            self._end(communicator)

    def forget(self, context: int) -> None:
        """The communicator of that context was freed."""
        with self._lock:
            self._users.pop(context, None)

    def _hear(self, value: bytes) -> None:
        if not value.startswith(_MAGIC):
            return
        context, *ranks = struct.unpack(f"<{(len(value) - len(_MAGIC)) // 4}i", value[len(_MAGIC) :])
        if self._world.rank in ranks:
            self._take(context)

    def _take(self, context: int) -> None:
        self._end_context(context)
        with self._lock:
            users = list(self._users.get(context, ()))
        for communicator in users:
            self._end(communicator)

    def _end(self, communicator: Any) -> None:
        self._end_context(communicator.context)
        communicator.revoked()

    def _end_context(self, context: int) -> None:
        for each in (context, context + 1, APART + context + 1):
            self._world.engine.revoke(each)
