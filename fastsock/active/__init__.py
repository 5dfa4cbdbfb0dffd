"""Active messages, as AM-II has them: a message names the handler that runs where it arrives.

    from fastsock import active

    bundle = active.Bundle()
    store = bundle.endpoint(tag=7, segment=1 << 20)

    @store.on(1)
    def add(token, left, right):
        token.reply(2, left + right)            # once, and nothing else: a reply handler sends nothing at all

    store.register("store")                     # <this host, store>
    while True:
        bundle.poll(None)                       # runs the handlers of what has come

Elsewhere: `endpoint.map(0, "store", tag=7)`, `endpoint.request(0, 1, 20, 22)`, and poll() until the reply has come. The
page docs/reference/active-messages.md has the rest. Needs the native core.

    bundle, endpoint       endpoints that are polled together; handlers, translation table, segment
    _connection            the path of each message, in parts that it lists; core/active has frames and credits
    arrivals               the memory of bulks that name no offset
    door, hello            where others find an endpoint, and the proof of the key
    errors                 what can go wrong, and messages that come back

Tests: tests/active, tests/core/active.
"""

from __future__ import annotations

from ._connection import CAN_SEND, MEDIUM, MOST_CREDITS, MOST_WORDS, NOT_EMPTY, Token, Transfer
from .arrivals import Allocated, Arrivals, Pool
from .bundle import Bundle
from .door import Door
from .endpoint import HANDLERS, Endpoint, Name
from .errors import (
    ActiveError,
    BadFrame,
    HandlerRule,
    LostPeer,
    NoEntry,
    NotReady,
    Reason,
    Refused,
    Returned,
    Undeliverable,
)

__all__ = [
    "CAN_SEND",
    "HANDLERS",
    "MEDIUM",
    "MOST_CREDITS",
    "MOST_WORDS",
    "NOT_EMPTY",
    "ActiveError",
    "Allocated",
    "Arrivals",
    "BadFrame",
    "Bundle",
    "Door",
    "Endpoint",
    "HandlerRule",
    "LostPeer",
    "Name",
    "NoEntry",
    "NotReady",
    "Pool",
    "Reason",
    "Refused",
    "Returned",
    "Token",
    "Transfer",
    "Undeliverable",
]
