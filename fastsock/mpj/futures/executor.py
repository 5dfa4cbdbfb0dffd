"""The executors that programs make: MPIPoolExecutor and MPICommExecutor."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from concurrent.futures import Executor, Future

from ...system.patience import wait_for
from . import script, spawned, worker
from .mapping import Mapping
from .run import Run, WorkerPool
from .setup import Setup
from .worker_pool import Ranks, ThisProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Any, Self

_BACKOFF_S = 0.001
_TRUE, _FALSE = ("1", "y", "yes", "t", "true", "on"), ("0", "n", "no", "f", "false", "off", "")
# What is for workers that an executor starts or finds by itself: without meaning where there are some already.
_OF_OWN_WORKERS = ("python_exe", "python_args", "mpi_info", "service", "use_pkl5")

shared: WorkerPool | None = None
"""The workers of all executors, under ``-m mpi4py.futures``."""
_runs: weakref.WeakSet[Run] = weakref.WeakSet()


def get_comm_workers() -> Any:
    """Return the communicator of the workers. Raises RuntimeError outside a call that a worker executes."""
    return worker.comm_workers()


class MPIPoolExecutor(Mapping, Executor):
    """An executor whose calls other ranks execute; mpi4py's class of this name."""

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        **kwargs: Any,
    ) -> None:
        """Take the number of workers, a function that each calls first, and mpi4py's further options.

        Where ranks were started as workers, all of them are used, whatever `max_workers` says. Else so many are
        spawned before the first call (default: one), as ranks of `python_exe` with `python_args` and the hints
        `mpi_info` of Comm.Spawn; or `service` names a server of workers (server.py). `backoff`: the longest pause, in
        seconds, of the thread that looks for results. Raises ValueError for a number of workers below 1 or a negative
        backoff, TypeError for an unknown option or an initializer that cannot be called, and RuntimeError where a
        worker that imports the main script gets here.
        """
        given = os.environ.get("MPI4PY_FUTURES_MAX_WORKERS") if max_workers is None else max_workers
        if given is not None and int(given) <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        pool = kwargs.pop("_workers", None) or shared
        if script.importing:
            raise RuntimeError(
                "the main script makes an MPIPoolExecutor while a worker imports it: put what only the master should "
                "do below `if __name__ == '__main__':`"
            )
        _check_switch("MPI4PY_FUTURES_USE_PKL5")
        self._backoff = _backoff(kwargs.pop("backoff", None))
        own = {name: kwargs.pop(name) for name in _OF_OWN_WORKERS if name in kwargs}
        # programs ask for `_pool.size`, which mpi4py has too
        self._pool: WorkerPool = pool or _own_workers(None if given is None else int(given), own)
        self._options = {"initializer": initializer, "initargs": tuple(initargs), **kwargs}
        unknown = set(kwargs) - set(Setup.OPTIONS)
        if unknown:
            raise TypeError(f"MPIPoolExecutor: unexpected argument {unknown.pop()!r}")
        self._run: Run | None = None
        self._shutdown = False
        self._lock = threading.RLock()

    @property
    def num_workers(self) -> int:
        """The number of workers; 0 after shutdown."""
        with self._lock:
            if self._shutdown:
                return 0
            return self._pool.size if self._run is None else self._run.size

    _max_workers = num_workers

    def bootup(self, wait: bool = True) -> Self:
        """Make the workers ready before the first call; `wait` until they are. Returns the executor.

        Raises RuntimeError after shutdown.
        """
        with self._lock:
            run = self._begin("bootup")
        if wait:
            wait_for(run.event.wait)
        return self

    def _begin(self, what: str) -> Run:
        if self._shutdown:
            raise RuntimeError(f"cannot {what} after shutdown")
        if self._run is None:
            script.alias()
            self._run = Run(self._pool, Setup(**self._options), self._backoff)
            _runs.add(self._run)
            weakref.finalize(self, self._run.stop).atexit = False
        return self._run

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a worker call a function; return the future of its result.

        Raises RuntimeError after shutdown, and BrokenExecutor where the workers cannot be made ready.
        """
        with self._lock:
            return self._begin("submit").add((fn, args, kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no further calls; `wait` until all are done. `cancel_futures`: those that no worker has begun."""
        with self._lock:
            self._shutdown = True
            run = self._run
        if run is None:
            return
        if cancel_futures:
            run.cancel()
        run.stop()
        if wait:
            run.join()
            self._run = None


