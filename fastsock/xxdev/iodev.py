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
from .connections import Connections
from .networked import NetworkedDevice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..connection.engine_socket import EngineSocket

_MEETING_SECONDS = 30.0  # the other end is a rank of this job: it comes, however busy
_PROBES = 4


class Iodev(NetworkedDevice):
    """Messages over `fastsock.socket`."""

    name = "iodev"

    def connect_with(self) -> Connections:
        return _Streams(self.job, self.engine, self.settings)

    def explain(self, peer: int) -> Any:
        """How messages to that rank travel, as `fastsock.explain()`; None before the first one, and to oneself."""
        connections = self.connections
        sock = connections.standing.get(peer) if isinstance(connections, _Streams) else None
        if sock is None:
            return None
        from ..reporting import explanation  # slow to import, and few ask

        return explanation.explain(sock)


class _Streams(Connections):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.standing: dict[int, EngineSocket] = {}
        self._in_memory: set[int] = set()  # ranks whose connection stays TCP, and has gone into memory
        self._addresses: dict[int, tuple[str, int]] = {}

    def listen(self) -> Any:
        host = self.job.interface
        family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
        listener = fast.socket(family, _socket.SOCK_STREAM)
        try:
            listener.bind((host, 0))
            listener.listen(max(128, self.job.size))
        except BaseException:
            listener.close()
            raise
        return listener

    def publish(self, listener: Any) -> None:
        host, port = listener.getsockname()[:2]
        self.job.announce(host, port)

    def reach(self, peer: int) -> Any:
        host, port = self._addresses[peer] = self.job.address_of(peer)
        sock = fast.socket(_socket.AF_INET6 if ":" in host else _socket.AF_INET, _socket.SOCK_STREAM)
        try:
            self._prepare(sock)
            sock.settimeout(self.settings.connect_ms / 1e3)
            with patience(_MEETING_SECONDS):
                sock.connect((host, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def _prepare(self, sock: Any) -> None:
        """No waiting for small messages, and a network that fell silent is noticed."""
        silence = self.settings.silence_ms
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        if silence > 0:
            seconds = max(1, round(silence / 1e3 / _PROBES))
            sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPIDLE, seconds)
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPINTVL, seconds)
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPCNT, _PROBES - 1)
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_USER_TIMEOUT, int(silence))

    def take(self, listener: EngineSocket) -> tuple[Any, Any]:
        return listener._fast_take()

    def meet(self, sock: Any, listener: Any, address: Any) -> None:
        with patience(_MEETING_SECONDS):
            sock._fast_meet_from(listener, address)
        if sock.transport == "tcp":
            self._prepare(sock)

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

    def where(self, peer: int) -> str:
        address = self._addresses.get(peer)
        return "a fast socket" if address is None else f"{address[0]} port {address[1]}"

    def close(self) -> None:
        super().close()
        for sock in self.standing.values():
            sock._fast_given_back()
        self.standing.clear()
