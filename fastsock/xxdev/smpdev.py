"""smpdev: ranks are threads of one process, as MPJ Express's first shared-memory device.

The second of sender and receiver to come copies the message once from the one's memory to the other's.

    from fastsock.xxdev import smpdev

    def rank(device):
        ...

    smpdev.run(4, rank)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from ..system.forkable import new_lock
from . import job as jobs
from . import settings
from .device import Device
from .errors import Code, failed
from .job import threads
from .networked import new_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_lock = new_lock()


class _Company:
    """The ranks of one process: the engines of those that run, and how often each rank has finished."""

    def __init__(self, ranks: threads.Ranks) -> None:
        self.engines: dict[int, Any] = {}
        self.finished = [0] * len(ranks.jobs)
        ranks.on_finish.append(self.over)

    def over(self, rank: int) -> None:
        """That rank has run to its end, and may never have begun on this device."""
        with _lock:
            for engine in self.engines.values():
                engine.left(rank)


_companies: weakref.WeakKeyDictionary[threads.Ranks, _Company] = weakref.WeakKeyDictionary()


class Smpdev(Device):
    """Messages between threads of one process."""

    name = "smpdev"

    def init(self, args: Any = None) -> list[int]:
        """Joins the ranks of the calling thread, or those of the ThreadJob `args`."""
        if self.engine is not None:
            raise failed(Code.ARGUMENT, "smpdev: init() was called before")
        job = jobs.current() if args is None else args
        if not isinstance(job, threads.ThreadJob):
            if job.size > 1:
                what = f"smpdev: rank {job.rank} of {job.size} is a process of its own"
                raise failed(Code.ARGUMENT, f"{what}: start the ranks by smpdev.run(), or use iodev")
            job = threads.Ranks(1).jobs[0]
        self.job = job
        self.engine = engine = new_engine(job, settings.current())
        with _lock:
            company = _companies.get(job.ranks)
            if company is None:
                company = _companies[job.ranks] = _Company(job.ranks)
            for rank, other in company.engines.items():
                engine.attach_local(rank, other)
                other.attach_local(job.rank, engine)
            company.engines[job.rank] = engine
            for rank, times in enumerate(company.finished):
                if times > company.finished[job.rank] or rank in job.ranks.finished:  # before this rank began
                    engine.left(rank)
        job.on_failure(engine.fail)
        self._finish_at_exit()
        return list(range(job.size))

    def finish(self) -> None:
        """Ends this rank's part. Its messages are delivered first. May be called twice."""
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.leave(timeout=-1)  # a rank that begins meanwhile still gets what was sent to it
            with _lock:
                company = _companies[self.job.ranks]
                company.engines.pop(self.job.rank, None)
                company.finished[self.job.rank] += 1
            engine.close(timeout=-1)
            self._close_outside()


def run(size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Runs `function(device, ...)` in one thread for each rank; what each returned, in the order of ranks.

    A rank that raises has failed: the others' calls that need it raise XxdevError. Once all have ended, the exception
    of the first one that raised is raised here.
    """
    results: list[Any] = [None] * size
    raised: list[BaseException] = []

    def rank(job: jobs.Job) -> None:
        device = Smpdev()
        try:
            device.init(job)
            results[job.rank] = function(device, *arguments)
            device.finish()
        except BaseException as error:
            raised.append(error)
            raise

    errors = threads.run(size, rank)
    for error in (*raised, *errors):  # a thread that could not start has raised nothing
        if error is not None:
            raise error
    return results
