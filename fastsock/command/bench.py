"""`fastsock bench`: what two Python programs on this machine gain, measured in some seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from statistics import median

from .words import parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Any

    from .benching import Task

TURNS = 7
_SET_ASIDE = ("FASTSOCK_TRANSPORTS", "FASTSOCK_CONFIG", "FASTSOCK_STATS", "FASTSOCK_TRACE", "FASTSOCK_INSTALL")


def usage() -> str:
    return _parser().format_help()


def _parser() -> ArgumentParser:
    made = parser(
        "bench",
        "Measures what two Python programs on this machine gain: a client and a server as they are, and the same two "
        "under `fastsock run`. The two pairs take turns, so that other work falls on both alike. The ratio is the "
        "median of the turns' own ratios. It takes about 20 seconds.",
        "Exit status 1: connections under `fastsock run` stayed on TCP; `fastsock doctor` says why.",
    )
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--turns", type=int, default=TURNS, metavar="N", help=f"measure each row so often ({TURNS})")
    return made


def main(words: Sequence[str]) -> int:
    made = _parser()
    options = made.parse_args(words)
    if not 1 <= options.turns <= 1000:
        made.error("--turns takes a number from 1 to 1000")
    found = measured(options.turns)
    print(json.dumps(found, indent=2) if options.json else "\n".join(lines(found)))
    return 0 if found["transport"] == "shm" else 1


def measured(turns: int) -> dict[str, Any]:
    """transport: what the pair under `fastsock run` used. rows: `unit`, and the medians of the turns."""
    from .benching import TASKS

    with Pair([sys.executable, "-m"]) as plain, Pair([sys.executable, "-m", "fastsock", "run", "-m"]) as fast:
        values: dict[str, list[tuple[float, float]]] = {task.name: [] for task in TASKS}
        for turn in range(turns):
            for task in TASKS:
                # who comes first changes, too
                first, second = (plain, fast) if turn % 2 == 0 else (fast, plain)
                one, other = first.rate(task), second.rate(task)
                values[task.name].append((one, other) if first is plain else (other, one))
        transport = fast.transport()
    rows = [_row(task, values[task.name]) for task in TASKS]
    return {"cores": len(os.sched_getaffinity(0)), "turns": turns, "transport": transport, "rows": rows}


def _row(task: Task, values: list[tuple[float, float]]) -> dict[str, Any]:
    ratios = sorted(fast / plain for plain, fast in values)
    return {
        "name": task.name,
        "unit": task.unit,
        "plain": median(plain for plain, _ in values),
        "fastsock": median(fast for _, fast in values),
        "ratio": median(ratios),
        "least_ratio": ratios[0],
        "most_ratio": ratios[-1],
    }


def lines(found: dict[str, Any]) -> Iterator[str]:
    """For people."""
    yield f"{'two Python programs on this machine':<38}{'plain':>12}{'fastsock':>12}   times"
    for row in found["rows"]:
        name = f"{row['name']}, {row['unit']}"
        spread = f"({row['least_ratio']:.1f} to {row['most_ratio']:.1f})"
        yield f"{name:<38}{row['plain']:>12,.0f}{row['fastsock']:>12,.0f}   {row['ratio']:.1f} {spread}"
    yield f"{found['turns']} turns, {found['cores']} cores; the kernel chose where each program ran"
    if found["transport"] != "shm":
        yield f"the connections stayed on {found['transport']}: `fastsock doctor` says why"


class Pair:
    """A client, with a server of its own."""

    def __init__(self, start: list[str]) -> None:
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        environ = {name: value for name, value in os.environ.items() if name not in _SET_ASIDE}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (package, environ.get("PYTHONPATH"))))
        self._client = subprocess.Popen(
            [*start, "fastsock.command.benching"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._client.stdin is not None and self._client.stdout is not None
        self._client.stdin.close()  # it ends, and its server with it
        self._client.stdout.close()
        self._client.wait()

    def rate(self, task: Task) -> float:
        """Messages, or million bytes, a second."""
        return float(self._ask(task.name))

    def transport(self) -> str:
        return self._ask("transport")

    def _ask(self, what: str) -> str:
        assert self._client.stdin is not None and self._client.stdout is not None
        print(what, file=self._client.stdin, flush=True)
        line = self._client.stdout.readline()
        if not line:
            raise SystemExit("fastsock bench: a program that is measured has ended")
        return line.strip()
