"""Sockets that a path opens itself, in place of TCP's: the descriptor is re-pointed before it connects or listens."""

from __future__ import annotations

import _socket

from .. import chain
from ..system.genuine import genuine
from ..transport import Reason
from . import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..transport import Transport

_Base: Any = _socket.socket
_REUSE = (_socket.SOL_SOCKET, _socket.SO_REUSEADDR)


def open_instead(sock: Any, direction: str, address: Any) -> Transport | None:
    """Re-points the descriptor of `sock` at a socket of the path that settings and rules name for the address.

    None where that is TCP, or where TCP must do: then the descriptor is what it was.
    """
    if type(address) is not tuple or type(address[0]) is not str or type(address[1]) is not int:
        return None
    if sock._fast_opened is not None:
        return sock._fast_opened  # type: ignore[no-any-return]
    path = chain.opener(direction, address[0], address[1])
    if path is None or sock._fast_watched:  # a poller follows the open file
        return None
    try:
        _re_point(sock, path)
    except OSError as error:
        chain.log.debug("%s path refused for %s: %s", path.name, address, error)
        return None
    sock._fast_opened = path
    return path


def _re_point(sock: Any, path: Transport) -> None:
    descriptor, family, timeout = _Base.fileno(sock), _Base.family.__get__(sock), _Base.gettimeout(sock)
    if descriptor < 0 or _Base.getsockopt(sock, _socket.SOL_SOCKET, _socket.SO_ACCEPTCONN):
        return
    made = _Base(family, _socket.SOCK_STREAM, 0, path.open(family))
    try:
        options = dict(sock._fast_options or {})
        for (level, option), value in options.items():
            made.setsockopt(level, option, *value)
        local = _Base.getsockname(sock)
        if local[1]:
            # Two sockets may be bound to one port while neither listens, if both say so. Nobody else can take it then.
            reuse = _Base.getsockopt(sock, *_REUSE)
            _Base.setsockopt(sock, *_REUSE, 1)
            made.setsockopt(*_REUSE, 1)
            try:
                made.bind(local)
            finally:
                _Base.setsockopt(sock, *_REUSE, reuse)
            made.setsockopt(*_REUSE, reuse)
        genuine.dup2(made.fileno(), descriptor, genuine.get_inheritable(descriptor))
    finally:
        made.close()
    _Base.settimeout(sock, timeout)


def note(sock: Any, path: Transport, role: str, local: Any, peer: Any) -> None:
    """`sock` has a connection that the kernel carries by that path, or by TCP after all."""
    connection = registry.Connection(role, path.name, Reason.JOINED, sock.family, sock.proto, local, peer)
    connection.is_tcp = True  # the descriptor answers for itself
    connection.opener = path
    sock._fast_channel, sock._fast_connection = None, connection
    registry.opened(connection, sock)
