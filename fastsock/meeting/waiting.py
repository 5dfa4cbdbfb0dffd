"""Waiting for the other end of a meeting: for a bounded time, and without a sleep where it is about to answer."""

from __future__ import annotations

import _socket
import contextlib
import select
from _thread import _local
from collections.abc import Callable, Iterator

from ..config import settings
from ..system.genuine import genuine
from .unix_calls import UNIX, Raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SPIN_SECONDS = 40e-6
_CLAIM_SLICE_MS = 20  # an accepting end that gave up its claim can tell nobody
POLLIN, POLLRDHUP = select.POLLIN, select.POLLRDHUP

_patience = _local()


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Inside, meetings of this thread may last so long: for whoever knows that the other end is ours and will come."""
    before = getattr(_patience, "seconds", None)
    _patience.seconds = seconds
    try:
        yield
    finally:
        _patience.seconds = before


def has_patience() -> bool:
    """Whether this thread knows that the other end will come, and waits for it."""
    return getattr(_patience, "seconds", None) is not None


def bounded_seconds() -> float:
    """How long a meeting of this thread may last."""
    own: float | None = getattr(_patience, "seconds", None)
    return settings().meeting_ms / 1e3 if own is None else own


def has_hung_up(stream: Any) -> bool:
    """Whether the other end of a UNIX stream is closed or shut its writing half."""
    poller = genuine.poll()
    poller.register(Raw.fileno(stream), POLLRDHUP)
    return bool(poller.poll(0))


def take_token(token: int) -> bool:
    """Whether the other end had not taken it: this one has it now."""
    try:
        genuine.read(token, 8)
    except BlockingIOError:
        return False
    return True


def comes_first(listener: int, stream: int, pid: int) -> bool:
    """Waits a while for a connection at `listener`; False where `stream` or the process ended instead."""
    poller = genuine.poll()
    poller.register(listener, POLLIN)
    poller.register(stream, POLLRDHUP)
    process = -1
    try:
        process = genuine.pidfd_open(pid)  # a child of it may hold the stream open
        poller.register(process, POLLIN)
    except ProcessLookupError:
        return False
    except OSError:  # an old kernel, or no descriptor now
        pass
    try:
        found = poller.poll(_CLAIM_SLICE_MS)
    finally:
        if process >= 0:
            genuine.close(process)
    return not found or any(descriptor == listener for descriptor, _ in found)


def borrowed(descriptor: int, action: Callable[[Any], Any]) -> Any:
    """What `action` gives for a socket object over the non-blocking UNIX stream `descriptor`."""
    stream = Raw(UNIX, _socket.SOCK_STREAM, 0, descriptor)
    try:
        stream.settimeout(0)
        return action(stream)
    finally:
        stream.detach()


def soon(attempt: Any, deadline: float, descriptor: int, stream: int = -1) -> Any:
    """The result of the non-blocking `attempt`: tried in a short spin, then whenever `descriptor` becomes readable.

    The other end is mostly in the middle of answering, so that a sleep costs more than the whole meeting.
    Raises TimeoutError, and EOFError where the other end of `stream` hung up meanwhile.
    """
    spin_until = genuine.monotonic() + _SPIN_SECONDS
    while True:
        try:
            return attempt()
        except BlockingIOError:
            pass
        now = genuine.monotonic()
        if now < spin_until:
            continue
        if now >= deadline:
            raise TimeoutError
        poller = genuine.poll()
        poller.register(descriptor, POLLIN)
        if stream >= 0:
            poller.register(stream, POLLRDHUP)
        found = poller.poll((deadline - now) * 1e3)
        if [each for each, _ in found] == [stream]:
            raise EOFError
