"""Calls executed by other ranks: `concurrent.futures` over messages, with the names of mpi4py.futures.

The workers are ranks that were started with the master: all but the first under ``-m fastsock.mpj.futures``, or those
of a communicator in an `MPICommExecutor`. Elsewhere an executor spawns its workers, or connects to a server of some.

executor, run, mapping        the executors, the tasks of each, and `map`
spawned, server               workers that an executor spawns or connects to; their main program
worker_pool, worker           the workers: other ranks, or a thread where there are none
wire, setup, script           the messages between master and workers, and their preparations
aplus, gathering              futures that go on with functions, or are made of futures

Above MPI, below util. Tests: tests/mpj/test_futures.py.
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
