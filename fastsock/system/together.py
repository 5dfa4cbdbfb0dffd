"""A header and a long body as one send: who waits to receive never finds the header alone.

Two sends would be told of one by one, and TCP without TCP_NODELAY may keep the last bytes of the second back until the
first is acknowledged.
"""

from __future__ import annotations

import _socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST_PIECE = 1 << 30  # bytes of one call: TLS takes less than 2 GiB
_TLS_RECORD = 1 << 14
_GATHERS = hasattr(_socket.socket, "sendmsg")  # Windows has none


def send_together(sock: Any, header: bytes, body: memoryview) -> None:
    """As `sock.sendall` of both, in one piece. body: of bytes. Raises as sendall: then some of it may have gone."""
    # what only looks like a socket may pass a sendmsg() on to the one below, past its own encryption
    gathers = _GATHERS and isinstance(sock, _socket.socket)
    sent = 0
    if gathers:
        try:
            sent = sock.sendmsg((header, body[:_LARGEST_PIECE])) - len(header)
        except NotImplementedError:  # ssl.SSLSocket
            gathers = False
    if not gathers:
        sent = min(len(body), _TLS_RECORD - len(header))
        sock.sendall(b"".join((header, body[:sent])))
    if sent < 0:
        sock.sendall(header[sent:])
        sent = 0
    for start in range(sent, len(body), _LARGEST_PIECE):
        sock.sendall(body[start : start + _LARGEST_PIECE])
