"""Connections that stay TCP and gain memory: what the class is, what it reports, and the setting that chooses it.

What every connection owes its program is tested by each test that runs on `upgrade`, a kind of tests/conftest.py.
"""

from __future__ import annotations

import _socket
import inspect
import os
import select
import socket as standard
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest

import fastsock
from fastsock import config, core, stream_socket
from fastsock.testing import PairMaker, until_asleep

from ..helpers.paths import GAINING, environment, preferring, settle
from ..helpers.scripts import Script


@pytest.fixture(autouse=True)
def upgrade():
    with preferring("shm"):
        yield


@pytest.fixture
def pair():
    with stream_socket.create_server(("127.0.0.1", 0)) as listener:
        near = stream_socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        yield near, far


MAKER = PairMaker(GAINING)
WAIT_ALL, PEEK = standard.MSG_WAITALL, standard.MSG_PEEK
TOKENS = [(sent, received) for sent in range(80) for received in range(80)]


def test_the_native_calls_are_found_where_they_are_written():
    """Nothing is set on the class: what one reads is what runs. Only `sendmsg` may be a guard's, for descriptors."""
    kind = stream_socket.socket
    assert [base for base in kind.__mro__ if base.__module__ != "socket"][1].__name__ == "SocketCalls"
    for name in ("recv", "recv_into", "recvfrom", "recvmsg", "send", "sendall", "connect", "shutdown"):
        assert name not in vars(kind)
        assert getattr(kind, name).__objclass__.__name__ == "SocketCalls"


@pytest.mark.parametrize("receive", ("recv", "recvmsg"))
@pytest.mark.parametrize("flags", (WAIT_ALL, WAIT_ALL | PEEK))
@pytest.mark.parametrize("before", (b"", b"abc"))
def test_who_waits_for_all_in_the_kernel_gets_it(pair, receive, flags, before):
    """A token would not wake him, and be taken for a byte: so no memory comes meanwhile."""
    near, far = pair
    near.sendall(before)
    got = []

    def wait():
        data = far.recv(10, flags) if receive == "recv" else far.recvmsg(10, 100, flags)[0]
        got.append(data)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until_asleep(os.getpid(), waiting.native_id)
    with ThreadPoolExecutor(2) as both:
        assert [*both.map(fastsock.attach, pair, (0.05, 0.05))] == [False, False]
    for byte in b"abcdefghij"[len(before) :]:
        near.sendall(bytes([byte]))
    waiting.join()
    assert got == [b"abcdefghij"]
    if flags & PEEK:
        assert far.recv(10, WAIT_ALL) == b"abcdefghij"
    settle(near, far)
    assert (near.transport, far.transport) == ("shm", "shm")


@pytest.mark.parametrize("attached", (False, True))
def test_a_receiver_that_wants_so_many_bytes_at_once_stays_on_tcp(pair, attached):
    near, far = pair
    if attached:
        settle(near, far)
    far.setsockopt(standard.SOL_SOCKET, standard.SO_RCVLOWAT, 8)
    with ThreadPoolExecutor(2) as both:
        assert not [*both.map(fastsock.attach, pair, (0.05, 0.05))][1]
    assert far.getsockopt(standard.SOL_SOCKET, standard.SO_RCVLOWAT) == 8
    near.sendall(b"1234")
    assert select.select([far], [], [], 0)[0] == []
    near.sendall(b"5678")
    assert select.select([far], [], [], 60)[0] == [far]
    assert far.recv(100) == b"12345678"


@pytest.mark.parametrize("sent", (b"abc", b"abcdef"))
def test_a_peek_that_waits_for_all_ends_with_the_stream(pair, sent):
    near, far = pair
    settle(near, far)
    near.sendall(b"abc")
    got = []
    waiting = threading.Thread(target=lambda: got.append(far.recv(10, WAIT_ALL | PEEK)))
    waiting.start()
    near.sendall(sent[3:])
    near.shutdown(standard.SHUT_WR)
    waiting.join()
    assert got == [sent]
    assert (far.recv(10, WAIT_ALL), far.recv(10, WAIT_ALL | PEEK)) == (sent, b"")


