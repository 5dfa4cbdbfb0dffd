"""`mpi4py.util.sync` is `fastsock.mpj.util.sync`."""

import sys

from fastsock.mpj.util import sync

sys.modules[__name__] = sync
