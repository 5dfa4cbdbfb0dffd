"""The runner's hand on another host: starts ranks there, passes on what they print, and ends with the runner.

Its standard input and output are the connection, made and authenticated by ssh. When the connection ends, for any
reason, the ranks end too.
"""

from __future__ import annotations

import os
import signal

from ...xxdev.job import addresses, frames, own
from ...xxdev.job.loop import Loop
from . import wire
from .local import LocalRanks
from .stdin import Pipe

_PIECE = 1 << 16
_OUTPUT_SECONDS = 1.0


class Agent:
    """Serves one runner."""

    def __init__(self) -> None:
        # Nothing that a library may print must get between the frames.
        self._input, self._output = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.set_blocking(self._input, False)
        self._nothing = nothing
        self._loop = Loop()
        self._reader = frames.Reader()
        self._ranks = LocalRanks(self._loop, self._exited, self._printed)
        self._directory: str | None = None
        self._command: list[str] = []
        self._environ: dict[str, str] = {}
        self._feed: Pipe | None = None  # where rank 0 reads from
        self._started = self._over = False
        self._wakeup = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self) -> None:
        """Until the ranks have ended, or the runner has."""
        self._loop.watch(self._wakeup[0], self._signalled)
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self._loop.watch(self._input, lambda _: self._read())
        os.write(self._output, wire.MAGIC)
        while not self._over and (self._ranks.pids or not self._started):
            self._loop.step()
        if self._over:
            self._ranks.signal(signal.SIGKILL)
            return
        self._loop.after(_OUTPUT_SECONDS, self._end)
        while self._ranks.streams and not self._over:
            self._loop.step()

    def _end(self) -> None:
        self._over = True

    def _signalled(self, _: int) -> None:
        for number in os.read(self._wakeup[0], 4096):
            if number == signal.SIGCHLD:
                self._ranks.reap()
            else:
                self._over = True

    def _send(self, kind: int, *strings: bytes) -> None:
        view = memoryview(frames.pack(kind, *strings))
        try:
            while view:
                view = view[os.write(self._output, view) :]
        except OSError:
            self._over = True

    def _exited(self, rank: int, pid: int, status: int) -> None:
        self._send(wire.EXITED, b"%d" % rank, b"%d" % pid, b"%d" % status)

    def _printed(self, rank: int, stream: int, data: bytes) -> None:
        self._send(wire.OUTPUT, b"%d" % rank, b"%d" % stream, data)

    # ---- what the runner wants ----

    def _read(self) -> None:
        try:
            data = os.read(self._input, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._over = True
            return
        try:
            for kind, strings in self._reader.feed(data):
                self._do(kind, strings)
        except (frames.FrameError, OSError) as error:
            self._send(wire.FAILURE, str(error).encode())
            self._over = True

    def _do(self, kind: int, strings: list[bytes]) -> None:
        if kind == wire.START:
            self._prepare(strings)
        elif kind == wire.RANK:
            self._start(strings)
        elif kind == wire.STDIN:
            if self._feed is not None:
                self._feed.feed(strings[0])
        elif kind == wire.SIGNAL:
            self._ranks.signal(frames.number(strings[0]))

    def _prepare(self, strings: list[bytes]) -> None:
        directory, count = frames.text(strings[0]), frames.number(strings[1])
        self._command = [os.fsdecode(word) for word in strings[2 : 2 + count]]
        self._environ = dict(os.environ) | wire.environment(strings[2 + count :])
        self._environ[own.SERVERS] = self._servers(self._environ[own.SERVERS])
        self._directory = directory if os.path.isdir(directory) else None

    @staticmethod
    def _servers(known: str) -> str:
        """Where the runner does not know by which IP this host reaches it, ssh does."""
        client = os.environ.get("SSH_CONNECTION", "").split(" ")[0]
        port = known.rpartition(":")[2]
        return known if "tcp:?" not in known or not client else addresses.tcp(client, int(port))

    def _start(self, strings: list[bytes]) -> None:
        rank = frames.number(strings[0])
        reads = self._nothing
        if strings[-1] == b"stdin":
            del strings[-1]
            self._feed = Pipe(self._loop)
            self._feed.on_taken = lambda: self._send(wire.TAKEN)
            reads = self._feed.reads
        environ = self._environ | wire.environment(strings[1:])
        self._ranks.start(rank, self._command, environ, self._directory, reads)
        self._started = True
        if reads != self._nothing:
            os.close(reads)


def main() -> None:
    """Serve the runner at the other end of standard input and output."""
    Agent().run()
    os._exit(0)  # nothing is left to do that the end of the process does not do
