"""Connections whose path is open when connect() returns: two processes that met before do not wait for each other.

Every test runs on plain TCP too. Each first lets the two processes meet, so that those that follow need no talk.
"""

from __future__ import annotations

import errno
import importlib
import os
import random
import resource
import select
import signal
import socket as standard
import struct
import threading
from contextlib import closing

import pytest

from fastsock import config, shm
from fastsock.meeting import history, offer, unix_calls
from fastsock.testing import FarProcess
from fastsock.testing.outcomes import outcome, receive, receive_all
from fastsock.testing.process import until_asleep

from ..helpers.paths import carriers_of

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
ROUNDS = 5000 if LONG else 300
MEETINGS = 4  # after these, one segment is free when the next connection begins
LINGER_RESET = struct.pack("ii", 1, 0)


@pytest.fixture
def server(near):
    """A process that listens, and that this one has met."""
    with FarProcess() as process:
        process.address = process.run(_listen, near)
        for _ in range(MEETINGS):
            pending = process.begin(_accept)
            with closing(near.connect(process.address)) as sock:
                near.check(sock)
                pending.result()
                sock.sendall(b"x")
            process.run(_receive_all)
        yield process


def _listen(here, maker):
    here.listener = maker.listener()
    return here.listener.getsockname()


def _accept(here):
    here.sock, _ = here.listener.accept()


def _transport(here):
    return getattr(here.sock, "transport", "plain")


def _receive_all(here):
    data = receive_all(here.sock)
    here.sock.close()
    return data


def _receive(here, count):
    return receive(here.sock, count)


def _send(here, data):
    here.sock.sendall(data)


def _close(here):
    here.sock.close()


def _echo(here):
    """Accept and echo one connection."""
    sock, _ = here.listener.accept()
    with sock:
        while data := sock.recv(1 << 16):
            sock.sendall(data)
    return getattr(sock, "transport", "plain")


def _accept_raw(here):
    """As foreign code does, which knows the descriptor alone."""
    kind = standard.socket.__mro__[-2]
    assert kind.__module__ == "_socket"
    borrowed = kind(standard.AF_INET, standard.SOCK_STREAM, 0, os.dup(here.listener.fileno()))
    number, _ = borrowed._accept()
    here.sock = kind(standard.AF_INET, standard.SOCK_STREAM, 0, number)


def _connect(here, maker, address):
    here.sock = maker.connect(address)


def _say(here, data):
    here.sock.sendall(data)
    return receive(here.sock, len(data))


def _echo_many(here, count):
    for _ in range(count):
        _echo(here)


