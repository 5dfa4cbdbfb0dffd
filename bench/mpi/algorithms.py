"""Every algorithm of every collective of fastsock.mpj, below its programming interface, for the selection table.

`python -m bench.model measure --what bcast:flat_tree` times the calls of a user. Those have shared memory where ranks
share a host and the call blocks. Here the reach is chosen: messages alone, or each rank as if on a host of its own. All
algorithms of a primitive take turns in one start, and lengths are counted as the table counts them.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import time

import numpy

from fastsock.core.binding import _team as native
from fastsock.mpj.collectives import blocks, team
from fastsock.mpj.collectives.exchange import HOST, HOSTS, Members
from fastsock.xxdev import Device

SUM = (native.TYPES["DOUBLE"], native.OPERATIONS["SUM"])
REDUCTIONS = ("reduce", "allreduce", "scan", "exscan", "reduce_scatter", "reduce_scatter_block")
ROUNDS = 8


class Sum:
    """Of doubles, in the core."""

    commutative, itemsize, kernel = True, 8, SUM

    def __call__(self, source, target):
        native.reduce_local(SUM[1], SUM[0], source, target)


def arguments(name, size, ranks, rank):
    """What a call of that primitive takes here, where the selection table knows it by that size."""

    def memory(nbytes):
        return numpy.ones(nbytes, "u1").data

    def several(nbytes):
        each = max(1, nbytes // ranks) // 8 * 8 or max(1, nbytes // ranks)
        return blocks.equal(memory(each * ranks), ranks)

    one = max(1, size)
    if name == "barrier":
        return ()
    if name == "bcast":
        return memory(one), 0
    if name in ("scatter", "scatterv"):
        return (blocks.equal(memory(one * ranks), ranks) if rank == 0 else None), memory(one), 0
    if name in ("gather", "gatherv"):
        return memory(one), (blocks.equal(memory(one * ranks), ranks) if rank == 0 else None), 0
    if name in ("allgather", "allgatherv"):
        receive = several(one)
        return memory(receive.nbytes(0, 1)), receive
    if name.startswith("alltoall"):
        return several(one), several(one)
    vector = max(8, one // 8 * 8)
    if name == "reduce":
        return memory(vector), memory(vector), Sum(), 0
    if name.startswith("reduce_scatter"):
        each = max(8, one // ranks // 8 * 8)
        return blocks.equal(memory(each * ranks), ranks), memory(each), Sum()
    return memory(vector), memory(vector), Sum()


class World:
    """All ranks, and what they agree on while measuring."""

    def __init__(self, reach, cores):
        self.device = Device.new_instance()
        ids = self.device.init()
        self.rank, self.size = self.device.id(), len(ids)
        os.sched_setaffinity(0, {cores[self.rank % len(cores)]})
        engine = self.device.engine
        shared = team.form(engine, 1, ids, self.rank, crowded=self.size > len(cores)) if reach == HOST else None
        hosts = [rank if reach == HOSTS else 0 for rank in ids]
        self.members = Members(engine, 1, self.rank, ids, hosts, shared)
        self.agreement = Members(engine, 3, self.rank, ids, [0] * self.size)
        self.allreduce = importlib.import_module("fastsock.mpj.collectives.allreduce")

    def most(self, value):
        """The greatest of all ranks' values."""
        result = numpy.array([value])
        view = result.view("u1").data

        class Most(Sum):
            def __call__(self, source, target):
                native.reduce_local(native.OPERATIONS["MAX"], SUM[0], source, target)

        self.allreduce.run(self.agreement.exchange(), None, view, Most(), algorithm="reduce_broadcast")
        return float(result[0])

    def time(self, once, times):
        """Seconds of the slowest rank."""
        self.most(0)
        start = time.perf_counter()
        for _ in range(times):
            once()
        return self.most(time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reach", default=HOST, help="host, messages or hosts, as the table has them")
    parser.add_argument("--cores", default="0,1", help="rank r runs on the r-th of these, again from the first")
    parser.add_argument("--sizes", default="8,65536", help="bytes as the table counts them, with commas")
    parser.add_argument("--what", default="bcast", help="primitives, with commas")
    parser.add_argument("--seconds", type=float, default=0.02, help="for each algorithm and size")
    words = parser.parse_args()
    world = World(words.reach, [int(core) for core in words.cores.split(",")])
    gc.disable()
    for name in words.what.split(","):
        primitive = importlib.import_module(f"fastsock.mpj.collectives.{name}")
        for size in [0] if name == "barrier" else [int(word) for word in words.sizes.split(",")]:
            measure(world, primitive, size, words.seconds)
    world.most(0)
    world.device.finish()


def measure(world, primitive, size, seconds):
    """Each algorithm in turn, several times; its best, which others' use of the machine disturbs least."""
    name = primitive.PRIMITIVE.name
    given = arguments(name, size, world.size, world.rank)
    exchange = world.members.exchange()
    combine = given[2] if name in REDUCTIONS else None
    calls = {}
    for algorithm in primitive.PRIMITIVE.algorithms:
        if primitive.PRIMITIVE.against(algorithm, exchange, combine) is None:
            calls[algorithm] = lambda algorithm=algorithm: primitive.run(
                world.members.exchange(), *given, algorithm=algorithm
            )
    best, times = {}, {}
    begun = time.perf_counter()
    for algorithm, once in calls.items():
        once()
        times[algorithm] = max(1, min(1000, int(seconds / ROUNDS / (world.time(once, 2) / 2))))
        world.time(once, ROUNDS * times[algorithm])  # by then the core has found out which way of copying is faster
    for _ in range(ROUNDS):
        for algorithm, once in calls.items():
            took = world.time(once, times[algorithm]) / times[algorithm] * 1e6
            best[algorithm] = min(took, best.get(algorithm, took))
    if world.rank == 0:
        for algorithm, took in best.items():
            line = {"what": name, "algorithm": algorithm, "size": size, "value": took}
            print(json.dumps({**line, "seconds": (time.perf_counter() - begun) / len(best)}), flush=True)


main()
