"""`mpi4py.util.pool` is `fastsock.mpj.util.pool`."""

import sys

from fastsock.mpj.util import pool

sys.modules[__name__] = pool
