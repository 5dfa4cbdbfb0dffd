"""This rank's part of the job: its device, its engine, and the numbers that it gives."""

from __future__ import annotations

import itertools
import os
import threading

from fastsock.system.forkable import new_lock
from fastsock.xxdev.job import own

from .. import constants
from ..exceptions import last_used_code
from ..messages.buffered import Buffered
from ..recovery.revocation import Revocations
from ._records import ContextNumbers
from .context_numbers import INTERNAL, proposed
from .others import Others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class World:
    """One rank, from its start to its end. `everyone` and `alone`: its predefined communicators."""

    everyone: Any
    alone: Any

    def __init__(self, level: int, default_errhandler: Any) -> None:
        from fastsock.xxdev.device import Device
        from fastsock.xxdev.job import current as current_job

        job = current_job()
        self.device: Any = Device.new_instance(job.device)
        self.device.finishes_at_exit = False  # that is for MPI to say
        self.device.init(job)
        self.job: Any = job
        self.engine: Any = self.device.engine
        self.engine.has_collectives()
        self.rank: int = job.rank
        self.size: int = job.size
        self.level = level
        self.thread = threading.get_ident()
        self.finalized = False
        self.parent: Any = None  # the communicator with those that spawned this job, until it is disconnected
        self.children: list[Any] = []  # the jobs that this rank has spawned
        self.others = Others(self)
        self.ports: dict[str, Any] = {}  # by name
        self.created: dict[Any, int] = {}  # how many error handlers of its own it has, by the class of their objects
        self.representations: dict[str, Any] = {}  # of files, of its own, by name
        self.numbers = ContextNumbers(self.rank, self.size)
        self.internal_context = 2 * INTERNAL
        self.buffered = Buffered()
        self.default_errhandler = default_errhandler
        self.files_chosen = False
        """Whether the program chose it for files, too. Else their default is another."""
        self._channels = itertools.count()
        self._channels_lock = new_lock()
        self._hosts: tuple[Any, ...] | None = None
        self.revocations = Revocations(self)

    @property
    def hosts(self) -> tuple[Any, ...]:
        """Which host each rank is on. Waits until all have joined."""
        if self._hosts is None:
            self._hosts = (self.job.host,) if self.size == 1 else tuple(self.job.hosts)
        return self._hosts

    def host_of(self, rank: int) -> Any:
        """Which host a rank is on, also one of another job."""
        return self.hosts[rank] if rank < self.size else self.others.outside.process(rank).host

    def proposed_number(self) -> int:
        """Returns a number for a communicator with members of several jobs, which is hardly in use anywhere."""
        return proposed()

    def channels(self, count: int) -> int:
        """Returns the first of so many tags for messages of the internal context that nobody else uses here."""
        with self._channels_lock:
            first = next(self._channels)
            for _ in range(count - 1):
                next(self._channels)
            return first & 0x3FFFFFFF

    def finish(self) -> None:
        """Ends this rank's part. Its messages are delivered first, unless the program is ending by an error."""
        if self.finalized:
            return
        self.finalized = True
        if self.job.crashed() is None:
            self.buffered.flush(self.engine)
            self.device.finish()
            self.job.finish()
            for child in self.children.copy():
                child.let_go()

    def end(self) -> None:
        """As `finish`, at the end of the program: then those that this rank has spawned may still write."""
        self.finish()
        if self.job.crashed() is None:
            for child in self.children.copy():
                child.wait()

    def attribute(self, keyval: int) -> Any:
        """Returns the value of a predefined attribute. All communicators have the same."""
        values = {
            constants.TAG_UB: constants.MAX_TAG,
            constants.IO: constants.ANY_SOURCE,
            constants.WTIME_IS_GLOBAL: len(set(self.hosts)) == 1,
            constants.UNIVERSE_SIZE: self.size,
            constants.APPNUM: int(os.environ.get(own.APPLICATION) or 0),
            constants.LASTUSEDCODE: last_used_code(),
        }
        return values[keyval]
