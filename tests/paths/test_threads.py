"""Threads that share what is ours: connections, their ends, the books about them, message engines.

What these tests look for is rare with the interpreter's lock, and is found within some hundred rounds without it: run
them on a free-threaded Python too (tests/pythons). FASTSOCK_SOAK=1 makes the rounds many.
"""

from __future__ import annotations

import _socket
import errno
import inspect
import os
import random
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastsock
from fastsock import core, socket
from fastsock.reporting.explanation import totals

from ..helpers.paths import PATHS, preferring, settle, why_not

SOAK = os.environ.get("FASTSOCK_SOAK") == "1"
THREADS = 8
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

needs_core = pytest.mark.skipif(not core.available, reason=f"the native core is not built: {core.why_not}")


def rounds(short: int) -> int:
    return 100 * short if SOAK else short


def together(*works: Callable[[], None]) -> None:
    """Runs all at the same time, each in a thread; raises what one raised."""
    start, failures = threading.Barrier(len(works)), []

    def run(work: Callable[[], None]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Pairs:
    """Connected pairs on one path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._one_at_a_time = threading.Lock()

    def make(self) -> tuple[Any, Any]:
        with self._one_at_a_time:
            while True:
                near, far = self._connect()
                if near.transport == self.path:
                    return near, far
                near.close()  # the machine was busy for longer than the ends look for each other
                far.close()

    def _connect(self) -> tuple[Any, Any]:
        accepted: list[Any] = []
        thread = threading.Thread(target=lambda: accepted.append(self.listener.accept()[0]))
        thread.start()
        near = socket.create_connection(self.listener.getsockname())
        thread.join()
        settle(near, accepted[0])
        return near, accepted[0]


@pytest.fixture(params=PATHS)
def pairs(request: pytest.FixtureRequest) -> Iterator[Pairs]:
    reason = why_not(request.param)
    if reason:
        pytest.skip(reason)
    with preferring(request.param):
        made = Pairs(request.param)
        yield made
        made.listener.close()


def pattern(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


def receive_exactly(sock: Any, length: int) -> bytes:
    parts = []
    while length:
        part = sock.recv(length)
        assert part, "the stream ended early"
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def test_each_thread_has_a_connection(pairs: Pairs) -> None:
    def work(seed: int) -> Callable[[], None]:
        near, far = pairs.make()

        def exchange() -> None:
            sizes = random.Random(seed)
            for turn in range(rounds(40)):
                data = pattern(seed * 1000 + turn, sizes.choice((1, 100, 5000, 40000)))
                near.sendall(data)
                assert receive_exactly(far, len(data)) == data
            near.close()
            assert far.recv(1) == b""
            far.close()

        return exchange

    together(*(work(seed) for seed in range(THREADS)))


def test_one_connection_has_a_sender_and_a_receiver_at_each_end(pairs: Pairs) -> None:
    near, far = pairs.make()
    count = rounds(100)

    def sender(sock: Any, seed: int) -> Callable[[], None]:
        def send() -> None:
            for turn in range(count):
                sock.sendall(pattern(seed + turn, 1 + turn * 37 % 3000))
            sock.shutdown(socket.SHUT_WR)

        return send

    def receiver(sock: Any, seed: int) -> Callable[[], None]:
        def receive() -> None:
            for turn in range(count):
                length = 1 + turn * 37 % 3000
                assert receive_exactly(sock, length) == pattern(seed + turn, length)
            assert sock.recv(1) == b""

        return receive

    together(sender(near, 1), receiver(far, 1), sender(far, 7000), receiver(near, 7000))
    near.close()
    far.close()


def test_many_senders_and_receivers_share_one_connection(pairs: Pairs) -> None:
    """Each piece of 8 bytes arrives once; the pieces of one sender are not torn, as sends of so few bytes never are."""
    near, far = pairs.make()
    count = rounds(200)
    received: list[bytes] = []

    def sender(which: int) -> Callable[[], None]:
        def send() -> None:
            for turn in range(count):
                near.sendall(b"%02d%06d" % (which, turn))

        return send

    def receiver() -> None:
        while True:
            data = far.recv(8, socket.MSG_WAITALL)
            if not data:
                return
            received.append(data)

    senders = [threading.Thread(target=sender(which)) for which in range(4)]
    receivers = [threading.Thread(target=receiver) for _ in range(1 if pairs.path == "tcp" else 4)]
    for thread in senders + receivers:
        thread.start()
    for thread in senders:
        thread.join()
    near.close()
    for thread in receivers:
        thread.join()
    far.close()
    data = b"".join(received)
    if all(len(piece) == 8 for piece in received):  # several receivers may each have got a part of one
        assert sorted(received) == sorted(b"%02d%06d" % (which, turn) for which in range(4) for turn in range(count))
    assert len(data) == 4 * count * 8


@pytest.mark.parametrize("call", ["recv", "recv_into", "send", "sendall", "recvmsg", "getpeername", "shutdown", "dup"])
def test_a_close_meets_any_call(pairs: Pairs, call: str) -> None:
    """The call ends as the socket's own errors say; and what gets the closed number next loses no byte to it."""
    for _ in range(rounds(6)):
        near, far = pairs.make()
        far.sendall(b"z" * 1200)  # as much as is received: the kernel's own sockets would block beyond a close
        close_while_it_is_used(near, CALLS[call])
        far.close()


def channels() -> tuple[Any, Any]:
    """Both ends of a stream in memory, as a path to another host has one within its process."""
    segment, memory = core.Segment.make(1 << 16)
    try:
        one, other = _socket.socketpair(_socket.AF_UNIX)
        ends = (segment, core.ACCEPTED, one.detach()), (core.Segment(memory), core.CONNECTED, other.detach())
        near, far = (core.Channel(each, doorbell, side) for each, side, doorbell in ends)
    finally:
        os.close(memory)
    return near, far


TWO_AT_ONCE: dict[str, Callable[[Any], Any]] = {
    "send": lambda channel: channel.send(b"x"),
    "sendall": lambda channel: channel.sendall(b"xy"),
    "sendmsg": lambda channel: channel.sendmsg([b"x", b"y"]),
    "recv": lambda channel: channel.recv(8),
    "recv_into": lambda channel: channel.recv_into(bytearray(8)),
    "peek": lambda channel: channel.recv(4, socket.MSG_PEEK),
    "unread": lambda channel: channel.unread(),
    "settimeout": lambda channel: channel.settimeout(0),
    "is_non_blocking": lambda channel: channel.is_non_blocking(),
    "set_kernel_timeouts": lambda channel: channel.set_kernel_timeouts(0, 0),
    "set_urgent_inline": lambda channel: channel.set_urgent_inline(True),
    "was_reset": lambda channel: channel.was_reset(),
    "take_error": lambda channel: channel.take_error(),
    "fileno": lambda channel: channel.fileno(),
    "watch": lambda channel: channel.watch(),
    "is_watched": lambda channel: channel.is_watched(),
    "settle": lambda channel: channel.settle(),
    "is_stale": lambda channel: channel.is_stale(),
    "set_lazy": lambda channel: channel.set_lazy(False),
    "released": lambda channel: channel.released,
    "statistics": lambda channel: channel.statistics(),
    "peer": lambda channel: channel.peer,
    "shutdown": lambda channel: channel.shutdown(socket.SHUT_RD),
}


@needs_core
@pytest.mark.parametrize("one", TWO_AT_ONCE)
def test_any_two_calls_of_a_channel_at_the_same_time(one: str) -> None:
    """For a thread sanitizer too, which sees what goes well nevertheless."""
    for other in list(TWO_AT_ONCE)[list(TWO_AT_ONCE).index(one) :]:
        near, far = channels()
        near.settimeout(0)

        def call(name: str, channel: Any) -> Callable[[], None]:
            def calls() -> None:
                for _ in range(rounds(20)):
                    try:
                        TWO_AT_ONCE[name](channel)
                    except OSError as error:
                        assert error.errno in (errno.EAGAIN, errno.EBADF, errno.EPIPE, errno.ENOTCONN), name

            return calls

        far.send(b"unread")
        together(call(one, near), call(other, near))
        near.close()
        far.close()


def only_payload(data: bytes) -> None:
    assert not data.strip(b"z"), data  # of a doorbell, say


CALLS: dict[str, Callable[[Any], Any]] = {
    "recv": lambda sock: only_payload(sock.recv(100)),
    "recv_into": lambda sock: sock.recv_into(bytearray(100)),
    "send": lambda sock: sock.send(b"y" * 100),
    "sendall": lambda sock: sock.sendall(b"y" * 100),
    "recvmsg": lambda sock: only_payload(sock.recvmsg(100)[0]),
    "getpeername": lambda sock: sock.getpeername(),
    "shutdown": lambda sock: sock.shutdown(socket.SHUT_WR),
    "dup": lambda sock: sock.dup().close(),
}


def close_while_it_is_used(sock: Any, call: Callable[[Any], Any]) -> None:
    pipes: list[tuple[int, int]] = []

    def use() -> None:
        for _ in range(6):
            try:
                call(sock)
            except OSError as error:
                assert error.errno in (errno.EBADF, errno.ENOTCONN, errno.EPIPE, errno.ECONNRESET), error
                break

    def close() -> None:
        sock.close()
        pipes.append(os.pipe())
        os.write(pipes[0][1], b"victim")

    together(use, use, close)
    assert os.read(pipes[0][0], 100) == b"victim"
    for end in pipes[0]:
        os.close(end)


def test_duplicates_are_used_and_closed_by_many_threads(pairs: Pairs) -> None:
    for _ in range(rounds(3)):
        near, far = pairs.make()
        copies = [near.dup() for _ in range(THREADS)]

        def use(copy: Any) -> Callable[[], None]:
            def work() -> None:
                for _ in range(20):
                    copy.sendall(b"1234")
                copy.close()

            return work

        together(*(use(copy) for copy in copies), near.close)
        assert len(receive_exactly(far, THREADS * 80)) == THREADS * 80
        assert far.recv(1) == b""
        far.close()


def test_the_books_are_right_whoever_writes_them(pairs: Pairs) -> None:
    """Connections are made and closed by some threads while others read the books."""
    before = totals().get(pairs.path, 0)
    each, stop = rounds(8), threading.Event()

    def work() -> None:
        for _ in range(each):
            near, far = pairs.make()
            near.sendall(b"x")
            assert far.recv(1) == b"x"
            near.close()
            far.close()

    def read() -> None:
        while not stop.is_set():
            for connection in fastsock.connections():
                assert connection.transport in (*PATHS, "plain", "sdp")  # that was another test's
            totals()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        together(*(work for _ in range(THREADS)))
    finally:
        stop.set()
        reader.join()
    assert totals()[pairs.path] - before == 2 * THREADS * each


@needs_core
@pytest.mark.parametrize("name", ["recv", "recv_into", "send", "sendall"])
def test_the_calls_of_two_connections_share_no_object_that_counts_references(name: str) -> None:
    """Each call would write that count: without the interpreter's lock no thread gains from another core then."""
    with preferring("shm"):
        pairs = Pairs("shm")
        (one, _), (other, _) = connected = pairs.make(), pairs.make()
        calls = getattr(one, name), getattr(other, name)
        for call in calls:
            assert inspect.isbuiltin(call), f"a bound {type(call).__name__} shares its function with all of its class"
        assert calls[0].__self__ is not calls[1].__self__
        for sock in (pairs.listener, *connected[0], *connected[1]):
            sock.close()
    if FREE_THREADED and sys.version_info < (3, 14):  # later ones do not show it
        found = inspect.getattr_static(socket.socket, name)
        before = sys.getrefcount(found)
        several = [found] * 1000
        assert sys.getrefcount(found) == before and len(several) == 1000


@needs_core
def test_the_calls_of_a_channel_tell_their_arguments() -> None:
    assert str(inspect.signature(core.Channel.send)) == "(self, data, flags=0, /)"
    assert str(inspect.signature(core.Channel.recv_into)) == "(self, /, buffer, nbytes=0, flags=0)"
    assert core.Channel.sendall.__doc__ == "As socket.sendall()."


@needs_core
def test_a_message_engine_serves_many_threads() -> None:
    """Each thread's messages to itself and to the others come in order; requests are waited for, tested and dropped."""
    left, right = core.Engine(0, 2), core.Engine(1, 2)
    left.attach_local(1, right)
    right.attach_local(0, left)
    count = rounds(100)

    def sender(tag: int) -> Callable[[], None]:
        def send() -> None:
            for turn in range(count):
                data = b"%06d" % turn * (1 + turn % 50)
                request = left.isend(data, 1, tag, 0)
                if turn % 3 == 0:
                    request.wait()
                elif turn % 3 == 1:
                    while not request.test():
                        pass

        return send

    def receiver(tag: int) -> Callable[[], None]:
        def receive() -> None:
            for turn in range(count):
                room = bytearray(6 * (1 + turn % 50))
                request = right.irecv(room, 0, tag, 0)
                seen: list[Any] = []
                request.callback = seen.append
                request.wait()
                assert room == b"%06d" % turn * (1 + turn % 50)
                while not seen:  # by whichever thread saw it complete
                    right.progress()
                assert seen == [request]

        return receive

    together(*(sender(tag) for tag in range(4)), *(receiver(tag) for tag in range(4)))
    left.close()
    right.close()


@needs_core
def test_a_request_is_found_once_whoever_looks() -> None:
    """wait(), test() and peek() of several threads: each completed request is collected by one of them."""
    engine, other = core.Engine(0, 2), core.Engine(1, 2)
    engine.attach_local(1, other)
    other.attach_local(0, engine)
    count, found = rounds(200), []

    def start() -> None:
        for turn in range(count):
            request = engine.isend(b"x", 1, 0, 0)
            request.owner = turn
            other.recv(bytearray(1), 0, 0, 0)
            kept.append(request)

    def look() -> None:
        while len(found) < count:
            request = engine.peek(timeout=0.01)
            if request is not None:
                found.append(request.owner)

    kept: list[Any] = []
    together(start, look, look, look)
    assert sorted(found) == list(range(count))
    engine.close()
    other.close()


@pytest.mark.skipif(not FREE_THREADED, reason="this Python always has the interpreter's lock")
@needs_core
def test_the_core_does_not_bring_the_lock_back() -> None:
    """What may be imported by an unmodified program's start: everything but fastsock.mpj."""
    program = "import sys, fastsock; fastsock.install(); from fastsock import core; sys.exit(sys._is_gil_enabled())"
    assert subprocess.run([sys.executable, "-Werror", "-c", program]).returncode == 0
