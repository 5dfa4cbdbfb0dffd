"""The port of a connection is nobody else's while that lives, on every path: servers know clients by it."""

from __future__ import annotations

import errno
import gc
import os
import resource
import select
import socket as standard
import sys
import threading
import warnings
from contextlib import ExitStack, closing

import pytest

from fastsock import core
from fastsock.reporting import explanation
from fastsock.testing import FarProcess
from fastsock.testing.outcomes import receive

from ..helpers.certificates import client_context, issued, server_context

MANY = 400  # of some 28,000 ports: without a hold some would be given out twice, for certain


def _listen(here, maker):
    here.listener = maker.listener(backlog=1024)
    here.socks = []
    return here.listener.getsockname()


def _accept(here, count=1):
    """Where they come from; each is kept."""
    for _ in range(count):
        here.sock, address = here.listener.accept()
        here.socks.append(here.sock)
        here.seen = [*getattr(here, "seen", []), address]
    return here.seen


def _receive(here, count):
    return receive(here.sock, count)


def _send(here, data):
    here.sock.sendall(data)


def _is_free(maker, address):
    with closing(maker.sockets.socket()) as sock:
        try:
            sock.bind(address)
        except OSError as error:
            assert error.errno == errno.EADDRINUSE
            return False
    return True


@pytest.fixture
def server(near):
    issued()
    with FarProcess() as process:
        process.address = process.run(_listen, near)
        yield process


@pytest.fixture
def connected(near, server):
    """A connection, accepted; its port is free again after the test, where the path leaves none in TIME_WAIT."""
    accepting = server.begin(_accept)
    with closing(near.connect(server.address)) as sock:
        assert accepting.result() == [sock.getsockname()]
        near.check(sock)
        yield sock


def test_live_connections_have_different_addresses(near, server):
    accepting = server.begin(_accept, MANY)
    with ExitStack() as stack:
        socks = [stack.enter_context(closing(near.connect(server.address))) for _ in range(MANY)]
        own = [sock.getsockname() for sock in socks]
        assert len(set(own)) == MANY
        assert accepting.result() == own
        assert not any(_is_free(near, address) for address in own)


@pytest.mark.parametrize("bound", (None, ("127.0.0.1", 0), ("127.0.0.5", 0)))
def test_a_port_is_free_after_the_connection(near, server, bound):
    accepting = server.begin(_accept)
    sock = near.sockets.create_connection(server.address, source_address=bound)
    address = sock.getsockname()
    assert accepting.result() == [address]
    near.check(sock)
    assert not _is_free(near, address)
    sock.close()
    assert _is_free(near, address) == (near.transport in ("shm", "unix"))  # a closed TCP connection stays in TIME_WAIT


def test_a_duplicate_holds_the_port(near, connected):
    address = connected.getsockname()
    with closing(connected.dup()):
        connected.close()
        assert not _is_free(near, address)


def test_unread_bytes_behind_a_descriptor_hold_the_port(near, server, connected):
    """Then a bridge carries them, and the number is another file."""
    address = connected.getsockname()
    server.run(_send, b"hello")
    assert connected.recv(1) == b"h"
    with closing(standard.socket.__mro__[-2](fileno=os.dup(connected.fileno()))) as raw:
        assert raw.recv(4) == b"ello"
        with closing(near.connect(server.address)):
            assert not _is_free(near, address)


