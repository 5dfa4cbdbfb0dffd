"""This rank's part of the job: its device, its engine, and the communicators that are there from the beginning."""

from __future__ import annotations

import atexit
import functools
import itertools
import threading
from collections.abc import Sequence

from fastsock.system.forkable import new_lock

from .. import constants, rc
from ..exceptions import Exception as MPIException
from ..exceptions import last_used_code
from ..messages.buffered import Buffered
from .communicator_record import Communicator, NoCommunicator
from .creation import INTERNAL, SELF, WORLD, ContextNumbers
from .errhandler import ERRORS_ABORT, ERRORS_ARE_FATAL, ERRORS_RETURN, Abort
from .group import Group, GroupRecord
from .group import World as GroupOfWorld
from .options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LEVELS = {
    "single": constants.THREAD_SINGLE,
    "funneled": constants.THREAD_FUNNELED,
    "serialized": constants.THREAD_SERIALIZED,
    "multiple": constants.THREAD_MULTIPLE,
}


@functools.lru_cache(maxsize=1)
def options() -> Options:
    """What was chosen before `MPI` was imported."""
    return Options(rc)


class World:
    """One rank, from its start to its end."""

    def __init__(self, level: int) -> None:
        from fastsock.xxdev.device import Device
        from fastsock.xxdev.job import current as current_job

        job = current_job()
        self.device: Any = Device.new_instance(job.device)
        self.device.init(job)
        self.job: Any = job
        self.engine: Any = self.device.engine
        self.rank: int = job.rank
        self.size: int = job.size
        self.level = level
        self.thread = threading.get_ident()
        self.finalized = False
        self.numbers = ContextNumbers(self.rank, self.size)
        self.internal_context = 2 * INTERNAL
        self.buffered = Buffered()
        self._channels = itertools.count()
        self._channels_lock = new_lock()
        self._hosts: tuple[Any, ...] | None = None
        self.default_errhandler = _errhandler(options().errors)
        self.everyone = self._predefined(WORLD, range(self.size), "COMM_WORLD")
        self.alone = self._predefined(SELF, [self.rank], "COMM_SELF")

    def _predefined(self, number: int, ranks: Sequence[int], name: str) -> Communicator:
        from .intracomm import Intracomm

        record = Communicator(self, number, ranks)
        record.name = f"MPI_{name}"
        Intracomm.named(record, name)
        return record

    @property
    def hosts(self) -> tuple[Any, ...]:
        """Which host each rank is on. Waits until all have joined."""
        if self._hosts is None:
            self._hosts = (self.job.host,) if self.size == 1 else tuple(self.job.hosts)
        return self._hosts

    @property
    def failed(self) -> Any:
        """The ranks that failed, and why."""
        return self.job.failed

    def channels(self, count: int) -> int:
        """Returns the first of so many tags for messages of the internal context that nobody else uses here."""
        with self._channels_lock:
            first = next(self._channels)
            for _ in range(count - 1):
                next(self._channels)
            return first & 0x3FFFFFFF

    def open_context(self, context: int, members: tuple[int, ...]) -> None:
        """Tells the engine who may send in the contexts of a communicator."""
        if len(members) < self.size:
            self.engine.set_members(context, members)
            self.engine.set_members(context + 1, members)

    def close_context(self, context: int) -> None:
        """Takes back the contexts of a communicator."""
        self.engine.set_members(context, None)
        self.engine.set_members(context + 1, None)
        self.numbers.free(context // 2)

    def finish(self) -> None:
        """Ends this rank's part: what it sent is delivered first, unless the program is ending by an error."""
        if self.finalized:
            return
        self.finalized = True
        if self.job.crashed() is None:
            self.buffered.flush(self.engine)
            self.device.finish()
            self.job.finish()


class _Ranks:
    """The ranks of this process: one, or one for each of the threads that are ranks."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.by_job: dict[int, World] = {}
        self.only: World | None = None
        self.waiting: tuple[Any, ...] = ()


_ranks = _Ranks()


def find() -> World | None:
    """Returns the rank that the calling thread belongs to, if it was initialized."""
    if _ranks.only is not None:
        return _ranks.only
    if not _ranks.by_job:
        return None
    from fastsock.xxdev.job import current as current_job

    return _ranks.by_job.get(id(current_job()))


def current() -> World:
    """Returns the rank that the calling thread belongs to."""
    found = find()
    if found is None:
        raise MPIException(constants.ERR_OTHER, "MPI is not initialized: call MPI.Init() first")
    return found


def start(level: int) -> World:
    """Makes this process, or the calling thread where threads are ranks, a rank of its job."""
    from fastsock.xxdev.job import current as current_job

    if find() is not None:
        raise MPIException(constants.ERR_OTHER, "MPI is initialized already")
    world = World(level)
    job = current_job()
    Abort.job = staticmethod(_abort)
    GroupOfWorld.group = staticmethod(_world_group)
    with _ranks.lock:
        _ranks.by_job[id(job)] = world
        if job.launcher != "threads":
            _ranks.only = world
            for handle, record in zip(_ranks.waiting, (world.everyone, world.alone), strict=False):
                record.constant = handle
                handle.ob, handle._constant = record, True
    return world


def predefined() -> World:
    """Returns the calling thread's rank, which starts here where the program did not start it."""
    from . import lifecycle

    lifecycle.initialize()
    return current()


def ranks_are_threads() -> bool:
    """Whether each thread of this process may be a rank of its own."""
    from fastsock.xxdev.job import current as current_job

    return find() is not None and current_job().launcher == "threads"


def static_handles() -> tuple[Any, Any]:
    """Returns COMM_WORLD and COMM_SELF of a process that is one rank; they mean something once it is initialized."""
    from .intracomm import Intracomm

    if _ranks.only is not None:
        return _ranks.only.everyone.constant, _ranks.only.alone.constant
    handles = Intracomm.of(_NotYet()), Intracomm.of(_NotYet())
    _ranks.waiting = handles
    return handles


class _NotYet(NoCommunicator):
    """What COMM_WORLD refers to before the initialization."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise MPIException(constants.ERR_OTHER, "MPI is not initialized: call MPI.Init() first")


def _abort(code: int, text: str) -> None:
    current().job.abort(code, text)


def _world_group() -> Group:
    home = current()
    return Group.of(GroupRecord(range(home.size), home.rank))


def finish_at_exit() -> None:
    """Ends the ranks of this process that the program did not end, where it has not said that it will."""
    if options().finalize is False:
        return
    for world in list(_ranks.by_job.values()):
        world.finish()


atexit.register(finish_at_exit)


_ERRHANDLERS = {
    "default": ERRORS_ARE_FATAL,  # the MPI standard's
    "exception": ERRORS_RETURN,
    "abort": ERRORS_ABORT,
    "fatal": ERRORS_ARE_FATAL,
}


def _errhandler(errors: str) -> Any:
    """Returns the error handler that a program chose by `rc.errors` for all communicators."""
    return _ERRHANDLERS[errors].ob


def attached(memory: Any) -> Buffered:
    """Returns room for buffered messages in memory that the program gives; None, BUFFER_AUTOMATIC: no limit."""
    buffered = Buffered()
    attach(buffered, memory)
    return buffered


def attach(buffered: Buffered, memory: Any) -> None:
    """Gives memory to buffered messages."""
    from ..datatypes._memory import BUFFER_AUTOMATIC, acquire

    if memory is None or memory is BUFFER_AUTOMATIC:
        buffered.attach(BUFFER_AUTOMATIC, None)
    else:
        room = acquire(memory, False, False)
        buffered.attach(room, room.nbytes)


def attribute(communicator: Communicator, keyval: int) -> Any:
    """Returns the value of a predefined attribute."""
    world = communicator.world
    values = {
        constants.TAG_UB: constants.MAX_TAG,
        constants.IO: constants.UNDEFINED,
        constants.WTIME_IS_GLOBAL: len(set(world.hosts)) == 1,
        constants.UNIVERSE_SIZE: world.size,
        constants.APPNUM: 0,
        constants.LASTUSEDCODE: last_used_code(),
    }
    return values.get(keyval)
