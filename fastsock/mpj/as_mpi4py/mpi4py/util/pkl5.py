"""`mpi4py.util.pkl5` is `fastsock.mpj.util.pkl5`."""

import sys

from fastsock.mpj.util import pkl5

sys.modules[__name__] = pkl5
