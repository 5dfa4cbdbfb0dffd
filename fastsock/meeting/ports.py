"""The port that a connection will have is chosen before it is made: the other end must find what is named by it."""

from __future__ import annotations

import _socket

from .. import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Base: Any = _socket.socket
_IP_BIND_ADDRESS_NO_PORT = 24  # Linux's number; Python names it since 3.12


def take(sock: Any) -> tuple[str, int]:
    """Binds it to a port, unless it has one, at the address that its program chose; (address, port). Raises OSError."""
    return core.take_port(_Base.fileno(sock)) if core.available else _take(sock)


def _take(sock: Any) -> tuple[str, int]:
    address = _Base.getsockname(sock)
    if address[1] == 0:
        _bind(sock, address)
        address = _Base.getsockname(sock)
    return address[0], address[1]


def _bind(sock: Any, address: Any) -> None:
    try:
        without_port = _Base.getsockopt(sock, _socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT)
    except OSError:  # an old kernel
        without_port = 0
    if not without_port:
        _Base.bind(sock, address)
        return
    _Base.setsockopt(sock, _socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 0)
    try:
        _Base.bind(sock, address)
    except OSError:
        _Base.setsockopt(sock, _socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        _Base.bind(sock, address)  # the kernel forgets the address where no port of it is free
        raise
    _Base.setsockopt(sock, _socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
