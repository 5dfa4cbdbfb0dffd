"""Connections that leave TCP before their server has accepted them: nothing is lost whatever becomes of either end."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import os
import random
import re
import resource
import select
import selectors
import signal
import socket as standard
import struct
import threading
from contextlib import closing, suppress

import pytest

from fastsock import core
from fastsock.connection import registry
from fastsock.meeting import history
from fastsock.reporting import explanation
from fastsock.testing import FarProcess, PairMaker
from fastsock.testing.outcomes import receive, receive_all

from ..helpers.certificates import client_context, issued, server_context
from ..helpers.paths import preferring
from ..helpers.scripts import Script

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
HERE = ("127.0.0.1", 0)
ROUNDS = 3000 if LONG else 60
BURST = 1000 if LONG else 60
BUSY_MS = 50 if LONG else 5
RESET = struct.pack("ii", 1, 0)
BIG = 24 << 20  # more than all the buffers on the way

pytestmark = pytest.mark.skipif(not core.available, reason="the native core is not built")


@pytest.fixture(params=("plain", "shm"))
def kind(request):
    if request.param == "plain":
        yield "plain"
        return
    with preferring("shm"):
        yield "shm"


@pytest.fixture
def server(near):
    """A process that listens, and accepts when it is told to."""
    with FarProcess() as process:
        process.address = process.run(_listen, near)
        yield process


def _listen(here, maker):
    here.listener = maker.listener(backlog=2048)
    here.socks = []
    return here.listener.getsockname()


def _accept(here):
    here.sock, _ = here.listener.accept()
    here.socks.append(here.sock)


def _accept_raw(here):
    """As foreign code does, which knows the descriptor alone."""
    kind = standard.socket.__mro__[-2]
    assert kind.__module__ == "_socket"
    borrowed = kind(standard.AF_INET, standard.SOCK_STREAM, 0, os.dup(here.listener.fileno()))
    number, _ = borrowed._accept()
    here.sock = kind(standard.AF_INET, standard.SOCK_STREAM, 0, number)
    here.socks.append(here.sock)


def _send(here, data):
    here.sock.sendall(data)


def _receive(here, count):
    return receive(here.sock, count)


def _receive_all(here):
    data = receive_all(here.sock)
    here.sock.close()
    return data


def _measure_all(here):
    """How many bytes come, and whether each is what it should be."""
    count, good = 0, True
    while block := here.sock.recv(1 << 16):
        good = good and block == _pattern(count, len(block))
        count += len(block)
    here.sock.close()
    return count, good


def _pattern(start, length):
    unit = bytes(range(251))
    first = start % 251
    return (unit * (length // 251 + 2))[first : first + length]


def _close(here):
    here.sock.close()


def _reset(here):
    here.sock.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, RESET)
    here.sock.close()


def _echo_all(here, count, busy_ms, raw=False):
    """Accepts so many, computing between them, and echoes each in a thread."""
    from time import perf_counter

    def echo(sock):
        while data := sock.recv(1 << 16):
            sock.sendall(data)
        sock.close()

    threads = []
    for _ in range(count):
        (_accept_raw if raw else _accept)(here)
        threads.append(threading.Thread(target=echo, args=(here.sock,)))
        threads[-1].start()
        until = perf_counter() + busy_ms / 1e3
        while perf_counter() < until:
            pass
    paths = [getattr(sock, "transport", "plain") for sock in here.socks]
    for thread in threads:
        thread.join()
    return paths


def _go_ahead(near, address):
    """A connection that goes ahead: the call returns at once, whatever the server does."""
    sock = near.sockets.socket()
    sock.setblocking(False)
    error = sock.connect_ex(address)
    assert error in (0, errno.EINPROGRESS)
    return sock


def _blocking(sock):
    sock.settimeout(60)
    return sock


ACCEPTS = pytest.mark.parametrize("accept", [_accept, _accept_raw], ids=["ours", "foreign"])


def _expected(near, accept):
    return (near.transport or "plain") if accept is _accept else ("tcp" if near.transport else "plain")


def _detail(sock):
    return explanation.explain(sock).detail


def _transport(sock):
    return getattr(sock, "transport", "plain")


def _reason(sock):
    return explanation.explain(sock).reason


# ---- one connection, each order of events ----


@ACCEPTS
def test_client_speaks_first(near, server, accept):
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        sock.sendall(b"early")
        if near.transport:
            assert (_transport(sock), _reason(sock)) == ("tcp", "not_accepted_yet")
            assert re.fullmatch(r"the server has not called accept\(\) after \d+ ms", _detail(sock))
        server.run(accept)
        assert server.run(_receive, 5) == b"early"
        server.run(_send, b"answer")
        assert receive(sock, 6) == b"answer"
        sock.sendall(b"later")
        assert server.run(_receive, 5) == b"later"
        assert _transport(sock) == _expected(near, accept)
        if near.transport:
            assert _reason(sock) == ("joined" if accept is _accept else "accepted_by_others")
            told = "called accept" if accept is _accept else "(answered on TCP|accepted it without fastsock)"
            assert re.match(rf"the server {told}.* after \d+ ms", _detail(sock))
            assert registry.totals().get(_transport(sock), 0) > 0


@ACCEPTS
def test_server_speaks_first(near, server, accept):
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        server.run(accept)
        server.run(_send, b"greeting")
        assert receive(sock, 8) == b"greeting"
        sock.sendall(b"answer")
        assert server.run(_receive, 6) == b"answer"
        assert _transport(sock) == _expected(near, accept)


@ACCEPTS
def test_a_client_that_does_nothing_more(near, server, accept):
    """What it sent reaches a server, although nothing of the client's program runs any more."""
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        sock.sendall(b"all that it says")
        server.run(accept)
        assert server.run(_receive, 16) == b"all that it says"
        server.run(_send, b"x")
        assert receive(sock, 1) == b"x"


