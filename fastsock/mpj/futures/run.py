"""One executor's tasks, and the thread that hands them to workers."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from concurrent.futures import BrokenExecutor, Future

from ...system.patience import join
from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .setup import Setup

    Task = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

_numbers = itertools.count(1)
_SHORT_S = 0.00002  # the first pause of a thread that finds nothing to do; each further one is twice as long


class Queue:
    """Tasks in their order, and a bell that tells of new ones."""

    def __init__(self) -> None:
        self._items: deque[tuple[Future[Any], Task]] = deque()
        self.bell = threading.Condition()

    def __len__(self) -> int:
        return len(self._items)

    def add(self, future: Future[Any], task: Task) -> None:
        """Append one."""
        with self.bell:
            self._items.append((future, task))
            self.bell.notify_all()

    def pop(self) -> tuple[Future[Any], Task]:
        """Takes the first. Raises LookupError where there is none."""
        return self._items.popleft()

    def cancel(self) -> None:
        """Cancel all."""
        with contextlib.suppress(LookupError):
            while True:
                future, _ = self.pop()
                future.cancel()
                future.set_running_or_notify_cancel()


class WorkerPool:
    """Some workers, shared by the runs that begin with them."""

    size: int

    def begin(self, run: Run) -> Work:
        """Set the workers up for a run."""
        raise NotImplementedError

    def stop(self) -> None:
        """No run will begin any more."""


class Work:
    """What one run has its workers do; used by its thread only."""

    busy: Any  # true while there is something under way

    def step(self) -> bool:
        """Does what can be done without waiting; returns whether there was anything."""
        raise NotImplementedError

    def wants_more(self) -> bool:
        """Whether a new task could begin."""
        raise NotImplementedError

    def end(self) -> None:
        """Nothing is left to do."""


class Run:
    """One executor's tasks and thread; they begin at once. `event` is set when all workers are set up, or cannot be."""

    def __init__(self, pool: WorkerPool, setup: Setup, backoff: float) -> None:
        self.pool = pool
        self.setup = setup
        self.number = next(_numbers) % wire.MOST
        self.queue = Queue()
        self.event = threading.Event()
        self.broken: str | None = None
        self._backoff = backoff
        self._stopping = False
        self.thread = threading.Thread(target=self._run, name=f"MPIPoolExecutor-{self.number}", daemon=True)
        self.thread.start()

    # ---- called by the executor ----

    @property
    def size(self) -> int:
        """How many workers there are."""
        return 0 if self.broken else self.pool.size

    def add(self, task: Task) -> Future[Any]:
        """Hands over a call; returns its future. Raises BrokenExecutor."""
        if self.broken is not None:
            raise BrokenExecutor(self.broken)
        future: Future[Any] = Future()
        self.queue.add(future, task)
        if self.broken is not None:  # meanwhile
            self._fail_all()
        return future

    def cancel(self) -> None:
        """Cancel the tasks that no worker has begun."""
        self.queue.cancel()

    def stop(self) -> None:
        """End when all tasks are done."""
        with self.queue.bell:
            self._stopping = True
            self.queue.bell.notify_all()

    def join(self) -> None:
        """Wait for the end."""
        join(self.thread)

    # ---- its thread ----

    def _run(self) -> None:
        pause = _SHORT_S
        try:
            work = self.pool.begin(self)
            while not (self._stopping and not self.queue and not work.busy):
                if work.step():
                    pause = _SHORT_S
                    continue
                with self.queue.bell:
                    if not (self.queue and work.wants_more()) and not (self._stopping and not work.busy):
                        self.queue.bell.wait(pause if work.busy or self.queue else None)
                pause = min(2 * pause, self._backoff)
            work.end()
        except BaseException as error:
            self.breaks(f"the workers cannot be reached: {error}")
            raise
        finally:
            self.event.set()

    def breaks(self, reason: str) -> None:
        """No task of this run can be done any more."""
        self.broken = reason
        self._fail_all()

    def _fail_all(self) -> None:
        with contextlib.suppress(LookupError):
            while True:
                future, _ = self.queue.pop()
                if future.set_running_or_notify_cancel():
                    future.set_exception(BrokenExecutor(self.broken))
