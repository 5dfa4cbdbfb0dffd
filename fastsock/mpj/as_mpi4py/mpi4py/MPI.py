"""`mpi4py.MPI` is `fastsock.mpj.MPI`."""

import sys

from fastsock.mpj import MPI

sys.modules[__name__] = MPI
