"""Threads that share one socket, and calls from one thread that end another's."""

from __future__ import annotations

import collections
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from ..outcomes import (
    fill,
    like_plain_tcp,
    on_pair,
    on_sleeping_pair,
    outcome,
    receive,
    receive_all,
    receive_until_error,
)
from ..pairs import Pair, PairMaker
from ..patterns import Pattern
from ..process import until_asleep, until_blocked


class Worker:
    """A thread whose result or error is collected by join()."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._outcome: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(function, arguments), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            self._outcome = function(*arguments)
        except BaseException as error:
            self._error = error

    def until_blocked(self) -> None:
        """Return when the thread sleeps in a system call."""
        assert self._thread.native_id
        until_blocked(os.getpid(), self._thread.native_id)

    def until_asleep(self) -> None:
        """As until_blocked(), when the wait has reached its last stage."""
        assert self._thread.native_id
        until_asleep(os.getpid(), self._thread.native_id)

    def join(self) -> Any:
        """The function's value; raises what it raised, or AssertionError when it hangs."""
        self._thread.join(30)
        if self._thread.is_alive():
            raise AssertionError("the thread hangs")
        if self._error:
            raise self._error
        return self._outcome


@on_pair
def check_reader_and_writer(pair: Pair) -> None:
    """Full duplex: one thread sends while the other receives on the same socket, on both ends."""
    size = 12 << 20
    there = pair.far.begin_run(_duplex, 1, 2, size)
    _duplex(pair.near, 2, 1, size)
    there.result()


def _duplex(sock: Any, out: int, back: int, size: int) -> None:
    sender = Worker(sock.sendall, Pattern(out).at(0, size))
    Pattern(back).verify(0, receive(sock, size))
    sender.join()


def _write_from_threads(sock: Any, writers: int, frames: int) -> None:
    def write(number: int) -> None:
        for frame in range(frames):
            sock.sendall(bytes([number]) * (1 + (frame * 37 + number) % 3000))

    for worker in [Worker(write, number) for number in range(writers)]:
        worker.join()
    sock.shutdown(socket.SHUT_WR)


def _expected(writers: int, frames: int) -> dict[int, int]:
    return {number: sum(1 + (frame * 37 + number) % 3000 for frame in range(frames)) for number in range(writers)}


@on_pair
def check_many_writers(pair: Pair) -> None:
    """Every byte of every writer arrives exactly once."""
    writing = pair.far.begin_run(_write_from_threads, 8, 200)
    assert collections.Counter(receive_all(pair.near)) == _expected(8, 200)
    writing.result()


@on_pair
def check_small_messages_of_many_writers_stay_whole(pair: Pair) -> None:
    """A short send() is taken whole or not at all while there is room: messages do not mix."""
    writers, count = 6, 300
    there = pair.far.begin_run(_write_messages, writers, count)
    data = receive(pair.near, writers * count * 16)
    there.result()
    following = dict.fromkeys(range(writers), 0)
    for start in range(0, len(data), 16):
        message = data[start : start + 16]
        number = message[0]
        assert message == bytes([number]) * 8 + following[number].to_bytes(8, "big"), message
        following[number] += 1
    assert set(following.values()) == {count}


def _write_messages(sock: Any, writers: int, count: int) -> None:
    def write(number: int) -> None:
        for index in range(count):
            assert sock.send(bytes([number]) * 8 + index.to_bytes(8, "big")) == 16

    for worker in [Worker(write, number) for number in range(writers)]:
        worker.join()


@on_pair
def check_many_readers(pair: Pair) -> None:
    """Every byte comes to exactly one of the readers, and each of them sees the end."""
    writing = pair.far.begin_run(_write_from_threads, 3, 300)
    counters = [collections.Counter() for _ in range(6)]  # type: ignore[var-annotated]

    def read(counter: Any) -> None:
        while block := pair.near.recv(5000):
            counter.update(block)

    for worker in [Worker(read, counter) for counter in counters]:
        worker.join()
    writing.result()
    assert sum(counters, collections.Counter()) == _expected(3, 300)


