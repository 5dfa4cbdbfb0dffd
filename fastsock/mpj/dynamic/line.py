"""The line between the leaders of two groups that meet by a port: messages on a TCP connection."""

from __future__ import annotations

import _socket
import struct

from fastsock.system.reading import exactly
from fastsock.xxdev.job import addresses

from .beside import beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LENGTH = struct.Struct("!I")
_LONGEST = 1 << 28
_SHORT = 1 << 16
_AT_ONCE = _socket.MSG_PEEK | _socket.MSG_DONTWAIT
ROLE = "port"
ACCEPTS, CONNECTS = 0, 1  # the ranks of the two ends in their hello


class StreamLine:
    """As introduction.Line says. `secret`: the token of the port."""

    def __init__(self, sock: addresses.Raw, secret: bytes, engine: Any) -> None:
        self._sock, self._engine = sock, engine
        self.secret = secret
        sock.settimeout(None)
        addresses.quicken(sock)

    def send(self, data: bytes) -> None:
        """Raises OSError."""
        self._sock.sendall(_LENGTH.pack(len(data)) + data)  # the other end reads now, or the kernel holds it

    def receive(self) -> bytes:
        """Raises OSError."""
        found: bytes = beside(self._engine, self._receive, self._hang_up, self._receive_what_is_there)
        return found

    def close(self) -> None:
        """Idempotent."""
        self._sock.close()

    def _receive(self) -> bytes:
        (length,) = _LENGTH.unpack(exactly(self._sock, _LENGTH.size))
        if length > _LONGEST:
            raise ConnectionError(f"it sent {length} bytes, which no group sends")
        return exactly(self._sock, length)

    def _receive_what_is_there(self) -> bytes | None:
        """The next message where all of it has come, and it is short."""
        try:
            head = self._sock.recv(_LENGTH.size, _AT_ONCE)
            if len(head) == _LENGTH.size:
                whole = _LENGTH.size + _LENGTH.unpack(head)[0]
                if whole > _SHORT or len(self._sock.recv(whole, _AT_ONCE)) < whole:
                    return None
            elif head:
                return None
        except BlockingIOError:
            return None
        return self._receive()  # also that the connection is over

    def _hang_up(self) -> None:
        self._sock.shutdown(_socket.SHUT_RDWR)
