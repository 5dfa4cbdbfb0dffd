"""Connections one after the other, each for a number of requests and their answers."""

from __future__ import annotations

import time
from typing import Any

from .connecting import Connecting

REQUEST, ANSWER = 100, 1000  # bytes


class ShortLived(Connecting):
    """``ask`` in one end, ``answer`` in the other: so many connections, so many requests each."""

    def __init__(self, name: str, *, fast: bool = False) -> None:
        kind = "fast" if fast else "plain"
        super().__init__(name, client=kind, server=kind)

    def ask(self, connections: int, requests: int) -> float:
        """Returns the seconds that all took."""
        create, address = self.module.create_connection, self.address
        request, into = bytes(REQUEST), memoryview(bytearray(ANSWER))
        start = time.perf_counter()
        for _ in range(connections):
            with create(address) as made:
                for _ in range(requests):
                    made.sendall(request)
                    _fill(made, into)
        return time.perf_counter() - start

    def answer(self, connections: int, requests: int) -> None:
        answer, into = bytes(ANSWER), memoryview(bytearray(REQUEST))
        for _ in range(connections):
            accepted, _ = self.listener.accept()
            with accepted:
                for _ in range(requests):
                    _fill(accepted, into)
                    accepted.sendall(answer)
                accepted.recv(1)  # the asking end closes first, as clients do


def _fill(sock: Any, into: memoryview) -> None:
    got = sock.recv_into(into)
    while got < len(into):
        more = sock.recv_into(into[got:])
        if not more:
            raise ConnectionError("the other end closed")
        got += more
