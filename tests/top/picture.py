"""Draws docs/pictures/top.svg: the live view of processes that talk now. python -m tests.top.picture"""

from __future__ import annotations

import io
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from fastsock.top import live, table
from fastsock.top.rows import Watcher

from .talkers import PLAIN, talking

PICTURE = Path(__file__).parents[2] / "docs/pictures/top.svg"


def main() -> None:
    with ExitStack() as scene:
        pids = set()
        for serve_by in ({}, {}, {"serve_by": PLAIN}):
            server, client = scene.enter_context(talking(**serve_by))
            pids |= {server.pid, client.pid}
        watcher = Watcher()
        watcher.look()
        time.sleep(1)
        rows = [row for row in table.chosen(watcher.look(), "rate") if row.pid in pids]
    console = Console(record=True, width=150, file=io.StringIO())
    console.print(live.drawn(rows, len({row.pid for row in rows})))
    console.save_svg(str(PICTURE), title="fastsock top")


if __name__ == "__main__":
    main()
