"""The lock of one member: who has it, and who waits. Whoever came first has it first; readers have it together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from fastsock.system.forkable import new_lock

from ..constants import ERR_PROC_FAILED
from ..exceptions import Exception as MPIException

Grant = Callable[[MPIException | None], None]
"""What is called when a lock was given, or with the error that it never will be."""


class LockTable:
    """Called by the server for other ranks, and by the threads of its own."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._holders: dict[int, bool] = {}
        """Whether each holds it alone."""
        self._waiting: deque[tuple[int, bool, Grant]] = deque()
        self._broken = ""
        """How an owner died that had it alone. What it was doing to the memory is half done."""

    def take(self, rank: int, alone: bool, grant: Grant) -> None:
        """Gives the lock to a rank, now or later, and says so."""
        with self._lock:
            broken = self._broken
            free = not broken and not self._waiting and self._admits(alone)
            if free:
                self._holders[rank] = alone
            elif not broken:
                self._waiting.append((rank, alone, grant))
        if broken:
            grant(MPIException(ERR_PROC_FAILED, broken))
        elif free:
            grant(None)

    def give_back(self, rank: int) -> None:
        """Takes the lock back from a rank."""
        with self._lock:
            self._holders.pop(rank, None)
            given = self._next()
        for grant in given:
            grant(None)

    def lose(self, rank: int, reason: str) -> None:
        """A rank died. Where it had the lock alone, nobody gets it any more."""
        error = None
        with self._lock:
            self._waiting = deque(entry for entry in self._waiting if entry[0] != rank)
            if self._holders.pop(rank, False):
                self._broken = f"rank {rank} had this lock, and died: {reason}"
                error = MPIException(ERR_PROC_FAILED, self._broken)
                given = [grant for _, _, grant in self._waiting]
                self._waiting.clear()
            else:
                given = self._next()
        for grant in given:
            grant(error)

    def _admits(self, alone: bool) -> bool:
        return not self._holders or (not alone and not any(self._holders.values()))

    def _next(self) -> list[Grant]:
        """Those that get the lock now."""
        given = []
        while self._waiting and self._admits(self._waiting[0][1]):
            rank, alone, grant = self._waiting.popleft()
            self._holders[rank] = alone
            given.append(grant)
        return given
