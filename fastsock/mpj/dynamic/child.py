"""The jobs that this rank has spawned. Each has a runner of its own, a child of this process."""

from __future__ import annotations

import _socket
import contextlib
import json
import os
import select
import signal
import struct
import sys
import threading

from fastsock.system.forkable import new_lock
from fastsock.system.originals import originals
from fastsock.system.starting import start_without_signals
from fastsock.xxdev.job.base import print_line

from .. import search_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LENGTH = struct.Struct("!I")
_GRACE_SECONDS = 2.0  # between the failure of a spawned rank and the end of the job that spawned it
_CODE = "import sys; sys.path.append({root!r}); from fastsock.mpj.runner import spawned; spawned.main()"
LET_GO = b"."


class Child:
    """One spawned job, and the process that runs it."""

    def __init__(self, world: Any, asked: dict[str, Any], on_end: Callable[[], None]) -> None:
        """`asked`: what runner/spawned.py reads. `on_end`: called by another thread. Raises OSError."""
        self.world = world
        self.job: str | None = None  # the identity of the spawned job
        self._known = threading.Event()
        self.status: int | None = None
        self._on_end = on_end
        self._ended = threading.Event()
        self._reaping = new_lock()
        self._ours, theirs = _socket.socketpair()
        with contextlib.closing(theirs):
            code = _CODE.format(root=search_path.ROOT)
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-c", code],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)],
            )
        self._watch = originals.pidfd_open(self.pid)
        data = json.dumps(asked | {"parent_pid": originals.getpid(), "runner_pid": os.getppid()}).encode()
        with contextlib.suppress(OSError):  # its end says why
            self._ours.sendall(_LENGTH.pack(len(data)) + data)
        start_without_signals(threading.Thread(target=self._await_end, name="fastsock-child", daemon=True))

    def has_joined(self, job: str) -> None:
        """Its ranks share a communicator with those that spawned it."""
        self.job = job
        self.world.children.append(self)
        self._known.set()

    def give_up(self) -> None:
        """Nobody will share a communicator with its ranks: they end."""
        with self._reaping:  # later the number may be another's
            if self.status is None:
                originals.kill(self.pid, signal.SIGTERM)
        self._ours.close()
        self._known.set()

    def failure(self) -> str:
        """Why the job could not start, in words. Waits for its end."""
        self._ended.wait()
        text = b""
        with contextlib.suppress(OSError):
            while part := self._ours.recv(4096):
                text += part
        self._ours.close()
        self._known.set()
        return text.decode("utf-8", "replace") or f"its ranks ended with status {self.status} before they called Init"

    def let_go(self) -> None:
        """From now on neither's death ends the other. Idempotent."""
        with contextlib.suppress(OSError):  # it has ended
            self._ours.send(LET_GO)
        self._ours.close()

    def wait(self) -> None:
        """Until its runner has ended."""
        self._ended.wait()

    def _await_end(self) -> None:
        poller = originals.poll()
        poller.register(self._watch, select.POLLIN)
        poller.poll()
        originals.close(self._watch)
        with self._reaping:
            try:
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:  # the program waits for all its children, so it has the status
                self.status = 0
        self._ended.set()
        self._on_end()
        self._known.wait()
        if self.job is None:
            return
        if self.status and self._is_connected():
            self._fail()
        self.world.children.remove(self)
        self._ours.close()

    def _is_connected(self) -> bool:
        """Whether its failure is to end the job of this rank."""
        return not self.world.job.keeps_going and not self.world.finalized and self.world.others.is_connected(self.job)

    def _fail(self) -> None:
        ended = threading.Event()
        self.world.job.at_exit(ended.set)
        if ended.wait(_GRACE_SECONDS) or not self._is_connected():
            return
        print_line(f"rank {self.world.rank} ends its job: ranks that it spawned have failed, and were not disconnected")
        assert self.status is not None
        self.world.job.abort(128 - self.status if self.status < 0 else self.status, "ranks that it spawned have failed")
