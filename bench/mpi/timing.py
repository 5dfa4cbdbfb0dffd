"""What the measured programs share: where a rank runs, how often a thing is repeated, how it is told.

Ranks may be threads. They share this module, so it makes no MPI call and keeps nothing of a rank when it is imported:
each rank's program has its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
from collections.abc import Callable

from mpi4py import MPI


def arguments(text: str | None, more: Callable[[argparse.ArgumentParser], object] | None = None) -> argparse.Namespace:
    """--cores, --seconds, --what and --sizes; and what ``more`` adds."""
    parser = argparse.ArgumentParser(description=text)
    if more is not None:
        more(parser)
    parser.add_argument("--cores", default="0,1", help="rank r runs on the r-th of these, again from the first")
    parser.add_argument("--seconds", type=float, default=0.05, help="for each measurement")
    parser.add_argument("--what", default="", help="names, with commas (default: all)")
    parser.add_argument("--sizes", default="8,1024,65536,1048576", help="bytes, with commas")
    words = parser.parse_args()
    words.sizes = [int(size) for size in words.sizes.split(",")]
    cores = [int(core) for core in words.cores.split(",")]
    os.sched_setaffinity(0, {cores[MPI.COMM_WORLD.Get_rank() % len(cores)]})
    gc.disable()
    return words


def repeat(once: Callable[[], object], seconds: float) -> float:
    """Microseconds of one call, which all ranks make together, in some ``seconds`` of them: the slowest rank's."""
    once()
    times = 1
    while True:
        took = _timed(once, times)
        if took > seconds / 4 or times >= 1 << 20:
            break
        times *= 4
    times = max(1, int(times * seconds / took)) if took > 0 else times
    times = MPI.COMM_WORLD.bcast(times, 0)
    return _timed(once, times) / times * 1e6


def _timed(once: Callable[[], object], times: int) -> float:
    calls, world = range(times), MPI.COMM_WORLD
    world.Barrier()
    start = MPI.Wtime()
    for _ in calls:
        once()
    took = MPI.Wtime() - start
    return world.allreduce(took, MPI.MAX)


def print_value(what: str, size: int, value: float) -> None:
    """Print one result, on rank 0."""
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(json.dumps({"what": what, "size": size, "value": value}), flush=True)
