"""A TCP socket is closed when the kernel of the other end has all that was sent.

TCP resets a connection that is closed with unread bytes, or that gets bytes after its close. The kernel then throws
away what it has not delivered yet. So the writing half is shut first. What still comes is read and dropped, until
everything was acknowledged. A thread of the process does that for all, and nobody waits for it. After LONGEST seconds
the kernel goes on alone, as after any close.

A process that ends closes its sockets. So its end waits, as long as the other ends take more than is sent.
"""

from __future__ import annotations

import _socket
import atexit
import errno
import os
import sys
import termios
import weakref
from contextlib import contextmanager, suppress

from .forkable import new_recursive_lock
from .originals import originals
from .owned_descriptor import OwnedDescriptor
from .starting import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LONGEST = 300.0  # seconds
STANDSTILL = 5.0  # seconds that the end of a process waits while nobody takes anything
PAUSE, LONGEST_PAUSE = 0.001, 0.02
FIRST_NUMBER = 512  # above what a program has just closed: it may ask whether its number is free now
_READ, _READS = 1 << 16, 16  # bytes, and how often in one look: the other end may never stop

_lock = new_recursive_lock()  # a signal handler may close something
_leaving: dict[OwnedDescriptor, float] = {}  # copies whose writing half is shut, and until when they are kept
_open: weakref.WeakSet[Any] = weakref.WeakSet()
_running = False
_arranged = False


def deliver_at_exit(sock: Any) -> None:
    """The end of this process waits until what was sent there has arrived. No other process uses the socket."""
    _arrange()
    with _lock:
        _open.add(sock)


def deliver(sock: Any) -> None:
    """Before the close of a socket that deliver_at_exit() was told. Nothing can be sent any more. Never waits."""
    global _running
    with _lock:
        if sock not in _open:  # it is that of a process which this one is a fork of, and which goes on with it
            return
        _open.discard(sock)
    try:
        copy = OwnedDescriptor(_copy_of(sock.fileno()))
    except (OSError, ValueError):  # it was closed before, or too many are open
        return
    if not _shut(copy.number) or _is_done(copy.number):
        copy.close()
        return
    with _lock:
        _leaving[copy] = originals.monotonic() + LONGEST
        starts = not _running
        _running = True
    if starts and not start_thread(_serve, name="fastsock delivering"):
        _running = False  # the end of the process takes care of it, or the next thread


def _copy_of(number: int) -> int:
    try:
        return originals.fcntl(number, originals.F_DUPFD_CLOEXEC, FIRST_NUMBER)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the process may not open so many
            raise
        return originals.fcntl(number, originals.F_DUPFD_CLOEXEC, 0)


@contextmanager
def _socket_of(number: int) -> Iterator[_socket.socket]:
    """The socket of a number that stays open. Raises OSError where it has none.

    It has no timeout, whatever the program's default is, and the flags that the number had.
    """
    flags = originals.fcntl(number, originals.F_GETFL)
    sock = _socket.socket(fileno=number)
    try:
        if sock.gettimeout() is not None:
            sock.settimeout(None)
            originals.fcntl(number, originals.F_SETFL, flags)
        yield sock
    finally:
        sock.detach()


def _shut(number: int) -> bool:
    """Shuts the writing half. False: the kernel keeps what was sent without it, or the other end is gone."""
    try:
        with _socket_of(number) as sock:
            if sock.family == _socket.AF_UNIX:
                return False
            sock.shutdown(_socket.SHUT_WR)
    except OSError:
        return False
    return True


def _unacknowledged(number: int) -> int:
    """Bytes that the other end's kernel has not acknowledged. Raises OSError."""
    return int.from_bytes(originals.ioctl(number, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def _undelivered(number: int) -> int:
    """The same of what was sent before the writing half was shut. Its end counts as a byte.

    The acknowledgement of the end is often put off. A reset behind it does no harm.
    """
    return max(_unacknowledged(number) - 1, 0)


def _is_done(number: int) -> bool:
    """Whether all has arrived, or nothing will any more. Else drops what came: the other end might wait for room."""
    try:
        if _undelivered(number) == 0:
            return True
        with _socket_of(number) as sock, suppress(BlockingIOError):
            for _ in range(_READS):
                if not sock.recv(_READ, _socket.MSG_DONTWAIT):
                    break
        return _undelivered(number) == 0
    except OSError:
        return True


def _look() -> int:
    """Closes those that are done. Bytes that the others have still to deliver."""
    now = originals.monotonic()
    left = 0
    for copy, until in list(_leaving.items()):
        if not copy.is_ours() or now > until or _is_done(copy.number):
            del _leaving[copy]
            copy.close()
        else:
            left += _undelivered(copy.number)
    return left


def _serve() -> None:
    global _running
    pause, before = PAUSE, -1
    while True:
        with _lock:
            left = _look()
            if not _leaving:
                _running = False
                return
        pause = PAUSE if left != before else min(2 * pause, LONGEST_PAUSE)
        before = left
        originals.sleep(pause)


def _left_open() -> int:
    """Bytes that open sockets have still to deliver."""
    left = 0
    for sock in list(_open):
        with suppress(OSError, ValueError), _socket_of(sock.fileno()) as kernels:  # else it was closed
            if kernels.family != _socket.AF_UNIX:
                left += _unacknowledged(kernels.fileno())
    return left


def _at_exit() -> None:
    pause, least = PAUSE, sys.maxsize
    until, last = 0.0, originals.monotonic() + LONGEST
    while True:
        now = originals.monotonic()
        with _lock:
            left = _look() + _left_open()
        if left == 0:
            return
        if left < least:  # a thread that still sends is no progress
            least, pause, until = left, PAUSE, now + STANDSTILL
        if now > min(until, last):
            return
        originals.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


atexit.register(_at_exit)  # now: what the program registers later may still send, and runs before


def _arrange() -> None:
    """Once a process: children of multiprocessing skip atexit, and run their finalizers."""
    global _arranged
    if _arranged:
        return
    _arranged = True
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing import util

        util.Finalize(None, _at_exit, exitpriority=-100)


def _forked() -> None:
    global _running, _arranged
    _running = _arranged = False
    for copy in _leaving:
        copy.close()
    _leaving.clear()
    _open.clear()


os.register_at_fork(after_in_child=_forked)
