"""Random traffic between ranks by a plan that all of them know: what each must get is known before it comes."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

ANY = -1
WILD, EXACT = 0, 1  # contexts: in the one all receives take anything, in the other each says what it wants
TAGS = 3
SIZES = (0, 1, 40, 1000, 9000, 70_000, 131_000, 140_000, 600_000)
POSTED = 8


class Plan:
    """Who sends what to whom, in which order: the same on every rank for the same seed."""

    def __init__(self, seed: int, size: int, count: int) -> None:
        choose = random.Random(seed)
        # per sender: (receiver, tag, context, bytes, how)
        self.sends = [[self._message(choose, size) for _ in range(count)] for _ in range(size)]

    @staticmethod
    def _message(choose: random.Random, size: int) -> tuple[int, int, int, int, str]:
        length = choose.choice(SIZES[: choose.choice((3, 6, len(SIZES)))])
        how = choose.choice(("isend", "isend", "issend"))
        return choose.randrange(size), choose.randrange(TAGS), choose.choice((WILD, EXACT)), length, how

    def incoming(self, rank: int) -> dict[tuple[int, int, int], deque[tuple[int, int]]]:
        """What comes to a rank: per (source, tag, context) the number and bytes of each message, in order."""
        found: dict[tuple[int, int, int], deque[tuple[int, int]]] = {}
        for source, sends in enumerate(self.sends):
            for number, (receiver, tag, context, length, _) in enumerate(sends):
                if receiver == rank:
                    found.setdefault((source, tag, context), deque()).append((number, length))
        return found


def contents(source: int, number: int, length: int) -> bytes:
    """A message: who and which, as often as it has room."""
    head = b"%d:%d;" % (source, number)
    return (head * (length // len(head) + 1))[:length]


def take_part(device: Any, seed: int, count: int, base: int = 0) -> int:
    """One rank's part: sends its messages, and meanwhile receives what comes to it; how many came.

    Each message must come once, whole, in the order of its source, tag and context. Nothing blocks, so that every rank
    posts all it has to, whatever the others do. `base` is added to the contexts.
    """
    me, size = device.id(), device.job.size
    choose = random.Random(seed * 1000 + me)
    plan = Plan(seed, size, count)
    expected = plan.incoming(me)
    wanted = [(source, tag) for (source, tag, context), all_ in expected.items() if context == EXACT for _ in all_]
    wanted += [(ANY, ANY)] * sum(len(all_) for (_, _, context), all_ in expected.items() if context == WILD)
    choose.shuffle(wanted)
    came = len(wanted)
    sends = deque(enumerate(plan.sends[me]))
    posted: deque[tuple[int, Any]] = deque()
    under_way: list[Any] = []
    while sends or wanted or posted:
        if sends and choose.random() < 0.5:
            number, (receiver, tag, context, length, how) = sends.popleft()
            under_way.append(getattr(device, how)(contents(me, number, length), receiver, tag, base + context))
        if wanted and len(posted) < POSTED and choose.random() < 0.8:
            source, tag = wanted.pop()
            context = WILD if source == ANY else EXACT
            posted.append((context, device.irecv(None, source, tag, base + context)))
        # those posted first get the earlier messages, though a later one may be complete before
        while posted and (status := posted[0][1].itest() if sends or wanted else posted[0][1].iwait()) is not None:
            context, _ = posted.popleft()
            number, length = expected[status.source, status.tag, context].popleft()
            assert status.length == length, f"{length} bytes of message {number} were sent, {status.length} came"
            assert status.value == contents(status.source, number, length), f"message {number} came damaged"
    for each in under_way:
        each.iwait()
    return came
