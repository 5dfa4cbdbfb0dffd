"""Programs that are no Python, plain and under `fastsock run`: redis beside plain TCP and its own UNIX socket."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

from common import question
from common.question import Options
from common.target import Result

RUN = [sys.executable, "-m", "fastsock", "run"]
LOADS = {  # words of redis-benchmark: requests in a turn, and what is wanted, in times of plain
    "-c 1": (15_000, 7.0),
    "-c 50": (60_000, 1.3),
    "-c 1 -P 16": (150_000, 6.0),
    "-c 50 -P 16": (300_000, 1.05),
}
WAYS = ("plain", "fastsock", "UNIX socket")


@contextmanager
def server(folder: str, prefix: list[str]) -> Iterator[list[str]]:
    """redis-server; gives the words by which redis-benchmark finds it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    path = os.path.join(folder, port)
    words = [*prefix, "redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket", path, "--save", ""]
    process = subprocess.Popen([*words, "--dir", folder], stdout=subprocess.DEVNULL)
    try:
        while subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True).stdout != b"PONG\n":
            time.sleep(0.01)
        yield ["-p", port, "-s", path]
    finally:
        process.terminate()
        process.wait()


def rate(prefix: list[str], where: list[str], load: str, requests: int) -> float:
    """GET requests a second."""
    words = [*prefix, "redis-benchmark", *where, "-t", "get", "-q", "-n", str(requests), *load.split()]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"([\d.]+) requests per second", told)
    return float(found[-1])


def compared(what: str, rates: dict[str, list[float]], wanted: float) -> Result:
    """The medians of the ways beside one another."""
    medians = {way: median(each) for way, each in rates.items()}
    note = ", ".join(f"{way} {value / 1000:,.1f}k/s" for way, value in medians.items())
    times = medians["fastsock"] / medians["plain"]
    return Result(f"{what}: the rate of plain TCP", times, "x", at_least=wanted, note=note)


def measure(options: Options) -> list[Result]:
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        return [Result(f"redis GET, {load}", None, "x", note="redis is not installed") for load in LOADS]
    rates: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        plain = stack.enter_context(server(folder, []))
        ours = stack.enter_context(server(folder, RUN))
        where = {"plain": ([], plain[:2]), "fastsock": (RUN, ours[:2]), "UNIX socket": ([], plain[2:])}
        for _ in range(options.times(3, 5)):
            for load, (requests, _wanted) in LOADS.items():
                for way, (prefix, place) in where.items():
                    rates.setdefault((load, way), []).append(rate(prefix, place, load, requests))
    return [
        compared(f"redis GET, {load}", {way: rates[load, way] for way in WAYS}, wanted)
        for load, (_requests, wanted) in LOADS.items()
    ]


if __name__ == "__main__":
    question.run(measure, __doc__)