@ACCEPTS
def test_closed_before_it_was_accepted(near, server, accept):
    sock = _blocking(_go_ahead(near, server.address))
    sock.sendall(b"goodbye")
    sock.close()
    server.run(accept)
    assert server.run(_receive_all) == b"goodbye"


@ACCEPTS
def test_dropped_before_it_was_accepted(near, server, accept):
    sock = _blocking(_go_ahead(near, server.address))
    sock.sendall(b"goodbye")
    with pytest.warns(ResourceWarning):
        del sock
    server.run(accept)
    assert server.run(_receive_all) == b"goodbye"


@ACCEPTS
def test_closed_by_number_before_it_was_accepted(near, server, accept):
    sock = _blocking(_go_ahead(near, server.address))
    sock.sendall(b"goodbye")
    os.close(sock.fileno())
    with suppress(OSError):
        sock.detach()
    server.run(accept)
    assert server.run(_receive_all) == b"goodbye"


@ACCEPTS
def test_half_closed_before_it_was_accepted(near, server, accept):
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        sock.sendall(b"question")
        sock.shutdown(standard.SHUT_WR)
        server.run(accept)
        assert server.run(_receive, 8) == b"question"
        assert server.run(_receive, 1) == b""
        server.run(_send, b"answer")
        server.run(_close)
        assert receive_all(sock) == b"answer"


@ACCEPTS
def test_half_closed_by_the_server(near, server, accept):
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        server.run(accept)
        server.run(_send, b"all")
        server.run(_shut)
        assert receive_all(sock) == b"all"
        sock.sendall(b"and back")
        assert server.run(_receive, 8) == b"and back"


def _shut(here):
    here.sock.shutdown(standard.SHUT_WR)


@ACCEPTS
def test_reset_before_it_was_accepted(near, server, accept):
    sock = _blocking(_go_ahead(near, server.address))
    sock.sendall(b"lost or not")
    sock.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, RESET)
    sock.close()
    with pytest.raises(ConnectionResetError):
        server.run(accept)
        server.run(_receive_all)
        server.run(_send, b"to nobody")


@ACCEPTS
def test_reset_by_the_server(near, server, accept):
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        server.run(accept)
        server.run(_send, b"before")
        assert receive(sock, 6) == b"before"
        server.run(_reset)
        with pytest.raises(ConnectionResetError):
            receive(sock, 1)


def test_a_server_that_never_accepts_and_leaves(near, server):
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        sock.sendall(b"to nobody")
        server.kill()
        server.wait()
        with pytest.raises(ConnectionResetError):
            receive(sock, 1)


