"""Several buffers of one size, used again and again."""

from __future__ import annotations

from time import monotonic

from ..system.forkable import new_recursive_lock
from .buffer import RegisteredBuffer
from .errors import PoolEmptyError

_SLICE_SECONDS = 0.02


class Pool:
    """`count` buffers of `nbytes` bytes. `release()` returns a buffer here.

    One that was sent may be released at once: it is here again when its receiver has released it too.
    """

    def __init__(self, count: int, nbytes: int) -> None:
        if count < 1:
            raise ValueError(f"a pool has at least one buffer, not {count}")
        self.count = count
        self.nbytes = nbytes
        self._lock = new_recursive_lock()
        self._free = [RegisteredBuffer(nbytes) for _ in range(count)]
        self._away: list[RegisteredBuffer] = []
        self._taken: dict[int, RegisteredBuffer] = {}
        for buffer in self._free:
            buffer._pool = self

    def take(self, timeout: float | None = None) -> RegisteredBuffer:
        """A buffer that nobody has. Its contents are what they were.

        Waits for one that another process has. Raises TimeoutError where none came back within so many seconds, and
        PoolEmptyError where there is none to wait for: this process itself has them all.
        """
        end = None if timeout is None else monotonic() + timeout
        while True:
            with self._lock:
                buffer = self._taken_now()
                away = list(self._away)
            if buffer is not None:
                return buffer
            if not away:
                raise PoolEmptyError(f"all {self.count} buffers of the pool are in use here: release() one of them")
            left = _SLICE_SECONDS if end is None else min(_SLICE_SECONDS, end - monotonic())
            if left <= 0:
                raise TimeoutError(f"no buffer of the pool came back: other processes have {len(away)}")
            try:
                away[0].wait(left)
            except TimeoutError:
                continue

    def _taken_now(self) -> RegisteredBuffer | None:
        if not self._free:
            self._free = [buffer for buffer in self._away if buffer.again()]
            self._away = [buffer for buffer in self._away if buffer not in self._free]
        if not self._free:
            return None
        buffer = self._free.pop()
        self._taken[id(buffer)] = buffer
        return buffer

    def take_back(self, buffer: RegisteredBuffer) -> None:
        """A buffer of it was released."""
        with self._lock:
            del self._taken[id(buffer)]
            (self._free if buffer.again() else self._away).append(buffer)
