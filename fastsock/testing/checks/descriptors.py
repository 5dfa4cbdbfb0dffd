"""What the descriptor number means: dup, detach, fromfd, socket(fileno=), close."""

from __future__ import annotations

import os
import select
import socket
from types import SimpleNamespace
from typing import Any

from ..outcomes import fill, like_plain_tcp, on_pair, outcome, receive, receive_all, receive_until_error
from ..pairs import Pair, PairMaker
from ..patterns import Pattern
from ..process import DEADLINE
from ..waiting import events

CLOSES_WITH_MUCH = 10


@on_pair
def check_dup_shares_the_connection(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with near.dup() as other:
        assert type(other) is type(near)
        assert other.fileno() != near.fileno()
        assert (other.family, other.type) == (near.family, near.type)
        assert not other.get_inheritable()
        near.sendall(b"one ")
        other.sendall(b"two ")
        near.sendall(b"three")
        assert far.run(receive, 13) == b"one two three"
        far.sendall(b"abcdef")
        assert receive(near, 3) + receive(other, 3) == b"abcdef"
        assert other.getpeername() == near.getpeername()
        assert other.getsockname() == near.getsockname()


@on_pair
def check_dup_outlives_the_first(pair: Pair) -> None:
    near, far = pair.near, pair.far
    far.sendall(b"unread")
    other = near.dup()
    near.close()
    with other:
        assert receive(other, 6) == b"unread"
        other.sendall(b"alive")
        assert far.run(receive, 5) == b"alive"
        far.sendall(b"back")
        assert receive(other, 4) == b"back"
    assert far.recv(1) == b""


@on_pair
def check_closing_the_dup_closes_nothing(pair: Pair) -> None:
    near, far = pair.near, pair.far
    near.dup().close()
    near.sendall(b"alive")
    assert far.run(receive, 5) == b"alive"
    far.sendall(b"back")
    assert receive(near, 4) == b"back"


@on_pair
def check_dup_moves_much(pair: Pair) -> None:
    size = 5 << 20
    sending = pair.far.begin("sendall", Pattern(1).at(0, size))
    with pair.near.dup() as other:
        received = bytearray()
        while len(received) < size:
            received += pair.near.recv(100_000)
            if len(received) < size:
                received += other.recv(100_000)
    Pattern(1).verify(0, received)
    sending.result()


@like_plain_tcp
def check_number_survives_connecting(pair: Pair) -> Any:
    """The number that a program saw before connect() is the number afterwards."""
    maker = pair.maker
    with maker.listener() as listener, maker.sockets.socket(listener.family) as sock:
        before = sock.fileno()
        accepting = _Accepting(listener)
        sock.connect(listener.getsockname())
        with accepting.result():
            return sock.fileno() == before, sock.get_inheritable(), sock.family, sock.type, sock.proto


class _Accepting:
    """accept() in a thread."""

    def __init__(self, listener: Any) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._executor = ThreadPoolExecutor(1)
        self._future = self._executor.submit(lambda: listener.accept()[0])

    def result(self) -> Any:
        with self._executor:
            return self._future.result(30)


@on_pair
def check_fromfd_shares_the_connection(pair: Pair) -> None:
    near, far, sockets = pair.near, pair.far, pair.maker.sockets
    with sockets.fromfd(near.fileno(), near.family, near.type) as other:
        assert other.fileno() != near.fileno()
        near.sendall(b"near")
        other.sendall(b"other")
        assert far.run(receive, 9) == b"nearother"
        far.sendall(b"1234")
        assert receive(other, 4) == b"1234"
        near.close()
        other.sendall(b"alone")
        assert far.run(receive, 5) == b"alone"
    assert far.recv(1) == b""


@on_pair
def check_second_object_on_the_same_number(pair: Pair) -> None:
    near, far, sockets = pair.near, pair.far, pair.maker.sockets
    other = sockets.socket(fileno=near.fileno())
    try:
        assert (other.family, other.type) == (near.family, near.type)
        assert other.getpeername() == near.getpeername()
        other.sendall(b"by number")
        assert far.run(receive, 9) == b"by number"
        far.sendall(b"ab")
        assert other.recv(1) + near.recv(1) == b"ab"
    finally:
        other.detach()
    near.sendall(b"first again")
    assert far.run(receive, 11) == b"first again"


@on_pair
def check_detach_takes_the_unread_bytes_along(pair: Pair) -> None:
    near, far, sockets = pair.near, pair.far, pair.maker.sockets
    far.sendall(b"unread")
    assert near.recv(2, socket.MSG_PEEK | socket.MSG_WAITALL) == b"un"
    near.sendall(b"in flight")
    number = near.detach()
    assert near.fileno() == -1
    assert outcome(near.send, b"x") == "OSError EBADF"
    with sockets.socket(fileno=number) as other:
        assert receive(other, 6) == b"unread"
        assert far.run(receive, 9) == b"in flight"
        other.sendall(b"more")
        assert far.run(receive, 4) == b"more"
        far.sendall(b"back")
        assert receive(other, 4) == b"back"
        assert other.getpeername()[1] == far.getsockname()[1]
    assert far.recv(1) == b""


def _detach(sock: Any) -> Any:
    """Detach and give the number to the standard library's class."""
    import _socket

    return _socket.socket(fileno=sock.detach())


@on_pair
def check_detached_number_is_a_kernel_stream(pair: Pair) -> None:
    """Code that knows nothing of fastsock reads and writes the raw descriptor."""
    near, far = pair.near, pair.far
    far.sendall(b"unread")
    assert near.recv(6, socket.MSG_PEEK | socket.MSG_WAITALL) == b"unread"
    raw = _detach(near)
    try:
        assert raw.recv(6, socket.MSG_WAITALL) == b"unread"
        raw.sendall(b"raw")
        assert far.run(receive, 3) == b"raw"
        raw.shutdown(socket.SHUT_WR)
        assert far.recv(1) == b""
        far.sendall(b"after half-close")
        assert raw.recv(16, socket.MSG_WAITALL) == b"after half-close"
        far.close()
        assert raw.recv(1) == b""
    finally:
        raw.close()


@like_plain_tcp
def check_detached_number_tells_its_kind(pair: Pair) -> Any:
    sockets = pair.maker.sockets
    seen = []
    for kind in ((), (socket.AF_INET,), (socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_STREAM, 0)):
        with sockets.socket(*kind, fileno=os.dup(pair.near.fileno())) as other:
            seen.append((other.family, other.type, other.proto))
    return seen


@on_pair
def check_detached_number_closed_with_unread_data_resets(pair: Pair) -> None:
    """The unread bytes lie in the descriptor itself by then, or on their way there."""
    pair.far.sendall(Pattern(8).at(0, 300_000))
    number = pair.near.detach()
    os.close(number)
    assert pair.far.run(receive_until_error) == (0, "ConnectionResetError ECONNRESET")


def _fill_and_block(sock: Any) -> None:
    fill(sock)
    sock.setblocking(True)


def check_detached_number_closed_with_all_that_fits_unread(maker: PairMaker) -> None:
    """What the descriptor cannot hold is on its way there for ever."""
    for _ in range(CLOSES_WITH_MUCH):
        with maker.pair() as pair:
            pair.far.run(_fill_and_block)
            os.close(pair.near.detach())
            assert pair.far.run(receive_until_error) == (0, "ConnectionResetError ECONNRESET")


@on_pair
def check_detached_number_that_shut_both_has_ended(pair: Pair) -> None:
    pair.near.shutdown(socket.SHUT_RDWR)
    assert pair.far.recv(1) == b""
    raw = _detach(pair.near)
    try:
        assert events(raw, select.POLLIN, DEADLINE) & select.POLLIN
        assert raw.recv(1) == b""
    finally:
        raw.close()


@on_pair
def check_detached_number_that_shut_reading_still_sends(pair: Pair) -> None:
    pair.far.sendall(b"unread")
    raw = _detach(pair.near)
    try:
        raw.shutdown(socket.SHUT_RD)
        assert pair.far.run(_send_twice) == ""
        raw.sendall(b"still here")
        assert pair.far.run(receive, 10) == b"still here"
    finally:
        raw.close()


def _send_twice(sock: Any) -> str:
    for _ in range(2):
        try:
            sock.sendall(bytes(1000))
        except BrokenPipeError:  # docs/explanation/limits.md: a kernel stream of this host refuses it
            return ""
    return ""


def _detach_and_keep(sock: Any) -> None:
    kept.append(_detach(sock))


kept: list[Any] = []


@on_pair
def check_no_stale_event_after_the_other_end_detached(pair: Pair) -> None:
    """Somebody asks for the number only when the other end carries the bytes by its own already."""
    pair.far.run(_detach_and_keep)
    pair.near.sendall(b"x")
    assert events(pair.near, select.POLLIN | select.POLLOUT) == select.POLLOUT
    assert outcome(pair.near.recv, 1, socket.MSG_DONTWAIT) == "BlockingIOError EAGAIN"


@on_pair
def check_detached_number_moves_much(pair: Pair) -> None:
    size = 6 << 20
    raw = _detach(pair.near)
    try:
        echoing = pair.far.begin_run(_echo_whole, size)
        raw.sendall(Pattern(2).at(0, size))
        Pattern(2).verify(0, receive(raw, size))
        echoing.result()
    finally:
        raw.close()
    assert pair.far.recv(1) == b""


def _echo_whole(sock: Any, size: int) -> None:
    sock.sendall(receive(sock, size))


@on_pair
def check_detach_while_the_other_end_is_busy(pair: Pair) -> None:
    """Detached in the middle of a stream: not a byte is lost or repeated."""
    size = 8 << 20
    sending = pair.far.begin("sendall", Pattern(3).at(0, size))
    head = receive(pair.near, 1_000_003)
    raw = _detach(pair.near)
    try:
        Pattern(3).verify(0, head + receive(raw, size - len(head)))
        sending.result()
        raw.sendall(b"done")
        assert pair.far.run(receive, 4) == b"done"
    finally:
        raw.close()


def _detach_and_echo(sock: Any, size: int) -> None:
    raw = _detach(sock)
    try:
        raw.sendall(receive(raw, size))
    finally:
        raw.close()


@on_pair
def check_both_ends_detach(pair: Pair) -> None:
    size = 3 << 20
    echoing = pair.far.begin_run(_detach_and_echo, size)
    raw = _detach(pair.near)
    try:
        raw.sendall(Pattern(4).at(0, size)[: size // 2])
        raw.sendall(Pattern(4).at(0, size)[size // 2 :])
        Pattern(4).verify(0, receive(raw, size))
        assert raw.recv(1) == b""
        echoing.result()
    finally:
        raw.close()


@on_pair
def check_detached_number_sees_the_peer_die(pair: Pair) -> None:
    pair.far.sendall(b"last words")
    raw = _detach(pair.near)
    try:
        pair.far.process.kill()
        pair.far.process.wait()
        assert raw.recv(10, socket.MSG_WAITALL) == b"last words"
        assert outcome(raw.recv, 1) in (b"", "ConnectionResetError ECONNRESET")
    finally:
        raw.close()


@on_pair
def check_detached_number_blocked_in_sending_sees_the_peer_die(pair: Pair) -> None:
    """Both ends send more than anybody takes; one of them dies."""
    from .threads import Worker

    pair.far.begin("sendall", bytes(16 << 20))
    pair.far.until_asleep()
    raw = _detach(pair.near)
    try:
        sending = Worker(lambda: outcome(raw.sendall, bytes(64 << 20)))
        sending.until_asleep()
        pair.far.process.kill()
        pair.far.process.wait()
        assert sending.join() in ("BrokenPipeError EPIPE", "ConnectionResetError ECONNRESET")
    finally:
        raw.close()


def _hears_when_a_detached_number_is_closed(pair: Pair, send: Any) -> None:
    """Both ends send more than anybody takes; the end that detached closes."""
    sending = pair.far.begin_run(send, 64 << 20)
    pair.far.until_asleep()
    raw = _detach(pair.near)
    try:
        raw.settimeout(0.3)  # until neither it nor what serves it has room
        assert outcome(raw.sendall, bytes(64 << 20)).startswith("TimeoutError")
    finally:
        raw.close()
    # the path may take what was blocked, and refuse what comes then
    assert {sending.result(), pair.far.run(_send_again), pair.far.run(_send_again)} & LEFT


LEFT = {"BrokenPipeError EPIPE", "ConnectionResetError ECONNRESET"}


def _send(sock: Any, size: int) -> Any:
    kept.append(sock)
    return outcome(sock.sendall, bytes(size))


def _send_detached(sock: Any, size: int) -> Any:
    return _send(_detach(sock), size)


def _send_again(sock: Any) -> Any:
    return outcome(kept[-1].sendall, b"x")


@on_pair
def check_blocked_in_sending_to_a_detached_number_that_is_closed(pair: Pair) -> None:
    _hears_when_a_detached_number_is_closed(pair, _send)


@on_pair
def check_detached_and_blocked_in_sending_to_a_detached_number_that_is_closed(pair: Pair) -> None:
    _hears_when_a_detached_number_is_closed(pair, _send_detached)


@like_plain_tcp
def check_calls_after_close(pair: Pair) -> Any:
    near = pair.near
    near.close()
    near.close()
    calls = [
        lambda: near.send(b"x"),
        lambda: near.sendall(b"x"),
        lambda: near.sendmsg([b"x"]),
        lambda: near.recv(1),
        lambda: near.recv_into(bytearray(1)),
        lambda: near.recvmsg(1),
        lambda: near.recvmsg_into([bytearray(1)]),
        lambda: near.recvfrom(1),
        near.getsockname,
        near.getpeername,
        near.dup,
        lambda: near.shutdown(socket.SHUT_RDWR),
        lambda: near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        lambda: near.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE),
        lambda: near.settimeout(1),
        near.detach,
        near.fileno,
        lambda: (near.family, near.type),
    ]
    return [outcome(call) for call in calls]


OPENED_ONCE = 2  # at most, late


def check_numbers_are_given_back(maker: PairMaker) -> None:
    """Fifty connections come and go: the process holds what it held before, but for what one process opens once."""
    with maker.pair() as pair:
        for number in range(50):
            if number == 5:
                # What is opened once, for all connections, is there by now, or comes when it is first needed.
                before = _descriptors()
                there = pair.far.process.run(_descriptors_there)
            with maker.listener() as listener:
                connecting = pair.far.process.begin(_connect_and_leave, maker.away, listener.getsockname())
                with listener.accept()[0] as accepted:
                    accepted.sendall(b"hello")
                    assert receive_all(accepted) == b"hello"
                connecting.result()
        assert _descriptors() <= before + OPENED_ONCE
        assert pair.far.process.run(_descriptors_there) <= there + OPENED_ONCE


def _connect_and_leave(here: Any, maker: PairMaker, address: Any) -> None:
    with maker.connect(address) as sock:
        sock.sendall(receive(sock, 5))


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _descriptors_there(here: Any) -> int:
    return _descriptors()


@on_pair
def check_number_reused_after_close(pair: Pair) -> None:
    """A file that gets the number of a closed connection is a file."""
    number = pair.near.fileno()
    reading, writing = os.pipe()
    pair.near.close()
    opened = [reading, writing]
    try:
        while number not in opened and len(opened) < 10:
            opened.append(os.dup(reading))
        poller = select.poll()
        poller.register(opened[-1], select.POLLIN)
        assert poller.poll(0) == []
        os.write(writing, b"pipe")
        assert poller.poll(0) == [(opened[-1], select.POLLIN)]
        assert os.read(opened[-1], 4) == b"pipe"
    finally:
        for each in opened:
            os.close(each)
    assert pair.far.recv(1) == b""


def _close_all_descriptors(here: Any, keep: list[int]) -> None:
    """What a daemon does when it begins: close every number that it did not open itself."""
    kept = sorted({0, 1, 2, *keep})
    for low, high in zip(kept, [*kept[1:], 4096], strict=True):
        os.closerange(low + 1, high)


SWEEP = 24


def _exchange_in_child(here: Any, maker: PairMaker, address: Any, number: int) -> None:
    """A connection that is used by a forked child and by its parent."""
    from ..process import FarProcess

    # One more each time, so that the connections' numbers sweep over all that were closed.
    os.open(os.devnull, os.O_RDONLY)
    with maker.connect(address) as sock:
        maker.check(sock)
        with FarProcess(sock=sock) as child:
            child.run(_exchange, number)
        _exchange(SimpleNamespace(sock=sock), number)


def _exchange(here: Any, number: int) -> None:
    from .threads import Worker

    receiver = Worker(receive, here.sock, 100_000)
    receiver.until_blocked()
    here.sock.sendall(Pattern(number).at(0, 100_000))
    Pattern(number).verify(0, receiver.join())


def check_daemon_that_closed_all_descriptors(maker: PairMaker) -> None:
    """What was opened behind the scenes is closed too, and its numbers go to others: nothing of theirs is touched."""
    from ..process import FarProcess

    with maker.pair() as used, FarProcess() as server, FarProcess(sock=used.near) as daemon:
        used.far.sendall(b"x")
        assert used.near.recv(1) == b"x"
        address = server.run(_listen, maker)
        serving = server.begin(_echo_connections, SWEEP)
        daemon.run(_use_all, maker)
        daemon.run(_close_all_descriptors, daemon.numbers)
        for number in range(SWEEP):  # one by one: each has the time that a command has
            daemon.run(_exchange_in_child, maker, address, number)
        serving.result()


def _use_all(here: Any, maker: PairMaker) -> None:
    """Let whatever is opened lazily be opened: a wait, a close under a wait, a watched descriptor."""
    from .threads import Worker

    with maker.local() as (connected, accepted):
        select.select([connected, accepted], [], [], 0)
        receiver = Worker(outcome, accepted.recv, 1)
        receiver.until_blocked()
        accepted.close()
    receiver.join()


def _listen(here: Any, maker: PairMaker) -> Any:
    here.listener = maker.listener()
    return here.listener.getsockname()


def _echo_connections(here: Any, count: int) -> None:
    for _ in range(count):
        sock, _ = here.listener.accept()
        with sock:
            while data := sock.recv(10_000):
                sock.sendall(data)


@on_pair
def check_closed_by_number(pair: Pair) -> None:
    """socket.close(fd), as asyncio's and other libraries' own descriptor handling does after detach()."""
    pair.maker.sockets.close(pair.near.detach())
    assert pair.far.recv(1) == b""
