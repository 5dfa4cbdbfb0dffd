"""What a process and the system hold: descriptors, memory, threads, names."""

from __future__ import annotations

import dataclasses
import os


@dataclasses.dataclass(frozen=True)
class Holding:
    """Counts of one process, and the system's abstract names."""

    descriptors: int
    memory: int  # resident KiB, without pages that are shared with others
    shared: int  # resident KiB of shared memory
    mappings: int
    threads: int


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
    )


def names() -> int:
    """How many abstract names of ours are bound."""
    with open("/proc/net/unix") as file:
        return sum("@fastsock" in line for line in file)


def shared_memory() -> int:
    """KiB of shared memory that the whole system holds."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Shmem:"))
