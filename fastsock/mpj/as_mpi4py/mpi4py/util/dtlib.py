"""`mpi4py.util.dtlib` is `fastsock.mpj.util.dtlib`."""

import sys

from fastsock.mpj.util import dtlib

sys.modules[__name__] = dtlib