@pytest.mark.parametrize("direct", (1, 70_000))
def test_the_counts_are_of_the_program_s_bytes(pair, direct):
    """Tokens are none of them, on whichever carrier the bytes went."""
    near, far = pair
    total = 0
    for turn in range(60):
        if turn == 20:
            settle(near, far)
        for one, other in ((near, far), (far, near)):
            other.setblocking(False)
            one.sendall(bytes(direct))
            other.setblocking(True)
            assert other.recv(direct, WAIT_ALL) == bytes(direct)
        total += direct
    for told in map(fastsock.explain, pair):
        assert (told.bytes_sent, told.bytes_received) == (total, total)
        assert 0 < told.bytes_by_memory < 2 * total


def test_an_object_has_no_attributes_but_the_standard_ones(pair):
    with pytest.raises(AttributeError):
        pair[0].colour = "blue"


def test_a_base_that_is_no_socket_is_none():
    with pytest.raises(TypeError):
        stream_socket.SocketCalls()


def test_what_is_no_tcp_stream_is_the_standard_class_s():
    one, other = stream_socket.socketpair()
    with one, other:
        one.send(b"x")
        assert (other.recv(2), one.transport) == (b"x", "plain")
    with stream_socket.socket(standard.AF_INET, standard.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.sendto(b"x", sock.getsockname())
        assert sock.recvfrom(2) == (b"x", sock.getsockname())
        assert sock.transport == "plain"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("recv", (-1,)),
        ("recv", ("x",)),
        ("recv", (1.0,)),
        ("recv", (1, 1 << 40)),
        ("recv", (1, -(1 << 40))),
        ("recv", (1 << 80,)),
        ("recv_into", (b"x",)),
        ("recv_into", (bytearray(2), 3)),
        ("recv_into", (bytearray(2), -1)),
        ("recvfrom", (-1,)),
        ("recvfrom_into", (bytearray(2), 3)),
        ("recvfrom_into", (bytearray(2), -1)),
        ("recvmsg", (-1,)),
        ("recvmsg", (1, -1)),
        ("recvmsg_into", (1,)),
        ("recvmsg_into", ([b"x"],)),
        ("send", ("x",)),
        ("send", (b"x", "x")),
        ("send", (b"x", None)),
        ("sendall", (memoryview(b"abcd")[::2],)),
        ("sendmsg", ("x",)),
        ("sendmsg", (1,)),
        ("shutdown", ("x",)),
        ("shutdown", (7,)),
    ],
)
def test_wrong_arguments_are_refused_in_the_standard_words(pair, name, arguments):
    def refusal(sock):
        with pytest.raises(Exception) as caught:
            getattr(sock, name)(*arguments)
        return type(caught.value), str(caught.value)

    plain = _socket.socket(fileno=_socket.dup(pair[0].fileno()))
    try:
        assert refusal(pair[0]) == refusal(plain)
    finally:
        plain.close()


def test_signatures_can_be_asked_for():
    assert list(inspect.signature(stream_socket.socket.recv).parameters) == ["self", "bufsize", "flags"]


def test_a_young_connection_is_told_of(monkeypatch):
    monkeypatch.setenv("FASTSOCK_UPGRADE_AFTER", "8")
    config.reload()
    with stream_socket.create_server(("127.0.0.1", 0)) as listener:  # settings hold from the next connection on
        near = stream_socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        _is_told_of_as_young(near, far)


def _is_told_of_as_young(near, far):
    assert "it looks" not in fastsock.explain(near).detail
    near.sendall(b"three")
    told = fastsock.explain(near)
    assert (told.transport, told.role, told.state, told.bytes_sent) == ("tcp", "connect", "open", 5)
    assert (told.reason, told.sent_by, told.received_by) == ("not_yet", "tcp", "tcp")
    assert (told.local, told.peer) == (near.getsockname(), near.getpeername())
    assert fastsock.explain(far).role == "accept"
    assert {(row.local, row.peer) for row in fastsock.connections()} >= {
        (near.getsockname(), near.getpeername()),
        (far.getsockname(), far.getpeername()),
    }


