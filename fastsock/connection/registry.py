"""The connections of this process: the path that each took, and the reason.

Each connect, accept and close writes here, so nothing here scans or blocks.
"""

from __future__ import annotations

import _socket
import struct
import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence

from ..config import settings
from ..system.forkable import in_forked_child
from ..system.originals import originals
from ..transport import Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..transport import Channel, Transport

KEPT_CLOSED = 1000
# tcpi_state, tcpi_bytes_received, tcpi_notsent_bytes, tcpi_bytes_sent, tcpi_bytes_retrans
_TCP_INFO = struct.Struct("=B127xQ8xI52xQQ")
_ESTABLISHED, _CLOSE_WAIT = 1, 8
_BEHIND_THE_OTHER_S_END = (6, 7, _CLOSE_WAIT, 9, 11)  # TIME_WAIT, CLOSE, LAST_ACK, CLOSING


class Connection:
    """One TCP connection as its program sees it, whatever path its bytes take."""

    # Most connections never need these: one is made at every connect and accept.
    channel: Channel | None = None
    options: dict[tuple[int, int], Any] | None = None
    holders: Sequence[weakref.ref[Any]] = ()
    peer_pid: int | None = None
    reset = False
    bridged = False  # its descriptor is one end of a pair that a pump serves
    owner: weakref.ref[Any] | None = None
    final: dict[str, int] | None = None
    detail = ""  # of `reason`
    port: Any = None  # ports.HeldPort, of one that left TCP at the connecting end
    opener: Transport | None = None  # the path that made the socket, until it is known to carry it

    def __init__(
        self, role: str, transport: str, reason: Reason, family: int, proto: int, local: Any, peer: Any
    ) -> None:
        self.role = role
        self.transport = transport
        self.is_tcp = transport == "tcp"  # what the descriptor is, whatever path its bytes take
        self.reason = reason
        self.family = family
        self.proto = proto
        self.local = local
        self.peer = peer
        self.pid = originals.getpid()

    def sockets(self) -> list[Any]:
        """The socket objects that use the connection: duplicates share it."""
        alive = [holder() for holder in self.holders]
        return [sock for sock in alive if sock is not None]

    def counts(self) -> dict[str, int]:
        """The counts that the path keeps, out of bytes_sent, bytes_received, bytes_direct, waits and wakes."""
        final, channel = self.final, self.channel  # once: another thread may close meanwhile
        if final is not None:
            return final
        if channel is not None:
            return channel.statistics() or {}
        owner = self.owner() if self.owner is not None else None
        if self.opener is not None or self.reason is Reason.KERNEL_FELL_BACK:
            return {}  # TCP's counts have the handshake of that path
        return kernel_counts(owner) if owner is not None and self.transport == "tcp" else {}


_open: dict[int, Connection] = {}
_closed: deque[Connection] = deque(maxlen=KEPT_CLOSED)
_totals: dict[str, int] = {}

# Native code counts connections that stay on TCP by itself. The code here counts the others, under this lock.
_lock = originals.RLock()


def kernel_counts(sock: Any) -> dict[str, int]:
    """The kernel's counts of a TCP socket, or an empty dictionary if it has none."""
    try:
        seen = _socket.socket.getsockopt(sock, _socket.IPPROTO_TCP, _socket.TCP_INFO, _TCP_INFO.size)
    except (OSError, AttributeError):  # AttributeError: a system without that record
        return {}
    return counts_of(seen)


def counts_of(seen: bytes) -> dict[str, int]:
    """The counts in the kernel's record of a TCP socket, or none if an old kernel wrote a shorter record."""
    if len(seen) < _TCP_INFO.size:
        return {}
    state, received, unsent, sent, repeated = _TCP_INFO.unpack(seen)
    # the kernel counts an end as a byte: this end's while it is not sent, the other's from when it has come
    own_end = unsent > 0 and state not in (_ESTABLISHED, _CLOSE_WAIT)
    other_end = received > 0 and state in _BEHIND_THE_OTHER_S_END
    return {"bytes_sent": sent - repeated + unsent - own_end, "bytes_received": received - other_end}


