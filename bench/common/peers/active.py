"""fastsock.active: requests that are answered, and bulks."""

from __future__ import annotations

import os
import time
from functools import partial
from itertools import cycle, islice
from typing import Any

from ..process import Unusable
from .peer import Peer, warm_up
from .stream_sockets import require_paths

REQUEST, REPLY, BULK = 1, 2, 3


def _ask(token: Any) -> None:
    token.reply(REPLY)


def _ask_16(
    token: Any, a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int,
    i: int, j: int, k: int, m: int, n: int, o: int, p: int, q: int,
) -> None:  # fmt: skip
    token.reply(REPLY, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q)


class Active(Peer):
    """A request and its reply count as a message there and back, whatever the size: `words`, 0 or 16, are what they
    carry. The handlers name them, as those of a program do.

    into: where bulks arrive: "segment", "array" or "pool". entries: of the translation table, which requests take by
    turns; each is a connection.
    """

    def __init__(self, name: str, words: int = 0, into: str = "segment", entries: int = 1) -> None:
        self.name = name
        self.words = tuple(range(words))
        self.into = into
        self.entries = entries

    def _begin(self) -> None:
        os.environ["FASTSOCK_TRANSPORTS"] = "shm"
        os.environ["FASTSOCK_RMI_KEY"] = "the key of this measurement"
        try:
            from fastsock import active
        except ImportError as error:
            raise Unusable(f"needs the native core: {error}") from error
        self.answers = 0
        self.bundle = active.Bundle()
        arrivals = active.Pool(8, 16 << 20) if self.into == "pool" else None
        self.endpoint = self.bundle.endpoint(segment=16 << 20, arrivals=arrivals)
        self.endpoint.handle(REQUEST, _ask_16 if self.words else _ask)
        self.endpoint.handle(REPLY, self._answered_16 if self.words else self._answered)
        self.endpoint.handle(BULK, lambda token: None)

    def _answered(self, token: Any) -> None:
        self.answers += 1

    def _answered_16(
        self, token: Any, a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int,
        i: int, j: int, k: int, m: int, n: int, o: int, p: int, q: int,
    ) -> None:  # fmt: skip
        self.answers += 1

    def listen(self) -> Any:
        self._begin()
        name = f"bench-{os.getpid()}"
        self.endpoint.register(name)
        return name

    def accept(self) -> None:
        while len(self.bundle.connections) < self.entries:
            self.bundle.poll(0.05)

    def connect(self, address: Any) -> None:
        self._begin()
        for index in range(self.entries):
            self.endpoint.map(index, address)
        require_paths("shm")

    def ping(self, size: int, count: int) -> float:
        self._ask(warm_up(size, count))
        start = time.perf_counter()
        self._ask(count)
        return time.perf_counter() - start

    def _ask(self, count: int) -> None:
        poll = self.bundle.poll
        requests = [partial(self.endpoint.request, entry, REQUEST, *self.words) for entry in range(self.entries)]
        for request in islice(cycle(requests), count):
            until = self.answers + 1
            request()
            while self.answers < until:
                poll(None)

    def pong(self, size: int, count: int) -> None:
        self._take(warm_up(size, count) + count)

    def _take(self, count: int) -> None:
        poll = self.bundle.poll
        while count > 0:
            count -= poll(None)

    def send(self, size: int, count: int) -> float:
        data = bytearray(size)
        self._give(data, warm_up(size, count))
        start = time.perf_counter()
        self._give(data, count)
        return time.perf_counter() - start

    def _give(self, data: bytearray, count: int) -> None:
        offset = 0 if self.into == "segment" else None
        for _ in range(count):
            self.endpoint.request_bulk(0, BULK, data, offset=offset)
        entry = self.endpoint.entries[0]
        assert entry is not None
        while entry.under_way:
            self.bundle.poll(None)

    def receive(self, size: int, count: int) -> None:
        self._take(warm_up(size, count) + count)
