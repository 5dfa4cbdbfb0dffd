"""All of the bytes that are due on a connection."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def exactly(sock: Any, size: int) -> bytes:
    """So many bytes of a blocking socket. Raises ConnectionResetError where it ends before, and what it raises."""
    data = bytearray()
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the other end closed the connection, or died")
        data += part
    return bytes(data)