def test_a_forked_child_holds_the_port(near, connected):
    address, (reader, writer) = connected.getsockname(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    connected.close()
    held = not _is_free(near, address)
    os.close(writer)
    os.waitpid(child, 0)
    assert held
    assert _is_free(near, address) == (near.transport in ("shm", "unix"))


@pytest.mark.parametrize("how", ("dropped", "closed by its number", "detached and closed"))
def test_a_port_is_not_held_for_ever(near, server, how):
    accepting = server.begin(_accept)
    sock = near.connect(server.address)
    address = sock.getsockname()
    accepting.result()
    if how == "closed by its number":
        os.close(sock.fileno())
        sock.detach()
    elif how == "detached and closed":
        os.close(sock.detach())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del sock
        gc.collect()
    accepting = server.begin(_accept)
    near.connect(server.address).close()  # what was closed where nobody saw it is found now
    accepting.result()
    assert _is_free(near, address) == (near.transport in ("shm", "unix"))


def _answer_in_tls(here):
    sock = server_context().wrap_socket(here.sock, server_side=True)
    sock.sendall(sock.recv(100))
    here.sock = sock


def test_a_tls_connection_holds_its_port(near, server, connected):
    address = connected.getsockname()
    answering = server.begin(_answer_in_tls)
    with closing(client_context().wrap_socket(connected, server_hostname="localhost")) as secure:
        secure.sendall(b"hello")
        assert secure.recv(100) == b"hello"
        answering.result()
        gc.collect()
        assert not _is_free(near, address)


def test_a_connection_that_is_not_accepted_yet_holds_its_port(near, server):
    """Bytes have gone to TCP as well by then: the accepting end, which drops them, resets it."""
    with ExitStack() as stack:
        socks = []
        for _ in range(MANY // 4):
            sock = stack.enter_context(closing(near.sockets.socket()))
            sock.setblocking(False)
            assert sock.connect_ex(server.address) in (0, errno.EINPROGRESS)
            assert select.select([], [sock], [], 60)[1]
            assert sock.getsockopt(standard.SOL_SOCKET, standard.SO_ERROR) == 0
            assert sock.send(b"hello") == 5
            socks.append(sock)
        own = [sock.getsockname() for sock in socks]
        assert not any(_is_free(near, address) for address in own)
        assert server.run(_accept, len(own)) == own
        assert server.run(_receive, 5) == b"hello"
        assert not any(_is_free(near, address) for address in own)
        assert len(set(own)) == len(own)


def _connect_many(here, maker, address, count, most):
    """The paths of so many connections, where so many descriptors are allowed, and why the last one took its own."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    here.socks = [maker.connect(address) for _ in range(count)]
    last = here.socks[-1]
    reason = explanation.explain(last).reason if hasattr(last, "transport") else None
    own = [sock.getsockname() for sock in here.socks]
    opened = len([last.dup() for _ in range(most // 8)])  # there is room still
    return [getattr(sock, "transport", "tcp") for sock in here.socks], reason and str(reason), own, opened


def test_ports_are_held_with_a_quarter_of_the_descriptors(near, server):
    """Connections beyond that stay on TCP: the rest of the descriptors are the program's."""
    count, most = 80, 256
    accepting = server.begin(_accept, count)
    with FarProcess() as client:
        transports, reason, own, opened = client.run(_connect_many, near, server.address, count, most)
        assert accepting.result() == own
        assert opened == most // 8
        if near.transport in ("shm", "unix"):
            fast = transports.count(near.transport)
            assert most // 8 <= fast <= most // 4
            assert transports == [near.transport] * fast + ["tcp"] * (count - fast)
            assert reason == "no_descriptors"


@pytest.mark.skipif(not core.available, reason="the native core is not built")
def test_threads_choose_different_ports():
    """Each asks for a number of its own choice; what another one has is refused by the kernel."""
    taken, lock = [], threading.Lock()

    def take():
        for _ in range(MANY):
            sock = standard.socket()
            found = core.take_port(sock.fileno())
            with lock:
                taken.append((sock, found))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sock, (_, port) in taken:
        assert sock.getsockname()[1] == port
    assert len({port for _, (_, port) in taken}) == len(taken) == 4 * MANY
    for sock, _ in taken:
        sock.close()


def test_sockets_are_collected_while_another_one_connects(near, server):
    """A collection may run at any call of a function: connections end between two lines of this package."""
    count = 8
    accepting = server.begin(_accept, count + 1)
    collected = [near.connect(server.address) for _ in range(count)]

    def collect(frame, event, _argument):
        if event == "call" and frame.f_code.co_name == "look":  # of a held port
            while collected:
                collected.pop().close()

    sys.setprofile(collect)
    try:
        sock = near.connect(server.address)
    finally:
        sys.setprofile(None)
    with closing(sock):
        assert len(accepting.result()) == count + 1
        near.check(sock)
        assert server.run(_send, b"x") is None
        assert receive(sock, 1) == b"x"
    for each in collected:
        each.close()


def test_sockets_are_collected_while_the_oldest_ports_are_listed(near, server):
    """A collection may also run where an iterator is made."""
    count = 8
    accepting = server.begin(_accept, count + 1)
    left = [near.connect(server.address) for _ in range(count)]

    def collect(phase, _told):
        if phase == "stop" and left and sys._getframe(1).f_code.co_name in ("_look_at_some", "_oldest"):
            left.pop().close()

    before = gc.get_threshold()
    gc.callbacks.append(collect)
    gc.set_threshold(1)
    try:
        sock = near.connect(server.address)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collect)
    with closing(sock):
        assert len(accepting.result()) == count + 1
        near.check(sock)
    for each in left:
        each.close()
