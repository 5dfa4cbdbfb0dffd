"""`fastsock top`: connections, ranks and daemons of all processes of this user that run fastsock."""

from __future__ import annotations

import json
import sys
import time

from .words import parser, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence
    from typing import Any

    from ..top.rows import Watcher
    from ..top.view import Choice, View

_NAME = "fastsock top"
_NEEDS = "the live view is drawn with rich: pip install 'fastsock[top]'; --once and --json need nothing"


def usage() -> str:
    return _parser().format_help()


def _parser() -> ArgumentParser:
    from ..top.view import ORDERS

    made = parser(
        "top",
        "Shows the connections of all processes of this user that run fastsock: who is at the other end, what carries "
        "the bytes, why not memory, and what moves in a second. Ranks and daemons of remote objects come first. Ctrl-C "
        "ends it.",
        "Exit status 2: the live view is not installed.",
    )
    made.add_argument("--once", action="store_true", help="print one table, of --seconds, and end")
    made.add_argument("--json", action="store_true", help="the same as JSON, with totals")
    made.add_argument("--seconds", type=float, default=1.0, metavar="S", help="between two looks (1)")
    made.add_argument("--sort", choices=list(ORDERS), default="rate", help="what comes first (rate)")
    made.add_argument("--pid", type=int, metavar="PID", help="of this process only")
    made.add_argument("--carrier", choices=["shm", "tcp"], help="on this carrier only")
    made.add_argument("--find", default="", metavar="TEXT", help="in the command, an address, the job, or the reason")
    return made


def main(words: Sequence[str]) -> int:
    from ..top.rows import Watcher
    from ..top.view import Choice

    made = _parser()
    options = made.parse_args(words)
    if not 0 < options.seconds <= 3600:
        made.error("--seconds takes a number above 0, up to 3600")
    watcher, choice = Watcher(), Choice(options.sort, options.pid, options.carrier, options.find)
    if not options.once and not options.json:
        return _live(watcher, choice, options.seconds)
    watcher.look()
    time.sleep(options.seconds)
    view = choice.of(watcher)
    if options.json:
        print(json.dumps(_values(watcher, view), indent=2))
    else:
        from ..top import table

        print(table.title(view), *("\n".join(lines) for lines in table.tables(view)), sep="\n\n")
    return 0


def _values(watcher: Watcher, view: View) -> dict[str, list[dict[str, Any]]]:
    from ..top import work

    return {
        "processes": [each.as_values() for each in watcher.processes],
        "ranks": [work.values(row) for row in view.ranks],
        "daemons": [work.values(row) for row in view.daemons],
        "connections": [row.values() for row in view.connections],
    }


def _live(watcher: Watcher, choice: Choice, seconds: float) -> int:
    try:
        from ..top import live
    except ImportError:
        refuse(f"{_NEEDS}\n", _NAME)
    if not sys.stdout.isatty():
        refuse("standard output is no terminal: use --once or --json\n", _NAME)
    live.show(lambda: choice.of(watcher), seconds)
    return 0
