"""Ranks that are threads of one process: `run(size, function)` calls function(job) in each."""

from __future__ import annotations

import threading

from ...system.forkable import new_lock
from ...system.originals import originals
from ...system.patience import join
from ..hello import new_secret
from . import by_thread
from .base import Job, JobError, leave, print_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


class Ranks:
    """What the ranks of one process share."""

    def __init__(self, size: int) -> None:
        self.state = threading.Condition()
        self._broadcasting = threading.RLock()
        self.published: dict[str, bytes] = {}
        self.finished: set[int] = set()
        self.failed: dict[int, str] = {}
        self.fences = [0] * size
        self.passed = 0
        self.on_abort: Callable[[int, int, str], None] | None = None
        self.on_finish: list[Callable[[int], None]] = []
        """Called with the number of a rank that has run to its end."""
        secret = new_secret()
        self.jobs = [ThreadJob(self, rank, size, f"threads-{originals.getpid()}", secret) for rank in range(size)]

    def fail(self, rank: int, reason: str) -> None:
        """The thread of that rank has ended by an error: tell the others. Idempotent."""
        with self.state:
            if rank in self.failed:
                return
            self.failed[rank] = reason
            self._pass_fence()
            self.state.notify_all()
        for job in self.jobs:
            if job.rank != rank:
                job.fail(rank, reason)

    def broadcast(self, value: bytes) -> None:
        """Let all ranks hear it, one value after the other."""
        with self._broadcasting:
            for job in self.jobs:
                job._heard_all(value)

    def reach_fence(self, rank: int) -> int:
        """The number of the fence that this rank has reached. Called with the state."""
        self.fences[rank] += 1
        self._pass_fence()
        return self.fences[rank]

    def finish(self, rank: int) -> None:
        """That rank takes part in no more fences."""
        with self.state:
            self.finished.add(rank)
            self._pass_fence()
        for callback in self.on_finish:
            callback(rank)

    def _pass_fence(self) -> None:
        absent = self.finished | self.failed.keys()
        expected = [count for rank, count in enumerate(self.fences) if rank not in absent]
        if expected and min(expected) > self.passed:
            self.passed = min(expected)
            self.state.notify_all()


class ThreadJob(Job):
    """One of these ranks."""

    launcher = "threads"

    def __init__(self, ranks: Ranks, rank: int, size: int, name: str, secret: bytes) -> None:
        super().__init__(rank, size, name, secret)
        self.device = "smpdev"
        self.ranks = ranks
        self._callbacks: list[Callable[[int, str], None]] = []

    @property
    def hosts(self) -> list[str]:
        return [self.host] * self.size

    @property
    def hostnames(self) -> list[str]:
        return super().hostnames * self.size

    @property
    def pids(self) -> list[int]:
        return [originals.getpid()] * self.size

    def publish(self, key: str, value: bytes) -> None:
        with self.ranks.state:
            self.ranks.published[key] = bytes(value)
            self.ranks.state.notify_all()

    def lookup(self, key: str, timeout: float | None = None, *, of: int | None = None) -> bytes:
        deadline = None if timeout is None else originals.monotonic() + timeout
        with self.ranks.state:
            while key not in self.ranks.published:
                if of is not None and of in self.ranks.failed:
                    raise JobError(self.ranks.failed[of])
                left = None if deadline is None else deadline - originals.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"no rank has published {key!r} within {timeout:g} s")
                self.ranks.state.wait(left)
            return self.ranks.published[key]

    def fence(self) -> None:
        ranks = self.ranks
        with ranks.state:
            dead = len(ranks.failed)
            mine = ranks.reach_fence(self.rank)
            while ranks.passed < mine:
                if len(ranks.failed) > dead:
                    raise JobError(f"a fence cannot be passed: {list(ranks.failed.values())[-1]}")
                ranks.state.wait()

    def on_failure(self, callback: Callable[[int, str], None]) -> None:
        with self.ranks.state:
            self._callbacks.append(callback)
            known = list(self.failed.items())
        for rank, reason in known:
            callback(rank, reason)

    def fail(self, rank: int, reason: str) -> None:
        """Another rank is dead."""
        with self.ranks.state:
            self.failed[rank] = reason
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback(rank, reason)

    def broadcast(self, value: bytes) -> None:
        self.ranks.broadcast(value)

    def crashed(self) -> str | None:
        if self.error is None or (isinstance(self.error, SystemExit) and not self.error.code):
            return None
        return f"ended by an uncaught {type(self.error).__name__}: {str(self.error)[:200]}"

    def over(self) -> None:
        reason = self.crashed()
        if reason is not None:
            self.ranks.fail(self.rank, f"rank {self.rank} (a thread of pid {originals.getpid()}) {reason}")
        self.finish()

    def abort(self, status: int = 1, reason: str = "") -> NoReturn:
        if self.ranks.on_abort is not None:
            self.ranks.on_abort(self.rank, status, reason)
        print_line(f"rank {self.rank} aborted the job with status {status}{f': {reason}' if reason else ''}")
        leave(status)

    def finish(self) -> None:
        self._finished = True
        self.ranks.finish(self.rank)


def run(size: int, function: Callable[[Job], Any]) -> list[BaseException | None]:
    """Call function(job) in a thread for each rank; the error that ended it, or None, for each.

    In such a thread, and in those that it starts, `current()` is that job. What function(job) returns is
    not kept.
    """
    ranks = Ranks(size)

    def one(job: ThreadJob) -> None:
        by_thread.job = job
        try:
            function(job)
        except BaseException as error:
            job.error = error
        job.exit()
        job.over()

    threads = [threading.Thread(target=one, args=(job,), name=f"rank {job.rank}", daemon=True) for job in ranks.jobs]
    with _inherited():
        begun = []
        for job, thread in zip(ranks.jobs, threads, strict=True):
            try:
                thread.start()
            except (RuntimeError, MemoryError) as error:  # no more threads: the ranks that run hear of it
                job.error = error
                job.over()
            else:
                begun.append(thread)
        for thread in begun:
            join(thread)
    return [job.error for job in ranks.jobs]


class _inherited:
    """While it lasts, a thread that a rank starts belongs to that rank."""

    _lock = new_lock()
    _users = 0
    _plain: Any = None

    def __enter__(self) -> None:
        kind = type(self)
        with self._lock:
            kind._users += 1
            if kind._users == 1:
                kind._plain = threading.Thread.start
                threading.Thread.start = _start_for_rank  # type: ignore[method-assign, assignment]

    def __exit__(self, *_: object) -> None:
        kind = type(self)
        with self._lock:
            kind._users -= 1
            if kind._users == 0:
                threading.Thread.start = kind._plain  # type: ignore[method-assign]


def _start_for_rank(thread: threading.Thread) -> None:
    job = getattr(by_thread, "job", None)
    if job is not None:
        run = thread.run

        def run_for_rank() -> None:
            by_thread.job = job
            run()

        thread.run = run_for_rank  # type: ignore[method-assign]
    _inherited._plain(thread)
