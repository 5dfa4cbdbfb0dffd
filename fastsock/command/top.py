"""`fastsock top`: the connections of all processes of this user that run fastsock."""

from __future__ import annotations

import json
import sys
import time

from .words import parser, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from ..top.rows import Row, Watcher

_NAME = "fastsock top"
_NEEDS = "the live view is drawn with rich: pip install 'fastsock[top]'; --once and --json need nothing"


def usage() -> str:
    return _parser().format_help()


def _parser() -> ArgumentParser:
    from ..top.table import ORDERS

    made = parser(
        "top",
        "Shows the connections of all processes of this user that run fastsock: who is at the other end, what carries "
        "the bytes, why not memory, and what moves in a second. Ctrl-C ends it.",
        "Exit status 2: the live view is not installed.",
    )
    made.add_argument("--once", action="store_true", help="print one table, of --seconds, and end")
    made.add_argument("--json", action="store_true", help="the same as JSON, with totals")
    made.add_argument("--seconds", type=float, default=1.0, metavar="S", help="between two looks (1)")
    made.add_argument("--sort", choices=list(ORDERS), default="rate", help="what comes first (rate)")
    made.add_argument("--pid", type=int, metavar="PID", help="of this process only")
    made.add_argument("--carrier", choices=["shm", "tcp"], help="on this carrier only")
    made.add_argument("--find", default="", metavar="TEXT", help="in the command, an address, or the reason")
    return made


def main(words: Sequence[str]) -> int:
    from ..top.rows import Watcher

    made = _parser()
    options = made.parse_args(words)
    if not 0 < options.seconds <= 3600:
        made.error("--seconds takes a number above 0, up to 3600")
    watcher = Watcher()
    if not options.once and not options.json:
        return _live(watcher, options)
    watcher.look()
    time.sleep(options.seconds)
    rows = _chosen(watcher, options)
    if options.json:
        print(json.dumps({"processes": _processes(watcher), "connections": [row.values() for row in rows]}, indent=2))
    else:
        from ..top import table

        print("\n".join([table.title(rows, len(watcher.processes), watcher.missed), "", *table.lines(rows)]))
    return 0


def _chosen(watcher: Watcher, options: Namespace) -> list[Row]:
    from ..top import table

    return table.chosen(watcher.look(), options.sort, options.pid, options.carrier, options.find)


def _processes(watcher: Watcher) -> list[dict[str, object]]:
    return [each.as_values() for each in watcher.processes]


def _live(watcher: Watcher, options: Namespace) -> int:
    try:
        from ..top import live
    except ImportError:
        refuse(f"{_NEEDS}\n", _NAME)
    if not sys.stdout.isatty():
        refuse("standard output is no terminal: use --once or --json\n", _NAME)
    live.show(watcher, lambda: _chosen(watcher, options), options.seconds)
    return 0
