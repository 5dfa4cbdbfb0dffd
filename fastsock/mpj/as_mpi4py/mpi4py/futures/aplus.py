"""`mpi4py.futures.aplus` is `fastsock.mpj.futures.aplus`."""

import sys

from fastsock.mpj.futures import aplus

sys.modules[__name__] = aplus
