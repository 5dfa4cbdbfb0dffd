"""A small event loop: descriptors with callbacks, and timers. The runner's, and of the server's thread in rank 0."""

from __future__ import annotations

import heapq
import itertools
import select

from ...system.originals import originals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


class Timer:
    """A callback that is due at some time, unless cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Idempotent."""
        self.callback = None


class Loop:
    """Not for several threads. Another thread wakes it by a descriptor that it watches."""

    def __init__(self) -> None:
        self._epoll = originals.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()

    def watch(self, descriptor: int, callback: Callable[[int], None], events: int = READ) -> None:
        """Call back with the events of the descriptor, or change which events those are."""
        if descriptor in self._callbacks:
            self._epoll.modify(descriptor, events)
        else:
            self._epoll.register(descriptor, events)
        self._callbacks[descriptor] = callback

    def forget(self, descriptor: int) -> None:
        """Before the descriptor is closed. Idempotent."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once, that much later."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (originals.monotonic() + seconds, next(self._count), timer))
        return timer

    def step(self, longest: float | None = None) -> None:
        """Wait for events, at most `longest` seconds, and serve them."""
        for descriptor, events in self._epoll.poll(self._patience(longest)):
            callback = self._callbacks.get(descriptor)  # an earlier callback of this round may have forgotten it
            if callback is not None:
                callback(events)
        while self._timers and self._timers[0][0] <= originals.monotonic():
            due = heapq.heappop(self._timers)[2].callback
            if due is not None:
                due()

    def close(self) -> None:
        """The descriptors that it watched stay open."""
        self._callbacks.clear()
        self._epoll.close()

    def _patience(self, longest: float | None) -> float | None:
        if not self._timers:
            return longest
        left = max(0.0, self._timers[0][0] - originals.monotonic())
        return left if longest is None else min(left, longest)