@ACCEPTS
def test_more_than_every_buffer(near, server, accept):
    """A sender is stopped while the server does not accept, and goes on when it does: each byte comes once."""
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        sock.setblocking(False)
        sent = 0
        with suppress(BlockingIOError):
            while True:
                sent += sock.send(_pattern(sent, 100_003))
        assert 0 < sent < BIG
        assert select.select([], [sock], [], 0)[1] == []
        server.run(accept)
        measuring = server.begin(_measure_all)
        sock.settimeout(60)
        while sent < BIG:
            assert select.select([], [sock], [], 60)[1] == [sock]
            sent += sock.send(_pattern(sent, 100_003))
        sock.shutdown(standard.SHUT_WR)
        assert measuring.result() == (sent, True)


@ACCEPTS
def test_a_blocked_sender_goes_on(near, server, accept):
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        sender = threading.Thread(target=sock.sendall, args=(_pattern(0, BIG),))
        sender.start()
        server.run(accept)
        measuring = server.begin(_measure_all)
        sender.join()
        sock.shutdown(standard.SHUT_WR)
        assert measuring.result() == (BIG, True)


@ACCEPTS
def test_much_comes_back(near, server, accept):
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        server.run(accept)
        sending = server.begin(_send, _pattern(0, BIG))
        count = 0
        while count < BIG:
            block = sock.recv(1 << 16)
            assert block == _pattern(count, len(block))
            count += len(block)
        sending.result()


@ACCEPTS
@pytest.mark.parametrize("poller", [select.poll, select.epoll])
def test_watched_by_the_kernel(near, server, accept, poller):
    """Who watches the descriptor that it got before the server accepted sees every change."""
    with closing(_go_ahead(near, server.address)) as sock:
        watcher = poller()
        readable, writable = select.POLLIN, select.POLLOUT
        watcher.register(sock.fileno(), readable | writable)
        assert watcher.poll(60_000 if poller is select.poll else 60) == [(sock.fileno(), writable)]
        assert sock.getsockopt(standard.SOL_SOCKET, standard.SO_ERROR) == 0
        watcher.modify(sock.fileno(), readable)
        sock.send(b"question")
        server.run(accept)
        assert server.run(_receive, 8) == b"question"
        for number in range(20):
            server.run(_send, b"%02d" % number)
            assert watcher.poll(60_000 if poller is select.poll else 60)[0][1] & readable
            assert sock.recv(10) == b"%02d" % number
            with pytest.raises(BlockingIOError):
                sock.recv(1)
        server.run(_close)
        assert watcher.poll(60_000 if poller is select.poll else 60)[0][1] & readable
        assert sock.recv(1) == b""


@ACCEPTS
def test_addresses_and_options(near, server, accept):
    with closing(_go_ahead(near, server.address)) as sock:
        sock.setsockopt(standard.IPPROTO_TCP, standard.TCP_NODELAY, 1)
        assert sock.getpeername() == server.address
        assert sock.getsockname()[0] == server.address[0]
        assert sock.connect_ex(server.address) == 0
        assert sock.connect_ex(server.address) == errno.EISCONN
        server.run(accept)
        assert sock.getpeername() == server.address
        assert sock.getsockopt(standard.IPPROTO_TCP, standard.TCP_NODELAY) == 1


@ACCEPTS
def test_duplicated_and_detached(near, server, accept):
    sock = _blocking(_go_ahead(near, server.address))
    twin = sock.dup()
    sock.sendall(b"one, ")
    sock.close()
    number = twin.detach()
    os.set_blocking(number, True)
    os.write(number, b"two")
    server.run(accept)
    assert server.run(_receive, 8) == b"one, two"
    server.run(_send, b"fine")
    assert os.read(number, 10) == b"fine"
    os.close(number)
    assert server.run(_receive, 1) == b""


@ACCEPTS
def test_detached(near, server, accept):
    sock = _blocking(_go_ahead(near, server.address))
    sock.sendall(b"one, ")
    number = sock.detach()
    os.set_blocking(number, True)
    os.write(number, b"two")
    server.run(accept)
    assert server.run(_receive, 8) == b"one, two"
    server.run(_send, b"fine")
    assert os.read(number, 10) == b"fine"
    os.close(number)
    assert server.run(_receive, 1) == b""


