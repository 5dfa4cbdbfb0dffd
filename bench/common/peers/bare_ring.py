"""The floor: a bare ring, driven from Python or within C (bare_ring.c)."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

from .. import build
from ..process import Unusable
from .peer import warm_up
from .stream_sockets import SocketPeer

RING_BYTES = 1 << 20
MARKS_BYTES = 4096


class BareRing(SocketPeer):
    """Python to Python through a minimal extension module: what the interpreter itself leaves."""

    def before_fork(self) -> None:
        self.memory = mmap.mmap(-1, 2 * (RING_BYTES + MARKS_BYTES))
        with contextlib.suppress(build.CannotBuild):  # connect says so
            build.extension("bare_ring")  # once, before both ends need it

    def accept(self) -> None:
        self._attach(1)

    def connect(self, address: Any) -> None:
        self._attach(0)

    def _attach(self, role: int) -> None:
        try:
            self.ring = build.extension("bare_ring").Ring(self.memory, role)
        except build.CannotBuild as error:
            raise Unusable(str(error)) from error
        self.socket = AsSocket(self.ring)


class BareRingInC(BareRing):
    """The same exchange without Python in it. It only ping-pongs."""

    def ping(self, size: int, count: int) -> float:
        return self.ring.ping(self.buffers.of(size)[1], warm_up(size, count), count)

    def pong(self, size: int, count: int) -> None:
        self.ring.pong(self.buffers.of(size)[1], warm_up(size, count), count)


class AsSocket:
    """An extension's methods under a socket's names, bound and not wrapped."""

    def __init__(self, inner: Any) -> None:
        self.sendall, self.recv_into = inner.send, inner.recv_into

    def recv(self, size: int) -> bytes:
        into = bytearray(size)
        return bytes(into[: self.recv_into(into)])
