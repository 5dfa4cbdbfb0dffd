"""Connections one after the other: connect, accept, close."""

from __future__ import annotations

import socket as plain
import time
from typing import Any

from .stream_sockets import TcpPeer, require_path, socket_module, taken_paths


class Connecting(TcpPeer):
    """``connect_and_close`` in one end, ``accept_and_close`` in the other, so many times.

    With ``greeting`` the server sends one byte and the client awaits it, so that a connection is finished before the
    next begins; without, both ends go as fast as they can.
    """

    def accept(self) -> None:
        accepted, _ = self.listener.accept()
        accepted.recv(1)  # until the client has seen which path it took
        accepted.close()

    def connect(self, address: Any) -> None:
        self.address = tuple(address)
        self.module = socket_module(self.client)
        with self.module.create_connection(self.address) as first:
            if self.path:
                require_path(first, self.path)

    def connect_and_close(self, count: int, greeting: bool) -> float:
        """Returns when it began, in seconds of the clock that both ends share."""
        make, family, kind, address = self.module.socket, plain.AF_INET, plain.SOCK_STREAM, self.address
        start = time.monotonic()
        for _ in range(count):
            made = make(family, kind)
            made.connect(address)
            if greeting:
                made.recv(1)
            made.close()
        return start

    def paths(self) -> dict[str, int]:
        """Which paths this end's connections took; nothing for the stdlib's class."""
        return taken_paths() if self.client == "fast" else {}

    def accept_and_close(self, count: int, greeting: bool) -> float:
        """Returns when it ended."""
        accept = self.listener.accept
        for _ in range(count):
            accepted, _ = accept()
            if greeting:
                accepted.sendall(b"k")
            accepted.close()
        return time.monotonic()
