"""The ranks of this host: started, fed, listened to, signalled, reaped."""

from __future__ import annotations

import contextlib
import os
import resource
import sys

from ... import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping, Sequence

    from ...xxdev.job.loop import Loop
else:
    import _signal as signal  # the module `signal` makes enumerations first, for which all ranks would wait

LOCAL = ""  # the name of this host where ranks are placed

_PIECE = 1 << 16
_CANNOT_RUN = 126
_NOT_FOUND = 127


class LocalRanks:
    """Children of this process, each in a process group of its own: only the runner gets the terminal's signals.

    on_exit(rank, pid, status as of os.waitstatus_to_exitcode); on_output(rank, 1 or 2, bytes; none at its end).
    """

    def __init__(
        self,
        loop: Loop,
        on_exit: Callable[[int, int, int], None],
        on_output: Callable[[int, int, bytes], None] | None,
    ) -> None:
        """Without `on_output` the ranks write where this process does."""
        self._loop, self._on_exit, self._on_output = loop, on_exit, on_output
        self.pids: dict[int, int] = {}  # of the living, by rank
        self._groups: set[int] = set()
        self.streams: set[int] = set()  # descriptors of output that has not ended
        self._limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(OSError, ValueError):  # each rank takes some descriptors here
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._limit[1], self._limit[1]))

    def start(
        self, rank: int, command: Sequence[str], environ: Mapping[str, str], directory: str | None, stdin: int
    ) -> None:
        """Start one rank that reads from the descriptor `stdin`. Raises OSError where no process can be made."""
        pipes = [os.pipe(), os.pipe()] if self._on_output else []
        outputs = [stdin, *(write for _, write in pipes)] if pipes else [stdin, 1, 2]
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._become(parent, command, environ, directory, outputs)
        with contextlib.suppress(OSError):  # it has done that itself, or is gone already
            os.setpgid(pid, pid)
        self.pids[rank] = pid
        self._groups.add(pid)
        for number, (read, write) in enumerate(pipes, 1):
            os.close(write)
            self._listen(rank, number, read)

    def start_helper(self, number: int, command: Sequence[str], environ: Mapping[str, str], *streams: int) -> None:
        """Start a process that is no rank: on_exit tells its end too, but signal() leaves it alone.

        It ends with this process as ranks do. `streams`: its standard input and output.
        """
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(parent, command, environ, None, [*streams, 2])
        self.pids[number] = pid

    def signal(self, number: int) -> None:
        """Send it to every process group that a rank leads, also where the rank itself has ended."""
        for group in self._groups:
            with contextlib.suppress(OSError):
                os.killpg(group, number)

    def kill(self, rank: int) -> None:
        """End that rank now, where it runs here."""
        if rank in self.pids:
            with contextlib.suppress(OSError):
                os.kill(self.pids[rank], signal.SIGKILL)

    def reap(self) -> None:
        """After SIGCHLD."""
        for rank, pid in list(self.pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self.pids[rank]
                if pid in self._groups and not _has_members(pid):  # the number may become somebody else's
                    self._groups.discard(pid)
                self._on_exit(rank, pid, os.waitstatus_to_exitcode(status))

    def _listen(self, rank: int, number: int, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.streams.add(descriptor)

        def ready(_: int) -> None:
            assert self._on_output is not None
            try:
                data = os.read(descriptor, _PIECE)
            except BlockingIOError:
                return
            if not data:
                self._loop.forget(descriptor)
                self.streams.discard(descriptor)
                os.close(descriptor)
            self._on_output(rank, number, data)

        self._loop.watch(descriptor, ready)

    def _become(
        self,
        parent: int,
        command: Sequence[str],
        environ: Mapping[str, str],
        directory: str | None,
        streams: Sequence[int],
    ) -> None:
        """In the child: never returns."""
        status = _CANNOT_RUN
        try:
            if core.available:  # else the end of its control connection ends an orphan that has joined
                core.end_with_parent(signal.SIGKILL)
            if os.getppid() != parent:  # it died before it could be told
                os._exit(1)
            # no session of its own: where the kernel schedules by session no rank can yield its core to another
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_NOFILE, self._limit)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, which an exec would hand on
                signal.signal(number, signal.SIG_DFL)
            for target, descriptor in enumerate(streams):
                os.dup2(descriptor, target, inheritable=True)
            if directory is not None:
                os.chdir(directory)
            os.execvpe(command[0], list(command), dict(environ))
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                status = _NOT_FOUND
            what = directory if directory is not None and error.filename == directory else command[0]
            os.write(2, f"fastsock.mpj.run: {what}: {error.strerror}\n".encode())
        finally:
            os._exit(status)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True
