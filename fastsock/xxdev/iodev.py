"""iodev: ranks joined by `fastsock.socket`, on the path that its chain chooses: shm on one host, tcp between.

A connection gains memory behind the hello (gaining.py).

As in section 4.2.2 of the F-MPJ thesis the call that waits receives for itself; what a background thread does here is
to accept and authenticate connections, so that a rank that computes can be reached.
"""

from __future__ import annotations

import _socket

from .. import socket as fast
from ..meeting.waiting import patience
from . import gaining
from .networked import NetworkedDevice
from .tcp_connections import TcpConnections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..connection.engine_socket import EngineSocket
    from .connections import Connections

_MEETING_SECONDS = 30.0  # the other end is a rank of this job: it comes, however busy


class Iodev(NetworkedDevice):
    """Messages over `fastsock.socket`."""

    name = "iodev"

    def connect_with(self) -> Connections:
        return Streams(self.job, self.engine, self.settings)

    def explain(self, peer: int) -> Any:
        """How messages to that rank travel, as `fastsock.explain()`; None before the first one, and to oneself."""
        connections = self.connections
        sock = connections.standing.get(peer) if isinstance(connections, Streams) else None
        if sock is None:
            return None
        from ..reporting import explanation  # slow to import, and few ask

        return explanation.explain(sock)


class Streams(TcpConnections):
    """Connections by `fastsock.socket`."""

    kind = fast.socket
    nowhere = "a fast socket"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.standing: dict[int, EngineSocket] = {}
        self._in_memory: set[int] = set()  # ranks whose connection stays TCP, and has gone into memory

    def connect(self, sock: Any, address: tuple[str, int]) -> None:
        with patience(_MEETING_SECONDS):
            sock.connect(address)

    def prepare(self, sock: Any) -> None:
        super().prepare(sock)
        if self.settings.silence_ms > 0:
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_USER_TIMEOUT, int(self.settings.silence_ms))

    def take(self, listener: EngineSocket) -> tuple[Any, Any]:
        return listener._fast_take()

    def meet(self, sock: Any, listener: Any, address: Any) -> None:
        with patience(_MEETING_SECONDS):
            sock._fast_meet_from(listener, address)
        if sock.transport == "tcp":
            self.prepare(sock)

    def offer(self, peer: int) -> tuple[bytes, Any]:
        offered = gaining.offer(self._listener)
        return offered, offered

    def agree(self, peer: int, sock: Any, offered: Any, sent: bytes) -> None:
        connects = offered is None
        if gaining.agree(sock, connects, sent if connects else offered):
            self._in_memory.add(peer)

    def settle(self, peer: int, sock: EngineSocket, offered: Any, sent: bytes) -> None:
        self.standing[peer] = sock  # before the first message over it can be received
        try:
            sock._fast_give_to(self.engine, peer, peer in self._in_memory)
        except BaseException:
            del self.standing[peer]
            raise

    def close(self) -> None:
        super().close()
        for sock in self.standing.values():
            sock._fast_given_back()
        self.standing.clear()
