"""What a process and the system hold: descriptors, memory, threads, names."""

from __future__ import annotations

import dataclasses
import os
import time

from fastsock.testing.names import names_of


@dataclasses.dataclass(frozen=True)
class Holding:
    """Counts of one process."""

    descriptors: int
    memory: int  # resident KiB, without pages that are shared with others
    shared: int  # resident KiB of shared memory
    mappings: int
    threads: int
    names: int  # in the abstract namespace


def holding(pid: int) -> Holding:
    """What a process holds now."""
    with open(f"/proc/{pid}/status") as file:
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    with open(f"/proc/{pid}/maps") as file:
        mappings = sum("memfd:" in line for line in file)
    return Holding(
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        memory=int(status["RssAnon"].split()[0]),
        shared=int(status["RssShmem"].split()[0]),
        mappings=mappings,
        threads=int(status["Threads"]),
        names=len(names_of(pid)),
    )


def settled(pid: int, before: Holding, timeout: float = 20.0) -> Holding:
    """What a process holds when it has come down to what it held before, or at the end of the time."""
    end = time.monotonic() + timeout
    while True:
        now = holding(pid)
        rest = (now.descriptors > before.descriptors, now.mappings > before.mappings, now.threads > before.threads)
        if not (any(rest) or now.names > before.names) or time.monotonic() > end:
            return now
        os.sched_yield()
