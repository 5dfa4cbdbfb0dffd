"""Locks that a forked child finds free. A thread of the parent that held one is not in the child to release it."""

from __future__ import annotations

import os
import weakref
from _thread import RLock, allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType

__all__ = ["new_lock", "new_recursive_lock"]

_made: weakref.WeakSet[LockType | RLock] = weakref.WeakSet()


def new_lock() -> LockType:
    """Returns a lock, as threading.Lock() does."""
    lock = allocate_lock()
    _made.add(lock)
    return lock


def new_recursive_lock() -> RLock:
    """Returns a lock, as threading.RLock() does."""
    lock = RLock()
    _made.add(lock)
    return lock


def _forked() -> None:
    for lock in list(_made):
        lock._at_fork_reinit()  # type: ignore[union-attr]  # as threading does with its own


os.register_at_fork(after_in_child=_forked)
