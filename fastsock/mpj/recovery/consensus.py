"""How an agreement is followed: by a call that waits, or by one that goes on while any call makes progress."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from copy import copy
from itertools import count

from ..tags import APART
from . import agreement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ROUNDS = 1 << 12  # a round's number is part of its tag
_PARTS = 16  # that an agreement may have, with so many rounds each
_AGREEMENTS = 1 << 18


class Members:
    """Who agrees: all members of a communicator, those of both groups, in an order that is the same everywhere."""

    def __init__(self, communicator: Any) -> None:
        both = {*communicator.ranks, *communicator.peers}
        self.ranks = sorted(both, key=communicator.world.others.key)
        self.size = len(self.ranks)
        self.own = self.ranks.index(communicator.world.rank)

    def mask(self, ranks: Any) -> int:
        """The set of these ranks of the world."""
        chosen = set(ranks)
        return sum(1 << place for place, rank in enumerate(self.ranks) if rank in chosen)

    def named(self, mask: int) -> list[int]:
        """The ranks of the world in a set."""
        return [rank for place, rank in enumerate(self.ranks) if mask >> place & 1]


class Rounds:
    """The messages of one agreement. They go apart from all others: a revoked communicator still agrees."""

    def __init__(self, communicator: Any, members: Members) -> None:
        numbers = communicator.locks.setdefault("agreements", count())
        self.engine = communicator.engine
        self.context = APART + communicator.context
        self.tag: int = next(numbers) % _AGREEMENTS * _ROUNDS
        self.ranks, self.size, self.own = members.ranks, members.size, members.own

    def part(self, number: int) -> Rounds:
        """The messages of a part of it, which is an agreement by itself. All members have the same parts."""
        part = copy(self)
        part.tag += number * _ROUNDS // _PARTS
        return part

    def send(self, data: bytes, member: int, number: int) -> Any:
        return self.engine.isend(data, self.ranks[member], self._tag_of(number), self.context)

    def receive(self, member: int, number: int) -> Any:
        return self.engine.irecv_new(self.ranks[member], self._tag_of(number), self.context)

    def _tag_of(self, number: int) -> int:
        return self.tag + number % (_ROUNDS // _PARTS)


def own_state(communicator: Any, members: Members, flags: int, number: int = -1) -> agreement.State:
    """What this member knows before it hears of the others. `number`: one that it gives, -1 for none."""
    failures = communicator.engine.failures(members.ranks)
    known = [rank for rank, failure in failures if failure <= communicator.acknowledged]
    numbers = [-1] * members.size if number >= 0 else []
    if number >= 0:
        numbers[members.own] = number
    return agreement.State(flags, members.mask(known), members.mask(rank for rank, _ in failures), numbers)


def agree(communicator: Any, steps: Generator[Any, None, Any]) -> Any:
    """What the steps of an agreement return. Waits for the other members."""
    try:
        while True:
            communicator.engine.wait_all(next(steps))
    except StopIteration as end:
        return end.value


def start(communicator: Any, steps: Generator[Any, None, Any], then: Callable[[Any], object]) -> Any:
    """Starts to agree; a request that completes when that is done, after `then` was called with the decision."""
    user_request = communicator.engine.user_request()
    _Stepwise(user_request, steps, then).advance()
    return user_request


class _Stepwise:
    """Goes on in the callback of the request that is waited for."""

    def __init__(
        self,
        user_request: Any,
        steps: Generator[Any, None, Any],
        then: Callable[[Any], object],
    ) -> None:
        self._user_request = user_request
        self._steps = steps
        self._then = then
        self._pending: Iterator[Any] = iter(())

    def advance(self, _: Any = None) -> None:
        """Goes on as far as possible."""
        try:
            while True:
                for request in self._pending:
                    if not request.done:
                        request.callback = self.advance  # which may call it at once
                        return
                self._pending = iter(next(self._steps))
        except StopIteration as end:
            self._then(end.value)
            self._user_request.complete()
        except BaseException as error:
            self._user_request.complete(error)
