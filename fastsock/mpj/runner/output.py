"""The output of ranks, line by line; each line begins with its rank where the options say so."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_LINE = 1 << 16
_PAUSE_SECONDS = (
    0.1  # what has been printed so long ago is shown, though its line has not ended: a question, a progress
)


class Writer:
    """Joins the output of ranks that comes through the runner: no line is torn by another rank's."""

    def __init__(self, tag: bool, after: Callable[[float, Callable[[], None]], object] | None = None) -> None:
        """`after(seconds, callback)` makes begun lines appear after a while; without it they wait for their end."""
        self._tag = tag
        self._after = after
        self._begun: dict[tuple[int, int], bytes] = {}

    def write(self, rank: int, stream: int, data: bytes) -> None:
        """Bytes that a rank wrote to its standard output (1) or standard error (2); none at the end of it."""
        key = rank, stream
        begun = self._begun.pop(key, b"") + data
        end = begun.rfind(b"\n") + 1
        if not data or len(begun) - end > _LONGEST_LINE:
            end = len(begun)
        if end < len(begun):
            self._begun[key] = left = begun[end:]
            if self._after is not None and not self._tag:
                self._after(_PAUSE_SECONDS, lambda: self._show_begun(key, left))
        if end:
            self._emit(stream, self._tagged(rank, begun[:end]))

    def flush(self, rank: int, stream: int) -> None:
        """Show a begun line, unless lines are tagged: then it waits for its end."""
        if not self._tag:
            self.write(rank, stream, b"")

    def _show_begun(self, key: tuple[int, int], text: bytes) -> None:
        if self._begun.get(key) is text:
            self.flush(*key)

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
