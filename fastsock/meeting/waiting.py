"""Waiting for the other end of a meeting: for a bounded time, and without a sleep if it answers at once."""

from __future__ import annotations

import _socket
import contextlib
import select
from _thread import _local
from collections.abc import Callable, Iterator

from ..config import settings
from ..system.originals import originals
from .unix_calls import UNIX, Raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SPIN_SECONDS = 40e-6
POLLIN, POLLOUT, POLLRDHUP = select.POLLIN, select.POLLOUT, select.POLLRDHUP

_patience = _local()


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """In the block, meetings of this thread may last this many seconds. The caller knows that the other end comes."""
    before = getattr(_patience, "seconds", None)
    _patience.seconds = seconds
    try:
        yield
    finally:
        _patience.seconds = before


def bounded_seconds() -> float:
    """The seconds that a meeting of this thread may last."""
    own: float | None = getattr(_patience, "seconds", None)
    return settings().meeting_ms / 1e3 if own is None else own


def has_hung_up(stream: Any) -> bool:
    """Whether the other end of a UNIX stream is closed or shut its writing half."""
    number = Raw.fileno(stream)
    if number < 0:  # another thread has closed it
        return False
    poller = originals.poll()
    poller.register(number, POLLRDHUP)
    return bool(poller.poll(0))


def take_token(token: int) -> bool:
    """Takes the token. Returns False if the other end has taken it already."""
    try:
        originals.read(token, 8)
    except BlockingIOError:
        return False
    return True


def borrowed(descriptor: int, action: Callable[[Any], Any]) -> Any:
    """Runs `action` with a socket object over the non-blocking UNIX stream `descriptor`, and returns its value."""
    stream = Raw(UNIX, _socket.SOCK_STREAM, 0, descriptor)
    try:
        stream.settimeout(0)
        return action(stream)
    finally:
        stream.detach()


def soon(attempt: Any, deadline: float, descriptor: int, stream: int = -1) -> Any:
    """Repeats the non-blocking `attempt` until it succeeds, and returns its result.

    It spins for a short time, then waits until `descriptor` is readable. Mostly the other end is about to answer, and
    a sleep would cost more than the whole meeting. Raises TimeoutError after `deadline` (monotonic seconds), and
    EOFError if the other end of `stream` hung up meanwhile.

    The last attempt is made after the deadline: this thread itself may be late, where others hold the interpreter's
    lock or the processor.
    """
    now = originals.monotonic()
    spin_until = now + _SPIN_SECONDS
    while True:
        try:
            return attempt()
        except BlockingIOError:
            pass
        began, now = now, originals.monotonic()
        if now < spin_until:
            continue
        if began >= deadline:
            raise TimeoutError
        poller = originals.poll()
        poller.register(descriptor, POLLIN)
        if stream >= 0:
            poller.register(stream, POLLRDHUP)
        found = poller.poll(max(0.0, deadline - now) * 1e3)
        if [each for each, _ in found] == [stream]:
            raise EOFError
