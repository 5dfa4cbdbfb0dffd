"""Draws docs/pictures/top.svg: the live view of processes that work now. python -m tests.top.picture"""

from __future__ import annotations

import io
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from fastsock.top import live
from fastsock.top.rows import Watcher
from fastsock.top.view import Choice, View

from . import workers
from .talkers import PLAIN, talking

PICTURE = Path(__file__).parents[2] / "docs/pictures/top.svg"
WIDE = 140


def main() -> None:
    with ExitStack() as scene:
        pids = set()
        for serve_by in ({}, {}, {"serve_by": PLAIN}):
            server, client = scene.enter_context(talking(**serve_by))
            pids |= {server.pid, client.pid}
        runner = scene.enter_context(workers.ranks())
        daemon, caller, _ = scene.enter_context(workers.daemon())
        pids |= {daemon.pid, caller.pid, *workers.children(runner)}
        watcher = Watcher()
        watcher.look()
        time.sleep(1)
        seen = Choice().of(watcher)
    view = View(*([row for row in rows if row.pid in pids] for rows in (seen.connections, seen.ranks, seen.daemons)))
    for row in [*view.ranks, *view.daemons]:
        row.command = row.command.partition(" ")[0].rpartition("/")[2] + " program.py"
    view.processes = len({row.pid for row in [*view.connections, *view.ranks, *view.daemons]})
    console = Console(record=True, width=WIDE, file=io.StringIO())
    console.print(live.drawn(view))
    console.save_svg(str(PICTURE), title="fastsock top")


if __name__ == "__main__":
    main()
