"""Connections on first use: ties, strangers, replays, hosts that cannot be reached."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sys
import threading
import time

import pytest

from fastsock.testing.ranks import RankMaker
from fastsock.xxdev import hello

from .makers import PROCESSES, ranks_on

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
ROUNDS = int(os.environ.get("FASTSOCK_TEST_ROUNDS") or (2000 if LONG else 3))
SEED = int(os.environ.get("FASTSOCK_TEST_SEED", "1"))


@pytest.fixture(params=PROCESSES)
def maker(request):
    """Ranks that are processes, on each path."""
    return ranks_on(request.param)


def _at_once(device, seed):
    """Everybody needs everybody for the first time, after the same fence."""
    me, size = device.id(), device.job.size
    choose = random.Random(seed * 100 + me)
    others = [rank for rank in range(size) if rank != me]
    device.job.fence()
    choose.shuffle(others)
    sends = []
    for rank in others:
        # about as long as one step of a hello, or not at all
        until = time.perf_counter() + choose.choice((0, 0, 2e-3)) * choose.random()
        while time.perf_counter() < until:
            pass
        sends.append(device.isend((me, rank), rank, 1))
    for rank in others:
        assert device.recv(None, rank, 1).value == (rank, me)
    for each in sends:
        each.iwait()
    return [device.explain(rank) is not None for rank in others]


@pytest.mark.timeout(7200 if LONG else 120)
def test_both_ends_connect_at_once(maker):
    for each in range(ROUNDS):
        size = 2 if each % 3 else 4
        for known in maker.run(size, _at_once, SEED + each):
            assert all(known)


def _path(device):
    device.send(b"x", 1 - device.id(), 1)
    device.recv(None, 1 - device.id(), 1)
    explanation = device.explain(1 - device.id())
    return explanation["transport"] if isinstance(explanation, dict) else explanation.transport


def test_the_path_is_explained(maker):
    transports = dict(maker.environment)["FASTSOCK_TRANSPORTS"].split(",")
    wanted = "sysv" if maker.device == "sysvdev" else transports[0]
    assert maker.run(2, _path) == [wanted, wanted]


def _at_once_without_threads(device, seed):
    threading.stack_size(1 << 46)  # no process has room for one
    return _at_once(device, seed)


def test_ranks_that_can_start_no_more_threads(maker):
    """They connect to each other all the same: as at the end of a program, where Python starts none."""
    for each in range(ROUNDS):
        for known in maker.run(4, _at_once_without_threads, SEED + each):
            assert all(known)


class _Interrupted(Exception):
    pass


def _interrupt_line(number):
    """Raises at the line of that number, counted from 1, which runs in connections.py: as a signal's handler would."""
    left = number

    def trace(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.endswith("connections.py"):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise _Interrupted
        return trace

    sys.settrace(trace)


def _interrupted_at_every_line(device):
    """Rank 0's first send to each other rank is interrupted one line later than the one before: the last one not."""
    if device.id() != 0:
        return device.recv(None, 0, 1).value
    interrupted = []
    for peer in range(1, device.job.size):
        _interrupt_line(peer)
        try:
            device.engine.send(b"never", peer, 2, 99)
            interrupted.append(False)
        except _Interrupted:
            interrupted.append(True)
        sys.settrace(None)
        device.send(peer, peer, 1)
    return interrupted


def test_a_first_send_that_was_interrupted(maker):
    interrupted, *received = maker.run(7, _interrupted_at_every_line)
    assert interrupted[0]
    assert not interrupted[-1]
    assert received == list(range(1, 7))


# ---- strangers ----


def _where(here):
    return here.device.job.address_of(here.device.id())


def _talk(here, other):
    here.device.send("hello", other, 1)
    return here.device.recv(None, other, 1).value


def _talks(ranks):
    pending = [ranks.begin(rank, _talk, 1 - rank) for rank in range(2)]
    assert [each.result() for each in pending] == ["hello", "hello"]


def _until_closed(sock):
    """What the other end still says until it hangs up."""
    sock.settimeout(30)
    data = b""
    try:
        while block := sock.recv(4096):
            data += block
    except ConnectionResetError:
        pass
    return data


GARBAGE = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 20,
    bytes(4096),
    b"\xff" * 4096,
    b"FSHELLO1" + bytes(4096),
    b"FSHELLO1message".ljust(64, b"\0") * 4,
    b"",
    b"F",
]


def test_garbage_is_refused_and_harms_nobody():
    with RankMaker("iodev").ranks(2) as ranks:
        where = ranks.run(0, _where)
        for garbage in GARBAGE:
            with socket.create_connection(where) as stranger:
                stranger.sendall(garbage)
                with contextlib.suppress(OSError):  # it may have been refused by now
                    stranger.shutdown(socket.SHUT_WR)
                assert b"FSWELCO1" not in _until_closed(stranger)
        _talks(ranks)


def test_silent_strangers_keep_nobody_out():
    with RankMaker("iodev").ranks(2) as ranks:
        where = ranks.run(0, _where)
        silent = [socket.create_connection(where) for _ in range(200)]
        try:
            _talks(ranks)
            assert _until_closed(silent[0]) == b"", "the oldest of too many strangers goes"
        finally:
            for each in silent:
                each.close()


def _break_settling(here):
    def settle(*_):
        raise ValueError("so the test wills")

    here.device.connections.settle = settle


def test_a_connection_that_cannot_be_taken_over_is_told_to_both(maker):
    with maker.ranks(2) as ranks:
        ranks.run(0, _break_settling)
        for rank in (1, 0):
            code, peer, text, _ = ranks.run(rank, _try, 1 - rank)
            assert (code, peer) == (2, 1 - rank) and f"rank {1 - rank}" in text, text


