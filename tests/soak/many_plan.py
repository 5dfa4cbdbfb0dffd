"""What both ends of one short connection do, made from a number."""

from __future__ import annotations

import random

BOTH = 2  # who sends a message: 0, 1, or both at once
LOOPS = ("asyncio", "streams")
STYLES = ("blocking", "timeout", "poll", "select", "epoll", "edge", *LOOPS)
SLEEPING = ("blocking", "timeout")
SENDING = ("send", "send", "sendall", "gathered", "thread")
RECEIVING = ("recv", "recv", "recv_into", "whole", "peek", "scattered")
SIZES = (1, 7, 64, 1000, 4096, 30_000)
LARGE = 3_000_000  # more than a ring takes


class Plan:
    """What both ends do on connection `number`. The end that connects is 0.

    gaining: most ends ask for memory, before some message, and the others make calls enough to find each other.
    """

    def __init__(self, number: int, gaining: bool = False) -> None:
        self.number = number
        self._draw = draw = random.Random(number)
        self.start = draw.randrange(1 << 20)
        self.attaches: int | None = None  # before which message both ends ask for memory
        count = draw.choice((1, 2, 4, 12))
        if draw.random() < (0.85 if gaining else 0.3):
            self.attaches = draw.randrange(count)
        elif gaining:
            count = 24
        senders = draw.choices((0, 1, BOTH), (5, 5, 1), k=count)
        self.messages = [(sender, draw.choice(SIZES)) for sender in senders]
        if draw.random() < 0.005:
            self.messages[-1] = draw.randrange(2), LARGE
        self.styles = [draw.choice(STYLES) for _ in (0, 1)]
        # before which message an end takes its number to a plain socket, or goes on with a duplicate, or in a child
        self.leaves = [self._seldom(0.06, style) for style in self.styles]
        self.doubles = [self._seldom(0.1, style) for style in self.styles]
        self.forks = [self._seldom(0.003, style) for style in self.styles]
        self.children = [self._seldom(0.003, style) for style in self.styles]
        self.keeps = [draw.random() < 0.5 for _ in (0, 1)]  # who has such a child keeps the connection, too
        self.first = draw.randrange(2)  # the end that closes first
        self.shuts = draw.random() < 0.3
        if self.attaches is not None and not self._may_attach(self.attaches):
            self.attaches = None

    def _seldom(self, share: float, style: str) -> int | None:
        """A message; or, mostly, none. Streams read ahead: nobody else goes on from there."""
        drawn, message = self._draw.random(), self._draw.randrange(12)
        return message if drawn < share and style != "streams" else None

    def _may_attach(self, message: int) -> bool:
        """A plain socket, and one that two processes hold, gets no memory: the other end would wait in vain."""
        return all(step is None or step > message for step in (*self.leaves, *self.children))

    def __str__(self) -> str:
        return str({name: value for name, value in vars(self).items() if not name.startswith("_")})
