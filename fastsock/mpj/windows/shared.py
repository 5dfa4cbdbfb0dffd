"""Memory that all members of a window have, where all are threads of one process."""

from __future__ import annotations

from itertools import accumulate

from fastsock.system.forkable import new_lock

from ..datatypes._memory import buffer, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_whole: dict[tuple[int, int], buffer] = {}
"""By the job of the ranks and the context of the window, for the moment in which the members take it."""
_lock = new_lock()


def can_share(communicator: Any) -> bool:
    """Returns whether all members can reach each other's memory."""
    return bool(communicator.size == 1 or communicator.world.job.launcher == "threads")


def parts(communicator: Any, size: int) -> list[buffer]:
    """Returns the memory of each member, one behind another. All members call it; each says how many bytes it wants."""
    sizes = communicator.object_calls.integers(size)
    job = communicator.world.job
    key = id(getattr(job, "ranks", job)), communicator.context
    if communicator.rank == 0:
        with _lock:
            _whole[key] = buffer.allocate(sum(sizes), True)
    communicator.object_calls.integers(0)  # it is there
    with _lock:
        whole = _whole[key]
    communicator.object_calls.integers(0)  # all have it
    if communicator.rank == 0:
        with _lock:
            del _whole[key]
    ends = list(accumulate(sizes))
    return [part(whole, end - each, each) for end, each in zip(ends, sizes, strict=True)]