def test_the_other_process_is_told():
    with PairMaker("fastsock.stream_socket", transport="shm").pair() as pair:
        told = fastsock.explain(pair.near)
        assert (told.transport, told.peer_pid, told.pid) == ("shm", pair.far.process.pid, os.getpid())
        assert (told.waits, told.wakes, told.bytes_direct) == (0, 0, 0)


@pytest.mark.parametrize("duplicate", (_socket.dup, lambda number: standard.fromfd(number, 2, 1).detach()))
def test_a_duplicate_that_was_made_unseen_has_the_memory(duplicate):
    """As socket.fromfd() makes it: the number comes from C."""
    with PairMaker("fastsock.stream_socket", transport="shm").pair() as pair:
        other = stream_socket.socket(fileno=duplicate(pair.near.fileno()))
        with other:
            pair.near.sendall(b"near")
            other.sendall(b"other")
            assert pair.far.recv(9, int(standard.MSG_WAITALL)) == b"nearother"
            pair.near.close()
            pair.far.sendall(b"1234")
            assert other.recv(4, standard.MSG_WAITALL) == b"1234"
            assert other.transport == "shm"


def _attach(sock: object, seconds: float) -> bool:
    return fastsock.attach(sock, seconds)


def _told(sock: object) -> tuple[str, str, str | None, str | None]:
    row = fastsock.explain(sock)
    return row.transport, row.reason, row.sent_by, row.received_by


def _converse(pair, rounds):
    for number in range(rounds):
        pair.near.sendall(b"%03d" % number)
        assert pair.far.recv(3, int(standard.MSG_WAITALL)) == b"%03d" % number
        pair.far.sendall(b"answer")
        assert pair.near.recv(6, standard.MSG_WAITALL) == b"answer"


@pytest.mark.parametrize("maker", (MAKER, MAKER.turned()), ids=str)
def test_a_connection_that_lasts_gains_memory(maker):
    with maker.pair() as pair:
        _converse(pair, 40)
        assert _told(pair.near) == pair.far.run(_told) == ("shm", "joined", "shm", "shm")
        row = fastsock.explain(pair.near)
        assert (row.bytes_sent - 120, row.bytes_received - 240) in TOKENS  # single bytes on TCP that woke a reader
        assert row.bytes_by_memory > 0
        assert row.switches == 1


def _stay_on(sock, number):
    os.sched_setaffinity(0, {number})


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="nobody looks where both ends share a core")
@pytest.mark.parametrize("look_us", (0, 1000))
def test_a_receive_looks_as_long_as_the_setting_says(look_us, monkeypatch):
    """With the interpreter's lock, before it sleeps. Whoever looks in vain is counted."""
    monkeypatch.setenv("FASTSOCK_LOOK_US", str(look_us))
    config.reload()
    cores = os.sched_getaffinity(0)
    try:
        with MAKER.pair() as pair:
            _stay_on(pair.near, min(cores))
            pair.far.run(_stay_on, max(cores))
            _converse(pair, 40)
            assert pair.near.transport == "shm"
            looked = core.looked()
            pair.near.settimeout(0.001)
            for _ in range(40):
                with pytest.raises(TimeoutError):
                    pair.near.recv(1)
            assert (core.looked() > looked) == (look_us > 0)
    finally:
        os.sched_setaffinity(0, cores)


LIVES = """
import os
import fastsock
from fastsock import socket

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # what memory saves depends on where both ends run

def live(listener, rounds):
    with socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        with far:
            for _ in range(rounds):
                for one, other in ((near, far), (far, near)):
                    one.sendall(b"x")
                    other.recv(1)
            row = fastsock.explain(near)
            return row.transport, row.detail

with socket.create_server(("127.0.0.1", 0)) as listener:
    for lives in [(12,) * 40, (400,) * 60]:
        taken = [live(listener, each) for each in lives]
        tell([transport for transport, _ in taken])
        tell(taken[-1][1])
    tell(live(listener, 1))
"""


