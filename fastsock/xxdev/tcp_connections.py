"""Connections that are made by TCP, between the addresses that the job knows."""

from __future__ import annotations

import _socket

from .connections import Connections, listening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PROBES = 4


class TcpConnections(Connections):
    """A device derives from it what a connection becomes. `kind`: the class of its sockets."""

    kind: Any
    nowhere: str  # of a rank that this one did not reach itself

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._addresses: dict[int, tuple[str, int]] = {}

    def listen(self) -> Any:
        host = self.job.interface
        return listening(self._new(host), (host, 0), self.job.size)

    def publish(self, listener: Any) -> None:
        host, port = listener.getsockname()[:2]
        self.job.announce(host, port)

    def reach(self, peer: int) -> Any:
        return self.reach_at(peer, self.job.address_of(peer))

    def reach_at(self, peer: int, address: tuple[str, int]) -> Any:
        """A socket connected to that rank, which listens there. Raises OSError."""
        self._addresses[peer] = address
        host, port = address
        sock = self._new(host)
        try:
            self.prepare(sock)
            sock.settimeout(self.settings.connect_ms / 1e3)
            self.connect(sock, (host, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def connect(self, sock: Any, address: tuple[str, int]) -> None:
        """Raises OSError."""
        sock.connect(address)

    def prepare(self, sock: Any) -> None:
        """No waiting for small messages; a host that fell silent ends the connection."""
        silence = self.settings.silence_ms
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        if silence > 0:
            seconds = max(1, round(silence / 1e3 / _PROBES))
            sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPIDLE, seconds)
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPINTVL, seconds)
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPCNT, _PROBES - 1)

    def where(self, peer: int) -> str:
        address = self._addresses.get(peer)
        return self.nowhere if address is None else f"{address[0]} port {address[1]}"

    def _new(self, host: str) -> Any:
        return self.kind(_socket.AF_INET6 if ":" in host else _socket.AF_INET, _socket.SOCK_STREAM)
