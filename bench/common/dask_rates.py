"""The rates of dask over one scheme of addresses, as one JSON object: dask_comm.py runs it.

python bench/common/dask_rates.py SCHEME [--seconds T] [--cores 0,1]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import dask
import numpy
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError, connect, listen
from distributed.protocol import to_serialize

LARGE = 1 << 20  # bytes
TASKS, ARRAYS = 50, 16  # in a batch: one alone would only show how long dask waits to batch its messages


async def serve(scheme: str) -> None:
    """Sends back what comes, over one comm."""
    over = asyncio.Event()

    async def echo(comm: Any) -> None:
        try:
            while True:
                message = await comm.read()
                if "array" in message:
                    message = {"array": to_serialize(message["array"])}
                await comm.write(message)
        except CommClosedError:
            over.set()

    async with listen(f"{scheme}://127.0.0.1", echo) as listener:
        print(listener.contact_address, flush=True)
        await over.wait()


async def messages(scheme: str, options: argparse.Namespace) -> dict[str, float]:
    """Messages there and back a second, between two processes."""
    command = [sys.executable, __file__, scheme, "--serve", "--cores", ",".join(map(str, options.cores))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        comm = await connect(server.stdout.readline().strip())
        array = {"array": to_serialize(numpy.ones(LARGE // 8))}
        rates = {}
        for name, message in (("message", {"op": "echo", "key": "some-key", "number": 1}), ("message of 1 MiB", array)):

            async def call(message: Any = message) -> None:
                await comm.write(message)
                await comm.read()

            rates[name] = await rate_async(call, options.seconds)
        await comm.close()
    return rates


def increment(number: int) -> int:
    return number + 1


def make(number: int) -> Any:
    return numpy.full(LARGE // 8, number, dtype=float)


def first(array: Any) -> float:
    return float(array[0])


def cluster(scheme: str, options: argparse.Namespace) -> dict[str, float]:
    """Small tasks a second, and arrays of 1 MiB a second that go from one worker to the other."""
    dask.config.set({"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False})
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, protocol=scheme
        ) as started,
        Client(started) as client,
    ):
        one, other = client.scheduler_info()["workers"]

        def tasks() -> None:
            assert sum(client.gather(client.map(increment, range(TASKS), pure=False))) == TASKS * (TASKS + 1) // 2

        def moves() -> None:
            arrays = client.map(make, range(ARRAYS), workers=[one], pure=False)
            assert sum(client.gather(client.map(first, arrays, workers=[other], pure=False))) == sum(range(ARRAYS))

        return {
            "small task": TASKS * rate(tasks, options.seconds),
            "1 MiB between workers": ARRAYS * rate(moves, options.seconds),
        }


def rate(call: Callable[[], object], seconds: float) -> float:
    """Calls a second, after one to warm up."""
    call()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        call()
        count += 1
    return count / (time.perf_counter() - start)


async def rate_async(call: Callable[[], Awaitable[object]], seconds: float) -> float:
    """The same within an event loop."""
    await call()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        await call()
        count += 1
    return count / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scheme")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--cores", type=lambda text: [int(x) for x in text.split(",")], default=[])
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        os.sched_setaffinity(0, set(options.cores[1:]) or os.sched_getaffinity(0))
        return asyncio.run(serve(options.scheme))
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(options.cores[:1]) or everywhere)
    rates = asyncio.run(messages(options.scheme, options))
    os.sched_setaffinity(0, set(options.cores) or everywhere)  # four processes share both cores
    print(json.dumps({**rates, **cluster(options.scheme, options)}), flush=True)


if __name__ == "__main__":
    main()
