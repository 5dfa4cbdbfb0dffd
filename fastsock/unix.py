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
# Of the first send to an end that closed: what TCP's buffers take.
TAKEN_FOR_NOBODY = 2560 << 10
# At least, whatever a program asks for: TCP's receiving end has a buffer besides.
LEAST_BYTES = 512 << 10


def enlarge_buffer(stream: Any, size: int = BUFFER_BYTES) -> None:
    """Gives the stream TCP's patience with unread bytes, as far as net.core.wmem_max or privilege allows."""
    size = min(max(size, LEAST_BYTES), BUFFER_BYTES)
    set_option = _socket.socket.setsockopt  # the stream's own remembers
    try:
        set_option(stream, _socket.SOL_SOCKET, SO_SNDBUFFORCE, size)
    except PermissionError:
        with contextlib.suppress(OSError):  # a smaller buffer is only slower
            set_option(stream, _socket.SOL_SOCKET, _socket.SO_SNDBUF, size)


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
