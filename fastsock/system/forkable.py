"""Locks that a forked child finds free. A thread of the parent that held one is not in the child to release it."""

from __future__ import annotations

import os
import weakref
from _thread import RLock, allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable

__all__ = ["in_forked_child", "new_lock", "new_recursive_lock"]

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


def in_forked_child(hook: Callable[[], None]) -> None:
    """Calls `hook` in each forked child, where the system has any."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=hook)


def _forked() -> None:
    for lock in list(_made):
        lock._at_fork_reinit()  # type: ignore[union-attr]  # as threading does with its own


in_forked_child(_forked)
