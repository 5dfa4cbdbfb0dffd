"""The machine: its description, its cores, and how busy others keep it."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import time
from importlib import metadata

PR_SET_PDEATHSIG = 1


def pin(cores: int | set[int] | None) -> None:
    """Keep the calling thread on one core or on a set of cores; None leaves it free."""
    if cores is not None:
        os.sched_setaffinity(0, {cores} if isinstance(cores, int) else cores)


def two_cores(text: str) -> tuple[int, int]:
    """``0,1`` as two cores that this process may use. Raises ValueError for anything else."""
    try:
        first, second = (int(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"{text}: say two cores, as 0,1") from None
    if not {first, second} <= os.sched_getaffinity(0):
        raise ValueError(f"this process may only use the cores {sorted(os.sched_getaffinity(0))}")
    return first, second


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, so that no spinning child is left over."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def description() -> dict[str, object]:
    """What a reader of the numbers must know about where they were taken."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in ("fastsock", "numpy", "pyzmq")},
        "load": [round(x, 2) for x in os.getloadavg()],
        "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def wait_until_idle(limit: float = 0.15, patience: float = 0.3, window: float = 0.04) -> float:
    """Wait at most ``patience`` seconds for the machine to be idle; returns the busy share last seen, 0 to 1."""
    end = time.monotonic() + patience
    while True:
        before = _ticks()
        time.sleep(window)
        after = _ticks()
        total = after[1] - before[1]
        busy = 1 - (after[0] - before[0]) / total if total else 0.0
        if busy <= limit or time.monotonic() >= end:
            return busy


def _ticks() -> tuple[int, int]:
    with open("/proc/stat") as file:
        fields = [int(x) for x in file.readline().split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
