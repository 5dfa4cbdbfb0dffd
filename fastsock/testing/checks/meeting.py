"""Connecting and accepting: what a program sees while the two ends find each other."""

from __future__ import annotations

import errno
import os
import select
import socket
from typing import Any

from ..names import names_of
from ..outcomes import like_plain_tcp, on_pair, outcome, receive, receive_all
from ..pairs import PLAIN, Pair, PairMaker
from ..patterns import Pattern
from ..process import FarProcess
from ..waiting import events, until_readable, until_writable


@on_pair
def check_non_blocking_connect(pair: Pair) -> None:
    """connect_ex, poll for writable, SO_ERROR: the manner of every event loop."""
    maker = pair.maker
    address = pair.far.process.run(_listen, maker.away)
    accepting = pair.far.process.begin(_accept_and_greet)
    pair.far.until_blocked()
    with maker.sockets.socket(socket.AF_INET) as sock:
        sock.setblocking(False)
        poller = select.poll()
        code = sock.connect_ex(address)
        assert code in (0, errno.EINPROGRESS), code
        poller.register(sock, select.POLLOUT)
        assert poller.poll(20_000) == [(sock.fileno(), select.POLLOUT)]
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        assert sock.getpeername() == address
        sock.setblocking(True)
        assert receive(sock, 5) == b"hello"
        assert accepting.result() == sock.getsockname()
        assert pair.far.process.run(_close_more) is None
        assert sock.recv(1) == b""


def _listen(here: Any, maker: PairMaker, backlog: int = 10) -> Any:
    here.listener = maker.listener(backlog)
    return here.listener.getsockname()


def _accept_and_greet(here: Any) -> Any:
    here.more, address = here.listener.accept()
    here.more.sendall(b"hello")
    return address


def _close_more(here: Any) -> None:
    here.more.close()


@on_pair
def check_registered_before_connecting(pair: Pair) -> None:
    """An epoll registration made before connect() reports the connection and its data."""
    maker = pair.maker
    address = pair.far.process.run(_listen, maker.away)
    accepting = pair.far.process.begin(_accept_and_greet)
    pair.far.until_blocked()
    with maker.sockets.socket(socket.AF_INET) as sock, select.epoll() as poller:
        sock.setblocking(False)
        poller.register(sock.fileno(), select.EPOLLOUT | select.EPOLLIN)
        sock.connect_ex(address)
        seen = 0
        while not seen & select.EPOLLIN:
            found = poller.poll(20)
            assert found, "no event"
            assert found[0][0] == sock.fileno()
            seen |= found[0][1]
        accepting.result()
        assert sock.recv(100) == b"hello"
        pair.far.process.run(_close_more)
        poller.modify(sock.fileno(), select.EPOLLIN)
        assert poller.poll(20)
        assert sock.recv(1) == b""
        poller.unregister(sock.fileno())
        assert poller.poll(0) == []


@on_pair
def check_connect_with_a_timeout(pair: Pair) -> None:
    maker = pair.maker
    address = pair.far.process.run(_listen, maker.away)
    accepting = pair.far.process.begin(_accept_and_greet)
    pair.far.until_blocked()
    with maker.sockets.create_connection(address, timeout=20) as sock:
        assert sock.gettimeout() == 20
        maker.check(sock)
        assert receive(sock, 5) == b"hello"
        accepting.result()


@on_pair
def check_accept_without_blocking(pair: Pair) -> None:
    maker = pair.maker
    with maker.listener() as listener:
        listener.setblocking(False)
        assert outcome(listener.accept) == "BlockingIOError EAGAIN"
        assert not events(listener, select.POLLIN)
        connecting = pair.far.process.begin(_connect_and_send, maker.away, listener.getsockname())
        until_readable(listener)
        with listener.accept()[0] as accepted:
            assert accepted.getblocking()
            connecting.result()
            assert receive(accepted, 6) == b"client"
        assert outcome(listener.accept) == "BlockingIOError EAGAIN"
        listener.settimeout(0.02)
        assert outcome(listener.accept) == "TimeoutError"


def _connect_and_send(here: Any, maker: PairMaker, address: Any) -> Any:
    here.more = maker.connect(address)
    here.more.sendall(b"client")
    return getattr(here.more, "transport", None)


@on_pair
def check_server_that_accepts_late(pair: Pair) -> None:
    """connect() returns, and bytes can be sent, though nobody has called accept() yet."""
    maker = pair.maker
    with maker.listener() as listener:
        pair.far.process.run(_connect_and_send, maker.away, listener.getsockname())
        with listener.accept()[0] as accepted:
            assert receive(accepted, 6) == b"client"
            accepted.sendall(b"late")
            assert pair.far.process.run(_receive_more, 4) == b"late"