def _serve_at_random(here, seed, count):
    chooser = random.Random(seed)
    for _ in range(count):
        sock, _ = here.listener.accept()
        with sock:
            if chooser.random() < 0.5:
                sock.sendall(b"hello")
            else:
                told = receive_all(sock)
                assert told == b"question" * (len(told) // 8)
                sock.sendall(told.upper())
    return True


def _fork_workers(here):
    workers = []
    for _ in range(2):
        if (worker := os.fork()) == 0:
            while True:
                _echo(here)
        workers.append(worker)
    return workers


def _kill_workers(here, workers):
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def _exchange_scarcely(here, maker, address, accepted, scarce):
    sock = maker.connect(address)
    os.read(accepted, 1)  # the server has it
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    if scarce:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
        while not isinstance(number := outcome(os.dup, 0), str):
            held.append(number)
    try:
        sock.sendall(b"scarce")
        return receive(sock, 6)
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        sock.close()


def test_accept_does_not_wait_for_the_client(near, server):
    accepting = server.begin(_accept)
    with closing(near.connect(server.address)) as sock:
        accepting.result()  # although this end does nothing
        server.run(_send, b"greeting")
        assert receive(sock, 8) == b"greeting"
        near.check(sock)
        assert server.run(_transport) in carriers_of(near)


def test_connect_does_not_wait_for_accept(near, server):
    with closing(near.connect(server.address)) as sock:
        server.run(_accept)
        near.check(sock)
        server.run(_send, b"x")
        assert receive(sock, 1) == b"x"


def _accept_without_what_it_claimed(here, seen, said, client):
    """It finds that what it claimed serves no more, lets the client see that, and only then connects back."""
    config.configure(trace=True)  # which native code leaves to the calls that are replaced here
    reach = unix_calls.reach

    def serves(made):
        os.write(said, b"claimed")
        os.read(seen, 1)
        return False

    def reach_late(name):
        os.write(said, b"no use")
        until_asleep(*client)
        return reach(name)

    shm._Made.belongs_to_living, unix_calls.reach = serves, reach_late
    _accept(here)


@pytest.mark.parametrize("moment", ("the client has asked", "the client waits"))
def test_a_client_waits_on_where_the_server_gives_up_what_it_claimed(near, moment, monkeypatch):
    if near.transport != "shm":
        pytest.skip("only shared memory is reserved for a connection")
    (seeing, seen), (hearing, said) = os.pipe(), os.pipe()
    is_claimed = shm._Reserved.is_claimed

    def until_given_up():
        os.write(seen, b"x")
        assert os.read(hearing, 100) == b"no use"
        return True

    with FarProcess() as process:
        address = process.run(_listen, near)
        for _ in range(MEETINGS):
            pending = process.begin(_accept)
            with closing(near.connect(address)) as sock:
                near.check(sock)
                pending.result()
        if moment == "the client waits":  # not before: those that met above may have waited too
            monkeypatch.setattr(offer, "comes_first", lambda *_: until_given_up())
        client = os.getpid(), threading.get_native_id()
        accepting = process.begin(_accept_without_what_it_claimed, seeing, said, client)
        with closing(near.connect(address)) as sock:
            assert os.read(hearing, 100) == b"claimed"
            if moment == "the client has asked":
                answers = iter((until_given_up,))
                monkeypatch.setattr(
                    shm._Reserved, "is_claimed", lambda reserved: next(answers, lambda: is_claimed(reserved))()
                )
            sock.sendall(b"x")
            accepting.result()
            near.check(sock)
            assert process.run(_receive, 1) == b"x"
    for number in (seeing, seen, hearing, said):
        os.close(number)


def test_client_speaks_first(near, server):
    serving = server.begin(_echo)
    with closing(near.connect(server.address)) as sock:
        sock.sendall(b"hello")
        assert receive(sock, 5) == b"hello"
    assert serving.result() in carriers_of(near)


def test_closed_unused(near, server):
    for _ in range(20):
        near.connect(server.address).close()
        server.run(_accept)
        assert server.run(_receive_all) == b""


def test_closed_unused_after_the_server_has_sent(near, server):
    sock = near.connect(server.address)
    server.run(_accept)
    server.run(_send, b"unread")
    sock.close()
    with pytest.raises(ConnectionResetError):
        server.run(_receive, 1)


def test_dropped_unused(near, server):
    for _ in range(20):
        sock = near.connect(server.address)
        with pytest.warns(ResourceWarning):
            del sock
        server.run(_accept)
        assert server.run(_receive_all) == b""


def test_dropped_unused_after_it_was_accepted(near, server):
    sock = near.connect(server.address)
    server.run(_accept)
    with pytest.warns(ResourceWarning):
        del sock
    assert server.run(_receive_all) == b""


def test_used_only_when_the_server_has_closed(near, server):
    sock = near.connect(server.address)
    server.run(_accept)
    server.run(_send, b"and goodbye")
    server.run(_close)
    assert receive_all(sock) == b"and goodbye"
    sock.close()


def test_addresses_and_options_before_any_use(near, server):
    with closing(near.connect(server.address)) as sock:
        sock.setsockopt(standard.IPPROTO_TCP, standard.TCP_NODELAY, 1)
        sock.settimeout(7.5)
        server.run(_accept)
        assert sock.getpeername() == server.address
        assert sock.getsockname()[0] == server.address[0]
        assert sock.getsockopt(standard.IPPROTO_TCP, standard.TCP_NODELAY) == 1
        assert sock.gettimeout() == 7.5
        assert sock.getsockopt(standard.SOL_SOCKET, standard.SO_ERROR) == 0
        server.run(_send, b"x")
        assert receive(sock, 1) == b"x"


def test_set_not_to_block_before_any_use(near, server):
    with closing(near.connect(server.address)) as sock:
        sock.setblocking(False)
        server.run(_accept)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        server.run(_send, b"x")
        assert select.select([sock], [], [], 30)[0] == [sock]
        assert sock.recv(10) == b"x"


def test_reset_unused(near, server):
    sock = near.connect(server.address)
    server.run(_accept)
    sock.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, LINGER_RESET)
    sock.close()
    if near.transport == "unix":  # whose streams cannot tell a reset
        assert server.run(_receive_all) == b""
        return
    with pytest.raises(ConnectionResetError):
        server.run(_receive, 1)


def test_forked_unused(near, server):
    """The child sends, the parent receives: both have the one connection."""
    serving = server.begin(_echo)
    sock = near.connect(server.address)
    child = os.fork()
    if child == 0:
        sock.sendall(b"from the child")
        os._exit(0)
    assert receive(sock, 14) == b"from the child"
    assert os.waitpid(child, 0)[1] == 0
    sock.close()
    serving.result()


def test_duplicated_and_detached_unused(near, server):
    serving = server.begin(_echo)
    sock = near.connect(server.address)
    twin = sock.dup()
    sock.close()
    number = twin.detach()
    os.write(number, b"raw")
    assert os.read(number, 10) == b"raw"
    os.close(number)
    serving.result()


