"""Ranks of other jobs: to spawn two Pythons, to meet by a port, and a ping-pong of 8 bytes, inside and between."""

from __future__ import annotations

import sys

import numpy
from mpi4py import MPI
from timing import arguments, print_value

WORLD = MPI.COMM_WORLD
RUNS = 5
MEETINGS = 20


def spawned():
    """Microseconds of a Spawn of two Pythons: the least of some runs."""
    found = []
    for _ in range(RUNS):
        start = MPI.Wtime()
        children = MPI.COMM_SELF.Spawn(sys.executable, [__file__, "--child"], 2)
        found.append((MPI.Wtime() - start) * 1e6)
        children.Disconnect()
    return min(found)


def meetings():
    """Microseconds from Accept and Connect to the end of Disconnect, the middle; and the last communicator."""
    port = WORLD.bcast(MPI.Open_port() if WORLD.rank == 0 else None)
    found = []
    for _ in range(MEETINGS):
        WORLD.Barrier()
        start = MPI.Wtime()
        meet(port).Disconnect()
        found.append((MPI.Wtime() - start) * 1e6)
    between = meet(port)
    if WORLD.rank == 0:
        MPI.Close_port(port)
    return sorted(found)[MEETINGS // 2], between


def meet(port):
    return (MPI.COMM_SELF.Accept if WORLD.rank == 0 else MPI.COMM_SELF.Connect)(port)


def ping_pong(comm, peer):
    """Microseconds of 8 bytes there and back, halved: the least of some runs."""
    data, best = numpy.zeros(1), 1e9
    for _ in range(RUNS):
        times = 1000
        start = MPI.Wtime()
        for _ in range(times):
            if WORLD.rank == 0:
                comm.Send(data, peer)
                comm.Recv(data, peer)
            else:
                comm.Recv(data, peer)
                comm.Send(data, peer)
        best = min(best, (MPI.Wtime() - start) / times / 2 * 1e6)
    return best


def main():
    arguments(__doc__)
    if WORLD.rank == 0:
        took = spawned()
    WORLD.Barrier()
    print_value("Spawn of 2 Pythons", 0, took if WORLD.rank == 0 else 0.0)
    middle, between = meetings()
    print_value("Accept, Connect, Disconnect", 0, middle)
    print_value("8 B, inside a job", 0, ping_pong(WORLD, 1 - WORLD.rank))
    print_value("8 B, between jobs", 0, ping_pong(between, 0))
    between.Disconnect()


if "--child" in sys.argv:
    MPI.Comm.Get_parent().Disconnect()
else:
    main()
