"""The memory in which a bulk arrives, where its sender names no offset of the segment.

Whatever offers `take` can stand here.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..buffers import RegisteredBuffer


class Arrivals(Protocol):
    """Where bulks arrive."""

    def take(self, nbytes: int) -> Any:
        """Writable contiguous memory of that size. Raises MemoryError: then the message goes back to its sender."""


class Allocated:
    """A fresh uint8 array for each bulk (a bytearray where numpy is not installed): the handler may keep it."""

    def take(self, nbytes: int) -> Any:
        return fresh(nbytes)


class Pool:
    """RegisteredBuffers that are used again once no handler has them any more (Jam's second design, section 5.2).

    count, nbytes: of the buffers. A handler may keep what it gets, or a view of it: that buffer is free when the last
    view is gone, which the buffer counts. When all are kept the pool stops, and each bulk gets fresh memory: handlers
    that keep what they get gain nothing by a pool. `is_used` says which. A bulk that is longer than a buffer gets fresh
    memory too. Raises MemoryError.
    """

    def __init__(self, count: int, nbytes: int) -> None:
        if count < 1 or nbytes < 1:
            raise ValueError(f"a pool has at least one buffer of one byte, not {count} of {nbytes}")
        self.nbytes = nbytes
        self._count = count
        self._buffers = [RegisteredBuffer(nbytes) for _ in range(count)]
        self._next = 0

    def __reduce__(self) -> Any:
        """Elsewhere it is a pool of its own."""
        return type(self), (self._count, self.nbytes)

    @property
    def is_used(self) -> bool:
        """Whether bulks arrive in its buffers still."""
        return bool(self._buffers)

    def take(self, nbytes: int) -> Any:
        if nbytes > self.nbytes or not self._buffers:
            return fresh(nbytes)
        count = len(self._buffers)
        for i in range(self._next, self._next + count):
            buffer = self._buffers[i % count]
            if not buffer.exports:
                self._next = (i + 1) % count
                return _part(buffer, nbytes)
        self._buffers.clear()  # the handlers have them
        return fresh(nbytes)


def _part(buffer: RegisteredBuffer, nbytes: int) -> Any:
    """A view, which holds the buffer."""
    numpy = _load_numpy()
    return memoryview(buffer)[:nbytes] if numpy is None else numpy.frombuffer(buffer, "u1", nbytes)


def fresh(nbytes: int) -> Any:
    """Memory that nobody has had."""
    numpy = _load_numpy()
    return bytearray(nbytes) if numpy is None else numpy.empty(nbytes, "u1")


def _load_numpy() -> Any:
    """None where it is not installed."""
    global _numpy
    if _numpy is False:
        try:
            import numpy

            _numpy = numpy
        except ModuleNotFoundError:
            _numpy = None
    return _numpy


_numpy: Any = False
