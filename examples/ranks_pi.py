"""Pi by several ranks, an ordinary mpi4py program: python -m fastsock.mpj.run -n 4 --as-mpi4py examples/ranks_pi.py"""

import time

import numpy
from mpi4py import MPI

INTERVALS = 2_000_000

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()

start = time.perf_counter()
middles = (numpy.arange(rank, INTERVALS, size) + 0.5) / INTERVALS
part = numpy.array([(4 / (1 + middles**2)).sum() / INTERVALS])
whole = numpy.zeros(1)
world.Allreduce(part, whole, MPI.SUM)
took = world.reduce(time.perf_counter() - start, MPI.MAX, 0)

if rank == 0:
    print(f"pi is about {whole[0]:.12f}: {size} ranks, {took * 1e3:.1f} ms")
