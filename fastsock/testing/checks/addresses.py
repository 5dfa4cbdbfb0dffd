"""Names and options read back as TCP's do, though the bytes travel elsewhere."""

from __future__ import annotations

import socket
import struct
from typing import Any

from ..outcomes import like_plain_tcp, on_pair, outcome, receive
from ..pairs import Pair, PairMaker


def _check_names(pair: Pair) -> None:
    near, far = pair.near, pair.far
    assert near.getsockname() == far.getpeername()
    assert near.getpeername() == far.getsockname()
    assert near.getsockname() != near.getpeername()
    assert near.getsockname()[0] == pair.maker.host
    assert near.family == far.get("family")
    assert far.get("type") == socket.SOCK_STREAM


@on_pair
def check_names_agree(pair: Pair) -> None:
    _check_names(pair)


def check_names_agree_in_version_six(maker: PairMaker) -> None:
    if not socket.has_ipv6:
        return
    with maker.on("::1").pair() as pair:
        assert len(pair.near.getsockname()) == 4
        _check_names(pair)
        pair.near.sendall(b"six")
        assert pair.far.run(receive, 3) == b"six"


def check_accept_tells_the_name(maker: PairMaker) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with maker.listener() as listener, ThreadPoolExecutor(1) as executor:
        connecting = executor.submit(maker.connect, listener.getsockname())
        accepted, address = listener.accept()
        with accepted, connecting.result(30) as connected:
            assert address == connected.getsockname() == accepted.getpeername()
            assert connected.getpeername() == listener.getsockname() == accepted.getsockname()
            maker.check(accepted)


@on_pair
def check_source_address_is_kept(pair: Pair) -> None:
    """bind() before connect(): the chosen source port is what both ends see."""
    sockets = pair.maker.sockets
    with sockets.socket(socket.AF_INET) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pair.maker.listener() as listener:
        there = pair.far.process.begin(_connect_from, pair.maker.away, listener.getsockname(), port)
        with listener.accept()[0] as accepted:
            assert there.result() == accepted.getpeername() == ("127.0.0.1", port)
            pair.maker.check(accepted)


def _connect_from(here: Any, maker: PairMaker, address: Any, port: int) -> Any:
    here.more = maker.sockets.create_connection(address, source_address=("127.0.0.1", port))
    return here.more.getsockname()


_INTEGERS = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
    (socket.SOL_SOCKET, socket.SO_REUSEADDR, 0),
    (socket.SOL_SOCKET, socket.SO_OOBINLINE, 1),
    (socket.SOL_SOCKET, socket.SO_RCVBUF, 65536),
    (socket.SOL_SOCKET, socket.SO_SNDBUF, 50_000),
    (socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1),
    (socket.SOL_SOCKET, socket.SO_PRIORITY, 3),
    (socket.SOL_SOCKET, socket.SO_MARK, 0),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 0),
    (socket.IPPROTO_TCP, socket.TCP_CORK, 1),
    (socket.IPPROTO_TCP, socket.TCP_CORK, 0),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 7),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5),
    (socket.IPPROTO_TCP, socket.TCP_LINGER2, 11),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 12_345),
    (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 16_384),
    (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1),
    (socket.IPPROTO_IP, socket.IP_TOS, 0x10),
    (socket.IPPROTO_IP, socket.IP_TTL, 33),
]


@like_plain_tcp
def check_options_read_back(pair: Pair) -> Any:
    near, seen = pair.near, []
    for level, option, value in _INTEGERS:
        seen.append((level, option, outcome(near.setsockopt, level, option, value)))
        seen.append((level, option, outcome(near.getsockopt, level, option)))
    return seen


@like_plain_tcp
def check_options_that_tell_the_kind(pair: Pair) -> Any:
    names = ("SO_TYPE", "SO_ERROR", "SO_ACCEPTCONN", "SO_DOMAIN", "SO_PROTOCOL", "SO_KEEPALIVE", "SO_BROADCAST")
    seen = [outcome(pair.near.getsockopt, socket.SOL_SOCKET, getattr(socket, each)) for each in names]
    seen.append(outcome(pair.near.getsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY))
    return seen


@like_plain_tcp
def check_options_in_bytes(pair: Pair) -> Any:
    near = pair.near
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 9))
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 3, 0))
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, struct.pack("i", 1))
    return [
        near.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8),
        near.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16),
        near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 4),
        near.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16),
        # The first byte is the state: 1 is established.
        near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[0],
    ]


