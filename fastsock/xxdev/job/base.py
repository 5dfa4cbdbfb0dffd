"""What a rank knows of its job."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys

from ...system.originals import originals
from . import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


class JobError(RuntimeError):
    """The job cannot go on, or not do this: the text says why."""


class Job:
    """A rank's view of the job: who it is, where the others are, what they published, which of them have died.

    Of one rank alone; the subclasses reach others.
    """

    launcher = "singleton"  # who started the ranks
    keeps_going = False  # without ranks that failed

    def __init__(self, rank: int, size: int, name: str, secret: bytes) -> None:
        self.rank, self.size, self.name, self.secret = rank, size, name, secret
        self.host = identity.of_this_process()
        self.device: str | None = os.environ.get("FASTSOCK_MPJ_DEVICE") or None
        self.failed: dict[int, str] = {}
        self._published: dict[str, bytes] = {}
        self._finished = False
        self._process = originals.getpid()
        self._exit_functions: list[Callable[[], None]] = []
        self._hearers: list[Callable[[bytes], None]] = []
        self.error: BaseException | None = None
        """What ended the rank, where the interpreter does not tell of it."""

    @property
    def hosts(self) -> list[str]:
        """Identity of the host of each rank: those with the same one share memory. Waits until all have joined."""
        return [self.host]

    @property
    def hostnames(self) -> list[str]:
        """Name of the host of each rank. Waits until all have joined."""
        return [identity.host_name()]

    @property
    def pids(self) -> list[int]:
        """Process of each rank, in the numbers of its own host. Waits until all have joined."""
        return [os.getpid()]

    @property
    def local_ranks(self) -> list[int]:
        """The ranks on this rank's host, this one too, in order. Waits until all have joined."""
        return [rank for rank, host in enumerate(self.hosts) if host == self.host]

    @property
    def crowded(self) -> bool:
        """Whether the ranks of this host have fewer cores than they are, also where each is bound to some of them.

        Waits until all have joined.
        """
        local = self.local_ranks
        cores = os.sched_getaffinity(0)
        if len(local) > len(cores):
            pids = self.pids
            for rank in local:
                with contextlib.suppress(OSError):  # it has ended already
                    cores |= os.sched_getaffinity(pids[rank])
        return len(local) > len(cores)

    @property
    def interface(self) -> str:
        """The IP on which this rank can be reached by all others, to listen on and to announce."""
        return "127.0.0.1"

    def announce(self, ip: str, port: int) -> None:
        """Publish where this rank listens."""
        self.publish(f"address/{self.rank}", f"{port} {ip}".encode())

    def address_of(self, rank: int, timeout: float | None = None) -> tuple[str, int]:
        """Where that rank listens; waits until it has announced that. Raises JobError, TimeoutError."""
        port, _, ip = self.lookup(f"address/{rank}", timeout, of=rank).decode().partition(" ")
        return ip, int(port)

    def publish(self, key: str, value: bytes) -> None:
        """Let all ranks look the value up."""
        self._published[key] = bytes(value)

    def lookup(self, key: str, timeout: float | None = None, *, of: int | None = None) -> bytes:
        """What some rank published; waits for it. Raises TimeoutError, and JobError when rank `of` dies meanwhile."""
        try:
            return self._published[key]
        except KeyError:
            raise JobError(f"nothing is published as {key!r}, and no other rank is there to do it") from None

    def fence(self) -> None:
        """Wait until every rank that still lives is here. Raises JobError when one dies meanwhile."""

    def on_failure(self, callback: Callable[[int, str], None]) -> None:
        """Call back once for each rank that dies: its number and a text that names it. Also for those dead already.

        From another thread, or from within this call.
        """

    def broadcast(self, value: bytes) -> None:
        """Let all ranks that live hear a value, this one too: all of them or none, and each in the same order."""
        self._heard_all(value)

    def on_broadcast(self, callback: Callable[[bytes], None]) -> None:
        """Call back with each value that is broadcast from now on. From another thread, or from within a broadcast."""
        self._hearers.append(callback)

    def _heard_all(self, value: bytes) -> None:
        for callback in list(self._hearers):
            callback(value)

    def failure_text(self, rank: int, patience: float = 0.3) -> str | None:
        """How that rank died, in words, or None; waits a moment where that is still to be told."""
        return self.failed.get(rank)

    def has_finished(self, rank: int) -> bool:
        """Whether that rank, which does not answer, has said goodbye. Waits a moment where that is still to be told."""
        return False

    def crashed(self) -> str | None:
        """The uncaught exception by which this process is ending, in words, or None. Then wait for nobody."""
        error = self.error
        if error is None and not hasattr(sys, "ps1"):  # an interactive session goes on after errors
            error = getattr(sys, "last_value", None)  # set before exit functions run
        if error is None:
            return None
        return f"ended by an uncaught {type(error).__name__}: {str(error)[:200]}"

    def at_exit(self, callback: Callable[[], None]) -> None:
        """Call back when this rank has run to its end, before `finish`: last registered, first called."""
        self._exit_functions.append(callback)

    def exit(self) -> None:
        """Calls the functions registered for the rank's end. An error there becomes the rank's."""
        while self._exit_functions:
            try:
                self._exit_functions.pop()()
            except BaseException as error:
                self.error = self.error or error

    def over(self) -> None:
        """The rank has run to its end, or to the error that `crashed` tells."""

    def abort(self, status: int = 1, reason: str = "") -> NoReturn:
        """End all ranks now, this one included."""
        print_line(f"rank {self.rank} aborted the job{f': {reason}' if reason else ''}")
        leave(status)

    def finish(self) -> None:
        """Say goodbye: from now on the end of this process is no death. Idempotent."""
        self._finished = True


_of_program: list[Job] = []


def ends_with_program(job: Job) -> None:
    """The end of this process is that of the rank. A forked child is no rank."""
    _of_program.append(job)


@atexit.register  # now: what the program registers later may still use the rank, and runs before
def _end_of_program() -> None:
    for job in _of_program:
        if job._process != originals.getpid():
            continue
        job.exit()
        job.over()
        if job.error is not None:
            raise job.error


def print_line(text: str) -> None:
    """One line for the user."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # nobody reads it, or it is closed
        sys.stderr.write(f"fastsock.mpj: {text}\n")
        sys.stderr.flush()


def leave(status: int) -> NoReturn:
    """End this process at once. Its output is flushed first."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(status & 0xFF or (1 if status else 0))