def test_what_the_last_connections_lived_decides_from_when_on_the_next_one_looks():
    env = {**environment("shm"), "FASTSOCK_UPGRADE_AFTER": "pays"}
    with Script("plain", LIVES, env=env) as program:
        short, detail = program.hear(), program.hear()
        assert short.count("shm") <= 1, "the first one did not know better"
        assert "it looks from 16 calls on, as suits the lives of its listener's last connections" in detail
        long, detail = program.hear(), program.hear()
        assert (set(long), detail) == ({"shm"}, "")
        transport, detail = program.hear()
        assert transport == "tcp"
        assert "it looks from its first call on" in detail or not detail.count("looks")


@pytest.mark.parametrize("how", ("close", "number", "dropped"))
def test_connections_are_told_of_when_they_are_closed(how):
    program = f"""
        import os, fastsock, socket
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
        near.sendall(b"abc")
        name = near.getsockname()
        twice = near.dup()
        twice.close()
        if {how!r} == "close":
            near.close()
        elif {how!r} == "number":
            os.close(near.detach())
        else:
            del near
        rows = [row for row in fastsock.connections() if row.local == name]
        tell([(row.state, row.role, row.bytes_sent, row.peer == far.getsockname()) for row in rows])
    """
    with Script("shm", program, env={"FASTSOCK_STATS": os.devnull, "FASTSOCK_UPGRADE_AFTER": "100"}) as script:
        assert script.hear() == [["closed", "connect", 3, True]]
        assert script.finish() == 0


@pytest.mark.parametrize("maker", (MAKER, MAKER.turned()), ids=str)
def test_memory_can_be_asked_for_and_given_up(maker, monkeypatch):
    monkeypatch.setenv("FASTSOCK_UPGRADE_AFTER", "1000000")
    config.reload()
    with maker.pair() as pair:
        asking = pair.far.begin_run(_attach, 20.0)
        assert fastsock.attach(pair.near, 20.0)
        assert asking.result()
        _converse(pair, 4)
        assert fastsock.explain(pair.near).transport == "shm"
        fastsock.release(pair.near)
        assert fastsock.explain(pair.near).transport == "tcp"
        _converse(pair, 4)
        number = os.dup(pair.near.fileno())
        os.write(number, b"by the kernel alone")
        os.close(number)
        assert pair.far.recv(100) == b"by the kernel alone"


def test_a_number_that_was_detached_is_its_taker_s(pair):
    """Who gets the number closes it, perhaps in C. The next file of that number is no connection."""
    near, _ = pair
    near.sendall(b"x")
    number = near.detach()
    _socket.close(number)
    ends = os.pipe()
    try:
        assert number in ends
        os.write(ends[1], b"through the pipe")
        assert os.read(ends[0], 100) == b"through the pipe"
    finally:
        for end in ends:
            os.close(end)


def test_a_plain_end_is_asked_in_vain():
    maker = replace(MAKER, far_module="socket")
    with maker.pair() as pair:
        assert not fastsock.attach(pair.near, 0.01)
        _converse(pair, 40)
        assert _told(pair.near)[:2] == ("tcp", "peer_did_not_join")


def test_a_number_that_was_closed_unseen_is_nobody_s(pair):
    """C code closes a number. The next socket of that number is a new one."""
    near, _ = pair
    number = near.fileno()
    near.sendall(b"x")
    _socket.close(number)
    with ExitStack() as others:
        sock = others.enter_context(stream_socket.socket())
        while sock.fileno() != number:
            sock = others.enter_context(stream_socket.socket())
        near.detach()
        with stream_socket.create_server(("127.0.0.1", 0)) as listener:
            sock.connect(listener.getsockname())
            other, _ = listener.accept()
            with other:
                sock.sendall(b"x")
                assert other.recv(2) == b"x"


