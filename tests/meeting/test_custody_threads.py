"""Connections that went ahead of their server, used by several threads and forked children at the same moment."""

from __future__ import annotations

import gc
import os
import socket as standard
import sys
import threading
import time
import warnings

import pytest

import fastsock
from fastsock import core, socket
from fastsock.connection import registry
from fastsock.testing import FarProcess

from ..helpers.paths import preferring

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
ROUNDS = 1000 if LONG else 12
SECONDS = 30 if LONG else 1.5
THREADS = 8

pytestmark = pytest.mark.skipif(not core.available, reason="the native core is not built")


@pytest.fixture
def server():
    """A process that listens, and accepts when it is told to."""
    with preferring("shm"), FarProcess() as process:
        process.address = process.run(_listen)
        yield process


@pytest.fixture
def hasty():
    """Threads take turns as often as the interpreter allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _listen(here):
    here.listener, here.socks = standard.create_server(("127.0.0.1", 0), backlog=2048), []
    return here.listener.getsockname()


def _accept(here, count):
    from fastsock import socket

    if not hasattr(here, "fast"):
        here.fast = socket.socket(fileno=here.listener.detach())
    here.socks += [here.fast.accept()[0] for _ in range(count)]


def _close_all(here):
    while here.socks:
        here.socks.pop().close()


def _go_ahead(address):
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex(address)
    sock.settimeout(60)
    assert fastsock.explain(sock).reason == "not_accepted_yet"
    return sock


def _at_once(*calls):
    """Each call in a thread, begun at the same moment. Returns what they raised, but for the system's errors."""
    barrier, found = threading.Barrier(len(calls)), []

    def run(call):
        barrier.wait()
        try:
            call()
        except OSError:
            pass  # the connection may be closed or reset by another one of the calls
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _announced(server):
    """The server's listener is fastsock's from here on."""
    server.run(_accept, 0)


def test_threads_connect_to_a_server_that_was_busy(server, hasty):
    """Each of them learns what became of the connections that went ahead."""
    _announced(server)
    for _ in range(ROUNDS):
        first = [_go_ahead(server.address) for _ in range(12)]
        server.run(_accept, len(first))
        accepting, made = server.begin(_accept, THREADS), []
        calls = [lambda made=made: made.append(socket.create_connection(server.address, timeout=60))] * THREADS
        assert _at_once(*calls) == []
        accepting.result()
        for sock in first + made:
            sock.close()
        server.run(_close_all)


def _go_ahead_or_not(address):
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex(address)
    return sock


CALLS = {
    "close": lambda sock: sock.close(),
    "detach": lambda sock: os.close(sock.detach()),
    "dup": lambda sock: sock.dup().close(),
    "transport": lambda sock: sock.transport,
    "shutdown": lambda sock: sock.shutdown(standard.SHUT_RDWR),
    "connections": lambda _: fastsock.connections(),
    "totals": lambda _: registry.totals(),
}


@pytest.mark.parametrize("other", CALLS)
def test_one_thread_closes_what_another_one_uses(server, hasty, other):
    """The server accepts meanwhile, never, or has accepted without fastsock."""
    _announced(server)
    totals = sum(registry.totals().values())
    for turn in range(ROUNDS):
        sock = _go_ahead(server.address)
        accepting = server.begin(_accept, 1) if turn % 2 else None
        calls = [lambda sock=sock: CALLS["close"](sock), lambda sock=sock: CALLS[other](sock)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # a second descriptor of it may be left
            assert _at_once(*calls) == []
            sock.close()
        if accepting is not None:
            accepting.result()
        else:
            server.run(_accept, 1)
        server.run(_close_all)
    assert sum(registry.totals().values()) == totals + ROUNDS  # each counts once, for one path


@pytest.mark.parametrize("accepts_first", [False, True])
def test_a_forked_child_closes_an_inherited_one(server, accepts_first):
    """It counts nothing of what its parent opened."""
    _announced(server)
    sock = _go_ahead(server.address)
    sock.sendall(b"x")
    sock.fileno()  # watched: it stays as it is when the process forks
    if accepts_first:
        server.run(_accept, 1)
    child = os.fork()
    if not child:
        status = 1
        try:
            before = registry.totals()
            sock.close()
            status = 0 if before == registry.totals() == {} else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    if not accepts_first:
        server.run(_accept, 1)
    assert server.run(_echo) == b"x"
    assert sock.recv(1) == b"x"
    sock.close()


def _echo(here):
    data = here.socks[-1].recv(1)
    here.socks[-1].sendall(data)
    return data


def test_forks_beside_threads_that_connect(server, hasty, monkeypatch):
    """The hook before a fork looks at all connections that are ahead of their server."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: unraisable.append(repr(told.exc_value)))
    _announced(server)
    over, kept, found = threading.Event(), [], []

    def connect():
        try:
            while not over.is_set() and len(kept) < 500:
                kept.append(_go_ahead_or_not(server.address))
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=connect) for _ in range(4)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    over.set()
    for thread in threads:
        thread.join()
    for sock in kept:
        sock.close()
    gc.collect()
    assert (unraisable, found) == ([], [])
