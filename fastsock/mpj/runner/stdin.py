"""Standard input of rank 0 where it cannot read the runner's itself: on another host, or from a terminal.

The terminal would stop a rank that reads from it, because only the runner is in its foreground.
"""

from __future__ import annotations

import contextlib
import os

from ...xxdev.job.loop import WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ...xxdev.job.loop import Loop

    class Taker(Protocol):
        """Who gets the bytes: feed(b"") is the end; `on_taken` is called back when more may come."""

        on_taken: Callable[[], None] | None

        def feed(self, data: bytes) -> None: ...


_PIECE = 1 << 16


class Feeder:
    """Reads this process's standard input, one piece at a time: the next when the last has been taken."""

    def __init__(self, loop: Loop, taker: Taker) -> None:
        self._loop, self._taker = loop, taker
        taker.on_taken = self._next
        self._next()

    def _next(self) -> None:
        try:
            if os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp():  # reading would stop this process
                self._taker.feed(b"")
                return
            self._loop.watch(0, lambda _: self._read())
        except PermissionError:  # a file, which never makes anybody wait
            self._loop.after(0, self._read)
        except OSError:  # closed
            self._taker.feed(b"")

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            self._loop.forget(0)
        try:
            data = os.read(0, _PIECE)
        except OSError:
            data = b""
        self._taker.feed(data)


class Pipe:
    """The standard input of a rank of this host. `reads` is the rank's end: close it when the rank has it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.reads, self._writes = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._writes, False)
        self._pending = bytearray()
        self._open = True
        self.on_taken: Callable[[], None] | None = None

    def feed(self, data: bytes) -> None:
        """One piece; none at the end."""
        self._pending += data
        if not data:
            self._close()
        else:
            self._push()

    def _push(self, _: int = 0) -> None:
        if not self._open:
            return
        try:
            del self._pending[: os.write(self._writes, self._pending)]
        except BlockingIOError:
            pass
        except OSError:  # the rank reads no more
            self._close()
            return
        if self._pending:
            self._loop.watch(self._writes, self._push, WRITE)
            return
        self._loop.forget(self._writes)
        if self.on_taken is not None:
            self.on_taken()

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._loop.forget(self._writes)
            os.close(self._writes)
