"""The system's calls and its clock as they are, whatever a test tool puts in their place.

freezegun and pyfakefs replace a function in every loaded module that has it. blockbuster and mock replace it in the
module that it comes from. time-machine replaces it behind the name itself. A meeting must end all the same, and a file
be opened. So fastsock takes the calls at its import, from a place where none of these tools looks. It keeps them in a
class, where none looks either.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal turns its constants into enumerations, which is slow
import errno
import functools
import io
import sys
import time
from _thread import RLock

from .. import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


if sys.platform == "linux":
    import fcntl
    import posix  # os copies its functions from there
    import resource
    import select
else:
    from .other_systems import fcntl, posix, resource, select

if not hasattr(select, "epoll"):
    raise ImportError("select.epoll is gone: import fastsock before gevent.monkey.patch_all(), which takes it away")


def _missing(*_: object) -> Any:
    raise OSError(errno.ENOSYS, posix.strerror(errno.ENOSYS))


class originals:
    """A place for names, never instantiated."""

    close = staticmethod(posix.close)
    dup = staticmethod(posix.dup)
    dup2 = staticmethod(posix.dup2)
    eventfd = staticmethod(posix.eventfd)
    eventfd_read = staticmethod(posix.eventfd_read)
    eventfd_write = staticmethod(posix.eventfd_write)
    F_DUPFD_CLOEXEC = fcntl.F_DUPFD_CLOEXEC
    F_GETFL = fcntl.F_GETFL
    F_SETFL = fcntl.F_SETFL
    ioctl: staticmethod[[int, int, bytes], bytes] = staticmethod(fcntl.ioctl)
    fcntl = staticmethod(fcntl.fcntl)
    fstat = staticmethod(posix.fstat)
    get_blocking = staticmethod(posix.get_blocking)
    get_inheritable = staticmethod(posix.get_inheritable)
    geteuid = staticmethod(posix.geteuid)
    getpid = staticmethod(posix.getpid)
    getrlimit = staticmethod(resource.getrlimit)
    kill = staticmethod(posix.kill)
    lseek = staticmethod(posix.lseek)
    open = staticmethod(posix.open)
    pipe2 = staticmethod(posix.pipe2)
    preadv = staticmethod(posix.preadv)
    read = staticmethod(posix.read)
    readlink = staticmethod(posix.readlink)
    set_inheritable = staticmethod(posix.set_inheritable)
    stat = staticmethod(posix.stat)
    strerror = staticmethod(posix.strerror)
    uname = staticmethod(posix.uname)
    urandom = staticmethod(posix.urandom)
    write = staticmethod(posix.write)
    # a Python that was built with old headers has neither
    pidfd_open: staticmethod[[int], int] = staticmethod(getattr(posix, "pidfd_open", _missing))
    pidfd_send_signal: staticmethod[[int, int], None] = staticmethod(getattr(_signal, "pidfd_send_signal", _missing))

    epoll = staticmethod(select.epoll)
    poll = staticmethod(select.poll)
    sleep = staticmethod(time.sleep)
    RLock = staticmethod(RLock)
    open_file = staticmethod(io.open)

    # Tools that move the clock leave the one that is asked for by its number, or know its number.
    monotonic: staticmethod[[], float] = staticmethod(
        core.monotonic
        if core.available
        else functools.partial(time.clock_gettime, time.CLOCK_MONOTONIC)
        if sys.platform == "linux"
        else time.monotonic
    )