@ACCEPTS
@pytest.mark.parametrize("watched", [False, True], ids=["unwatched", "watched"])
@pytest.mark.parametrize("who", ["parent", "child"])
def test_forked(near, server, accept, watched, who):
    """Either process goes on with the one connection, whether or not the other one lives."""
    sock = _blocking(_go_ahead(near, server.address))
    if watched:
        select.select([], [sock], [], 60)
    sock.sendall(b"one, ")
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        if who == "child":
            os.read(told, 1)  # until the parent has closed its copy
            sock.sendall(b"two")
            os._exit(0 if receive(sock, 4) == b"fine" else 1)
        os._exit(0)
    if who == "parent":
        assert os.waitpid(child, 0)[1] == 0
        sock.sendall(b"two")
    else:
        sock.close()
        os.write(tell, b"x")
    server.run(accept)
    assert server.run(_receive, 8) == b"one, two"
    server.run(_send, b"fine")
    if who == "parent":
        assert receive(sock, 4) == b"fine"
        sock.close()
    else:
        assert os.waitpid(child, 0)[1] == 0
    assert server.run(_receive, 1) == b""
    os.close(told)
    os.close(tell)


FORKS = """
        import os, socket, warnings
        warnings.simplefilter("error")
        def threads():
            return len(os.listdir("/proc/self/task"))
        counts = []
        os.register_at_fork(after_in_parent=lambda: counts.append(threads()))
        listener = socket.create_server(("127.0.0.1", 0))
        for _ in range(100):
            with socket.socket() as sock:
                sock.setblocking(False)
                sock.connect_ex(listener.getsockname())
                sock.send(b"question")
                child = os.fork()
                if child == 0:
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
                with listener.accept()[0] as accepted:
                    assert accepted.recv(8, socket.MSG_WAITALL) == b"question"
                    accepted.send(b"answer")
                sock.setblocking(True)
                assert sock.recv(6, socket.MSG_WAITALL) == b"answer"
        tell(sorted(set(counts)))
    """


def test_a_program_without_threads_forks_without_threads(kind):
    """Python warns of a fork beside other threads, and such a program's author knows of none."""
    with Script(kind, FORKS) as program:
        assert program.hear() == [1]
        assert program.finish() == 0


@ACCEPTS
def test_killed_client(near, server, accept):
    """What it sent is the kernel's, as with TCP."""
    with FarProcess() as client:
        client.run(_go_ahead_and_send, near, server.address, b"last words")
        client.kill()
        client.wait()
        server.run(accept)
        assert server.run(_receive_all) == b"last words"


def _go_ahead_and_send(here, near, address, data):
    here.sock = _blocking(_go_ahead(near, address))
    here.sock.sendall(data)


def test_a_deferred_accept(near, server):
    """A listener that is told of a connection only when data has come."""
    server.run(_defer)
    with closing(_blocking(_go_ahead(near, server.address))) as sock:
        accepting = server.begin(_accept)
        sock.sendall(b"data")
        accepting.result()
        assert server.run(_receive, 4) == b"data"


def _defer(here):
    here.listener.setsockopt(standard.IPPROTO_TCP, standard.TCP_DEFER_ACCEPT, 30)


def test_descriptors_are_left_to_the_program(near, server):
    """What is kept for the server takes descriptors, and must not take those that the program will open."""
    with FarProcess() as client:
        assert client.run(_connect_many, near, server.address, 150) == 150


OPEN_BEFORE = 200


def _connect_many(here, near, address, count):
    while (before := os.open("/dev/null", os.O_RDONLY)) < OPEN_BEFORE:
        pass  # they count, whoever opened them
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 512, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    here.socks = [_go_ahead(near, address) for _ in range(count)]
    here.files = [os.open("/dev/null", os.O_RDONLY) for _ in range(80)]
    return len(here.socks)


# ---- blocking clients ----


@ACCEPTS
def test_a_blocking_client_of_a_busy_server(near, server, accept):
    """The first use waits the bounded time, and then it goes ahead too."""
    with closing(near.connect(server.address)) as sock:
        sock.sendall(b"early")
        server.run(accept)
        assert server.run(_receive, 5) == b"early"
        server.run(_send, b"answer")
        assert receive(sock, 6) == b"answer"
        assert _transport(sock) == _expected(near, accept)


@ACCEPTS
def test_a_foreign_server_is_remembered(near, server, accept):
    if near.transport is None:
        pytest.skip("plain TCP remembers nothing")
    reasons = []
    for _ in range(10):
        with closing(_blocking(_go_ahead(near, server.address))) as sock:
            server.run(accept)
            server.run(_send, b"x")
            assert receive(sock, 1) == b"x"
            reasons.append(_reason(sock))
    if accept is _accept:
        assert reasons == ["joined"] * 10
    else:
        assert set(reasons) == {"accepted_by_others", "listener_lapsed_before"}
        assert reasons.count("accepted_by_others") < 5


