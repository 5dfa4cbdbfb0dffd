"""Beginning and end of a rank, and what belongs to the whole process: thread levels, the buffer for buffered sends."""

from __future__ import annotations

import threading

from ..constants import THREAD_MULTIPLE, THREAD_SINGLE
from ..messages.buffered import Flush
from ..messages.request import Request
from . import world

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def Init() -> None:
    """Initialize the MPI execution environment."""
    world.start(THREAD_SINGLE)


def Init_thread(required: int = THREAD_MULTIPLE) -> int:
    """Initialize the MPI execution environment."""
    return world.start(min(max(required, THREAD_SINGLE), THREAD_MULTIPLE)).level


def Finalize() -> None:
    """Terminate the MPI execution environment."""
    world.current().finish()


def Is_initialized() -> bool:
    """Indicate whether `Init` has been called."""
    return world.find() is not None


def Is_finalized() -> bool:
    """Indicate whether `Finalize` has completed."""
    found = world.find()
    return found is not None and found.finalized


def Query_thread() -> int:
    """Return the level of thread support provided by the MPI library."""
    return world.current().level


def Is_thread_main() -> bool:
    """Indicate whether this thread called `Init` or `Init_thread`."""
    return threading.get_ident() == world.current().thread


def initialize() -> None:
    """Initializes as `rc` and the environment say; what the import does."""
    chosen = world.options()
    if chosen.initialize and world.find() is None:
        world.start(world.LEVELS[chosen.thread_level] if chosen.threads else THREAD_SINGLE)


def Attach_buffer(buf: Any) -> None:
    """Attach a user-provided buffer for sending in buffered mode."""
    world.attach(world.current().buffered, buf)


def Detach_buffer() -> Any:
    """Remove an existing attached buffer."""
    home = world.current()
    return home.buffered.detach(home.engine)


def Flush_buffer() -> None:
    """Block until all buffered messages have been transmitted."""
    home = world.current()
    home.buffered.flush(home.engine)


def Iflush_buffer() -> Request:
    """Nonblocking flush for buffered messages."""
    home = world.current()
    return Request.of(Flush(home.engine, home.buffered.pending()))
