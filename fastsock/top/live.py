"""The live view, drawn with rich: lines that are drawn anew, each second. A table of rich takes five times as long."""

from __future__ import annotations

import contextlib
import time

from rich.console import Console
from rich.live import Live
from rich.segment import Segment
from rich.style import Style

from . import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import ConsoleOptions

    from .rows import Row, Watcher

_TITLE, _HEAD, _MORE, _PLAIN = Style(bold=True), Style(bold=True, reverse=True), Style(dim=True), Style()
_CARRIERS = {"shm": Style(color="green"), "tcp": Style(color="yellow")}


def show(watcher: Watcher, rows: Callable[[], Sequence[Row]], seconds: float) -> None:
    """Until Ctrl-C."""
    console = Console()
    with contextlib.suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            room = max(console.size.height - 5, 1)
            live.update(drawn(rows(), len(watcher.processes), watcher.missed, room), refresh=True)
            time.sleep(seconds)


class drawn:
    """What is on the screen: so many rows, and how many are left."""

    def __init__(self, rows: Sequence[Row], processes: int, missed: int = 0, room: int = 1000) -> None:
        self.title = table.title(rows, processes, missed)
        self.rows = rows[:room]
        self.left = len(rows) - len(self.rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        width = options.max_width
        yield from _line(self.title[:width], _TITLE)
        yield Segment.line()
        head, *lines = table.lines(self.rows)
        at = head.index(table.CARRIER)
        yield from _line(head[:width].ljust(width), _HEAD)
        for row, line in zip(self.rows, lines, strict=True):
            end = at + len(row.carrier)
            yield Segment(line[:at][:width], _PLAIN)
            yield Segment(line[at:end][: max(width - at, 0)], _CARRIERS.get(row.carrier, _PLAIN))
            yield from _line(line[end:][: max(width - end, 0)], _PLAIN)
        if self.left:
            yield from _line(f"{self.left} more: --find, --pid and --carrier choose"[:width], _MORE)


def _line(text: str, style: Style) -> tuple[Segment, Segment]:
    return Segment(text, style), Segment.line()
