"""A rank that has joined a wire-up server: one control connection, and a thread that hears what comes by it."""

from __future__ import annotations

import _socket
import contextlib
import os
import threading

from ... import config
from ...system.originals import originals
from ...system.starting import start_without_signals
from .. import hello
from . import addresses, frames, identity
from .base import Job, JobError, ends_with_program, leave, print_line
from .server import ROLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

_ABORT_SECONDS = 5.0  # how long the server may take to end everybody, before this rank ends alone
_GOODBYE_SECONDS = 5.0
_CRASH_SECONDS = 1.0
_PIECE = 1 << 16
_WATCHING = ("fastsock", "hydra", "openmpi")  # launchers that end all ranks when one of them fails


def start_seconds() -> float:
    """How long a rank tries to reach the wire-up server, and waits for ranks that nobody watches over."""
    return config.duration("FASTSOCK_MPJ_START_TIMEOUT", os.environ.get("FASTSOCK_MPJ_START_TIMEOUT") or "120")


class WiredJob(Job):
    """Joins in its constructor. Raises WireupError."""

    def __init__(
        self,
        rank: int,
        size: int,
        name: str,
        secret: bytes,
        servers: Sequence[str],
        *,
        launcher: str,
        interface: str | None = None,
        hosted: Callable[[], None] | None = None,
    ) -> None:
        """`hosted`: the server runs in this process, and this stops it once nobody needs it."""
        super().__init__(rank, size, name, secret)
        self.launcher = launcher
        self._interface = interface
        self._hosted = hosted
        self._state = threading.Condition()
        self._sending = threading.Lock()
        self._table: list[tuple[str, str, int]] | None = None
        self._outward = ""
        self._asked: set[str] = set()
        self._left: set[int] = set()
        self._fences_sent = self._fences_passed = 0
        self._acknowledged = False
        self._gone: str | None = None  # why the control connection is over
        self.keeps_going = False  # without ranks that failed
        self._callbacks: list[Callable[[int, str], None]] = []
        self._on_finish: list[Callable[[], None]] = []
        self._reader = frames.Reader()
        self._sock = self._join(servers)
        try:
            start_without_signals(threading.Thread(target=self._listen, name="fastsock wire-up", daemon=True))
        except BaseException:  # the server must not believe that this rank takes part
            self._sock.close()
            raise
        ends_with_program(self)
        os.register_at_fork(after_in_child=self._forked)

    def _join(self, servers: Sequence[str]) -> addresses.Raw:
        def greet(stream: addresses.Raw, seconds: float) -> None:
            hello.connect(
                stream,
                secret=self.secret,
                job=self.name,
                rank=self.rank,
                peer=hello.SERVER,
                role=ROLE,
                timeout=seconds,
            )
            process, host = str(originals.getpid()).encode(), identity.host_name().encode()
            stream.sendall(frames.pack(frames.JOIN, self.host.encode(), host, process))

        try:
            return addresses.connect(servers, start_seconds(), self.launcher != "fastsock", greet)
        except OSError as error:
            raise addresses.WireupError(
                f"rank {self.rank} of job {self.name} ({self.launcher}) cannot join the others by their wire-up "
                f"server: {error}"
            ) from None

    # ---- what the server told ----

    @property
    def hosts(self) -> list[str]:
        return [host for host, _, _ in self._wait_for_table()]

    @property
    def hostnames(self) -> list[str]:
        return [name for _, name, _ in self._wait_for_table()]

    @property
    def pids(self) -> list[int]:
        return [process for _, _, process in self._wait_for_table()]

    @property
    def interface(self) -> str:
        if self._interface:
            return self._interface
        own = self._sock.getsockname()
        if isinstance(own, tuple) and not own[0].startswith("127."):
            return str(own[0])
        if all(host == self.host for host in self.hosts):
            return "127.0.0.1"
        if not self._outward:
            raise JobError(
                f"rank {self.rank} does not know by which of its addresses other hosts reach it; "
                "set FASTSOCK_MPJ_INTERFACE to that IP"
            )
        return self._outward

    def _wait_for_table(self) -> list[tuple[str, str, int]]:
        # A launcher tells when a rank cannot start; without one only time can.
        patience = None if self.launcher in _WATCHING else start_seconds()
        deadline = None if patience is None else originals.monotonic() + patience
        with self._state:
            while self._table is None:
                self._check_alive("the other ranks to join")
                for reason in () if self.keeps_going else self.failed.values():
                    raise JobError(f"not all ranks have joined: {reason}")
                if deadline is not None and originals.monotonic() > deadline:
                    raise JobError(
                        f"not all of the {self.size} ranks have joined within {patience:g} s; where they start one "
                        "after the other, set FASTSOCK_MPJ_START_TIMEOUT to more seconds"
                    )
                self._state.wait(None if deadline is None else max(0.01, deadline - originals.monotonic()))
            return self._table

    def publish(self, key: str, value: bytes) -> None:
        self._send(frames.PUT, key.encode(), bytes(value))

    def lookup(self, key: str, timeout: float | None = None, *, of: int | None = None) -> bytes:
        deadline = None if timeout is None else originals.monotonic() + timeout
        with self._state:
            ask = key not in self._published and key not in self._asked
            self._asked.add(key)
        if ask:
            self._send(frames.GET, key.encode())
        with self._state:
            while key not in self._published:
                if of is not None and of in self.failed:
                    raise JobError(self.failed[of])
                self._check_alive(f"{key!r} to be published")
                left = None if deadline is None else deadline - originals.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"no rank has published {key!r} within {timeout:g} s")
                self._state.wait(left)
            return self._published[key]

    def fence(self) -> None:
        with self._state:
            self._fences_sent += 1
            mine = self._fences_sent
            dead = len(self.failed)
        self._send(frames.FENCE)
        with self._state:
            while self._fences_passed < mine:
                self._check_alive("the other ranks at a fence")
                if len(self.failed) > dead:
                    raise JobError(f"a fence cannot be passed: {list(self.failed.values())[-1]}")
                self._state.wait()

    def on_failure(self, callback: Callable[[int, str], None]) -> None:
        with self._state:
            self._callbacks.append(callback)
            known = list(self.failed.items())
        for rank, reason in known:
            callback(rank, reason)

    def broadcast(self, value: bytes) -> None:
        self._send(frames.BROADCAST, value)

    def failure_text(self, rank: int, patience: float = 0.3) -> str | None:
        with self._state:
            self._state.wait_for(lambda: rank in self.failed or self._gone is not None, patience)
            return self.failed.get(rank)

    def has_finished(self, rank: int, patience: float = 2.0) -> bool:
        with contextlib.suppress(JobError):
            self._send(frames.ASK, b"%d" % rank)
        with self._state:
            self._state.wait_for(lambda: rank in self._left or rank in self.failed or self._gone is not None, patience)
            return rank in self._left

    def _check_alive(self, awaited: str) -> None:
        if self._gone is not None:
            raise JobError(f"rank {self.rank} waits for {awaited} in vain: {self._gone}")

    # ---- leaving ----

    def abort(self, status: int = 1, reason: str = "") -> NoReturn:
        print_line(f"rank {self.rank} aborted the job with status {status}{f': {reason}' if reason else ''}")
        with contextlib.suppress(OSError, JobError):
            self._send(frames.ABORT, b"%d" % status, reason.encode())
            with self._state:
                self._state.wait_for(lambda: self._gone is not None, _ABORT_SECONDS)
        leave(status)

    def finish(self) -> None:
        with self._state:
            if self._finished or self._process != originals.getpid():
                return
            self._finished = True
        with contextlib.suppress(OSError, JobError):
            self._send(frames.FINISH)
            with self._state:
                self._state.wait_for(lambda: self._acknowledged or self._gone is not None, _GOODBYE_SECONDS)
        if self._hosted is not None:
            self._hosted()
        for callback in self._on_finish:
            callback()

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Call back at the end of `finish`."""
        self._on_finish.append(callback)

    def over(self) -> None:
        if self._finished or self._process != originals.getpid():
            return
        error = self.crashed()
        if error is None:
            self.finish()
            return
        self._finished = True  # whatever becomes of the connection is no news to this rank
        with contextlib.suppress(OSError, JobError):
            self._send(frames.CRASH, error.encode())
            with self._state:  # all others have been told then
                self._state.wait_for(lambda: self._gone is not None, _CRASH_SECONDS)

    def _forked(self) -> None:
        # The rank is the parent. Its end must be seen, so the child keeps no descriptor of the connection.
        if self._process != originals.getpid():
            self._sock.close()
            self._gone = "this process is a child of the rank"

    # ---- the connection ----

    def _send(self, kind: int, *strings: bytes) -> None:
        data = frames.pack(kind, *strings)
        try:
            with self._sending:
                self._sock.sendall(data)
        except OSError as error:
            raise JobError(f"rank {self.rank} has lost the wire-up server: {self._gone or error}") from None

    def _listen(self) -> None:
        reason = "the connection to the wire-up server is over"
        try:
            while True:
                data = self._sock.recv(_PIECE)
                if not data:
                    break
                for kind, strings in self._reader.feed(data):
                    self._heard(kind, strings)
        except (OSError, frames.FrameError) as error:
            reason = f"the connection to the wire-up server failed: {error}"
        self._lost(reason)
        self._sock.close()

    def _heard(self, kind: int, strings: list[bytes]) -> None:
        if kind == frames.FAILED:
            self._fail(frames.number(strings[0]), frames.text(strings[1]))
            return
        if kind == frames.BROADCAST:
            self._heard_all(strings[0])
            return
        if kind == frames.ABORTED:
            self._aborted(frames.number(strings[0]), frames.number(strings[1]), frames.text(strings[2]))
            return
        with self._state:
            if kind == frames.KEEP_GOING:
                self.keeps_going = True
            elif kind == frames.VALUE:
                self._published[frames.text(strings[0])] = strings[1]
            elif kind == frames.LEFT:
                self._left.add(frames.number(strings[0]))
            elif kind == frames.FENCED:
                self._fences_passed += 1
            elif kind == frames.FINISHED:
                self._acknowledged = True
            elif kind == frames.TABLE:
                self._outward = frames.text(strings[0])
                hosts, names, processes = strings[1::3], strings[2::3], strings[3::3]
                self._table = [
                    (frames.text(host), frames.text(name), frames.number(process))
                    for host, name, process in zip(hosts, names, processes, strict=True)
                ]
            self._state.notify_all()

    def _fail(self, rank: int, reason: str) -> None:
        with self._state:
            if rank in self.failed or rank == self.rank:  # of its own end this rank knows
                return
            self.failed[rank] = reason
            callbacks = list(self._callbacks)
            self._state.notify_all()
        for callback in callbacks:
            callback(rank, reason)

    def _aborted(self, rank: int, status: int, reason: str) -> None:
        if rank < 0:
            print_line(f"rank {self.rank} was refused: {reason}")
        elif rank != self.rank and self.launcher != "fastsock":  # the runner tells it itself
            print_line(f"rank {self.rank} ends because rank {rank} aborted the job{f': {reason}' if reason else ''}")
        leave(status)

    def _lost(self, reason: str) -> None:
        with self._state:
            self._gone = reason
            self._state.notify_all()
        if self._finished:
            return
        if self.launcher == "fastsock":
            print_line(f"rank {self.rank} ends: the runner that started it is gone ({reason})")
            leave(1)
        if self._hosted is None:
            who = f" (host {self._table[0][1]}, pid {self._table[0][2]})" if self._table else ""
            self._fail(0, f"rank 0{who} ended, or its link was cut, without finishing: {reason}")

    def close(self) -> None:
        """Drop the connection, as a death does: for tests."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(_socket.SHUT_RDWR)
