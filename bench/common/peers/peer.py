"""What a bench asks of every peer: two ends that meet, then ping-pong or stream."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

SMALL = 1 << 16  # up to here buffers are kept between calls, and several exchanges warm up


class Peer:
    """One object, forked into both ends: ``listen`` and ``accept`` run in one, ``connect`` in the other.

    The timed methods take a size in bytes and a count; ``ping`` and ``send`` return seconds, ``pong`` and
    ``receive`` are their counterparts. A few untimed exchanges come first, the same number at both ends.
    """

    name = ""
    baseline = "tcp"  # the peer that ratios are taken to
    environment: Mapping[str, str] = {}

    def before_fork(self) -> None:
        """Make what both ends inherit."""

    def after_fork(self) -> None:
        """In the parent: drop what ``before_fork`` made."""

    def listen(self) -> Any:
        """Be ready for the other end; returns what ``connect`` needs (it travels as JSON)."""

    def accept(self) -> None:
        """Take the other end's connection."""

    def connect(self, address: Any) -> None:
        """Reach the listening end. Raises Unusable where the wanted path was not taken."""

    def carried(self) -> tuple[int, int]:
        """Bytes that this process's connections moved through shared memory, both ways; those copied directly."""
        fastsock: Any = sys.modules.get("fastsock")
        seen = [each for each in fastsock.connections() if each.transport == "shm"] if fastsock else []
        carried = sum((each.bytes_sent or 0) + (each.bytes_received or 0) for each in seen)
        return carried, sum(each.bytes_direct or 0 for each in seen)

    def ping(self, size: int, count: int) -> float:
        raise NotImplementedError

    def pong(self, size: int, count: int) -> None:
        raise NotImplementedError

    def send(self, size: int, count: int) -> float:
        raise NotImplementedError

    def receive(self, size: int, count: int) -> None:
        raise NotImplementedError


def warm_up(size: int, count: int) -> int:
    """How many untimed exchanges come first."""
    return min(count, 16) if size <= SMALL else 1


class Buffers:
    """One buffer to send and one to receive into for each size; large ones are not kept.

    ``kind`` is "bytearray", or "numpy" for arrays, which get huge pages from 4 MiB on.
    """

    def __init__(self, kind: str = "bytearray") -> None:
        self.kind = kind
        self._kept: dict[int, tuple[memoryview, memoryview]] = {}

    def of(self, size: int) -> tuple[memoryview, memoryview]:
        """Both buffers, filled, so that no page is touched first while timing."""
        if size in self._kept:
            return self._kept[size]
        pattern = os.urandom(min(size, 4096))
        pair = (self._filled(size, pattern), self._filled(size, pattern))
        if size <= SMALL:
            self._kept[size] = pair
        return pair

    def _filled(self, size: int, pattern: bytes) -> memoryview:
        content = pattern * -(-size // len(pattern))
        if self.kind == "bytearray":
            return memoryview(bytearray(content))[:size]
        import numpy

        array = numpy.empty(size, numpy.uint8)
        array[:] = numpy.frombuffer(content, numpy.uint8)[:size]
        return memoryview(array)  # type: ignore[arg-type]
