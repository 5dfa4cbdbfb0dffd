"""Calls executed by other ranks: `concurrent.futures` over messages, with the names of mpi4py.futures.

The workers are ranks that were started with the master: all but the first under ``-m fastsock.mpj.futures``, or those
of a communicator in an `MPICommExecutor`.
"""

from __future__ import annotations

from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    InvalidStateError,
    TimeoutError,
    as_completed,
    wait,
)

from .executor import MPICommExecutor, MPIPoolExecutor, get_comm_workers
from .gathering import collect, compose
from .mapping import ProcessPoolExecutor, ThreadPoolExecutor

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "BrokenExecutor",
    "CancelledError",
    "Executor",
    "Future",
    "InvalidStateError",
    "MPICommExecutor",
    "MPIPoolExecutor",
    "ProcessPoolExecutor",
    "ThreadPoolExecutor",
    "TimeoutError",
    "as_completed",
    "collect",
    "compose",
    "get_comm_workers",
    "wait",
]