def _receive_more(here: Any, count: int) -> bytes:
    with here.more:
        return receive(here.more, count)


@on_pair
def check_client_that_leaves_before_accept(pair: Pair) -> None:
    """What it sent is there, then the end."""
    maker = pair.maker
    with maker.listener() as listener:
        pair.far.process.run(_connect_send_close, maker.away, listener.getsockname())
        with listener.accept()[0] as accepted:
            assert receive_all(accepted) == b"client"


def _connect_send_close(here: Any, maker: PairMaker, address: Any) -> None:
    with maker.connect(address) as sock:
        sock.sendall(b"client")


def check_client_killed_before_accept(maker: PairMaker) -> None:
    with maker.listener() as listener:
        with FarProcess() as client:
            client.run(_connect_and_send, maker, listener.getsockname())
            client.kill()
            client.wait()
        with listener.accept()[0] as accepted:
            assert receive_all(accepted) == b"client"
        with FarProcess() as client:
            connecting = client.begin(_connect_and_send, maker, listener.getsockname())
            with listener.accept()[0] as accepted:
                assert receive(accepted, 6) == b"client"
                connecting.result()


@on_pair
def check_listener_closed_with_clients_waiting(pair: Pair) -> None:
    """Connections that nobody accepted are reset, as the kernel does; nobody hangs."""
    maker = pair.maker
    address = pair.far.process.run(_listen, maker.away)
    clients = [maker.connect(address) for _ in range(4)]
    pair.far.process.run(_close_listener)
    for client in clients:
        with client:
            assert outcome(client.recv, 1) == "ConnectionResetError ECONNRESET"
    assert outcome(maker.connect, address) == "ConnectionRefusedError ECONNREFUSED"


def _close_listener(here: Any) -> None:
    here.listener.close()


def check_server_killed_with_clients_waiting(maker: PairMaker) -> None:
    with FarProcess() as server:
        address = server.run(_listen, maker)
        clients = [maker.connect(address) for _ in range(4)]
        server.kill()
        server.wait()
    for client in clients:
        with client:
            assert outcome(client.recv, 1) == "ConnectionResetError ECONNRESET"
    assert outcome(maker.connect, address) == "ConnectionRefusedError ECONNREFUSED"


@on_pair
def check_listener_reopened_on_the_same_port(pair: Pair) -> None:
    maker, address = pair.maker, None
    for _ in range(4):
        with maker.listener(port=address[1] if address else 0) as listener:
            address = listener.getsockname()
            connecting = pair.far.process.begin(_connect_and_send, maker.away, address)
            with listener.accept()[0] as accepted:
                maker.check(accepted)
                connecting.result()
                assert receive(accepted, 6) == b"client"


@on_pair
def check_two_listeners_on_one_port(pair: Pair) -> None:
    """SO_REUSEPORT: the kernel spreads connections over two listeners of one port."""
    maker, sockets = pair.maker, pair.maker.sockets
    with (
        sockets.create_server(("127.0.0.1", 0), reuse_port=True) as first,
        sockets.create_server(first.getsockname(), reuse_port=True) as second,
    ):
        for _ in range(6):
            connecting = pair.far.process.begin(_connect_and_send, maker.away, first.getsockname())
            ready, _, _ = select.select([first, second], [], [], 20)
            with ready[0].accept()[0] as accepted:
                connecting.result()
                assert receive(accepted, 6) == b"client"


@on_pair
def check_listener_used_through_a_dup(pair: Pair) -> None:
    maker = pair.maker
    with maker.listener() as listener, listener.dup() as other:
        listener.close()
        connecting = pair.far.process.begin(_connect_and_send, maker.away, other.getsockname())
        with other.accept()[0] as accepted:
            connecting.result()
            assert receive(accepted, 6) == b"client"


@on_pair
def check_listening_twice(pair: Pair) -> None:
    """listen() again only changes the backlog."""
    maker = pair.maker
    with maker.listener() as listener:
        listener.listen(5)
        listener.listen()
        connecting = pair.far.process.begin(_connect_and_send, maker.away, listener.getsockname())
        with listener.accept()[0] as accepted:
            maker.check(accepted)
            connecting.result()
            assert receive(accepted, 6) == b"client"


