"""Messages there and back between two ranks. Ranks may be threads, which share modules: this imports no such module."""

from __future__ import annotations

import argparse
import gc
import json
import os
import time

import numpy
from mpi4py import MPI

FEWEST, MOST = 10, 20_000


def there_and_back(world, rank, out, into, count):
    """Microseconds of each."""
    send, receive, other = world.Send, world.Recv, 1 - rank
    world.Barrier()
    start = time.perf_counter()
    if rank == 0:
        for _ in range(count):
            send(out, other, 1)
            receive(into, other, 1)
    else:
        for _ in range(count):
            receive(into, other, 1)
            send(out, other, 1)
    return (time.perf_counter() - start) / count * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", default="0,1", help="of the two ranks")
    parser.add_argument("--seconds", type=float, default=0.05, help="for each size")
    parser.add_argument("--sizes", default="8,1024,65536,1048576", help="bytes, with commas")
    words = parser.parse_args()
    world = MPI.COMM_WORLD
    rank = world.Get_rank()
    os.sched_setaffinity(0, {int(words.cores.split(",")[rank])})
    gc.disable()
    for size in map(int, words.sizes.split(",")):
        out, into = numpy.ones(size, "u1"), numpy.ones(size, "u1")
        took = there_and_back(world, rank, out, into, FEWEST)
        count = world.bcast(max(FEWEST, min(int(words.seconds * 1e6 / took), MOST)), 0)
        took = there_and_back(world, rank, out, into, count)
        if rank == 0:
            print(json.dumps({"size": size, "value": took}), flush=True)


main()
