"""The shm path: byte rings in sealed shared memory; the meeting's UNIX connection stays as the doorbell.

Memory costs more to make than everything else about a connection, above all the first touch of each page. So a
segment that both ends have returned serves the next connection of the same two processes; never that of others, who
could still be writing to it.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from os import close as _close
from typing import TYPE_CHECKING, Any

from . import core
from .transport import Capability, Reason, Refused, Transport

if TYPE_CHECKING:
    from .config import Settings

NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
NO_MEMORY = (errno.ENOMEM, errno.EFBIG, errno.ENOSPC, errno.EAGAIN)
MOST_KEPT = 8  # segments, in each process and role


def refusal(error: OSError) -> Refused:
    if error.errno in NO_DESCRIPTORS:
        return Refused(Reason.NO_DESCRIPTORS, str(error))
    if error.errno in NO_MEMORY:
        return Refused(Reason.NO_MEMORY, str(error))
    return Refused(Reason.SYSTEM_ERROR, str(error))


class _Made:
    """A segment that this process made, and for connections with whom."""

    __slots__ = ("number", "pid", "ring_bytes", "segment")

    def __init__(self, memory: int, ring_bytes: int, pid: int) -> None:
        self.segment = core.Segment(memory)
        self.ring_bytes = ring_bytes
        self.pid = pid
        self.number = int.from_bytes(os.urandom(8), "little")


class ShmTransport(Transport):
    name = "shm"
    number = 2
    capabilities = Capability.SAME_HOST | Capability.MEETS_BESIDE_TCP | Capability.SHARED_MEMORY

    def __init__(self) -> None:
        self._made: OrderedDict[int, _Made] = OrderedDict()
        self._met: OrderedDict[tuple[int, int], Any] = OrderedDict()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """What the parent keeps is the parent's."""
        self._made.clear()
        self._met.clear()

    def usable(self) -> Reason | None:
        return None if core.available else Reason.NO_NATIVE_CORE

    def _segment_for(self, pid: int, ring_bytes: int) -> tuple[_Made, list[int]]:
        """A segment for a connection with that process, and its descriptor unless the process has met it before."""
        for made in self._made.values():
            if made.pid == pid and made.ring_bytes == ring_bytes and made.segment.renew():
                self._made.move_to_end(made.number)
                return made, []
        memory = core.create_segment(ring_bytes)
        try:
            made = _Made(memory, ring_bytes, pid)
        except BaseException:
            _close(memory)
            raise
        while len(self._made) >= MOST_KEPT:
            self._made.popitem(last=False)
        self._made[made.number] = made
        return made, [memory]

    def offer(self, doorbell: Any, settings: Settings, peer: str, pid: int) -> tuple[Any, list[int], int]:
        memory: list[int] = []
        try:
            made, memory = self._segment_for(pid, settings.ring_bytes)
            channel = core.Channel(made.segment, doorbell.fileno(), core.ACCEPTED, spin_us=settings.spin_us, peer=peer)
        except OSError as error:
            for descriptor in memory:
                _close(descriptor)
            raise refusal(error) from error
        return channel, memory, made.number

    def join(
        self, doorbell: Any, descriptors: list[int], number: int, settings: Settings, peer: str, pid: int
    ) -> Any:
        key = (pid, number)
        segment = self._met.pop(key, None)
        if segment is None and len(descriptors) != 1:
            raise Refused(Reason.PEER_DECLINED, "the other end counts on memory that is not kept here any more")
        try:
            segment = segment or core.Segment(descriptors[0])
            channel = core.Channel(segment, doorbell.fileno(), core.CONNECTED, spin_us=settings.spin_us, peer=peer)
        except OSError as error:
            raise refusal(error) from error
        self._met[key] = segment
        while len(self._met) > MOST_KEPT:
            self._met.popitem(last=False)
        return channel
