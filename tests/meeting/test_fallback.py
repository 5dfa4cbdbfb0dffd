"""Connections that stay on TCP: what is remembered of them must not outlive its reason, and each is told of."""

from __future__ import annotations

import gc
import os
import socket as plain
import threading
import warnings

import pytest

import fastsock
from fastsock import config, core, socket
from fastsock.connection import fallback, registry
from fastsock.meeting import history
from fastsock.testing import PLAIN, FarProcess, PairMaker

from ..helpers.paths import preferring

HERE = ("127.0.0.1", 0)
MANY = 30  # more than a presence name can be told of at once


@pytest.fixture(autouse=True)
def as_delivered():
    with preferring("shm" if core.available else "unix"):
        config.configure(short_lived="path", meeting_ms=5000)
        yield


def _path():
    return "shm" if core.available else "unix"


class Server:
    """A listener of the fast class in a second process, and one accepted connection after the other."""

    def __init__(self, process):
        self.process = process
        self.address = process.run(_listen, _path())

    def accept(self):
        return self.process.begin(_accept)


def _listen(here, path):
    config.configure(transports=f"{path},tcp", short_lived="path", meeting_ms=5000)
    here.listener = socket.create_server(HERE, backlog=100)
    here.accepted = []
    return here.listener.getsockname()


def _accept(here, count=1):
    for _ in range(count):
        here.accepted.append(here.listener.accept()[0])
    return [fastsock.explain(sock).reason for sock in here.accepted[-count:]]


def _close(here):
    here.listener.close()


@pytest.fixture
def server():
    with FarProcess() as process:
        yield Server(process)


def _reason(address):
    with socket.create_connection(address) as sock:
        return fastsock.explain(sock).reason


def test_plain_listener_is_told_of_each_time():
    with plain.create_server(HERE, backlog=100) as listener:
        assert [_reason(listener.getsockname()) for _ in range(50)] == ["no_listener_presence"] * 50


def test_fast_listener_after_a_plain_one(monkeypatch):
    monkeypatch.setattr(fallback, "NOBODY_SECONDS", 60.0)
    with plain.create_server(HERE, backlog=100) as listener:
        address = listener.getsockname()
        for _ in range(10):
            _reason(address)
    with pytest.raises(ConnectionRefusedError):
        _reason(address)
    with FarProcess() as process:
        process.run(_listen_at, address, _path())
        joined = process.begin(_accept)
        assert _reason(address) == "joined"
        assert joined.result() == ["joined"]


def _listen_at(here, address, path):
    config.configure(transports=f"{path},tcp", meeting_ms=5000)
    here.listener = socket.create_server(address)
    here.accepted = []


def test_nobody_is_remembered_for_a_moment_only(monkeypatch):
    """A fast listener beside the plain one at another address is what a client of that finds."""
    monkeypatch.setattr(fallback, "NOBODY_SECONDS", 1e-9)
    with plain.create_server(HERE, backlog=100) as listener:
        address = listener.getsockname()
        for _ in range(10):
            _reason(address)
        from fastsock.meeting import presence

        held, complete = presence.announce(address, False)
        config.configure(meeting_ms=10)
        assert complete
        assert _reason(address) == "not_accepted_yet"
        for each in held:
            each.close()


def test_settings_that_change(server):
    for _ in range(3):
        config.configure(transports="tcp")
        accepted = server.accept()
        assert _reason(server.address) == "excluded_by_setting"
        assert accepted.result() == ["no_offer"]
        config.configure(transports=f"{_path()},tcp")
        accepted = server.accept()
        assert _reason(server.address) == "joined"
        assert accepted.result() == ["joined"]


@pytest.mark.parametrize("address", [(["a"], 80), (None, 80), 80, ("127.0.0.1",), ("127.0.0.1", -1)], ids=str)
def test_wrong_addresses(address):
    """What the standard class says, whatever is known to stay."""
    config.configure(transports="tcp")
    raised = []
    for make in (plain.socket, socket.socket):
        with make() as sock, pytest.raises(Exception) as caught:
            sock.connect(address)
        raised.append((caught.type, str(caught.value)))
    assert raised[0] == raised[1]


