"""System calls of two ranks for a message there and back, by strace on each of them while they exchange."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy
from mpi4py import MPI
from timing import arguments, print_value

sys.path.append(str(Path(__file__).parent.parent))
from common import system_calls

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
COUNT = 50


def exchange(size: int) -> None:
    out, into = numpy.ones(size, "u1"), numpy.ones(size, "u1")
    for _ in range(COUNT):
        if RANK == 0:
            WORLD.Send(out, 1, 1)
            WORLD.Recv(into, 1, 1)
        else:
            WORLD.Recv(into, 0, 1)
            WORLD.Send(out, 0, 1)


def counted(size: int) -> int:
    """What both ranks have called during an exchange."""
    with TemporaryDirectory(prefix="fastsock-bench-") as folder:
        file = Path(folder) / "calls"
        tracer = system_calls.attach(os.getpid(), file)
        WORLD.Barrier()
        exchange(size)
        WORLD.Barrier()
        system_calls.detach(tracer)
        return int(WORLD.allreduce(system_calls.total(file), MPI.SUM))


def main() -> None:
    options = arguments(__doc__)
    for size in options.sizes:
        exchange(size)
        print_value("calls", size, counted(size) / COUNT)


main()
