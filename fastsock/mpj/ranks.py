"""The ranks of this process: one, or one for each of the threads that are ranks."""

from __future__ import annotations

from fastsock.system.forkable import new_lock

from ..xxdev.job import current as current_job
from .constants import ERR_OTHER
from .exceptions import Exception as MPIException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_lock = new_lock()
_by_job: dict[int, Any] = {}
_only: Any = None


def add(world: Any) -> None:
    """Tells of a rank that starts, with its job, in the calling thread where threads are ranks."""
    global _only
    with _lock:
        _by_job[id(world.job)] = world
        if world.job.launcher != "threads":
            _only = world


def find() -> Any:
    """Returns the rank that the calling thread belongs to, if it was initialized."""
    if _only is not None:
        return _only
    if not _by_job:
        return None
    return _by_job.get(id(current_job()))


def current() -> Any:
    """Returns the rank that the calling thread belongs to."""
    found = find()
    if found is None:
        raise MPIException(ERR_OTHER, "MPI is not initialized: call MPI.Init() first")
    return found


def are_threads() -> bool:
    """Whether each thread of this process may be a rank of its own."""
    return find() is not None and current_job().launcher == "threads"
