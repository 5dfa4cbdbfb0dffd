"""What can go wrong with active messages, and the messages that come back."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class ActiveError(Exception):
    """Any error of active messages."""


class HandlerRule(ActiveError, RuntimeError):
    """A handler sent what no handler may send. Nothing was sent."""


class NoEntry(ActiveError, LookupError):
    """The entry of the translation table is not mapped."""


class NotReady(ActiveError, RuntimeError):
    """The bundle is polled by another thread, or the peer grants no credit of that kind."""


class Refused(ActiveError, ConnectionError):
    """The other end did not accept the mapping, or did not prove that it knows the key."""


class LostPeer(ActiveError, ConnectionError):
    """The connection has ended. Requests that were not answered come back to the endpoint's error handler."""


class BadFrame(LostPeer):
    """The peer sent what no honest peer sends. Its connection was closed."""


class Undeliverable(ActiveError):
    """A request came back, and the endpoint has no error handler. `message` is the request."""

    def __init__(self, message: Returned) -> None:
        super().__init__(
            f"the request to handler {message.handler} at {message.peer} came back: {message.text};"
            " endpoint.on_error(function) takes such messages"
        )
        self.message = message


class Reason(enum.IntEnum):
    """Why a request came back."""

    NO_HANDLER = 1
    OUTSIDE = 2
    TOO_LONG = 3
    RAISED = 4
    LOST = 5


_TEXTS = {
    Reason.NO_HANDLER: "no handler has that number at the end where it belongs; it has not run",
    Reason.OUTSIDE: "the offset and length do not lie in the segment; the handler has not run",
    Reason.TOO_LONG: "the receiving end has no memory for it; the handler has not run",
    Reason.RAISED: "the handler ran and raised an exception, which the other end's poll() told",
    Reason.LOST: "the connection ended before an answer came; the handler may have run",
}


def reason_text(reason: int) -> str:
    """The reason in words."""
    return _TEXTS[Reason(reason)]


class Returned(NamedTuple):
    """A request that could not be delivered. `data` is what was given to request() or request_bulk()."""

    reason: int
    text: str
    entry: int
    handler: int
    words: tuple[int, ...]
    data: Any
    peer: str
