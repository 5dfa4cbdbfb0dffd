"""pyzmq over ipc, copying and without a copy."""

from __future__ import annotations

import os
import time
from typing import Any

from ..process import Unusable
from .peer import Buffers, Peer, warm_up


class ZeroMq(Peer):
    def __init__(self, name: str, copy: bool) -> None:
        self.name, self.copy = name, copy
        self.buffers = Buffers()

    def listen(self) -> Any:
        address = f"ipc://@fastsock-bench-{os.getpid()}-{self.name}"  # @: no file that could stay behind
        self.socket = self._pair()
        self.socket.bind(address)
        return address

    def connect(self, address: Any) -> None:
        self.socket = self._pair()
        self.socket.connect(address)

    def _pair(self) -> Any:
        try:
            import zmq
        except ImportError as error:
            raise Unusable(f"needs pyzmq: {error}") from error
        self.context = zmq.Context()
        return self.context.socket(zmq.PAIR)

    def ping(self, size: int, count: int) -> float:
        out = self.buffers.of(size)[0]
        self._exchange(out, warm_up(size, count))
        start = time.perf_counter()
        self._exchange(out, count)
        return time.perf_counter() - start

    def pong(self, size: int, count: int) -> None:
        out = self.buffers.of(size)[0]
        send, receive, copy = self.socket.send, self.socket.recv, self.copy
        for _ in range(warm_up(size, count) + count):
            receive(copy=copy)
            send(out, copy=copy)

    def send(self, size: int, count: int) -> float:
        out = self.buffers.of(size)[0]
        self._push(out, warm_up(size, count))
        start = time.perf_counter()
        self._push(out, count)
        return time.perf_counter() - start

    def receive(self, size: int, count: int) -> None:
        receive, copy = self.socket.recv, self.copy
        for messages in (warm_up(size, count), count):
            for _ in range(messages):
                receive(copy=copy)
            self.socket.send(b"k")

    def _exchange(self, out: memoryview, count: int) -> None:
        send, receive, copy = self.socket.send, self.socket.recv, self.copy
        for _ in range(count):
            send(out, copy=copy)
            receive(copy=copy)

    def _push(self, out: memoryview, count: int) -> None:
        send, copy = self.socket.send, self.copy
        for _ in range(count):
            send(out, copy=copy)
        self.socket.recv()
