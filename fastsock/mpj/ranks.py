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


def count_created(kind: Any, most: int, what: str) -> Any:
    """Counts something that the calling rank creates. Returns the rank, for `count_freed`.

    Raises RuntimeError where it has `most` of them.
    """
    rank = find()
    if rank is None:
        return None
    with _lock:
        if rank.created.get(kind, 0) >= most:
            raise RuntimeError(f"cannot create too many user-defined {what}: free one first")
        rank.created[kind] = rank.created.get(kind, 0) + 1
    return rank


def count_freed(kind: Any, rank: Any) -> None:
    """Counts that it was freed. `rank`: who created it; None: it was not counted, or is already freed."""
    if rank is not None:
        with _lock:
            rank.created[kind] -= 1
