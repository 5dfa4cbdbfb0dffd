"""The shm path: byte rings in sealed shared memory. The meeting's UNIX connection stays as the doorbell.

Making memory costs more than everything else about a connection, above all the first touch of each page. So a segment
that both ends have returned serves the next connection of the same two processes. It never serves other processes: the
first two could still write to it. The connecting end may reserve a segment before it connects. Then the accepting end
claims it by one atomic word, and neither end waits for the other.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import OrderedDict

from . import core
from .system.genuine import genuine
from .system.hidden import Hidden
from .transport import Capability, Claim, Reason, Refused, Reservation, Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .config import Settings

# Segments that a process keeps of those that it made. As the other end it keeps as many for each of as many processes,
# so that a reservation finds the segment kept at both ends.
MOST_KEPT = 8
# Segments for two processes that connect again before both have finished with the connection before.
ENOUGH = 3


def _is_alive(pid: int) -> bool:
    """Whether the process runs, as far as can be known. One of another PID namespace has no number (0) here."""
    if not pid:
        return True
    try:
        genuine.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _channel(segment: Any, doorbell: int, side: int, settings: Settings, peer: str, pid: int) -> Any:
    # The memory of another user's process may not be read, and that process is told no addresses.
    direct_min = settings.direct_min if settings.peers == "same-user" else 0
    return core.Channel(
        segment, doorbell, side, spin_us=settings.spin_us, direct_min=direct_min, peer_pid=pid, peer=peer
    )


class _Made(Claim):
    """A segment that this process made, and the process that it serves connections with."""

    __slots__ = ("number", "pid", "process", "ring_bytes", "segment", "ticket")

    def __init__(self, segment: Any, ring_bytes: int, pid: int) -> None:
        self.process: Hidden | None = None
        self.segment = segment
        self.ring_bytes = ring_bytes
        self.pid = pid
        self.ticket = 0
        self.number = int.from_bytes(genuine.urandom(8), "little")
        with contextlib.suppress(OSError):  # an old kernel or too many descriptors: then this end never claims it
            self.process = Hidden(genuine.pidfd_open(pid))

    def join(self, doorbell: int, settings: Settings, peer: str) -> Any:
        return _channel(self.segment, doorbell, core.ACCEPTED, settings, peer, self.pid)

    def give_up(self) -> None:
        self.segment.disclaim(self.ticket)

    def belongs_to_living(self) -> bool:
        """Whether the process that it was made for still runs. Another process may have got its number."""
        if self.process is None:
            return False
        try:
            genuine.pidfd_send_signal(self.process.number, 0)
        except OSError:  # the process is gone, or the program closed every number, this one too
            return False
        return self.process.is_ours()

    def __del__(self, is_ending: Any = sys.is_finalizing) -> None:
        if self.process is not None and not is_ending():
            self.process.close()


class _Reserved(Reservation):
    def __init__(self, keeper: ShmTransport, key: tuple[int, int], segment: Any, ticket: int) -> None:
        self._keeper = keeper
        self._key = key
        self._segment = segment
        self._ticket = ticket

    def is_claimed(self) -> bool:
        return self._segment.is_claimed(self._ticket)  # type: ignore[no-any-return]

    def withdraw(self, useless: bool = False) -> bool:
        if not self._segment.withdraw(self._ticket) and self.is_claimed():
            return False
        # Also where it was claimed and given up: the other end counts on it for a later connection.
        self._keeper.keep(self._key, self._segment, last_resort=useless)
        return True

    def join(self, doorbell: int, settings: Settings, peer: str) -> Any:
        channel = _channel(self._segment, doorbell, core.CONNECTED, settings, peer, self._key[0])
        self._keeper.keep(self._key, self._segment)
        return channel


# As Transport.depends, of connections that stay TCP and have gained memory.
DEPENDS_IN_PLACE: Mapping[str, str] = {
    "descriptors.blocked_in_sending_to_a_detached_number_that_is_closed": "no number is given away within a call",
    "readiness.edge_for_each_arrival": "a poller that fastsock does not see hears two arrivals ahead of a read",
}


class ShmTransport(Transport):
    name = "shm"
    number = 2
    capabilities = Capability.SAME_HOST | Capability.MEETS_BESIDE_TCP | Capability.SHARED_MEMORY
    differs: Mapping[str, str] = {
        "flags.urgent_byte": "urgent bytes travel in the stream, so they need SO_OOBINLINE at the receiver",
        "flags.waitall_with_peek": "a peek returns what is there",
    }

    def __init__(self) -> None:
        self._made: OrderedDict[int, _Made] = OrderedDict()
        self._met: OrderedDict[int, OrderedDict[int, Any]] = OrderedDict()  # by the process that made them, by number
        self._lock = genuine.RLock()  # re-entrant: the collector may drop a socket in the thread that holds it
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a forked child: the segments that the parent keeps are the parent's."""
        self._lock = genuine.RLock()
        self._made.clear()
        self._met.clear()

    def usable(self) -> Reason | None:
        return None if core.available else Reason.NO_NATIVE_CORE

    def _segment_for(self, pid: int, ring_bytes: int) -> tuple[_Made, list[int]]:
        """A segment for a connection with that process, and its descriptor, unless the process has the segment.

        A process of another PID namespace has no number here (`pid` is 0), so it cannot be told from others. Its
        segment serves once.
        """
        with self._lock:
            known = [made for made in self._made.values() if made.pid == pid and made.ring_bytes == ring_bytes]
            # The process had no segment to reserve, so it needs more of them.
            for made in known if len(known) >= ENOUGH else ():
                if made.segment.renew():
                    self._made.move_to_end(made.number)
                    return made, []
        segment, memory = core.Segment.make(ring_bytes)
        try:
            made = _Made(segment, ring_bytes, pid)
        except BaseException:
            genuine.close(memory)
            raise
        if not pid:
            made.number = 0
            return made, [memory]
        with self._lock:
            self._made[made.number] = made
            while len(self._made) > MOST_KEPT:
                self._made.popitem(last=False)
        return made, [memory]

    def keep(self, key: tuple[int, int], segment: Any, last_resort: bool = False) -> None:
        """Keeps a segment for the next connection with that process. The process counts on it."""
        pid, number = key
        with self._lock:
            met = self._met.get(pid)
            if met is None:
                met = self._met[pid] = OrderedDict()
                if len(self._met) > MOST_KEPT:
                    for other in [other for other in list(self._met) if not _is_alive(other)]:
                        self._met.pop(other, None)
                while len(self._met) > MOST_KEPT:
                    self._met.popitem(last=False)
            else:
                self._met.move_to_end(pid)
            met[number] = segment
            met.move_to_end(number, last=not last_resort)
            while len(met) > MOST_KEPT:
                met.popitem(last=False)

    def _taken(self, key: tuple[int, int]) -> Any:
        """Takes what is kept under that key, or None."""
        pid, number = key
        met = self._met.get(pid)
        return None if met is None else met.pop(number, None)

    def offer(self, doorbell: Any, settings: Settings, peer: str, pid: int) -> tuple[Any, list[int], int]:
        memory: list[int] = []
        try:
            made, memory = self._segment_for(pid, settings.ring_bytes)
            channel = _channel(made.segment, doorbell.fileno(), core.ACCEPTED, settings, peer, pid)
        except OSError as error:
            for descriptor in memory:
                genuine.close(descriptor)
            raise Refused.by(error) from error
        return channel, memory, made.number

    def join(self, doorbell: Any, descriptors: list[int], number: int, settings: Settings, peer: str, pid: int) -> Any:
        key = (pid, number)
        with self._lock:
            segment = self._taken(key)
        if segment is None and len(descriptors) != 1:
            raise Refused(Reason.PEER_DECLINED, "the other end counts on memory that this process no longer keeps")
        try:
            segment = segment or core.Segment(descriptors[0])
            channel = _channel(segment, doorbell.fileno(), core.CONNECTED, settings, peer, pid)
        except OSError as error:
            raise Refused.by(error) from error
        if number:
            self.keep(key, segment)
        return channel

    def declined(self, pid: int) -> bool:
        """The other end keeps no segment that this end counts on. Its number is another process's, or it forgot."""
        with self._lock:
            gone = [number for number, made in self._made.items() if made.pid == pid]
            for number in gone:
                del self._made[number]
        return bool(gone)

    def reserve(self, pid: int, ticket: int) -> Reservation | None:
        with self._lock:
            for number, segment in reversed(list(self._met.get(pid, {}).items())):  # the last used is in the caches
                if segment.reserve(ticket):
                    key = pid, number
                    self._taken(key)
                    return _Reserved(self, key, segment, ticket)
        return None

    def claim(self, ticket: int) -> Claim | None:
        if not self._made:
            return None
        with self._lock:
            for made in list(self._made.values()):
                if made.segment.claim(ticket):
                    made.ticket = ticket
                    if made.belongs_to_living():
                        self._made.move_to_end(made.number)
                        return made
                    made.give_up()
                    self._made.pop(made.number, None)  # never to be claimed any more
        return None

    def begin(self, doorbell: int, settings: Settings, peer: str) -> tuple[Any, int]:
        memory = -1
        try:
            segment, memory = core.Segment.make(settings.ring_bytes)
            return _channel(segment, doorbell, core.CONNECTED, settings, peer, 0), memory
        except OSError as error:
            if memory >= 0:
                genuine.close(memory)
            raise Refused.by(error) from error

    def take_over(self, doorbell: int, memory: int, settings: Settings, peer: str, pid: int) -> Any:
        try:
            return _channel(core.Segment(memory), doorbell, core.ACCEPTED, settings, peer, pid)
        except OSError as error:
            raise Refused.by(error) from error
