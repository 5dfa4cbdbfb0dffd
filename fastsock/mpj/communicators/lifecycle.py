"""Beginning and end of a rank, and what belongs to the whole process: thread levels, the buffer for buffered sends."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

from .. import constants, ranks, rc
from ..constants import THREAD_MULTIPLE, THREAD_SINGLE
from ..exceptions import Exception as MPIException
from ..handle import Handle
from ..messages.buffered import Flush
from ..messages.request import Request
from . import dynamic_calls
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
    world.files_chosen = _options().errors != "default"
    world.everyone = _predefined(world, WORLD, range(world.size), "COMM_WORLD")
    world.alone = _predefined(world, SELF, [world.rank], "COMM_SELF")
    ranks.add(world)
    if _options().finalize is not False:  # then the program ends its ranks itself
        world.job.at_exit(world.end)
    if not ranks.are_threads():
        for handle, record in zip(_waiting, (world.everyone, world.alone), strict=False):
            record.constant = handle
            handle.ob, handle._constant = record, True
    dynamic_calls.calls.started(world)
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
    """Returns COMM_WORLD and COMM_SELF of a process that is one rank. They refuse calls until it is initialized."""
    global _waiting
    world = ranks.find()
    if world is not None:
        return world.everyone.constant, world.alone.constant
    _waiting = _handles().of(_NotYet()), _handles().of(_NotYet())
    return _waiting


def Init() -> None:
    """Initialize MPI, for one thread (MPI 4.1, chapter 11). Raises MPI.Exception (ERR_OTHER) where it is already."""
    _start(THREAD_SINGLE)


def Init_thread(required: int = THREAD_MULTIPLE) -> int:
    """Initialize MPI; return the thread level that is given: `required`. Raises as `Init` does."""
    return _start(min(max(required, THREAD_SINGLE), THREAD_MULTIPLE)).level


def Finalize() -> None:
    """End this rank's part: its messages are delivered first. A second call does nothing."""
    ranks.current().finish()


def Is_initialized() -> bool:
    """Return whether MPI is initialized; after `Finalize` too."""
    return ranks.find() is not None


def Is_finalized() -> bool:
    """Return whether `Finalize` was called."""
    found = ranks.find()
    return found is not None and found.finalized


def Query_thread() -> int:
    """Return the thread level: THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED or THREAD_MULTIPLE."""
    level: int = ranks.current().level
    return level


def Is_thread_main() -> bool:
    """Return whether this thread initialized MPI."""
    return bool(threading.get_ident() == ranks.current().thread)


def Attach_buffer(buf: Any) -> None:
    """Let this process's buffered sends take as many bytes as `buf` has; None or BUFFER_AUTOMATIC: any number.

    A message takes its length and BSEND_OVERHEAD bytes. The copies lie elsewhere: `buf` stays as it is. Raises
    MPI.Exception (ERR_BUFFER) where a buffer is attached already.
    """
    ranks.current().buffered.attach(buf)


def Detach_buffer() -> Any:
    """Wait until the buffered messages are on their way; return what was attached, or None."""
    home = ranks.current()
    return home.buffered.detach(home.engine)


def Flush_buffer() -> None:
    """Wait until the buffered messages are on their way."""
    home = ranks.current()
    home.buffered.flush(home.engine)


def Iflush_buffer() -> Request:
    """Return a request that is complete when the present buffered messages are on their way."""
    home = ranks.current()
    return Request.of(Flush(home.engine, home.buffered.pending()))
