"""The floors of large blocks: copies from process to process past any ring, by one end or by both (bare_copy.c)."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

from .. import build
from ..process import Unusable
from .bare_ring import AsSocket
from .stream_sockets import SocketPeer

WORDS_BYTES = 4096


class BareCopy(SocketPeer):
    """The receiver reads the sender's memory; with ``both`` the sender writes the receiver's meanwhile."""

    def __init__(self, name: str, both: bool, buffers: str = "bytearray") -> None:
        super().__init__(name, buffers)
        self.both = both

    def before_fork(self) -> None:
        self.memory = mmap.mmap(-1, WORDS_BYTES)
        with contextlib.suppress(build.CannotBuild):  # connect says so
            build.extension("bare_copy")  # once, before both ends need it

    def accept(self) -> None:
        self._attach(1)

    def connect(self, address: Any) -> None:
        self._attach(0)

    def _attach(self, role: int) -> None:
        try:
            self.socket = AsSocket(build.extension("bare_copy").Copy(self.memory, role, self.both))
        except build.CannotBuild as error:
            raise Unusable(str(error)) from error
