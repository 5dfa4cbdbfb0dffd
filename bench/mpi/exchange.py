"""So many messages there and back between two ranks: what they cost is counted from outside."""

from __future__ import annotations

import os
import sys

import numpy
from mpi4py import MPI

WORLD = MPI.COMM_WORLD


def main() -> None:
    """The arguments: bytes a message, how many, and a core for each rank with a comma."""
    size, count, cores = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(",")
    rank = WORLD.Get_rank()
    os.sched_setaffinity(0, {int(cores[rank % len(cores)])})
    out, into = numpy.ones(size, "u1"), numpy.ones(size, "u1")
    for _ in range(count):
        if rank == 0:
            WORLD.Send(out, 1, 1)
            WORLD.Recv(into, 1, 1)
        else:
            WORLD.Recv(into, 0, 1)
            WORLD.Send(out, 0, 1)


main()
