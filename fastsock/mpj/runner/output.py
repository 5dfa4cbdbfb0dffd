"""What ranks print, line by line, each line with its rank where that is asked for."""

from __future__ import annotations

import os

_LONGEST_LINE = 1 << 16


class Writer:
    """Joins the output of ranks that comes through the runner: no line is torn by another rank's."""

    def __init__(self, tag: bool) -> None:
        self._tag = tag
        self._begun: dict[tuple[int, int], bytes] = {}

    def write(self, rank: int, stream: int, data: bytes) -> None:
        """Bytes that a rank wrote to its standard output (1) or standard error (2); none at the end of it."""
        key = rank, stream
        begun = self._begun.pop(key, b"") + data
        end = begun.rfind(b"\n") + 1
        if not data or len(begun) - end > _LONGEST_LINE:
            end = len(begun)
        if end < len(begun):
            self._begun[key] = begun[end:]
        if end:
            self._emit(stream, self._tagged(rank, begun[:end]))

    def say(self, line: str) -> None:
        """A line of the runner itself."""
        self._emit(2, line.encode() + b"\n")

    def close(self) -> None:
        """Lines that have no end yet."""
        for rank, stream in list(self._begun):
            self.write(rank, stream, b"")

    def _tagged(self, rank: int, lines: bytes) -> bytes:
        if not self._tag:
            return lines
        label = b"[%d] " % rank
        return b"".join(label + line.rstrip(b"\n") + b"\n" for line in lines.splitlines(keepends=True))

    @staticmethod
    def _emit(stream: int, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(stream, view) :]
        except OSError:  # nobody reads it any more
            pass