def _first_words(where, job, rank, begun, said):
    """A rank's connection that has begun its hello, which goes on when all have begun theirs."""

    class Halting:
        def __init__(self, sock):
            self._sock = sock

        def recv(self, size):
            begun.wait()
            return self._sock.recv(size)

        def __getattr__(self, name):
            return getattr(self._sock, name)

    with socket.create_connection(where) as sock:
        try:
            hello.connect(Halting(sock), secret=job.secret, job=job.name, rank=rank, peer=0, role="message")
            said.append(sock.recv(1))
        except OSError as error:
            said.append(error)


def test_many_ranks_may_connect_to_one_at_once():
    """As many hellos as there are ranks are under way at the same time. None is dropped as a stranger's."""
    with RankMaker("iodev").ranks(2) as ranks:
        where = ranks.run(0, _where)
        ranks.run(0, _resize, 400)
        begun, said = threading.Barrier(300), []
        callers = [
            threading.Thread(target=_first_words, args=(where, ranks.job, 2 + each, begun, said)) for each in range(300)
        ]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
        assert said == [b"W"] * 300


def _resize(here, size):
    here.device.job.size = size


class _Recorder:
    """A socket that keeps what it sends."""

    def __init__(self, sock):
        self._sock = sock
        self.sent = []

    def sendall(self, data):
        self.sent.append(bytes(data))
        self._sock.sendall(data)

    def __getattr__(self, name):
        return getattr(self._sock, name)


def test_a_replayed_hello_is_refused():
    with RankMaker("iodev").ranks(3) as ranks:
        where = ranks.run(0, _where)
        job = ranks.job
        with socket.create_connection(where) as real:
            recorder = _Recorder(real)
            hello.connect(recorder, secret=job.secret, job=job.name, rank=2, peer=0, role="message")
            assert real.recv(1) == b"W"
            with socket.create_connection(where) as replayed:
                for message in recorder.sent:
                    replayed.sendall(message)
                answer = _until_closed(replayed)
            assert b"FSWELCO1" not in answer and b"FSREFUS1" in answer
        _talks(ranks)


@pytest.mark.parametrize(
    "wrong",
    [{"secret": bytes(32)}, {"job": "another"}, {"rank": 7}, {"peer": 1}, {"role": "control"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_who_does_not_belong_here_is_refused(wrong):
    with RankMaker("iodev").ranks(2) as ranks:
        where = ranks.run(0, _where)
        proof = {"secret": ranks.job.secret, "job": ranks.job.name, "rank": 1, "peer": 0, "role": "message", **wrong}
        with socket.create_connection(where) as stranger, pytest.raises(hello.HelloError):
            hello.connect(stranger, **proof)
        _talks(ranks)


def test_a_hello_as_oneself_is_refused():
    with RankMaker("iodev").ranks(2) as ranks:
        where = ranks.run(0, _where)
        with socket.create_connection(where) as stranger:
            hello.connect(stranger, secret=ranks.job.secret, job=ranks.job.name, rank=0, peer=0, role="message")
            assert stranger.recv(1) == b"F"
        _talks(ranks)


# ---- somebody else at the other end ----


def _redirect(here, peer, address):
    real = here.device.job.address_of
    here.device.job.address_of = lambda rank, timeout=None: address if rank == peer else real(rank, timeout)


def _try(here, peer):
    from fastsock.xxdev import XxdevError

    began = time.monotonic()
    try:
        here.device.send(b"x" * 1_000_000, peer, 1)
    except XxdevError as error:
        return int(error.code), error.peer, str(error), time.monotonic() - began


def _server(behaviour):
    """A listener that is no rank; `behaviour(sock)` for each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                behaviour(sock)

    threading.Thread(target=serve, daemon=True).start()
    return listener


@pytest.mark.parametrize(
    "behaviour",
    [
        lambda sock: None,
        lambda sock: sock.sendall(b"220 mail.example.org ESMTP" + bytes(1000)),
        lambda sock: (sock.recv(1000), sock.sendall(b"FSCHALL1" + bytes(32)), sock.recv(1000), sock.sendall(bytes(40))),
    ],
    ids=["hangs up", "mail server", "liar"],
)
def test_something_else_at_a_ranks_address(behaviour):
    with RankMaker("iodev").ranks(2) as ranks, _server(behaviour) as listener:
        ranks.run(0, _redirect, 1, listener.getsockname())
        code, peer, text, took = ranks.run(0, _try, 1)
        assert (code, peer) == (2, 1) and "rank 1" in text and str(listener.getsockname()[1]) in text, text
        assert took < 10


def test_nothing_at_a_ranks_address():
    with RankMaker("iodev").ranks(2) as ranks:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
        ranks.run(0, _redirect, 1, address)
        code, peer, text, took = ranks.run(0, _try, 1)
        assert (code, peer) == (2, 1) and "it has died" in text, text
        assert took < 10


def test_a_host_that_cannot_be_reached():
    """A listener whose backlog is full drops what comes, as a firewall does."""
    environment = (("FASTSOCK_MPJ_CONNECT_MS", "300"),)
    with RankMaker("iodev", environment).ranks(2) as ranks, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        ranks.run(0, _redirect, 1, listener.getsockname())
        code, peer, text, took = ranks.run(0, _try, 1)
        assert (code, peer) == (2, 1) and "cannot be reached" in text and "firewall" in text, text
        assert 0.2 < took < 10
        for filler in fillers:
            filler.close()
