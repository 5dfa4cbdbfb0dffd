"""`mpi4py.futures` is `fastsock.mpj.futures`."""

from fastsock.mpj.futures import *  # noqa: F403
from fastsock.mpj.futures import __all__ as __all__

from . import _core, aplus  # noqa: F401