def test_rule_is_told(tmp_path):
    rules = config.parse_rules("connect 127.0.0.0/8 * tcp")
    config.configure(rules=rules)
    with socket.create_server(HERE, backlog=100) as listener:
        assert [_reason(listener.getsockname()) for _ in range(5)] == ["excluded_by_rule"] * 5


def test_plain_and_fast_clients_by_turns(server):
    for connect in (plain.create_connection, socket.create_connection) * 20:
        accepted = server.accept()
        with connect(server.address):
            reason = "joined" if connect is socket.create_connection else "no_offer"
            assert accepted.result() == [reason]


def test_fast_client_behind_many_plain_ones(server):
    waiting = [plain.create_connection(server.address) for _ in range(MANY)]
    accepted = server.process.begin(_accept, MANY + 1)
    with socket.create_connection(server.address) as sock:
        assert fastsock.explain(sock).reason == "joined"
    assert accepted.result() == ["no_offer"] * MANY + ["joined"]
    for sock in waiting:
        sock.close()


def test_more_clients_at_once_than_can_be_told(server):
    reasons = []
    threads = [threading.Thread(target=lambda: reasons.append(_reason(server.address))) for _ in range(MANY)]
    for thread in threads:
        thread.start()
    assert server.process.run(_accept, MANY) == ["joined"] * MANY
    for thread in threads:
        thread.join()
    assert reasons == ["joined"] * MANY


def _accept_in_children(here, each):
    children = []
    for _ in range(2):
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            reasons = _accept(here, each)
            os.write(writable, " ".join(reasons).encode())
            os._exit(0)
        os.close(writable)
        children.append((child, readable))
    reasons = []
    for child, readable in children:
        with open(readable) as pipe:
            reasons += pipe.read().split()
        os.waitpid(child, 0)
    return reasons


def test_forked_workers_find_every_offer(server):
    warm = server.accept()
    with socket.create_connection(server.address):
        assert warm.result() == ["joined"]
    each = 10
    accepted = server.process.begin(_accept_in_children, each)
    made = []
    for number in range(2 * each):
        connect = socket.create_connection if number % 2 else plain.create_connection
        made.append(connect(server.address))
    reasons = [fastsock.explain(sock).reason for sock in made[1::2]]
    assert accepted.result().count("joined") == reasons.count("joined") == each
    for sock in made:
        sock.close()


def _take_numbers(here):
    """A datagram socket of the program's own where the presence was."""
    presence = here.listener._fast_presence[0]
    number = presence.identity()[0]
    os.close(number)
    here.own = plain.socket(plain.AF_UNIX, plain.SOCK_DGRAM)
    if here.own.fileno() != number:
        os.dup2(here.own.fileno(), number)
        here.own = plain.socket(fileno=number)
    here.own.bind(f"\0fastsock/test/{os.getpid()}")
    with plain.socket(plain.AF_UNIX, plain.SOCK_DGRAM) as sender:
        sender.sendto(b"mine", here.own.getsockname())


def _own_datagram(here):
    return here.own.recv(10)


def test_number_of_the_presence_may_be_anothers(server):
    server.process.run(_take_numbers)
    accepted = server.accept()
    with plain.create_connection(server.address):
        assert accepted.result() == ["no_offer"]
    assert server.process.run(_own_datagram) == b"mine"


def test_open_and_closed_ones_are_listed():
    with plain.create_server(HERE) as listener:
        address, before = listener.getsockname(), registry.totals().get("tcp", 0)
        for _ in range(10):
            with socket.create_connection(address) as sock, listener.accept()[0] as other:
                sock.sendall(b"abc")
                assert other.recv(3) == b"abc"
                (row,) = [row for row in fastsock.connections() if row.state == "open" and row.peer == address]
                assert (row.transport, row.role, row.bytes_sent) == ("tcp", "connect", 3)
            assert fastsock.explain(sock).state == "closed"
            assert [row for row in fastsock.connections() if row.peer == address][-1] == fastsock.explain(sock)
        assert registry.totals()["tcp"] == before + 10


