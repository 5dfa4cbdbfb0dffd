"""The unix path: the meeting's UNIX connection itself carries the bytes. Pure Python, an ordinary kernel stream."""

from __future__ import annotations

import _socket
import contextlib

from .transport import Capability, Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .config import Settings

SO_SNDBUFFORCE = 32
# Unread bytes that a TCP connection on one host takes by default (tcp_wmem): a program may rely on it without knowing.
BUFFER_BYTES = 4 << 20


def enlarge_buffer(stream: Any) -> None:
    """Gives the stream TCP's patience with unread bytes, as far as net.core.wmem_max or privilege allows."""
    try:
        stream.setsockopt(_socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
    except PermissionError:
        with contextlib.suppress(OSError):  # a smaller buffer is only slower
            stream.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, BUFFER_BYTES)


class UnixTransport(Transport):
    name = "unix"
    number = 1
    capabilities = Capability.SAME_HOST | Capability.MEETS_BESIDE_TCP | Capability.KERNEL_STREAM

    def offer(self, doorbell: Any, settings: Settings, peer: str, pid: int) -> tuple[Any, list[int], int]:
        enlarge_buffer(doorbell)
        return None, [], 0

    def join(self, doorbell: Any, descriptors: list[int], number: int, settings: Settings, peer: str, pid: int) -> Any:
        enlarge_buffer(doorbell)
        return None