def test_a_number_that_a_pipe_got_unseen_is_the_pipe_s():
    """By the calls of `os`, which the launcher replaces."""
    program = """
        import ctypes, os, socket
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
        near.sendall(b"abc")
        assert far.recv(3) == b"abc"
        number = near.fileno()
        ctypes.CDLL(None).close(number)
        reader, writer = os.pipe()
        assert number in (reader, writer)
        os.write(writer, b"pipe")
        tell(os.read(reader, 10).decode())
        near.detach()
    """
    with Script("shm", program) as script:
        assert script.hear() == "pipe"
        assert script.finish() == 0


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.execv('/bin/true', ['true'])"])
def test_a_child_that_ended_without_a_close_holds_nothing(end):
    """The parent's connection gains memory. Its close is the last one: unread bytes are told by a reset."""
    accepting = f"""
        import os, socket
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname())
        sock, _ = listener.accept()
        for child in range(2):
            child = os.fork()
            if child == 0:
                {end}
            os.waitpid(child, 0)
            for _ in range(100):
                sock.sendall(sock.recv(1))
            tell(sock.transport)
        assert sock.recv(1, socket.MSG_PEEK)
        sock.close()
        tell("closed")
    """
    connecting = """
        import socket
        sock = socket.create_connection(tuple(hear()))
        for _ in range(200):
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
        sock.sendall(b"unread")
        assert hear() == "closed"
        try:
            sock.recv(1)
        except ConnectionResetError:
            tell("reset")
    """
    with Script("shm", accepting) as server, Script("shm", connecting) as client:
        client.tell(server.hear())
        assert [server.hear(), server.hear()] == ["shm", "shm"]
        assert server.hear() == "closed"
        client.tell("closed")
        assert client.hear() == "reset"
        assert client.finish() == 0
        assert server.finish() == 0


def test_a_number_that_another_socket_got_unseen_is_that_socket_s():
    """The ring of the first one has unread bytes. Nothing of the one comes by the other."""
    program = """
        import _socket, ctypes, os, socket
        C = ctypes.CDLL(None)
        def connected():
            with socket.create_server(("127.0.0.1", 0)) as listener:
                near = socket.create_connection(listener.getsockname())
                return near, listener.accept()[0]
        for way in ("object", "number", "duplicate"):
            near, far = connected()
            for _ in range(100):
                near.sendall(b"x")
                far.sendall(far.recv(1))
                near.recv(1)
            tell(near.transport)
            far.sendall(b"the first one's")
            one, two = _socket.socketpair(_socket.AF_UNIX) if way == "number" else connected()
            number = near.fileno()
            C.close(number)
            assert C.dup2(one.fileno(), number) == number
            two.send(b"the other one's")
            if way == "object":
                taken = socket.socket(fileno=number)
                taken.sendall(b"answer")
                tell(taken.recv(100).decode())
            elif way == "number":
                os.write(number, b"answer")
                tell(os.read(number, 100).decode())
            else:
                again = os.dup(number)
                os.write(again, b"answer")
                tell(os.read(again, 100).decode())
            tell(two.recv(100).decode())
            near.detach()
    """
    with Script("shm", program) as script:
        for _ in range(3):
            assert script.hear() == "shm"
            assert script.hear() == "the other one's"
            assert script.hear() == "answer"
        assert script.finish() == 0


def test_a_number_that_another_socket_got_unseen_is_told_of_without_that_socket_s_addresses():
    program = """
        import _socket, ctypes, fastsock, socket
        C = ctypes.CDLL(None)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def connected():
                near = socket.create_connection(listener.getsockname())
                return near, listener.accept()[0]
            near, far = connected()
            other, beyond = connected()
        for _ in range(100):
            near.sendall(b"x")
            far.sendall(far.recv(1))
            near.recv(1)
        tell(near.transport)
        number = _socket.socket.fileno(near)  # unseen
        C.close(number)
        assert C.dup2(other.fileno(), number) == number
        near.close()
        closed = [row for row in fastsock.connections() if row.state == "closed"]
        tell([len(closed), [row for row in closed if row.local == other.getsockname()]])
    """
    with Script("shm", program) as script:
        assert script.hear() == "shm"
        assert script.hear() == [1, []]
        assert script.finish() == 0
