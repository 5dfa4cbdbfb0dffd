"""Waits of the main thread that a signal ends, whichever thread took it.

Python runs the handler of a signal in the main thread. A signal that came to another thread does not end the main
thread's wait for a lock. So that wait looks from time to time.
"""

from __future__ import annotations

import threading

from .originals import originals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOOK = 0.5  # seconds


def wait_for(wait: Callable[[float | None], object], seconds: float | None = None) -> bool:
    """Calls wait(seconds) until it returns true. False: it did not in time. Raises what a signal handler raises."""
    until = None if seconds is None else originals.monotonic() + seconds
    looks = threading.get_ident() == threading.main_thread().ident
    while True:
        left = None if until is None else max(until - originals.monotonic(), 0.0)
        step = left if not looks else LOOK if left is None else min(left, LOOK)
        if wait(step):
            return True
        if until is not None and originals.monotonic() >= until:
            return False


def join(thread: threading.Thread, seconds: float | None = None) -> bool:
    """Waits for the end of a thread. Whether it has ended."""

    def wait(step: float | None) -> bool:
        thread.join(step)
        return not thread.is_alive()

    return wait_for(wait, seconds)