def opened(connection: Connection, sock: Any) -> None:
    """Notes a new connection of `sock`."""
    owner = connection.owner = weakref.ref(sock, _lost)
    _open[id(owner)] = connection
    transport = connection.transport
    with _lock:
        _totals[transport] = _totals.get(transport, 0) + 1


def handed_on(connection: Connection, sock: Any) -> None:
    """From now on the connection is open as long as `sock` lives, not as its earlier socket."""
    if is_open(connection):
        del _open[id(connection.owner)]
        owner = connection.owner = weakref.ref(sock, _lost)
        _open[id(owner)] = connection


def _lost(owner: weakref.ref[Any], is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
    """Moves a connection whose socket is gone to the closed ones."""
    if is_ending():  # this module's globals may be gone
        return
    connection = _open.pop(id(owner), None)
    if connection is not None:
        if connection.channel is not None:  # dropped, not closed: its memory goes with it
            connection.final = connection.counts()
            connection.channel = None
        _closed.append(connection)


def closing(connection: Connection) -> None:
    """Keeps the counts before the socket closes. On TCP it does so only for a report, because it asks the kernel."""
    owner = connection.owner
    if owner is None or id(owner) not in _open:
        return
    look_again(connection)
    if connection.channel is not None:
        connection.final = connection.counts()
        connection.channel = None
    elif settings().stats:
        connection.final = connection.counts()
    _lost(owner)


def is_open(connection: Connection) -> bool:
    """Whether the connection's socket is still open."""
    return id(connection.owner) in _open


def moved(connection: Connection, transport: str, reason: Reason) -> None:
    """The connection goes on over another path."""
    _keep_counts(connection)
    connection.transport = transport
    connection.reason = reason


def _keep_counts(connection: Connection) -> None:
    channel, connection.channel = connection.channel, None
    if channel is not None:
        connection.final = channel.statistics()


def _count_as_tcp(connection: Connection, path: str) -> None:
    """The connection counts for TCP, not for `path` any more. A forked child does not count what its parent opened."""
    if connection.pid == originals.getpid():
        with _lock:
            _totals[path] -= 1
            _totals["tcp"] = _totals.get("tcp", 0) + 1


def look_again(connection: Connection) -> None:
    """Finds out what carries a connection now, where nobody tells this process when that changes."""
    if connection.opener is not None:
        _settle_opened(connection)
        return
    channel = connection.channel
    if channel is not None and channel.resumed():
        connection.transport, connection.reason = "tcp", Reason.RESUMED


def _settle_opened(connection: Connection) -> None:
    """Of a socket that a path made, if it is decided."""
    path, owner = connection.opener, connection.owner
    sock = owner() if owner is not None else None
    descriptor = -1 if sock is None else _socket.socket.fileno(sock)
    seen = None if path is None or descriptor < 0 else path.carrier(descriptor)
    if seen is None:
        return
    carries, connection.detail = seen
    with _lock:
        if connection.opener is None:  # another thread was faster
            return
        connection.opener = None
        if not carries:
            _count_as_tcp(connection, connection.transport)
            connection.transport, connection.reason = "tcp", Reason.KERNEL_FELL_BACK


def totals() -> dict[str, int]:
    """How many connections this process made or accepted, by the path each first took."""
    with _lock:
        found = _totals.copy()
    return {transport: count for transport, count in found.items() if count}


def connections() -> list[Connection]:
    """The open connections of this process, then the last 1,000 closed ones, oldest first."""
    return [*_open.copy().values(), *_last_closed()]  # a copy: other threads make and close some meanwhile


def _last_closed() -> list[Connection]:
    while True:
        try:
            return list(_closed)
        except RuntimeError:  # another thread closed one meanwhile: no lock of fastsock keeps it out
            continue


def left_open(connection: Connection) -> None:
    """The program leaves the number open. The connection ends with the process, without a close."""
    owner = connection.owner
    if owner is not None and is_open(connection):
        _lost(owner)
        connection.owner = None


def _forked() -> None:
    global _lock
    _lock = originals.RLock()
    _closed.clear()
    _totals.clear()


in_forked_child(_forked)
