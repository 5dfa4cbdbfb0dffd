"""What the small programs share: their arguments, their server in a process of its own, the timed loop, the report.

Nothing here or in the programs knows of fastsock: they are what somebody could have written before it existed.

    python bench/apps/NAME.py [--seconds T] [--cores 0,1]

prints one JSON object: the rates, in calls a second, of a small call and of one that carries 1 MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

SMALL, LARGE = 100, 1 << 20  # bytes


def arguments() -> argparse.Namespace:
    """--seconds for each rate, --cores CLIENT,SERVER, and --serve, with which a program starts itself again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--cores", type=lambda text: [int(x) for x in text.split(",")])
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.cores:
        os.sched_setaffinity(0, {options.cores[1 if options.serve else 0]})
    return options


def announce(port: int) -> None:
    """In the server: tell the client where to connect."""
    print(port, flush=True)


class Server:
    """This very program with --serve, as a context; ``port`` is what it announced."""

    def __enter__(self) -> Server:
        self.process = subprocess.Popen(
            [sys.executable, *sys.argv, "--serve"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the server ended with status {self.process.wait()}")
        self.port = int(line)
        return self

    def __exit__(self, *failure: object) -> None:
        self.process.terminate()
        self.process.wait()


def rate(call: Callable[[], object], seconds: float) -> float:
    """Calls a second, after a tenth of the time to warm up."""
    _spend(call, seconds / 10)
    return _spend(call, seconds)


async def rate_async(call: Callable[[], Awaitable[object]], seconds: float) -> float:
    """The same within an event loop."""
    await _spend_async(call, seconds / 10)
    return await _spend_async(call, seconds)


def report(small: float, large: float, **more: float) -> None:
    """Print the rates, calls a second."""
    print(json.dumps({"small": small, "large": large, **more}), flush=True)


def _spend(call: Callable[[], object], seconds: float) -> float:
    count, elapsed, start = 0, 0.0, time.perf_counter()
    while elapsed < seconds:
        call()
        count += 1
        elapsed = time.perf_counter() - start
    return count / elapsed


async def _spend_async(call: Callable[[], Awaitable[object]], seconds: float) -> float:
    count, elapsed, start = 0, 0.0, time.perf_counter()
    while elapsed < seconds:
        await call()
        count += 1
        elapsed = time.perf_counter() - start
    return count / elapsed
