"""Measures round trips and throughput of each path here, beside TCP's, in one run.

A child process echoes, on a core of its own where there are two. Paths take turns, so that other work
of the machine falls on all of them alike. A result is the median of the turns. A ratio is the median
of the turns' own ratios.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

TURNS = 5
PHASE_SECONDS = 0.02
MESSAGE_BYTES = 1 << 20
LONGEST_SECONDS = 20.0  # then the child is killed, and every wait for it ends
_HOST = "127.0.0.1"
# Settings of the user that would change the measurement, or print during it.
_SET_ASIDE = ("FASTSOCK_TRANSPORTS", "FASTSOCK_CONFIG", "FASTSOCK_STATS", "FASTSOCK_TRACE", "FASTSOCK_INSTALL")
_ATTACH_SECONDS = 2.0  # a busy machine must not make a path look as if it did not work


class Measured:
    """One path's result. ``transport`` is the path that the connection really took, ``reason`` says why.

    Times are microseconds, rates 10**9 bytes a second. Each list has one value a turn.
    """

    def __init__(self, name: str, transport: str, reason: str) -> None:
        self.name = name
        self.transport = transport
        self.reason = reason
        self.round_trips_us: list[float] = []
        self.gigabytes_per_second: list[float] = []

    @property
    def works(self) -> bool:
        return self.transport == self.name


def measure(names: Sequence[str]) -> list[Measured]:
    """Measure the named paths, each over its own connection to one child. Takes about a second.

    Meanwhile the calling thread stays on one core.

    Raises OSError if the child cannot be started or is lost.
    """
    with _two_cores() as its_core, _Partner(names, its_core) as partner:
        found = [Measured(name, *partner.connect(name)) for name in names]
        working = [index for index, each in enumerate(found) if each.works]
        counts = {index: _calibrate(partner, index) for index in working}
        for _ in range(TURNS):
            for index in working:
                trips = counts[index][0]
                found[index].round_trips_us.append(partner.ping(index, trips) / trips * 1e6)
            for index in working:
                messages = counts[index][1]
                seconds = partner.stream(index, messages)
                found[index].gigabytes_per_second.append(messages * MESSAGE_BYTES / seconds / 1e9)
    return found


def middle(values: Sequence[float]) -> float | None:
    """The median, or None where nothing was measured."""
    return median(values) if values else None


def ratio(these: Sequence[float], those: Sequence[float]) -> float | None:
    """The median of the turns' own ratios, or None where one of the two was not measured."""
    return middle([this / that for this, that in zip(these, those, strict=True)]) if these and those else None


@contextlib.contextmanager
def _two_cores() -> Iterator[int | None]:
    """Keep this thread on one core during the block, and give another one for the child, if there are two."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    mine, *others = sorted(usable)
    if not others:
        yield None
        return
    os.sched_setaffinity(0, {mine})
    try:
        yield others[0]
    finally:
        os.sched_setaffinity(0, usable)


def _calibrate(partner: _Partner, index: int) -> tuple[int, int]:
    """How many round trips, and how many messages, fill a phase on this path; warms it up as well."""
    partner.ping(index, 20)
    partner.stream(index, 2)
    trips = int(20 * PHASE_SECONDS / partner.ping(index, 20))
    messages = int(4 * PHASE_SECONDS / partner.stream(index, 4))
    return min(max(trips, 20), 20_000), min(max(messages, 2), 500)


class _Partner:
    """The child, and one connection to it for each path."""

    def __init__(self, names: Sequence[str], core: int | None) -> None:
        environ = {name: value for name, value in os.environ.items() if name not in _SET_ASIDE}
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (package, environ.get("PYTHONPATH"))))
        code = "from fastsock.doctor.measure import echo; echo()"
        self._child = subprocess.Popen(
            [sys.executable, "-c", code, str(core), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=environ,
        )
        self._timer = threading.Timer(LONGEST_SECONDS, self._child.kill)
        self._timer.daemon = True
        self._connections: list[Any] = []
        self._message = bytearray(MESSAGE_BYTES)

    def __enter__(self) -> _Partner:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        for connection in self._connections:
            connection.close()
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()

    def connect(self, name: str) -> tuple[str, str]:
        """Connect to the child with this path preferred; give the path taken and the reason."""
        from .. import attach, config, explain, socket

        before = config.settings()
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise ConnectionError("the child process that should echo has ended")
        config.configure(transports=(name,), rules=())
        try:
            connection = socket.create_connection((_HOST, int(line)))
            attach(connection, _ATTACH_SECONDS)
        finally:
            config.configure(transports=before.transports, rules=before.rules)
        self._connections.append(connection)
        explanation = explain(connection)
        return explanation.transport, explanation.reason

    def ping(self, index: int, count: int) -> float:
        """Seconds that ``count`` round trips of one byte take."""
        self._send(index, "ping", count)
        connection = self._connections[index]
        send, receive = connection.sendall, connection.recv
        start = time.perf_counter()
        for _ in range(count):
            send(b"x")
            if not receive(1):
                raise ConnectionError("the child process that echoes has ended")
        return time.perf_counter() - start

    def stream(self, index: int, count: int) -> float:
        """Seconds that ``count`` messages take to arrive."""
        self._send(index, "stream", count)
        connection = self._connections[index]
        start = time.perf_counter()
        for _ in range(count):
            connection.sendall(self._message)
        if not connection.recv(1):
            raise ConnectionError("the child process that receives has ended")
        return time.perf_counter() - start

    def _send(self, index: int, what: str, count: int) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{index} {what} {count}\n".encode())
        # The answer: the child has woken and is about to receive, so its wake-up is not measured.
        if not self._child.stdout or not self._child.stdout.readline():
            raise ConnectionError("the child process that echoes has ended")


def echo() -> None:
    """The child: accept one connection for each path named in the arguments, then do as standard input says.

    The arguments are the core to stay on, or None, and the names of the paths.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle; then standard input ends
    from .. import attach, config, socket

    _, core, *names = sys.argv
    if core != "None":
        os.sched_setaffinity(0, {int(core)})
    connections = []
    for name in names:
        config.configure(transports=(name,))
        with socket.create_server((_HOST, 0)) as listener:
            print(listener.getsockname()[1], flush=True)
            connections.append(listener.accept()[0])
        attach(connections[-1], _ATTACH_SECONDS)
    buffer = bytearray(MESSAGE_BYTES)
    for line in sys.stdin:
        index, what, count = line.split()
        connection = connections[int(index)]
        print(flush=True)
        if what == "ping":
            for _ in range(int(count)):
                connection.sendall(connection.recv(1))
        else:
            left = int(count) * MESSAGE_BYTES
            while left:
                received = connection.recv_into(buffer, min(left, MESSAGE_BYTES))
                if not received:  # the parent is gone
                    return
                left -= received
            connection.sendall(b"x")
