# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""The lock of a connection's parts: compiled code takes a free one without a call of Python."""

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from fastsock.rmi import _interpreted as cython

if not cython.compiled:
    from fastsock.rmi._interpreted import free_lock, is_taken, let_go, new_lock, take


class Lock:
    """As that of _thread. A signal handler may run, and raise, while a thread waits for it."""

    def __init__(self) -> None:
        self._lock = new_lock()

    def __dealloc__(self) -> None:  # of the compiled class
        free_lock(self._lock)

    def acquire(self, waits: bool = True) -> bool:
        """Whether this thread has it now."""
        return take(self._lock, waits)

    def release(self) -> None:
        """Any thread may let it go."""
        let_go(self._lock)

    def locked(self) -> bool:
        """Whether somebody has it."""
        return is_taken(self._lock)

    def __enter__(self) -> Any:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