def test_what_the_server_was_doing_where_nobody_goes_ahead():
    """A path that needs both ends gives up, and says how long it waited and for what."""
    with preferring("unix"), FarProcess() as server:
        near = PairMaker("fastsock.socket", transport="unix")
        address = server.run(_listen, near)
        with closing(near.connect(address)) as sock:
            assert (_transport(sock), _reason(sock)) == ("tcp", "listener_did_not_answer")
            assert re.fullmatch(r"the server had not called accept\(\) after \d+ ms", _detail(sock))
            server.run(_accept)
            sock.sendall(b"x")
            assert server.run(_receive, 1) == b"x"


# ---- many at once ----


async def _ask_all(address, count):
    async def ask(number):
        reader, writer = await asyncio.open_connection(*address)
        question = b"%d," % number * 50
        writer.write(question)
        assert await reader.readexactly(len(question)) == question
        sock = writer.get_extra_info("socket")
        found.append(_transport(getattr(sock, "_sock", sock)))
        writer.close()
        await writer.wait_closed()

    found: list[str] = []
    await asyncio.gather(*[ask(number) for number in range(count)])
    return found


def _ask_by_threads(near, address, count):
    def ask(number):
        with closing(near.connect(address)) as sock:
            question = b"%d," % number * 50
            sock.sendall(question)
            assert receive(sock, len(question)) == question
            found.append(_transport(sock))

    found: list[str] = []
    before = threading.stack_size(256 << 10)
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    threading.stack_size(before)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _ask_by_selectors(near, address, count):
    found: list[str] = []
    with selectors.DefaultSelector() as selector:
        for number in range(count):
            sock = _go_ahead(near, address)
            selector.register(sock, selectors.EVENT_WRITE, (b"%d," % number * 50, []))
        while selector.get_map():
            for key, events in selector.select():
                question, parts = key.data
                if events & selectors.EVENT_WRITE:
                    assert key.fileobj.send(question) == len(question)
                    selector.modify(key.fileobj, selectors.EVENT_READ, key.data)
                    continue
                parts.append(key.fileobj.recv(1 << 16))
                assert parts[-1]
                if sum(map(len, parts)) == len(question):
                    assert b"".join(parts) == question
                    found.append(_transport(key.fileobj))
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
    return found


@pytest.mark.parametrize("raw", [False, True], ids=["ours", "foreign"])
@pytest.mark.parametrize("client", ["asyncio", "threads", "selectors"])
def test_many_at_once(installed, server, near, client, raw):
    """The server computes between accepts: its clients leave TCP all the same, and no byte is lost."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if LONG:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    serving = server.begin(_echo_all, BURST, BUSY_MS, raw)
    if client == "asyncio":
        found = asyncio.run(_ask_all(server.address, BURST))
    else:
        found = (_ask_by_threads if client == "threads" else _ask_by_selectors)(near, server.address, BURST)
    serving.result()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    print(client, "raw" if raw else "ours", {path: found.count(path) for path in set(found)})
    assert len(found) == BURST
    if near.transport and not raw:
        assert found.count("shm") >= BURST * 0.95


@pytest.mark.parametrize("kind", ["shm"], indirect=True)
@pytest.mark.parametrize(
    ("client", "count", "busy_ms"), [("asyncio", 1000 if LONG else 60, 50), ("threads", 300 if LONG else 60, 10)]
)
def test_a_server_that_computes(installed, server, near, client, count, busy_ms):
    """It computes for long between any two accepts; 95 of 100 that come at once leave TCP, whatever they wait for."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    serving = server.begin(_echo_all, count, busy_ms)
    if client == "asyncio":
        found = asyncio.run(_ask_all(server.address, count))
    else:
        found = _ask_by_threads(near, server.address, count)
    serving.result()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    print(client, {path: found.count(path) for path in set(found)})
    assert len(found) == count
    assert found.count("shm") >= count * 0.95


# ---- TLS ----


def _serve_tls(here, accept):
    accept(here)
    sock = here.sock
    if accept is _accept_raw:
        sock = standard.socket(fileno=sock.detach())
    with server_context().wrap_socket(sock, server_side=True) as tls:
        tls.sendall(tls.recv(100).upper())
        with suppress(BrokenPipeError):  # an end without a goodbye, to a recent OpenSSL: docs/limits.md
            tls.recv(1)