@like_plain_tcp
def check_option_errors(pair: Pair) -> Any:
    near = pair.near
    return [
        outcome(near.getsockopt, socket.SOL_SOCKET, 9999),
        outcome(near.setsockopt, socket.SOL_SOCKET, 9999, 1),
        outcome(near.getsockopt, 9999, 1),
        outcome(near.setsockopt, socket.IPPROTO_TCP, 9999, 1),
        outcome(near.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, b"x"),
        outcome(near.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, "text"),
        outcome(near.getsockopt, socket.SOL_SOCKET, socket.SO_LINGER, -1),
        outcome(near.getsockopt, socket.SOL_SOCKET, socket.SO_LINGER, 2000),
    ]


@like_plain_tcp
def check_options_set_before_connecting(pair: Pair) -> Any:
    """What was set on the socket or on the listener holds for the connection."""
    maker = pair.maker
    sockets = maker.sockets
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 99),
        (socket.SOL_SOCKET, socket.SO_RCVBUF, 70_000),
        (socket.SOL_SOCKET, socket.SO_SNDBUF, 60_000),
    ]
    with maker.listener() as listener:
        for option in options:
            listener.setsockopt(*option)
        connecting = pair.far.process.begin(_connect_with, maker.away, listener.getsockname(), options)
        with listener.accept()[0] as accepted:
            here = [accepted.getsockopt(*option[:2]) for option in options]
            there = connecting.result()
    assert sockets is maker.sockets
    return here, there


def _connect_with(here: Any, maker: PairMaker, address: Any, options: list[Any]) -> list[int]:
    here.more = maker.sockets.socket(socket.AF_INET)
    for option in options:
        here.more.setsockopt(*option)
    here.more.connect(address)
    return [here.more.getsockopt(*option[:2]) for option in options]


@like_plain_tcp
def check_connected_socket_refuses(pair: Pair) -> Any:
    """Calls that make no sense on a connected socket."""
    near = pair.near
    address = near.getpeername()
    return [
        outcome(near.connect, address),
        outcome(near.connect_ex, address),
        outcome(near.bind, ("127.0.0.1", 0)),
        outcome(near.listen),
        outcome(near.accept),
    ]


@like_plain_tcp
def check_unconnected_socket_refuses(pair: Pair) -> Any:
    with pair.maker.sockets.socket(socket.AF_INET) as sock:
        return [
            outcome(sock.getpeername),
            outcome(sock.getsockname),
            outcome(sock.recv, 1),
            outcome(sock.send, b"x"),
            outcome(sock.shutdown, socket.SHUT_RDWR),
            outcome(sock.accept),
        ]


def check_refused_connection(maker: PairMaker) -> None:
    """Nobody listens: the refusal is TCP's."""
    with maker.listener() as listener:
        address = listener.getsockname()
    with maker.sockets.socket(socket.AF_INET) as sock:
        assert outcome(sock.connect, address) == "ConnectionRefusedError ECONNREFUSED"
    with maker.sockets.socket(socket.AF_INET) as sock:
        assert sock.connect_ex(address) == 111
    with maker.sockets.socket(socket.AF_INET) as sock:
        sock.setblocking(False)
        assert sock.connect_ex(address) in (111, 115)


@on_pair
def check_wildcard_listener(pair: Pair) -> None:
    """A server on every address, reached by 127.0.0.1, 127.0.0.2 and localhost."""
    maker = pair.maker
    with maker.sockets.create_server(("", 0)) as listener:
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "127.0.0.2", "localhost"):
            connecting = pair.far.process.begin(_connect_there, maker.away, (host, port))
            with listener.accept()[0] as accepted:
                name, peer = connecting.result()
                assert accepted.getpeername() == name
                assert accepted.getsockname() == peer
                maker.check(accepted)
                accepted.sendall(b"hi")
                assert pair.far.process.run(_receive_there, 2) == b"hi"


@on_pair
def check_dual_stack_listener(pair: Pair) -> None:
    """A server on both protocols, reached by each."""
    maker = pair.maker
    if not maker.sockets.has_dualstack_ipv6():
        return
    with maker.sockets.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            connecting = pair.far.process.begin(_connect_there, maker.away, (host, port))
            accepted, address = listener.accept()
            with accepted:
                name, _ = connecting.result()
                assert address[0].removeprefix("::ffff:") == name[0]
                assert address == accepted.getpeername()
                maker.check(accepted)
                accepted.sendall(b"hi")
                assert pair.far.process.run(_receive_there, 2) == b"hi"


def _connect_there(here: Any, maker: PairMaker, address: Any) -> Any:
    here.more = maker.connect(address)
    maker.check(here.more)
    return here.more.getsockname(), here.more.getpeername()


def _receive_there(here: Any, count: int) -> bytes:
    with here.more:
        return receive(here.more, count)
