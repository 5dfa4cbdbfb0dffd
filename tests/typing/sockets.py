"""What type checkers see of fastsock.socket. Nothing here is run: .ci/types checks it by mypy and by pyright."""

from __future__ import annotations

import socket as standard
from typing import Any

import numpy
from typing_extensions import assert_type

from fastsock import socket


def connecting() -> None:
    with socket.create_connection(("127.0.0.1", 5000), timeout=1.0) as sock:
        assert_type(sock, socket.socket)
        assert_type(sock.transport, str)
        assert_type(sock.recv(10), bytes)
        assert_type(sock.fileno(), int)
        sock.send_array(numpy.ones(3))
        sock.sent(b"")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    socket.create_connection(5000)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def accepting() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=5) as server:
        assert_type(server, socket.socket)
        sock, address = server.accept()
        assert_type(sock, socket.socket)
        assert_type(address, Any)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def as_the_standard_class() -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    plain: standard.socket = sock
    assert_type(sock.dup(), socket.socket)
    left, right = socket.socketpair()
    assert_type((left, right), tuple[socket.socket, socket.socket])
    assert_type(socket.gethostname(), str)
    plain.close()
