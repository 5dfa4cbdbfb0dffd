"""The job that this process is a rank of: `current()` finds out who launched it, and joins the other ranks.

own, by_hand, hydra, openmpi, slurm, torchrun, kubernetes, singleton, threads
                      a launcher each: which environment tells of it, and how its ranks find rank 0
base, identity        what a rank knows of its job; what tells hosts apart
server, client        the wire-up server, and a rank that has joined one; hosting: the server in rank 0
frames, addresses     what goes over their connections, and where a server listens
pmi1, pmix            the protocols of other process managers
loop                  the event loop of the server and of the runner

The devices, mpj and fastsock.testing import it. Tests: tests/xxdev/test_job.py, test_launchers.py,
test_process_managers.py.
"""

from __future__ import annotations

import os
import threading
from importlib import import_module

from ...system.forkable import new_lock
from .base import Job, JobError

__all__ = ["Job", "JobError", "current", "joined"]

JOINED = "FASTSOCK_MPJ_JOINED"  # in the environment of a rank's children: these are no ranks themselves

# The most specific first: a launcher may itself have been started by another.
_ENVIRONMENTS = ("own", "by_hand", "hydra", "openmpi", "slurm", "torchrun", "kubernetes")

_lock = new_lock()
_job: Job | None = None
_process = 0
by_thread = threading.local()  # .job: of a thread that is a rank by itself


def current() -> Job:
    """The Job of this process, or of this thread where threads are ranks. The first call joins the other ranks.

    Raises WireupError (a ConnectionError), which tells what to do.
    """
    global _job, _process
    own: Job | None = getattr(by_thread, "job", None)
    if own is not None:
        return own
    with _lock:
        if _job is None or _process != os.getpid():  # a forked child is no rank
            _job, _process = _start(), os.getpid()
        return _job


def joined() -> Job | None:
    """What `current()` gave before in this process or thread, if it was called."""
    return getattr(by_thread, "job", None) or (_job if _process == os.getpid() else None)


def _start() -> Job:
    from . import singleton

    for name in _ENVIRONMENTS:
        environment = import_module(f"{__name__}.{name}")
        identity = environment.detect(os.environ)
        if identity is None:
            continue
        identity = f"{name} {identity}"
        if os.environ.get(JOINED) == identity:  # the rank is an ancestor of this process
            break
        job: Job = environment.start(os.environ)
        os.environ[JOINED] = identity
        return job
    return singleton.start()
