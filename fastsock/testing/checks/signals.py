"""Signals while a call is blocked: the handler runs, then the call goes on or the handler's error comes out."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from typing import Any

from ..outcomes import like_plain_tcp, on_pair, on_sleeping_pair, outcome, receive
from ..pairs import Pair, PairMaker
from ..patterns import Pattern
from ..process import FarProcess


class Interruption(Exception):
    """Raised by a handler."""


def _with_handler(here: Any, raising: bool, blocked: Any, *arguments: Any) -> Any:
    """Run `blocked(here, ...)` with a handler of SIGUSR1; what it gave, and how often. Tells `here.heard` of both."""
    count = 0

    def handler(number: int, frame: object) -> None:
        nonlocal count
        count += 1
        os.write(here.heard, b"!")
        if raising:
            raise Interruption

    signal.signal(signal.SIGUSR1, handler)
    os.write(here.heard, b".")
    try:
        result = blocked(here, *arguments)
    except Interruption:
        result = "interrupted"
    finally:
        # One that is still on its way must not end the process.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    return result, count


class _Signalled:
    """A pair whose far end is blocked in a call with a signal handler; `interrupt` waits until the handler ran."""

    def __init__(self, pair: Pair, until_waits: Any = FarProcess.until_blocked) -> None:
        self.pair = pair
        self.until_waits = until_waits
        self.process = pair.far.process

    def __enter__(self) -> _Signalled:
        # The handler writes to a FIFO: a pipe that can be opened by both sides after the fork.
        self._path = f"/tmp/fastsock-testing-{os.getpid()}-{self.process.pid}"
        os.mkfifo(self._path)
        self._heard = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        self.process.run(_open_heard, self._path)
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._heard)
        os.unlink(self._path)

    def begin(self, raising: bool, blocked: Any, *arguments: Any) -> Any:
        return self.begin_run(_with_handler, raising, blocked, *arguments)

    def begin_run(self, function: Any, *arguments: Any) -> Any:
        """Of a function that sets a handler, tells `here.heard` of that, and then blocks."""
        pending = self.process.begin(function, *arguments)
        self._hear(b".", "the handler was not set")  # before that, it is blocked in reading its next command
        self.process.until_blocked()
        return pending

    def interrupt(self) -> None:
        # Blocked again first: between two calls into the kernel a signal waits for the next bytecode, plain or not.
        self.until_waits(self.process)
        self.process.kill(signal.SIGUSR1)
        self._hear(b"!", "the handler did not run")

    def _hear(self, word: bytes, failure: str) -> None:
        assert select.select([self._heard], [], [], 30)[0], failure
        assert os.read(self._heard, 1) == word


def _open_heard(here: Any, path: str) -> None:
    here.heard = os.open(path, os.O_WRONLY)


def _receive(here: Any, count: int) -> bytes:
    return here.sock.recv(count, socket.MSG_WAITALL)


def _receive_one(here: Any) -> bytes:
    return here.sock.recv(100)


def _receive_with_timeout(here: Any, timeout: float) -> Any:
    here.sock.settimeout(timeout)
    try:
        return outcome(here.sock.recv, 100)
    finally:
        here.sock.settimeout(None)


@on_sleeping_pair
def check_blocked_receive_goes_on(pair: Pair, until_waits: Any) -> None:
    with _Signalled(pair, until_waits) as far:
        receiving = far.begin(False, _receive_one)
        for _ in range(5):
            far.interrupt()
        pair.near.sendall(b"data")
        assert receiving.result() == (b"data", 5)


@on_sleeping_pair
def check_handler_that_raises_ends_the_receive(pair: Pair, until_waits: Any) -> None:
    with _Signalled(pair, until_waits) as far:
        for _ in range(3):
            receiving = far.begin(True, _receive_one)
            far.interrupt()
            assert receiving.result() == ("interrupted", 1)
        pair.near.sendall(b"nothing is lost")
        assert pair.far.run(receive, 15) == b"nothing is lost"


@on_sleeping_pair
def check_receive_with_a_timeout_goes_on(pair: Pair, until_waits: Any) -> None:
    with _Signalled(pair, until_waits) as far:
        receiving = far.begin(False, _receive_with_timeout, 25.0)
        far.interrupt()
        far.interrupt()
        pair.near.sendall(b"x")
        assert receiving.result() == (b"x", 2)
        receiving = far.begin(True, _receive_with_timeout, 25.0)
        far.interrupt()
        assert receiving.result() == ("interrupted", 1)


@on_pair
def check_timeout_is_not_prolonged_for_ever(pair: Pair) -> None:
    """Signals that keep coming do not keep a call from timing out."""
    with _Signalled(pair) as far:
        receiving = far.begin(False, _receive_with_timeout, 0.2)
        count = 0
        while not receiving.done():
            far.process.until_blocked()  # else the next one may come within the handler, each time
            far.process.kill(signal.SIGUSR1)
            if select.select([far._heard, far.process._answers], [], [], 30)[0] == [far._heard]:
                os.read(far._heard, 1)
                count += 1
            assert count < 10_000_000
        assert receiving.result()[0] == "TimeoutError"


def _ignore_user_signal(here: Any) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def _send_all(here: Any, size: int) -> int:
    here.sock.sendall(Pattern(1).at(0, size))
    return size


@on_sleeping_pair
def check_blocked_sendall_goes_on(pair: Pair, until_waits: Any) -> None:
    size = 40 << 20
    with _Signalled(pair, until_waits) as far:
        sending = far.begin(False, _send_all, size)
        far.interrupt()
        far.interrupt()
        head = receive(pair.near, 1 << 20)
        far.interrupt()
        Pattern(1).verify(0, head + receive(pair.near, size - len(head)))
        assert sending.result() == (size, 3)


@on_pair
def check_handler_that_raises_ends_the_sendall(pair: Pair) -> None:
    """What had been taken is a prefix, and the connection goes on after it."""
    size = 40 << 20
    with _Signalled(pair) as far:
        sending = far.begin(True, _send_all, size)
        far.interrupt()
        reading = _drain_in_thread(pair.near)
        assert sending.result() == ("interrupted", 1)
        pair.far.sendall(b"THE END")
        pair.far.shutdown(socket.SHUT_WR)
        data = reading()
    assert data.endswith(b"THE END")
    assert 0 < len(data) < size
    Pattern(1).verify(0, data[:-7])


def _drain_in_thread(sock: Any) -> Any:
    from ..outcomes import receive_all

    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.append(receive_all(sock)))
    thread.start()

    def join() -> bytes:
        thread.join()
        return received[0]

    return join


@on_pair
def check_interrupted_waitall(pair: Pair) -> None:
    """WAITALL that is interrupted returns what it has or goes on, as plain TCP: no byte is lost either way."""
    with _Signalled(pair) as far:
        receiving = far.begin(False, _receive, 10)
        pair.near.sendall(b"01234")
        far.process.until_blocked()
        far.interrupt()
        pair.near.sendall(b"56789")
        data, _ = receiving.result()
        assert data in (b"01234", b"0123456789")
        if len(data) < 10:
            assert pair.far.run(receive, 10 - len(data)) == b"56789"


def _accept(here: Any) -> Any:
    here.accepted = here.listener2.accept()[0]
    return here.accepted.recv(5)


def _listen(here: Any, maker: PairMaker) -> Any:
    here.listener2 = maker.listener()
    return here.listener2.getsockname()


@on_sleeping_pair
def check_blocked_accept_goes_on(pair: Pair, until_waits: Any) -> None:
    with _Signalled(pair, until_waits) as far:
        address = far.process.run(_listen, pair.maker.away)
        accepting = far.begin(False, _accept)
        far.interrupt()
        with pair.maker.connect(address) as sock:
            pair.maker.check(sock)
            sock.sendall(b"hello")
            assert accepting.result() == (b"hello", 1)
        accepting = far.begin(True, _accept)
        far.interrupt()
        assert accepting.result() == ("interrupted", 1)
        accepting = far.begin(False, _accept)
        with pair.maker.connect(address) as sock:
            sock.sendall(b"again")
            assert accepting.result() == (b"again", 0)


def _interruptible(here: Any) -> str:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.write(here.heard, b".")
    try:
        here.sock.recv(1)
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    return "no interrupt"


@on_pair
def check_keyboard_interrupt(pair: Pair) -> None:
    with _Signalled(pair) as far:
        receiving = far.begin_run(_interruptible)
        far.process.kill(signal.SIGINT)
        assert receiving.result() == "KeyboardInterrupt"


def _blocked_in_a_thread(here: Any) -> Any:
    """A worker thread is blocked in recv; the signal comes to the process; the main thread's handler runs."""
    received: list[Any] = []
    thread = threading.Thread(target=lambda: received.append(here.sock.recv(10)))
    thread.start()
    thread.join()
    return received[0]