def test_dropped_ones_are_closed_ones():
    with plain.create_server(HERE) as listener, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        address = listener.getsockname()

        def states():
            return [row.state for row in fastsock.connections() if row.peer == address]

        before = states()  # of an earlier listener that had this port
        for _ in range(6):
            sock = socket.create_connection(address)
            del sock
        gc.collect()
        assert states() == before + ["closed"] * 6


def test_bytes_of_closed_ones_for_a_report(tmp_path):
    config.configure(stats=str(tmp_path / "stats"))
    with plain.create_server(HERE) as listener:
        for _ in range(6):
            with socket.create_connection(listener.getsockname()) as sock:
                sock.sendall(b"abc")
            assert fastsock.explain(sock).bytes_sent == 3


@pytest.mark.skipif(not core.available, reason="only the shm path counts what it carries")
def test_short_ones_until_one_carries_much(server, monkeypatch):
    config.configure(short_lived="tcp")
    monkeypatch.setattr(history, "SHORT_SECONDS", 60.0)
    monkeypatch.setattr(history, "SOON_SECONDS", 60.0)
    answered = server.process.begin(_answer, 121)

    def exchange(size):
        with socket.create_connection(server.address) as sock:
            sock.sendall(b"x" * size)
            sock.shutdown(plain.SHUT_WR)
            assert sum(iter(lambda: len(sock.recv(1 << 20)), 0)) == size
            return fastsock.explain(sock).reason

    short = [exchange(10) for _ in range(100)]
    assert short.count("joined") == history.ENOUGH_SHORT + 5  # and after 1, 3, 7, 15, 31 others
    assert short[-1] == "short_lived_before"
    assert exchange(history.SHORT_BYTES) == "short_lived_before"
    assert [exchange(history.SHORT_BYTES) for _ in range(20)] == ["joined"] * 20
    answered.result()


def _answer(here, count):
    for _ in range(count):
        sock, _ = here.listener.accept()
        with sock:
            data = b"".join(iter(lambda: sock.recv(1 << 20), b""))  # noqa: B023
            sock.sendall(data)


def test_connecting_twice_without_blocking():
    """Plain TCP's answers, and never that it is connected while it is not."""
    answers = []
    for make in (plain.socket, socket.socket):
        with plain.socket() as listener:
            listener.bind(HERE)
            listener.listen(0)
            address = listener.getsockname()
            made = [make() for _ in range(4)]
            for sock in made:
                sock.setblocking(False)
                with pytest.raises(BlockingIOError):
                    sock.connect(address)
            with pytest.raises(BlockingIOError) as raised:  # the backlog is full
                made[-1].connect(address)
            answers.append(raised.value.errno)
            for sock in made:
                sock.close()
    assert answers[0] == answers[1]


@pytest.mark.parametrize("fast", ["near", "far"])
def test_one_plain_end(fast):
    """The calls that a connection that stays has from the standard class."""
    maker = PairMaker("fastsock.socket", "tcp", far_module="socket") if fast == "near" else PLAIN
    with maker.pair() as pair:
        near = pair.near
        near.settimeout(7)
        near.setsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY, 1)
        assert near.gettimeout() == 7 and near.getsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY)
        assert near.getpeername() == plain.socket.getpeername(near) and near.fileno() > 0
        near.sendall(b"ab")
        assert near.send(b"c") == 1
        assert pair.far.recv(3, plain.MSG_WAITALL) == b"abc"
        pair.far.sendall(b"defgh")
        into = bytearray(2)
        assert near.recv(2) == b"de" and near.recv_into(into, nbytes=2) == 2 and near.recv(1, 0) == b"h"
        assert into == b"fg"
        near.shutdown(plain.SHUT_WR)
        assert pair.far.recv(1) == b""


def test_signatures_are_kept():
    import inspect

    for name in ("recv", "recv_into", "send", "sendall", "close", "accept", "fileno", "shutdown"):
        assert getattr(socket.socket, name).__name__ == name
        assert getattr(socket.socket, name).__qualname__ == f"socket.{name}"
    assert list(inspect.signature(socket.socket).parameters) == ["family", "type", "proto", "fileno"]
