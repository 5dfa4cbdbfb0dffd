"""The workers that execute tasks: other ranks, or a thread where there are none."""

from __future__ import annotations

import threading
from collections import deque

from ..constants import ANY_SOURCE
from ..messages.status import Status
from . import wire, worker
from .run import Run, Work, WorkerPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Any


# ---- ranks ----


class Ranks(WorkerPool):
    """The ranks at the other end of an intercommunicator."""

    def __init__(self, between: Any, *, imports: bool) -> None:
        """`imports`: the workers have not run the main script themselves."""
        self.comm = between
        self.imports = imports
        self.size = between.Get_remote_size()
        self._idle = deque(range(self.size))
        self._lock = threading.Lock()

    def begin(self, run: Run) -> Work:
        """Set the workers up for a run."""
        return _RankWork(self, run)

    def take(self, among: set[int]) -> int | None:
        """Returns an idle worker. Nobody else gets it until it is given back."""
        with self._lock:
            for _ in range(len(self._idle)):
                found = self._idle.popleft()
                if found in among:
                    return found
                self._idle.append(found)
        return None

    def any_idle(self, among: set[int]) -> bool:
        """Returns whether take() would find one."""
        with self._lock:
            return any(found in among for found in self._idle)

    def give_back(self, which: int) -> None:
        """Takes back a worker that has done its task."""
        with self._lock:
            self._idle.append(which)

    def stop(self) -> None:
        """Send all workers home."""
        for which in range(self.size):
            self.comm.send(None, which, wire.tag(0, wire.STOP))


class _RankWork(Work):
    def __init__(self, pool: Ranks, run: Run) -> None:
        self.pool, self.run, self.comm = pool, run, pool.comm
        self.ready: set[int] = set()
        self.expected: set[int] = set()  # these have not said yet that they are ready
        self.running: dict[int, Future[Any]] = {}
        setup = run.setup
        if not pool.imports:
            setup.script = None
        try:
            for which in range(pool.size):
                self.comm.send(setup, which, wire.tag(run.number, wire.SETUP))
                self.expected.add(which)
        except Exception as error:  # an initializer that cannot be pickled
            run.breaks(f"the workers cannot be set up: {error!r}")
            run.event.set()

    @property
    def busy(self) -> bool:
        return bool(self.running or self.expected)

    def wants_more(self) -> bool:
        return self.pool.any_idle(self.ready)

    def step(self) -> bool:
        did = False
        status = Status()
        while self.comm.iprobe(ANY_SOURCE, self.run.number, status):
            self._answer(status.source)
            did = True
        while self.run.queue and self.run.broken is None:
            which = self.pool.take(self.ready)
            if which is None:
                break
            self._give(which)
            did = True
        return did

    def _give(self, which: int) -> None:
        try:
            future, task = self.run.queue.pop()
        except LookupError:  # cancelled meanwhile
            self.pool.give_back(which)
            return
        if not future.set_running_or_notify_cancel():
            self.pool.give_back(which)
            return
        try:
            self.comm.send(task, which, wire.tag(self.run.number, wire.TASK))
        except Exception as error:
            self.pool.give_back(which)
            future.set_exception(error)
            return
        self.running[which] = future

    def _answer(self, which: int) -> None:
        future = None if which in self.expected else self.running.pop(which)
        try:
            well, value = self.comm.recv(None, which, self.run.number)
        except Exception as error:  # the result cannot be made anew here
            well, value = False, wire.failure(error)
        if future is None:
            self.expected.discard(which)
            if well:
                self.ready.add(which)
            else:
                self.run.breaks(f"an initializer failed in worker {which}: {wire.raised(value)!r}")
            if not self.expected or not well:
                self.run.event.set()
            return
        self.pool.give_back(which)
        if well:
            future.set_result(value)
        else:
            future.set_exception(wire.raised(value))


# ---- a thread ----


class ThisProcess(WorkerPool):
    """No ranks: a run executes its tasks in its own thread."""

    size = 1

    def __init__(self, comm: Any) -> None:
        """`comm`: what tasks get as the communicator of the workers."""
        self.comm = comm

    def begin(self, run: Run) -> Work:
        """Set the workers up for a run."""
        return _ThreadWork(self, run)


class _ThreadWork(Work):
    busy = False

    def __init__(self, pool: ThisProcess, run: Run) -> None:
        self.run = run
        worker.local.comm = pool.comm
        setup = run.setup
        setup.script = None
        try:
            worker.set_up(setup)
        except BaseException as error:
            run.breaks(f"an initializer failed: {error!r}")
        run.event.set()

    def wants_more(self) -> bool:
        return True

    def step(self) -> bool:
        try:
            future, (function, arguments, named) = self.run.queue.pop()
        except LookupError:
            return False
        if future.set_running_or_notify_cancel():
            try:
                result = function(*arguments, **named)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        return True
