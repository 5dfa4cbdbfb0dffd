"""Threads, callbacks, streams and an event loop on one daemon, for hours: right answers, and nothing grows.

python -m tests.rmi.soak [--minutes 60] [--threads 4] [--path shm] [--seed N]
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Sequence

from fastsock import rmi
from fastsock.rmi import aio
from fastsock.testing.process import FarProcess
from tests.helpers.paths import PATHS, preferring

from . import objects
from .conftest import KEY, begin_daemon, fresh_name
from .kills import HANGS_AFTER, call_once

WARM = 0.2  # part of the time after which nothing may grow any more
MOST_GROWTH = 8 << 20  # bytes
MOST_DESCRIPTORS = 8  # more than at the first look
MMAP_THRESHOLD = -3, 128 << 10  # M_MMAP_THRESHOLD of mallopt, and its default
TURNS = 50  # rounds by one proxy, before a new one is made


def return_memory(here):
    """Large arrays go back to the system when they are let go. glibc would learn to keep them, in an area of each
    thread, and the most that each thread ever held would look like growth."""
    ctypes.CDLL(None).mallopt(*MMAP_THRESHOLD)


def usage(here):
    """What grows where something is forgotten: bytes of memory, descriptors, threads."""
    if here is not None:
        here.store.lines.clear()  # what the program itself keeps
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps
    with open("/proc/self/smaps_rollup") as file:
        private = sum(int(line.split()[1]) for line in file if line.startswith(("Private_Dirty", "Private_Clean")))
    return private << 10, len(os.listdir("/proc/self/fd")), threading.active_count()


class Work:
    """What runs until the time is over."""

    def __init__(self, name: str, until: float) -> None:
        self.name = name
        self.until = until
        self.rounds = 0
        self.failures: list[BaseException] = []
        self.shared = rmi.connect(f"rmi:{name}", objects.Store, timeout=HANGS_AFTER)

    def goes_on(self) -> bool:
        return time.monotonic() < self.until and not self.failures

    def shared_by_threads(self, seed: int) -> None:
        """By the proxy that all threads use."""
        generator = random.Random(seed)
        self._guarded(lambda: call_once(self.shared, generator))

    def own_connections(self, seed: int) -> None:
        """By proxies that come and go."""
        generator = random.Random(seed)

        def turn() -> None:
            with rmi.connect(f"rmi:{self.name}", objects.Store, timeout=HANGS_AFTER) as store:
                for _ in range(TURNS):
                    call_once(store, generator)

        self._guarded(turn)

    def loop(self) -> None:
        """In an event loop."""

        async def turn() -> None:
            async with await aio.connect(f"rmi:{self.name}", objects.Store, timeout=HANGS_AFTER) as store:
                for _ in range(TURNS):
                    found = await asyncio.gather(*(store.add(each, 1) for each in range(64)))
                    assert found == list(range(1, 65))
                    assert [item async for item in store.count_later(20)] == list(range(20))

        self._guarded(lambda: asyncio.run(turn()))

    def _guarded(self, turn) -> None:
        try:
            while self.goes_on():
                turn()
                self.rounds += 1
        except BaseException as error:
            self.failures.append(error)


def run(minutes: float, threads: int, seed: int) -> tuple[int, list[tuple[int, int, int]]]:
    """Runs for a time. Returns the number of rounds, and what the daemon's process and this one used, at each look."""
    name, seconds = fresh_name("soak"), minutes * 60
    with FarProcess() as daemon:
        return_memory(None)
        daemon.run(return_memory)
        daemon.run(begin_daemon, name, {})
        work = Work(name, time.monotonic() + seconds)
        workers = [threading.Thread(target=work.shared_by_threads, args=(seed + n,)) for n in range(threads)]
        workers += [threading.Thread(target=work.own_connections, args=(seed + 100,))]
        workers += [threading.Thread(target=work.loop)]
        begun = time.monotonic()
        for worker in workers:
            worker.start()
        looks = []
        for part in (WARM, 0.6, 1.0):
            while work.goes_on() and time.monotonic() < begun + seconds * part:
                workers[0].join(0.5)
            looks.append((daemon.run(usage), usage(None)))
            print(f"{part:4.0%}: {work.rounds} rounds; daemon {looks[-1][0]}, caller {looks[-1][1]}", flush=True)
        for worker in workers:
            worker.join(HANGS_AFTER)
            assert not worker.is_alive(), "a thread hangs"
        if work.failures:
            raise work.failures[0]
        gc.collect()
        until = time.monotonic() + HANGS_AFTER
        while work.shared.living():
            assert time.monotonic() < until, f"{work.shared.living()} objects are left"
        rmi.close(work.shared)
    return work.rounds, looks


def grown(looks) -> list[str]:
    """What has grown between the first look and the last one."""
    found = []
    for end, (first, last) in zip(("daemon", "caller"), zip(looks[0], looks[-1], strict=True), strict=True):
        if last[0] - first[0] > MOST_GROWTH:
            found.append(f"the {end}'s memory by {(last[0] - first[0]) >> 10} KiB")
        if last[1] - first[1] > MOST_DESCRIPTORS:
            found.append(f"the {end}'s descriptors from {first[1]} to {last[1]}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rmi.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--path", default="shm", choices=PATHS)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args(arguments)
    os.environ["FASTSOCK_RMI_KEY"] = KEY
    print(f"seed {given.seed}", flush=True)
    with preferring(given.path):
        rounds, looks = run(given.minutes, given.threads, given.seed)
    problems = grown(looks)
    told = ", ".join(problems) or "nothing"
    print(f"{rounds} rounds in {given.minutes} minutes: every answer was right; grown: {told}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
