"""Standard input of rank 0 where that runs on another host."""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...xxdev.job.loop import Loop
    from .remote import RemoteRanks

_PIECE = 1 << 16


class Feeder:
    """Reads this process's standard input, one piece at a time: the next when the rank has read the last."""

    def __init__(self, loop: Loop, remote: RemoteRanks) -> None:
        self._loop, self._remote = loop, remote
        remote.on_taken = self._next
        self._next()

    def _next(self) -> None:
        try:
            self._loop.watch(0, lambda _: self._read())
        except PermissionError:  # a file, which never makes anybody wait
            self._loop.after(0, self._read)
        except OSError:  # closed
            self._remote.feed(b"")

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            self._loop.forget(0)
        try:
            data = os.read(0, _PIECE)
        except OSError:
            data = b""
        self._remote.feed(data)