def check_many_connections_at_once(maker: PairMaker) -> None:
    """A hundred connections are open together and each keeps its own bytes."""
    count = 100
    with FarProcess() as server:
        address = server.run(_listen, maker, 200)
        serving = server.begin(_accept_many, count)
        clients = [maker.connect(address) for _ in range(count)]
        serving.result()
        for number, client in enumerate(clients):
            client.sendall(Pattern(number).at(0, 3000))
        echoing = server.begin(_echo_many)
        for number, client in enumerate(clients):
            with client:
                Pattern(number).verify(0, receive(client, 3000))
        echoing.result()


def _accept_many(here: Any, count: int) -> None:
    here.accepted = [here.listener.accept()[0] for _ in range(count)]


def _echo_many(here: Any) -> None:
    for sock in here.accepted:
        with sock:
            sock.sendall(receive(sock, 3000))


def _full_backlog(maker: PairMaker) -> list[Any]:
    """Connect without anybody accepting until connecting no longer succeeds at once; then accept all."""
    with maker.listener(backlog=2) as listener:
        connected = []
        while len(connected) < 20:
            sock = maker.sockets.socket(socket.AF_INET)
            sock.settimeout(0.3)
            try:
                sock.connect(listener.getsockname())
            except TimeoutError:
                sock.close()
                break
            connected.append(sock)
        count = len(connected)
        for number, sock in enumerate(connected):
            sock.settimeout(20)
            sock.sendall(bytes([number]))
        listener.settimeout(20)
        served = []
        for _ in connected:
            accepted, _ = listener.accept()
            accepted.settimeout(20)
            with accepted:
                served.append(accepted.recv(1))
                accepted.sendall(b"served")
        answers = {receive(sock, 6) for sock in connected}
        for sock in connected:
            sock.close()
        return [count, sorted(served), answers]


def check_full_backlog(maker: PairMaker) -> None:
    """As many connections succeed as in plain TCP; the next one times out, and nothing is lost."""
    expected = _full_backlog(PLAIN)
    observed = _full_backlog(maker)
    assert observed == expected, (observed, expected)


def check_full_backlog_without_blocking(maker: PairMaker) -> None:
    """A non-blocking connect to a full backlog stays in progress, and completes when there is room."""
    with maker.listener(backlog=0) as listener:
        waiting = []
        while True:
            sock = maker.sockets.socket(socket.AF_INET)
            sock.setblocking(False)
            code = sock.connect_ex(listener.getsockname())
            assert code in (0, errno.EINPROGRESS)
            waiting.append(sock)
            if not events(sock, select.POLLOUT, 0.3):
                break
            assert len(waiting) < 20
        assert events(waiting[-1], select.POLLOUT) == 0
        accepted = []
        listener.settimeout(20)
        for _ in waiting:
            accepted.append(listener.accept()[0])
        for sock in waiting:
            until_writable(sock)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            sock.send(b"x")
        for sock in accepted:
            assert sock.recv(1) == b"x"
            sock.close()
        for sock in waiting:
            sock.close()


@like_plain_tcp
def check_unconnected_poll(pair: Pair) -> Any:
    """What poll() shows of a fresh socket and of a listener."""
    mask = select.POLLIN | select.POLLOUT
    with pair.maker.sockets.socket(socket.AF_INET) as sock, pair.maker.listener() as listener:
        return events(sock, mask), events(listener, mask)


@on_pair
def check_presence_is_removed(pair: Pair) -> None:
    """After its sockets are closed a process leaves no name behind."""
    before = names_of(os.getpid())
    with pair.maker.listener() as listener:
        connecting = pair.far.process.begin(_connect_and_send, pair.maker.away, listener.getsockname())
        with listener.accept()[0] as accepted:
            connecting.result()
            assert receive(accepted, 6) == b"client"
        pair.far.process.run(_close_more)
    assert names_of(os.getpid()).keys() <= before.keys()


@on_pair
def check_socket_pair(pair: Pair) -> None:
    """socketpair() gives two connected sockets of the module's class."""
    first, second = pair.maker.sockets.socketpair()
    with first, second:
        assert type(first) is type(second) is pair.maker.sockets.socket
        first.sendall(b"pair")
        assert receive(second, 4) == b"pair"
        second.close()
        assert first.recv(1) == b""


def check_exec_of_nothing_leaks(maker: PairMaker) -> None:
    """A child process that was not given the connection does not hold it open."""
    import subprocess
    import sys

    with maker.pair() as pair:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, env={**os.environ}
        )
        pair.near.close()
        try:
            assert pair.far.recv(1) == b""
        finally:
            child.communicate()
