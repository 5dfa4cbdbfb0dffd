"""Beginning and end of a rank, and what belongs to the whole process: thread levels, the buffer for buffered sends."""

from __future__ import annotations

import atexit
import functools
import threading
from collections.abc import Sequence

from .. import constants, ranks, rc
from ..constants import THREAD_MULTIPLE, THREAD_SINGLE
from ..exceptions import Exception as MPIException
from ..handle import Handle
from ..messages.buffered import Flush
from ..messages.request import Request
from .communicator_record import Communicator, NoCommunicator
from .context_numbers import SELF, WORLD
from .errhandler import ERRORS_ABORT, ERRORS_ARE_FATAL, ERRORS_RETURN
from .options import Options
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LEVELS = {
    "single": constants.THREAD_SINGLE,
    "funneled": constants.THREAD_FUNNELED,
    "serialized": constants.THREAD_SERIALIZED,
    "multiple": constants.THREAD_MULTIPLE,
}
_ERRHANDLERS = {
    "default": ERRORS_ARE_FATAL,  # the MPI standard's
    "exception": ERRORS_RETURN,
    "abort": ERRORS_ABORT,
    "fatal": ERRORS_ARE_FATAL,
}


@functools.lru_cache(maxsize=1)
def _options() -> Options:
    """The choices made before `MPI` was imported."""
    return Options(rc)


class _NotYet(NoCommunicator):
    """The record of COMM_WORLD before the initialization."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise MPIException(constants.ERR_OTHER, "MPI is not initialized: call MPI.Init() first")


_waiting: tuple[Handle, ...] = ()
"""COMM_WORLD and COMM_SELF, where they were named before the initialization."""


def _handles() -> type[Handle]:
    """The class of the predefined communicators: Intracomm says that it wraps such records."""
    return Handle.wrapper(Communicator)


def _predefined(world: World, number: int, members: Sequence[int], name: str) -> Communicator:
    record = Communicator(world, number, members)
    record.name = f"MPI_{name}"
    _handles().named(record, name)
    return record


def _start(level: int) -> World:
    """Makes this process, or the calling thread where threads are ranks, a rank of its job."""
    if ranks.find() is not None:
        raise MPIException(constants.ERR_OTHER, "MPI is initialized already")
    world = World(level, _ERRHANDLERS[_options().errors].ob)
    world.everyone = _predefined(world, WORLD, range(world.size), "COMM_WORLD")
    world.alone = _predefined(world, SELF, [world.rank], "COMM_SELF")
    ranks.add(world)
    if not ranks.are_threads():
        for handle, record in zip(_waiting, (world.everyone, world.alone), strict=False):
            record.constant = handle
            handle.ob, handle._constant = record, True
    return world


def initialize() -> None:
    """Initializes as `rc` and the environment say. Importing `MPI` does it."""
    chosen = _options()
    if chosen.initialize and ranks.find() is None:
        _start(_LEVELS[chosen.thread_level] if chosen.threads else THREAD_SINGLE)


def predefined() -> Any:
    """Returns the calling thread's rank. It starts here if the program has not started it."""
    initialize()
    return ranks.current()


def static_handles() -> tuple[Any, ...]:
    """Returns COMM_WORLD and COMM_SELF of a process that is one rank; they mean something once it is initialized."""
    global _waiting
    world = ranks.find()
    if world is not None:
        return world.everyone.constant, world.alone.constant
    _waiting = _handles().of(_NotYet()), _handles().of(_NotYet())
    return _waiting


def _finish_at_exit() -> None:
    """Ends the ranks that the program left running. A program with `rc.finalize = False` ends them itself."""
    if _options().finalize is False:
        return
    for world in ranks.everyone():
        world.finish()


atexit.register(_finish_at_exit)


def Init() -> None:
    """Initialize the MPI execution environment."""
    _start(THREAD_SINGLE)


def Init_thread(required: int = THREAD_MULTIPLE) -> int:
    """Initialize the MPI execution environment."""
    return _start(min(max(required, THREAD_SINGLE), THREAD_MULTIPLE)).level


def Finalize() -> None:
    """Terminate the MPI execution environment."""
    ranks.current().finish()


def Is_initialized() -> bool:
    """Indicate whether `Init` has been called."""
    return ranks.find() is not None


def Is_finalized() -> bool:
    """Indicate whether `Finalize` has completed."""
    found = ranks.find()
    return found is not None and found.finalized


def Query_thread() -> int:
    """Return the level of thread support provided by the MPI library."""
    level: int = ranks.current().level
    return level


def Is_thread_main() -> bool:
    """Indicate whether this thread called `Init` or `Init_thread`."""
    return bool(threading.get_ident() == ranks.current().thread)


def Attach_buffer(buf: Any) -> None:
    """Attach a user-provided buffer for sending in buffered mode."""
    ranks.current().buffered.attach(buf)


def Detach_buffer() -> Any:
    """Remove an existing attached buffer."""
    home = ranks.current()
    return home.buffered.detach(home.engine)


def Flush_buffer() -> None:
    """Block until all buffered messages have been transmitted."""
    home = ranks.current()
    home.buffered.flush(home.engine)


def Iflush_buffer() -> Request:
    """Nonblocking flush for buffered messages."""
    home = ranks.current()
    return Request.of(Flush(home.engine, home.buffered.pending()))
