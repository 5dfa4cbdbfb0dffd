"""`mpi4py.typing` is `fastsock.mpj.typing`."""

import sys

from fastsock.mpj import typing

sys.modules[__name__] = typing
