"""The live view, drawn with rich: lines that are drawn anew, each second. A table of rich takes five times as long."""

from __future__ import annotations

import contextlib
import time

from rich.console import Console
from rich.live import Live
from rich.segment import Segment
from rich.style import Style

from . import table
from .view import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import ConsoleOptions

_TITLE, _HEAD, _MORE, _PLAIN = Style(bold=True), Style(bold=True, reverse=True), Style(dim=True), Style()
_CARRIERS = {"shm": Style(color="green"), "tcp": Style(color="yellow")}
_LEAST = 8  # lines that connections have, whatever else there is


def show(look: Callable[[], View], seconds: float) -> None:
    """Until Ctrl-C."""
    console = Console()
    with contextlib.suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(drawn(look(), max(console.size.height - 5, 1)), refresh=True)
            time.sleep(seconds)


class drawn:
    """What is on the screen: so many rows in all, and how many are left. Ranks and daemons come first."""

    def __init__(self, view: View, room: int = 1000) -> None:
        self.title = table.title(view)
        few = max(room - _LEAST, 1)
        ranks = view.ranks[:few]
        daemons = view.daemons[: max(few - len(ranks), 1)]
        space = len(ranks) + len(daemons) + 2 * (bool(ranks) + bool(daemons))  # a head and an empty line each
        rows = view.connections[: max(room - space, 1)]
        self.view = View(rows, ranks, daemons)
        found = len(view.connections) + len(view.ranks) + len(view.daemons)
        self.left = found - len(rows) - len(ranks) - len(daemons)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        width = options.max_width
        yield from _line(self.title[:width], _TITLE)
        carriers = [row.carrier for row in self.view.connections]
        for head, *lines in table.tables(self.view):
            yield Segment.line()
            yield from _line(head[:width].ljust(width), _HEAD)
            if table.CARRIER in head:
                yield from _connections(lines, carriers, head.index(table.CARRIER), width)
            else:
                for line in lines:
                    yield from _line(line[:width], _PLAIN)
        if self.left:
            yield from _line(f"{self.left} more: --find, --pid and --carrier choose"[:width], _MORE)


def _connections(lines: list[str], carriers: list[str], at: int, width: int) -> Iterator[Segment]:
    for carrier, line in zip(carriers, lines, strict=True):
        end = at + len(carrier)
        yield Segment(line[:at][:width], _PLAIN)
        yield Segment(line[at:end][: max(width - at, 0)], _CARRIERS.get(carrier, _PLAIN))
        yield from _line(line[end:][: max(width - end, 0)], _PLAIN)


def _line(text: str, style: Style) -> tuple[Segment, Segment]:
    return Segment(text, style), Segment.line()