@on_pair
def check_receive_in_a_worker_thread(pair: Pair) -> None:
    with _Signalled(pair) as far:
        receiving = far.begin(False, _blocked_in_a_thread)
        far.interrupt()
        far.interrupt()
        pair.near.sendall(b"x")
        assert receiving.result() == (b"x", 2)


def _wakeup_descriptor(here: Any) -> Any:
    reading, writing = socket.socketpair()
    with reading, writing:
        writing.setblocking(False)
        previous = signal.set_wakeup_fd(writing.fileno())
        try:
            return here.sock.recv(10), reading.recv(10)
        finally:
            signal.set_wakeup_fd(previous)


@on_pair
def check_wakeup_descriptor_is_written(pair: Pair) -> None:
    with _Signalled(pair) as far:
        receiving = far.begin(False, _wakeup_descriptor)
        far.interrupt()
        pair.near.sendall(b"x")
        assert receiving.result() == ((b"x", bytes([signal.SIGUSR1])), 1)


def _receive_each(here: Any, count: int) -> int:
    for _ in range(count):
        assert here.sock.recv(1) == b"x"
    return count


@on_pair
def check_signal_right_after_a_message(pair: Pair) -> None:
    """A signal that comes when the call has just begun to wait is heard without waiting for the next message.

    In plain Python one that comes in the few instructions before the system call waits too: that is rare.
    """
    rounds, misses = 40, 0
    with _Signalled(pair) as far:
        receiving = far.begin(False, _receive_each, rounds + 1)
        for _ in range(rounds):
            pair.near.sendall(b"x")
            far.process.kill(signal.SIGUSR1)
            heard = bool(select.select([far._heard], [], [], 0.5)[0])
            misses += not heard
            if heard:
                os.read(far._heard, 1)
            if misses > 2:
                break
        pair.near.sendall(b"x" * (rounds + 1))
        assert receiving.result()[0] == rounds + 1
    assert misses <= 2, "signals were lost while the call waited"


@like_plain_tcp
def check_ignored_signal_changes_nothing(pair: Pair) -> Any:
    pair.far.process.run(_ignore_user_signal)
    receiving = pair.far.begin("recv", 4)
    pair.far.until_blocked()
    pair.far.process.kill(signal.SIGUSR1)
    pair.near.sendall(b"data")
    return receiving.result()