@on_pair
def check_many_readers_on_both_ends_with_echo(pair: Pair) -> None:
    there = pair.far.begin_run(_echo_from_threads, 4)
    writer = Worker(_write_from_threads, pair.near, 4, 200)
    assert collections.Counter(receive_all(pair.near)) == _expected(4, 200)
    writer.join()
    there.result()


def _echo_from_threads(sock: Any, threads: int) -> None:
    def echo() -> None:
        while block := sock.recv(3000):
            sock.sendall(block)

    for worker in [Worker(echo) for _ in range(threads)]:
        worker.join()
    sock.shutdown(socket.SHUT_WR)


@on_sleeping_pair
def check_shutdown_wakes_a_receiver_in_another_thread(pair: Pair, until_waits: Any) -> None:
    receiver = Worker(pair.near.recv, 1)
    until_waits(receiver)
    pair.near.shutdown(socket.SHUT_RDWR)
    assert receiver.join() == b""
    assert pair.far.recv(1) == b""


@on_sleeping_pair
def check_shutdown_of_reading_wakes_a_receiver(pair: Pair, until_waits: Any) -> None:
    receiver = Worker(pair.near.recv, 1)
    until_waits(receiver)
    pair.near.shutdown(socket.SHUT_RD)
    assert receiver.join() == b""
    pair.near.sendall(b"still writes")
    assert pair.far.run(receive, 12) == b"still writes"


@on_sleeping_pair
def check_shutdown_wakes_a_sender_in_another_thread(pair: Pair, until_waits: Any) -> None:
    near = pair.near
    fill(near)
    near.setblocking(True)
    sender = Worker(outcome, near.sendall, bytes(1 << 20))
    until_waits(sender)
    near.shutdown(socket.SHUT_WR)
    assert sender.join() == "BrokenPipeError EPIPE"


@on_sleeping_pair
def check_shutdown_wakes_a_receiver_with_a_timeout(pair: Pair, until_waits: Any) -> None:
    pair.near.settimeout(25)
    receiver = Worker(pair.near.recv, 1)
    until_waits(receiver)
    pair.near.shutdown(socket.SHUT_RDWR)
    assert receiver.join() == b""


@on_sleeping_pair
def check_close_under_a_blocked_receiver(pair: Pair, until_waits: Any) -> None:
    """The kernel lets a blocked recv() finish on the open file; it ends at the latest when the peer does."""
    receiver = Worker(outcome, pair.near.recv, 1)
    until_waits(receiver)
    pair.near.close()
    pair.far.close()
    assert receiver.join() in (b"", "OSError EBADF", "ConnectionResetError ECONNRESET")


@on_sleeping_pair
def check_close_under_a_blocked_sender(pair: Pair, until_waits: Any) -> None:
    fill(pair.near)
    pair.near.setblocking(True)
    sender = Worker(outcome, pair.near.sendall, bytes(1 << 20))
    until_waits(sender)
    pair.near.close()
    pair.far.close()
    assert sender.join() in (
        "OSError EBADF",
        "BrokenPipeError EPIPE",
        "ConnectionResetError ECONNRESET",
    )


@on_pair
def check_close_in_the_middle_of_many_receivers(pair: Pair) -> None:
    """No thread hangs and the process survives when one of them closes under the others."""
    sending = pair.far.begin_run(_send_until_refused)
    near = pair.near
    count = threading.Semaphore(0)

    def read() -> Any:
        try:
            while block := near.recv(20_000):
                count.release()
        except OSError as error:
            return error.errno
        return block

    workers = [Worker(read) for _ in range(4)]
    for _ in range(50):
        assert count.acquire(timeout=30)
    near.close()
    sending.result()
    for worker in workers:
        worker.join()


