"""A communicator is revoked: how all ranks hear of it, and what becomes of what is under way.

One rank asks the job's server, and the server tells all ranks: all of them hear it, or none, wherever the one that
asked dies. A thread of each rank hears it, so a rank that computes, or waits for somebody, does too.

Where members belong to several jobs, each that hears it passes it on, once: by a message to each member of another job,
and to the server of its own. So all that live hear it where one does (tests/model/revocation.pml).
"""

from __future__ import annotations

import contextlib
import json
import struct
from weakref import WeakSet

from fastsock.core.binding._requests import MessageError
from fastsock.system.forkable import new_lock
from fastsock.xxdev.job.base import JobError

from ..constants import ANY_SOURCE, ANY_TAG
from ..tags import APART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAGIC = b"revoke"
_OF_SEVERAL_JOBS = b"several jobs revoke"


class Revocations:
    """Those of one rank: what it has heard, and the communicators that hold what the engine knows nothing of."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._lock = new_lock()
        self._users: dict[int, WeakSet[Any]] = {}
        self._passed_on: set[int] = set()  # contexts of several jobs: their numbers come at random
        self._listens = False
        world.job.on_broadcast(self._hear)

    def revoke(self, communicator: Any) -> None:
        """Revokes it for all its members."""
        context, ranks = communicator.context, sorted({*communicator.ranks, *communicator.peers})
        if communicator.mixed:
            self._pass_on(context, [self._world.others.key(rank) for rank in ranks])
        elif len(ranks) > 1:  # first: where that fails, nothing was done
            numbers = struct.pack(f"<{1 + len(ranks)}i", context, *ranks)
            self._world.job.broadcast(_MAGIC + numbers)
        self._take(context)

    def listen_to_other_jobs(self) -> None:
        """Their ranks may tell this one. Idempotent."""
        with self._lock:
            listens, self._listens = self._listens, True
        if not listens:
            self._world.engine.set_members(self._tidings, [self._world.rank])  # nobody else's failure ends the receive
            self._expect()

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
        if value.startswith(_OF_SEVERAL_JOBS):
            self._hear_of_several_jobs(value)
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
        self._world.engine.revoke(context, context + 1, APART + context + 1)

    # ---- members of several jobs ----

    @property
    def _tidings(self) -> int:
        """The context of what their ranks tell each other of this."""
        return int(APART + self._world.internal_context)

    def _expect(self) -> None:
        going_on = True
        while going_on:
            request = self._world.engine.irecv_new(ANY_SOURCE, ANY_TAG, self._tidings)
            if not request.done:
                request.callback = self._came
                return
            going_on = self._take_tidings(request)

    def _came(self, request: Any) -> None:
        if self._take_tidings(request):
            self._expect()

    def _take_tidings(self, request: Any) -> bool:
        """Whether more may come: else this rank ends."""
        if request.error is not None:
            return False
        self._hear_of_several_jobs(bytes(request.payload))
        return True

    def _hear_of_several_jobs(self, value: bytes) -> None:
        outside = self._world.others.known
        if outside is None:
            return
        context, members = json.loads(value[len(_OF_SEVERAL_JOBS) :])
        keys = [(str(job), int(rank)) for job, rank in members]
        if outside.own_key in keys:
            with contextlib.suppress(JobError):  # the server is gone, and this job ends
                self._pass_on(int(context), keys)
            self._take(int(context))

    def _pass_on(self, context: int, keys: list[tuple[str, int]]) -> None:
        """To all other members, once."""
        with self._lock:
            if context in self._passed_on:
                return
            self._passed_on.add(context)
        outside, engine = self._world.others.outside, self._world.engine
        value = _OF_SEVERAL_JOBS + json.dumps([context, keys]).encode()
        for number in outside.known(keys):
            with contextlib.suppress(MessageError):  # it is gone
                engine.isend(value, number, 0, self._tidings)
        if sum(job == outside.job_identity for job, _ in keys) > 1:
            self._world.job.broadcast(value)