def test_accepted_by_somebody_else(near, server):
    """Foreign code accepts on the raw descriptor: the first use finds out, and nothing is lost."""

    with closing(near.connect(server.address)) as sock:
        server.run(_accept_raw)
        sock.sendall(b"to whoever it is")
        assert server.run(_receive, 16) == b"to whoever it is"
        server.run(_send, b"fine")
        assert receive(sock, 4) == b"fine"
        assert getattr(sock, "transport", "plain") in ("plain", "tcp")


def test_accepted_late(near, server):
    """The first use does not wait for an accept() that TCP would not wait for."""
    with closing(near.connect(server.address)) as sock:
        sock.sendall(b"early")
        server.run(_accept)
        assert server.run(_receive, 5) == b"early"


def test_client_killed_unused(near, server):
    with FarProcess() as client:
        for _ in range(MEETINGS):
            serving = server.begin(_echo)
            client.run(_connect, near, server.address)
            assert client.run(_say, b"x") == b"x"
            client.run(_close)
            serving.result()
        client.run(_connect, near, server.address)
        server.run(_accept)
        client.kill()
        client.wait()
        assert server.run(_receive_all) == b""


def test_server_killed_before_the_first_use(near, server):
    with closing(near.connect(server.address)) as sock:
        server.run(_accept)
        server.run(_send, b"last words")
        server.kill()
        server.wait()
        assert receive_all(sock) == b"last words"


def test_first_use_without_a_spare_descriptor(near, server):
    """Whatever was agreed on needs no descriptor that plain TCP would not need."""
    accepted, tell = os.pipe()
    with FarProcess() as client:
        for scarce in (*[False] * MEETINGS, True):
            exchange = client.begin(_exchange_scarcely, near, server.address, accepted, scarce)
            server.run(_accept)
            os.write(tell, b"x")
            server.run(_send, server.run(_receive, 6))
            assert exchange.result() == b"scarce"
            server.run(_close)
    os.close(accepted)
    os.close(tell)


def test_two_threads_use_it_first(near, server):
    """A stress: one thread sends, another receives, and both find the path undecided."""
    serving = server.begin(_echo_many, ROUNDS)
    for number in range(ROUNDS):
        block = b"%d" % number
        with closing(near.connect(server.address)) as sock:
            received = []
            reader = threading.Thread(target=lambda s=sock, b=block, to=received: to.append(receive(s, len(b))))
            reader.start()
            sock.sendall(block)
            reader.join()
            assert received == [block]
    serving.result()


def test_random_ways(near, server):
    """A stress: connections used early, late or never, and closed at random; not a byte is lost."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    serving = server.begin(_serve_at_random, seed, ROUNDS)
    chooser, mirror = random.Random(seed + 1), random.Random(seed)
    for _ in range(ROUNDS):
        greets = mirror.random() < 0.5
        with closing(near.connect(server.address)) as sock:
            if chooser.random() < 0.3:
                select.select([], [], [], chooser.random() * 1e-3)  # another moment, not a wait for something
            if greets:
                assert receive(sock, 5) == b"hello"
            elif chooser.random() < 0.7:
                block = b"question" * chooser.randrange(1, 20_000)
                sock.sendall(block)
                sock.shutdown(standard.SHUT_WR)
                assert receive_all(sock) == block.upper()
    assert serving.result()


def test_several_processes_accept(near, server):
    """The listener is shared by forked workers: whoever accepts serves, and no connection is lost."""
    workers = server.run(_fork_workers)
    try:
        for number in range(ROUNDS):
            with closing(near.connect(server.address)) as sock:
                sock.sendall(b"%d" % number)
                assert receive(sock, len(str(number))) == b"%d" % number
    finally:
        server.run(_kill_workers, workers)


class Interrupt(Exception):
    """What a program's signal handler raises."""


def _interrupt(number, frame):
    raise Interrupt


@pytest.mark.parametrize("met", [True, False], ids=["met", "strangers"])
def test_interrupted_while_it_meets(near, server, met):
    """A signal handler raises out of connect() or the first use: the connection goes on."""
    module = importlib.import_module(near.module)
    if not met:
        history.forget()
    before = signal.signal(signal.SIGALRM, _interrupt)
    with module.socket() as sock:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupt):
                sock.connect(server.address)
                sock.recv(1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        server.run(_accept)
        server.run(_send, b"x")
        assert receive(sock, 1) == b"x"
        sock.sendall(b"y")
        assert server.run(_receive, 1) == b"y"


def test_connected_twice(near, server):
    accepting = server.begin(_accept)
    with closing(near.connect(server.address)) as sock:
        assert sock.connect_ex(server.address) == errno.EISCONN
        accepting.result()
        server.run(_send, b"x")
        assert receive(sock, 1) == b"x"