def _send_until_refused(sock: Any) -> str:
    while True:
        answer = outcome(sock.send, bytes(10_000))
        if not isinstance(answer, int):
            return answer


@like_plain_tcp
def check_shutdown_of_a_listener_wakes_accept(pair: Pair) -> Any:
    with pair.maker.listener() as listener:
        accepting = Worker(outcome, listener.accept)
        accepting.until_blocked()
        listener.shutdown(socket.SHUT_RDWR)
        return accepting.join()


@on_pair
def check_threads_accept_together(pair: Pair) -> None:
    """Several threads block in accept() on one listener; each connection comes to one of them."""
    maker, threads, each = pair.maker, 4, 5

    def serve(listener: Any) -> int:
        for _ in range(each):
            sock, _ = listener.accept()
            with sock:
                maker.check(sock)
                sock.sendall(receive_all(sock))
        return each

    with maker.listener() as listener:
        workers = [Worker(serve, listener) for _ in range(threads)]
        pair.far.process.run(_exchange_many, maker.away, listener.getsockname(), threads * each)
        assert sum(worker.join() for worker in workers) == threads * each


def _exchange_many(here: Any, maker: PairMaker, address: Any, count: int) -> None:
    for number in range(count):
        with maker.connect(address) as sock:
            maker.check(sock)
            sock.sendall(Pattern(number).at(0, 5000))
            sock.shutdown(socket.SHUT_WR)
            assert receive_all(sock) == Pattern(number).at(0, 5000)


def check_both_ends_in_one_process(maker: PairMaker) -> None:
    """Client and server are threads of one process."""
    size = 6 << 20
    with maker.local() as (connected, accepted):
        echoing = Worker(lambda: accepted.sendall(receive(accepted, size)))
        connected.sendall(Pattern(7).at(0, size))
        Pattern(7).verify(0, receive(connected, size))
        echoing.join()


def check_both_ends_in_one_thread(maker: PairMaker) -> None:
    """connect() returns before accept() is called, in the same thread: it must not wait for itself."""
    with maker.listener() as listener, maker.connect(listener.getsockname()) as connected:
        connected.sendall(b"before accept")
        with listener.accept()[0] as accepted:
            assert receive(accepted, 13) == b"before accept"
            accepted.sendall(b"answer")
            assert receive(connected, 6) == b"answer"
            connected.close()
            assert accepted.recv(1) == b""


def check_both_ends_in_one_thread_without_blocking(maker: PairMaker) -> None:
    with maker.listener() as listener, maker.sockets.socket(listener.family) as connecting:
        connecting.setblocking(False)
        assert connecting.connect_ex(listener.getsockname()) in (0, 115)
        with listener.accept()[0] as accepted:
            connecting.settimeout(20)
            accepted.sendall(b"hello")
            assert receive(connecting, 5) == b"hello"
            connecting.sendall(b"back")
            assert receive(accepted, 4) == b"back"


def check_close_while_another_thread_copies(maker: PairMaker) -> None:
    """A close() in the midst of a stream: the thread's call ends, and so does the other end's."""
    for round_number in range(12):
        with maker.pair() as pair:
            ours, theirs = (_send_for_ever, receive_until_error) if round_number % 2 else (_count, _send_for_ever)
            there = pair.far.begin_run(theirs)
            moved = [0]
            worker = Worker(ours, pair.near, moved)
            while moved[0] < (round_number + 1) << 20:
                os.sched_yield()
            pair.near.close()
            worker.join()
            there.result()


def _send_for_ever(sock: Any, moved: list[int] | None = None) -> None:
    block = bytes(1 << 20)
    try:
        while True:
            sock.sendall(block)
            if moved:
                moved[0] += len(block)
    except OSError:
        return


def _count(sock: Any, moved: list[int]) -> None:
    try:
        while block := sock.recv(1 << 20):
            moved[0] += len(block)
    except OSError:
        return
