"""multiprocessing.Pipe: bytes, and pickled numpy arrays."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

from ..process import Unusable
from .peer import Buffers, Peer, warm_up


class PipeBytes(Peer):
    name = "mp.Pipe bytes"

    def __init__(self) -> None:
        self.buffers = Buffers()

    def before_fork(self) -> None:
        self.pair = multiprocessing.Pipe()

    def after_fork(self) -> None:
        for end in self.pair:
            end.close()

    def accept(self) -> None:
        self.pipe = self.pair[1]
        self.pair[0].close()

    def connect(self, address: Any) -> None:
        self.pipe = self.pair[0]
        self.pair[1].close()

    def ping(self, size: int, count: int) -> float:
        self._prepare(size)
        self._exchange(warm_up(size, count))
        start = time.perf_counter()
        self._exchange(count)
        return time.perf_counter() - start

    def pong(self, size: int, count: int) -> None:
        self._prepare(size)
        for _ in range(warm_up(size, count) + count):
            self._get()
            self._put()

    def send(self, size: int, count: int) -> float:
        self._prepare(size)
        self._push(warm_up(size, count))
        start = time.perf_counter()
        self._push(count)
        return time.perf_counter() - start

    def receive(self, size: int, count: int) -> None:
        self._prepare(size)
        for messages in (warm_up(size, count), count):
            for _ in range(messages):
                self._get()
            self.pipe.send_bytes(b"k")

    def _exchange(self, count: int) -> None:
        for _ in range(count):
            self._put()
            self._get()

    def _push(self, count: int) -> None:
        for _ in range(count):
            self._put()
        self.pipe.recv_bytes()

    def _prepare(self, size: int) -> None:
        self.out, self.into = self.buffers.of(size)

    def _put(self) -> None:
        self.pipe.send_bytes(self.out)

    def _get(self) -> None:
        self.pipe.recv_bytes_into(self.into)


class PipePickledArrays(PipeBytes):
    name = "mp.Pipe pickle"

    def connect(self, address: Any) -> None:
        try:
            import numpy  # noqa: F401
        except ImportError as error:
            raise Unusable(f"needs numpy: {error}") from error
        super().connect(address)

    def _prepare(self, size: int) -> None:
        import numpy

        self.array = numpy.frombuffer(self.buffers.of(size)[0], numpy.uint8)

    def _put(self) -> None:
        self.pipe.send(self.array)

    def _get(self) -> None:
        self.pipe.recv()
