"""The live view, drawn with rich: one table that is drawn anew, which needs no more of a library than that."""

from __future__ import annotations

import contextlib
import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from . import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .rows import Row, Watcher

_WORDS = {"PEER", "CARRIER", "WHY"}


def show(watcher: Watcher, rows: Callable[[], Sequence[Row]], seconds: float) -> None:
    """Until Ctrl-C."""
    console = Console()
    with contextlib.suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            room = max(console.size.height - 5, 1)
            live.update(drawn(rows(), len(watcher.processes), watcher.missed, room), refresh=True)
            time.sleep(seconds)


def drawn(rows: Sequence[Row], processes: int, missed: int = 0, room: int = 1000) -> Group:
    """What is on the screen: so many rows, and how many are left."""
    made = Table(box=None, header_style="bold reverse", expand=True, pad_edge=False)
    for name in table.HEAD:
        made.add_column(name, justify="left" if name in _WORDS else "right", no_wrap=True, overflow="ellipsis",
                        ratio=2 if name == "WHY" else None)  # fmt: skip
    for row in rows[:room]:
        cells = [Text(cell) for cell in table.cells(row)]
        cells[3].style = "green" if row.carrier == "shm" else "yellow"
        made.add_row(*cells)
    left = len(rows) - room
    more = [Text(f"{left} more: --find, --pid and --carrier choose", style="dim")] if left > 0 else []
    return Group(Text(table.title(rows, processes, missed), style="bold"), Text(""), made, *more)
