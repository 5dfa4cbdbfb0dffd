"""The ranks of another host, as the runner sees them: an agent there, at the other end of ssh."""

from __future__ import annotations

import os
import shlex
import sys

from ...xxdev.job import frames
from ...xxdev.job.loop import WRITE
from .. import search_path
from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...xxdev.job.loop import Loop
    from .local import LocalRanks

SSH = "FASTSOCK_MPJ_SSH"
_PIECE = 1 << 16
_OPTIONS = ("BatchMode=yes", "ConnectTimeout=20", "ServerAliveInterval=5", "ServerAliveCountMax=3")
# of this host or this session, so meaningless there
_OWN = ("HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "DISPLAY", "XAUTHORITY")
_OWN_PREFIXES = ("SSH_", "XDG_", "DBUS_")


class RemoteRanks:
    """on_exit(rank, host, pid, status); on_output as of LocalRanks; on_loss(ranks that ran there, reason)."""

    def __init__(
        self,
        loop: Loop,
        starter: LocalRanks,
        host: str,
        *,
        on_exit: Callable[[int, str, int, int], None],
        on_output: Callable[[int, int, bytes], None],
        on_loss: Callable[[list[int], str], None],
    ) -> None:
        """`starter` starts ssh, and tells ended() when it has ended."""
        self.host = host
        self._loop, self._starter = loop, starter
        self._on_exit, self._on_output, self._on_loss = on_exit, on_output, on_loss
        self._running: set[int] = set()
        self._reader = frames.Reader()
        self._begun = b""  # what came before the agent's first word
        self._met = False
        self._output = bytearray()
        self._to = self._from = -1
        self.on_taken: Callable[[], None] | None = None

    def start(
        self,
        number: int,
        command: Sequence[str],
        directory: str,
        environ: Mapping[str, str],
        ranks: Mapping[int, dict[str, str]],
        python: str,
    ) -> None:
        """Start the ranks, each with variables of its own. `number`: the name that the starter has for this ssh."""
        self._running = set(ranks)
        code = f"import sys; sys.path.append({search_path.ROOT!r}); from fastsock.mpj.runner import agent; agent.main()"
        asked = os.environ.get(SSH)
        ssh = shlex.split(asked) if asked else ["ssh", *(word for option in _OPTIONS for word in ("-o", option))]
        words = [*ssh, self.host, f"exec {shlex.quote(python)} -c {shlex.quote(code)}"]
        reads, self._to = os.pipe2(os.O_CLOEXEC)
        self._from, writes = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        self._starter.start_helper(number, words, os.environ, reads, writes)
        os.close(reads)
        os.close(writes)
        self._loop.watch(self._from, self._readable)
        sent = {name: value for name, value in environ.items() if not _is_own(name)}
        count = b"%d" % len(command)
        self._send(wire.START, directory.encode(), count, *map(os.fsencode, command), *wire.variables(sent))
        for rank, variables in ranks.items():
            last = [b"stdin"] if rank == 0 else []
            self._send(wire.RANK, b"%d" % rank, *wire.variables(variables), *last)

    def signal(self, number: int) -> None:
        """To all ranks there."""
        self._send(wire.SIGNAL, b"%d" % number)

    def feed(self, data: bytes) -> None:
        """Standard input for rank 0, if it runs there. `on_taken` is called when the input has been read."""
        self._send(wire.STDIN, data)

    def ended(self, status: int) -> None:
        """ssh has ended."""
        while self._from >= 0 and self._read():
            pass
        self._close()
        if self._running:
            lost = sorted(self._running)
            self._running.clear()
            how = f"signal {-status}" if status < 0 else f"status {status}"
            if self._met:
                reason = f"the connection to host {self.host} was lost (ssh ended with {how})"
            else:
                reason = f"host {self.host} could not be reached, or cannot run {sys.executable} (ssh ended with {how})"
            self._on_loss(lost, reason)

    def _send(self, kind: int, *strings: bytes) -> None:
        if self._to < 0:
            return
        self._output += frames.pack(kind, *strings)
        self._flush()

    def _flush(self, _: int = 0) -> None:
        try:
            del self._output[: os.write(self._to, self._output)]
        except BlockingIOError:
            pass
        except OSError:  # its end is told by ended()
            self._output.clear()
        if self._output:
            self._loop.watch(self._to, self._flush, WRITE)
        else:
            self._loop.forget(self._to)

    def _readable(self, _: int) -> None:
        self._read()

    def _read(self) -> bool:
        """Whether there was something."""
        try:
            data = os.read(self._from, _PIECE)
        except BlockingIOError:
            return False
        if not data:
            self._loop.forget(self._from)
            return False
        if not self._met:
            self._begun = (self._begun + data)[-_PIECE:]
            _, magic, data = self._begun.partition(wire.MAGIC)
            if not magic:
                return True
            self._met = True
        try:
            for kind, strings in self._reader.feed(data):
                self._heard(kind, strings)
        except frames.FrameError as error:
            self._lose(f"the agent on host {self.host} sent {error}")
        return True

    def _heard(self, kind: int, strings: list[bytes]) -> None:
        if kind == wire.EXITED:
            rank, pid, status = map(frames.number, strings)
            self._running.discard(rank)
            self._on_exit(rank, self.host, pid, status)
        elif kind == wire.OUTPUT:
            self._on_output(frames.number(strings[0]), frames.number(strings[1]), strings[2])
        elif kind == wire.TAKEN and self.on_taken is not None:
            self.on_taken()
        elif kind == wire.FAILURE:
            self._lose(f"host {self.host}: {frames.text(strings[0])}")

    def _lose(self, reason: str) -> None:
        lost = sorted(self._running)
        self._running.clear()
        self._close()
        self._on_loss(lost, reason)

    def _close(self) -> None:
        for descriptor in (self._to, self._from):
            if descriptor >= 0:
                self._loop.forget(descriptor)
                os.close(descriptor)
        self._to = self._from = -1


def _is_own(name: str) -> bool:
    return name in _OWN or name.startswith(_OWN_PREFIXES)