def _own_workers(count: int | None, options: dict[str, Any]) -> WorkerPool:
    from .. import MPI

    info = options.get("mpi_info")
    if "service" in options:
        return spawned.served(MPI.COMM_SELF, options["service"], info)
    if count is None:
        count = max(int(MPI.COMM_WORLD.Get_attr(MPI.UNIVERSE_SIZE) or 0) - MPI.COMM_WORLD.size, 1)
    return spawned.spawned(MPI.COMM_SELF, count, options.get("python_exe"), options.get("python_args"), info)


def _backoff(given: float | None) -> float:
    value = float(os.environ.get("MPI4PY_FUTURES_BACKOFF", _BACKOFF_S) if given is None else given)
    if not 0 <= value < threading.TIMEOUT_MAX:
        raise ValueError("backoff must not be negative")
    return value


def _check_switch(name: str) -> None:
    """Warns of a word that means nothing. The switch changes nothing: large buffers never go into the pickle."""
    value = os.environ.get(name, "")
    if value.lower() not in (*_TRUE, *_FALSE):
        warnings.warn(f"{name}: {value!r} is neither true nor false", RuntimeWarning, stacklevel=3)


class MPICommExecutor:
    """A context in which the other ranks of a communicator work for one of them, the root."""

    def __init__(self, comm: Any = None, root: int = 0, **kwargs: Any) -> None:
        """Take an intracommunicator (default: COMM_WORLD), the root's rank, and the executor's options.

        Raises ValueError for an intercommunicator, and for a root that is no rank of the communicator.
        """
        from ..MPI import COMM_WORLD

        comm = COMM_WORLD if comm is None else comm
        if comm.Is_inter():
            raise ValueError("MPICommExecutor: expecting an intracommunicator")
        if not 0 <= root < comm.Get_size():
            raise ValueError(f"MPICommExecutor: no root {root} among {comm.Get_size()} ranks")
        self._comm, self._root, self._options = comm, root, kwargs
        self._workers: WorkerPool | None = None
        self._entered = False
        self._between: tuple[Any, Any] | None = None

    def __enter__(self) -> MPIPoolExecutor | None:
        """Return the executor at the root. The others work until the root leaves the context, and get None.

        Raises RuntimeError where the context was entered already.
        """
        if self._entered:
            raise RuntimeError("MPICommExecutor: entered twice")
        self._entered = True
        if self._comm.Get_size() == 1:
            self._workers = ThisProcess(self._comm)
        elif shared is not None:
            self._workers = shared
        else:
            self._between = between, workers = split(self._comm, self._root)
            if workers:
                worker.serve(between, workers)
                return None
            self._workers = Ranks(between, imports=False)
        # not kept here: a program may delete it, which ends it
        executor = MPIPoolExecutor(_workers=self._workers, **self._options)
        self._end = weakref.WeakMethod(executor.shutdown)
        return executor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for all tasks, and send the workers home."""
        self._entered = False
        if self._workers is not None:
            shutdown = self._end()
            if shutdown is not None:
                shutdown(wait=True)
            if self._workers is not shared:
                finish(self._workers)
                self._workers.stop()
            self._workers = None
        if self._between is not None:
            for comm in self._between:
                if comm:
                    comm.Free()
            self._between = None


def split(comm: Any, root: int) -> tuple[Any, Any]:
    """Returns the intercommunicator of the root and all others, and the communicator of these (null at the root)."""
    from ..MPI import COMM_NULL

    is_root = comm.Get_rank() == root
    part = comm.Split(0 if is_root else 1, 0)
    between = part.Create_intercomm(0, comm, (0 if root else 1) if is_root else root)
    if is_root:
        part.Free()
        part = COMM_NULL
    return between, part


def _finish_all() -> None:
    """At the end of the program the tasks of executors that nobody has shut down are done all the same."""
    for run in list(_runs):
        if isinstance(run.pool, spawned.OwnRanks):
            run.stop()
            run.join()


spawned.before_exit(_finish_all)


def finish(pool: WorkerPool) -> None:
    """Wait for all tasks of workers."""
    for run in list(_runs):
        if run.pool is pool:
            run.stop()
            run.join()
