"""The numbers of communicators. No two communicators of a process have the same number."""

from __future__ import annotations

from collections import deque

from fastsock.system.forkable import new_lock

from ..constants import ERR_INTERN
from ..exceptions import Exception as MPIException

WORLD, SELF, INTERNAL = 0, 1, 2
"""Numbers that are never given: the predefined communicators, and what belongs to none."""
_FIRST = 3
_LIMIT = 1 << 30


class ContextNumbers:
    """The numbers that this process gives to communicators: the rank is part of each."""

    def __init__(self, rank: int, size: int) -> None:
        self._lock = new_lock()
        self._step = 1 << max(size - 1, 0).bit_length()
        self._next = _FIRST + rank
        self._unused: list[int] = []
        self._freed: deque[int] = deque()
        self._given: set[int] = set()

    def take(self) -> int:
        """Returns a number. One that was in use is given again only when all others were."""
        with self._lock:
            if self._unused:
                number = self._unused.pop()
            elif self._next < _LIMIT:
                number = self._next
                self._next += self._step
            elif self._freed:
                number = self._freed.popleft()
            else:
                raise MPIException(ERR_INTERN, "too many communicators: free those that are not needed")
            self._given.add(number)
            return number

    def give_back(self, number: int) -> None:
        """Takes back a number that nothing was made with."""
        with self._lock:
            self._given.discard(number)
            self._unused.append(number)

    def free(self, number: int) -> None:
        """Takes back the number of a communicator that was freed, if it came from here."""
        with self._lock:
            if number in self._given:
                self._given.discard(number)
                self._freed.append(number)
