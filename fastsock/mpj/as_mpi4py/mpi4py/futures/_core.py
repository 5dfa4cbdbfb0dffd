"""Names of mpi4py.futures that are not documented, but that programs and tests look at."""

from fastsock.mpj.futures import executor
from fastsock.mpj.futures.executor import split as comm_split
from fastsock.mpj.futures.script import WORKER as MAIN_RUN_NAME
from fastsock.mpj.futures.wire import RemoteTraceback

__all__ = ["MAIN_RUN_NAME", "RemoteTraceback", "comm_split"]


def __getattr__(name):
    """`SharedPool` is not None where all executors share the ranks that were started as workers."""
    if name == "SharedPool":
        return executor.shared
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
