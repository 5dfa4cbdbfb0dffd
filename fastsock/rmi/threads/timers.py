"""Calls that are due at a time: the earliest first. Most of them are cancelled before."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

from ...system.forkable import new_recursive_lock

_FEW = 64  # cancelled ones that may stay among the others


class Timer:
    """One call to come."""

    __slots__ = ("_timers", "call")

    def __init__(self, timers: Timers, call: tuple[Callable[..., object], tuple[Any, ...]]) -> None:
        self._timers = timers
        self.call: tuple[Callable[..., object], tuple[Any, ...]] | None = call

    def cancel(self) -> None:
        """It is not called any more, unless that has begun. Idempotent."""
        if self.call is not None:
            self.call = None
            self._timers.cancelled()


class Timers:
    """Any thread may add one and cancel it. Who waits for them asks when the next one is due."""

    def __init__(self) -> None:
        self._lock = new_recursive_lock()  # a signal handler may add one
        self._numbers = itertools.count()
        self._heap: list[tuple[float, int, Timer]] = []
        self._cancelled = 0

    def add(self, when: float, function: Callable[..., object], *arguments: Any) -> Timer:
        """when: by the monotonic clock."""
        timer = Timer(self, (function, arguments))
        with self._lock:
            heapq.heappush(self._heap, (when, next(self._numbers), timer))
        return timer

    def cancelled(self) -> None:
        """One of them was. What is cancelled does not heap up, however late it would be due."""
        with self._lock:
            self._cancelled += 1
            if self._cancelled > _FEW and 2 * self._cancelled > len(self._heap):
                self._heap = [each for each in self._heap if each[2].call is not None]
                heapq.heapify(self._heap)
                self._cancelled = 0

    def next_due(self) -> float | None:
        """When to ask again. None: there is none."""
        heap = self._heap
        return heap[0][0] if heap else None

    def take_due(self, now: float) -> list[tuple[Callable[..., object], tuple[Any, ...]]]:
        """The calls whose time has come, in order."""
        found = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                timer = heapq.heappop(self._heap)[2]
                call, timer.call = timer.call, None
                if call is not None:
                    found.append(call)
                else:
                    self._cancelled -= 1
        return found
