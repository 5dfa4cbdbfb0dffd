"""fastsock.active: a bulk there, and one of the same size back."""

from __future__ import annotations

from typing import Any

from .active import BULK, Active

ANSWER = 4


class BulksThereAndBack(Active):
    """The handler at the other end replies in bulk."""

    def _begin(self) -> None:
        super()._begin()
        self.data = b""
        self.endpoint.handle(BULK, self._reply)
        self.endpoint.handle(ANSWER, self._answered)

    def _reply(self, token: Any) -> None:
        token.reply_bulk(ANSWER, self.data, offset=0 if self.into == "segment" else None)

    def ping(self, size: int, count: int) -> float:
        self.data = bytes(size)
        return super().ping(size, count)

    def _ask(self, count: int) -> None:
        request, poll, data = self.endpoint.request_bulk, self.bundle.poll, self.data
        offset = 0 if self.into == "segment" else None
        for _ in range(count):
            until = self.answers + 1
            request(0, BULK, data, offset=offset)
            while self.answers < until:
                poll(None)

    def pong(self, size: int, count: int) -> None:
        self.data = bytes(size)
        super().pong(size, count)