WRAPPED_BEFORE_IT_IS_ACCEPTED = """
        import select, socket, ssl
        listener = socket.create_server(("127.0.0.1", 0))
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
        addresses = sock.getsockname(), sock.getpeername()
        select.select([], [sock], [])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(sock, do_handshake_on_connect=False) as wrapped:
            assert (wrapped.getsockname(), wrapped.getpeername()) == addresses
            wrapped.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tell(wrapped.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    """


def test_tls_around_what_is_not_accepted_yet(kind):
    """Its bytes take TCP, but its descriptor is no TCP socket: addresses and options are answered all the same."""
    with Script(kind, WRAPPED_BEFORE_IT_IS_ACCEPTED) as program:
        assert program.hear() == 1


@ACCEPTS
def test_tls(near, accept):
    issued()  # before the fork
    with FarProcess() as server:
        address = server.run(_listen, near)
        sock = _blocking(_go_ahead(near, address))
        serving = server.begin(_serve_tls, accept)
        with client_context().wrap_socket(sock, server_hostname="localhost") as tls:
            tls.sendall(b"secret")
            assert tls.recv(100) == b"SECRET"
        serving.result()


# ---- stress ----


def _serve_at_random(here, seed, count):
    chooser = random.Random(seed)
    for _ in range(count):
        accept = _accept if chooser.random() < 0.7 else _accept_raw
        early = chooser.random() < 0.5
        accept(here)
        here.socks.clear()
        if early:
            here.sock.sendall(b"hello")
        data = b""
        with suppress(ConnectionResetError):
            while block := here.sock.recv(1 << 16):
                data += block
            here.sock.sendall(data.upper())
        assert data == b"question" * (len(data) // 8) or not data
        with suppress(OSError):
            here.sock.close()
    return True


def test_random_ways(near, server):
    """Connections used, half-closed, duplicated, detached and closed while their server accepts: not a byte is lost."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    serving = server.begin(_serve_at_random, seed, ROUNDS)
    mirror, chooser = random.Random(seed), random.Random(seed + 1)
    for _ in range(ROUNDS):
        mirror.random()
        early = mirror.random() < 0.5
        history.forget()  # a foreign one must not keep the next ones on TCP
        sock = _blocking(_go_ahead(near, server.address))
        if chooser.random() < 0.3:
            sock.fileno()
        block = b"question" * chooser.choice([0, 1, 100, 50_000])
        sender = threading.Thread(target=sock.sendall, args=(block,))
        sender.start()
        if early:
            assert receive(sock, 5) == b"hello"
        sender.join()
        if chooser.random() < 0.2:
            twin = sock.dup()
            sock.close()
            sock = twin
        if chooser.random() < 0.2:
            sock = near.sockets.socket(fileno=sock.detach())
            sock.settimeout(60)
        with closing(sock):
            if chooser.random() < 0.8:
                sock.shutdown(standard.SHUT_WR)
                assert receive_all(sock) == block.upper()
    assert serving.result()


def _go_ahead_for_ever(here, near, address):
    while True:
        with closing(_blocking(_go_ahead(near, address))) as sock, suppress(ConnectionError):
            sock.sendall(b"question" * 100)
            receive(sock, 800)


def _count_wholes(here, count):
    """Accepts until so many connections were whole; each holds a part of the question, in order."""
    wholes = 0
    here.listener.settimeout(0.5)
    while wholes < count:
        try:
            _accept(here)
        except TimeoutError:
            return wholes
        here.socks.clear()
        data = b""
        with suppress(ConnectionError):
            while len(data) < 800 and (block := here.sock.recv(800)):
                data += block
            here.sock.sendall(data)
        here.sock.close()
        assert data == (b"question" * 100)[: len(data)]
        wholes += len(data) == 800
    return wholes


def test_killed_clients(near, server):
    """Killed in any state, a client leaves the server nothing but the beginning of what it sent."""
    chooser = random.Random(7)
    for _ in range(200 if LONG else 4):
        serving = server.begin(_count_wholes, 1 << 30)
        with FarProcess() as client:
            client.begin(_go_ahead_for_ever, near, server.address)
            select.select([], [], [], chooser.random() * 0.2)  # another moment, not a wait for something
            os.kill(client.pid, signal.SIGKILL)
            client.wait()
        serving.result()


# ---- loops of others, which watch descriptors natively ----


async def _ask_by_loop(address, number):
    """As uvloop runs it: the kernel watches the descriptor, the socket's own calls carry the bytes."""
    loop = asyncio.get_running_loop()
    question = b"%d," % number * 5000
    with closing(standard.socket()) as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
        await loop.sock_sendall(sock, question)
        answer = b""
        while len(answer) < len(question):
            block = await loop.sock_recv(sock, 1 << 16)
            assert block
            answer += block
        assert answer == question


def _ask_by_uvloop(here, address):
    import uvloop

    async def ask_all():
        await asyncio.gather(*[_ask_by_loop(address, number) for number in range(BURST)])

    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(ask_all())
    finally:
        loop.close()


@pytest.mark.skipif(not importlib.util.find_spec("uvloop"), reason="uvloop is not installed")
@pytest.mark.parametrize("raw", [False, True], ids=["ours", "foreign"])
def test_uvloop(installed, server, near, raw):
    """In a process of its own: once imported, uvloop closes numbers of its own at each fork, whosever they are then."""
    serving = server.begin(_echo_all, BURST, 1, raw)
    with FarProcess() as client:
        client.run(_ask_by_uvloop, server.address)
    serving.result()


@pytest.mark.parametrize("raw", [False, True], ids=["ours", "foreign"])
def test_trio(installed, server, near, raw):
    trio = pytest.importorskip("trio")

    async def ask(number):
        question = b"%d," % number * 5000
        stream = await trio.open_tcp_stream(*server.address)
        async with stream:
            await stream.send_all(question)
            answer = b""
            while len(answer) < len(question):
                block = await stream.receive_some()
                assert block
                answer += block
            assert answer == question

    async def ask_all():
        async with trio.open_nursery() as nursery:
            for number in range(BURST):
                nursery.start_soon(ask, number)

    serving = server.begin(_echo_all, BURST, 1, raw)
    trio.run(ask_all)
    serving.result()


# ---- servers that are killed ----


def _end_of(sock):
    """What comes until the end, which a reset is too."""
    data = b""
    with suppress(ConnectionError):
        while block := sock.recv(1 << 16):
            data += block
    return data


@ACCEPTS
@pytest.mark.parametrize("state", ["listening", "accepted", "has read", "has answered"])
@pytest.mark.parametrize("watched", [False, True], ids=["unwatched", "watched"])
def test_killed_server(near, accept, state, watched):
    """In each state of custody: what it answered arrives, then comes an end, and sending fails before long."""
    with FarProcess() as server, closing(_blocking(_go_ahead(near, server.run(_listen, near)))) as sock:
        if watched:
            select.select([], [sock], [], 60)
        sock.sendall(b"question" * 1000)
        if state != "listening":
            server.run(accept)
        if state.startswith("has"):
            assert server.run(_receive, 8000) == b"question" * 1000
        if state == "has answered":
            server.run(_send, b"answer" * 1000)
        server.kill()
        server.wait()
        assert _end_of(sock) == (b"answer" * 1000 if state == "has answered" else b"")
        with pytest.raises(ConnectionError):
            for _ in range(64):  # more than a ring and TCP hold together, for the pump may come late
                sock.sendall(bytes(1 << 20))


def _echo_for_ever(here):
    while True:
        _accept(here)
        here.socks.clear()
        with closing(here.sock), suppress(ConnectionError):
            here.sock.sendall(here.sock.recv(1 << 16))


def test_servers_killed_at_any_moment(near):
    """Each client has a beginning of what it was answered, and none waits for ever."""
    chooser = random.Random(11)
    whole = 0
    for _ in range(300 if LONG else 5):
        with FarProcess() as server:
            address = server.run(_listen, near)
            server.begin(_echo_for_ever)
            socks = [_blocking(_go_ahead(near, address)) for _ in range(20)]
            killer = threading.Timer(chooser.random() * 0.02, os.kill, [server.pid, signal.SIGKILL])
            killer.start()  # another moment, not a wait for something
            for sock in socks:
                with suppress(ConnectionError):
                    sock.sendall(b"question" * 100)
            for sock in socks:
                with closing(sock):
                    data = _end_of(sock)
                    assert data == (b"question" * 100)[: len(data)]
                    whole += len(data) == 800
            killer.join()
            server.wait()
    print("whole", whole)
