"""Registered buffers, handed over one after the other out of a pool: each that came home goes again."""

from __future__ import annotations

from typing import Any

from .arrays import HandedBuffers

BUFFERS = 8


class StreamedBuffers(HandedBuffers):
    """There and back it is one buffer, as in its base."""

    def _one_way(self, array: Any, count: int) -> None:
        if getattr(self, "pool", None) is None or self.pool.nbytes != array.nbytes:
            self.pool = self.library.Pool(BUFFERS, array.nbytes)
        for _ in range(count):
            buffer = self.pool.take()
            self._put(buffer)
            buffer.release()
        self._get()
