"""Remote calls in an event loop: many at once, one that is given up, and a stream.

python examples/remote_asyncio.py
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from multiprocessing.synchronize import Event

from fastsock import rmi


@rmi.expose
class Clock:
    """Its async methods run in the daemon's event loop."""

    async def later(self, seconds: float, value: int) -> int:
        await asyncio.sleep(seconds)
        return value

    async def ticks(self, seconds: float) -> AsyncIterator[int]:
        for number in range(1_000_000):
            yield number
            await asyncio.sleep(seconds)


def serve(ready: Event, done: Event) -> None:
    with rmi.Daemon() as daemon:
        daemon.register(Clock(), "example-clock")
        daemon.start()
        ready.set()
        done.wait()


async def use() -> None:
    async with rmi.aio.closing(await rmi.aio.connect("rmi:example-clock", Clock)) as clock:
        print(sum(await asyncio.gather(*(clock.later(0.05, number) for number in range(100)))))
        try:
            await asyncio.wait_for(clock.later(60.0, 1), 0.1)
        except asyncio.TimeoutError:
            print("given up here, and cancelled there")
        async for number in clock.ticks(0.01):
            print(f"tick {number}")
            if number == 3:
                break


def main() -> None:
    ready, done = multiprocessing.Event(), multiprocessing.Event()
    server = multiprocessing.Process(target=serve, args=(ready, done))
    server.start()
    ready.wait()
    asyncio.run(use())
    done.set()
    server.join()


if __name__ == "__main__":
    main()
