"""Sockets that a path opens itself, in place of TCP's: the descriptor is re-pointed before it connects or listens."""

from __future__ import annotations

import _socket
import contextlib

from .. import chain
from ..system.originals import originals
from ..transport import Reason
from . import registry, tcp_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..transport import Transport

_Base: Any = _socket.socket
_family = _Base.family.__get__  # the plain number
_KIND = (_socket.SO_DOMAIN, _socket.SO_PROTOCOL)
_AS_TCP_HAS_THEM = (*_KIND, _socket.SO_SNDBUF, _socket.SO_RCVBUF)  # the path rounds a buffer to a size of its own
_REUSE = (_socket.SOL_SOCKET, _socket.SO_REUSEADDR)


def open_instead(sock: Any, direction: str, address: Any) -> Transport | None:
    """Re-points the descriptor of `sock` at a socket of the path that settings and rules name for the address.

    None where that is TCP, or where TCP must do: then the descriptor is what it was.
    """
    if type(address) is not tuple or type(address[0]) is not str or type(address[1]) is not int:
        return None
    if sock._fast_opened is not None:
        return sock._fast_opened  # type: ignore[no-any-return]
    if _Base.fileno(sock) < 0 or _Base.getsockopt(sock, _socket.SOL_SOCKET, _socket.SO_ACCEPTCONN):
        return None
    path = chain.opener(direction, address[0], address[1])
    if path is None or sock._fast_watched:  # a poller follows the open file
        return None
    if direction == "connect" and not path.meets_tcp() and _Base.gettimeout(sock) == 0:
        return None  # nobody would take TCP once it is refused
    try:
        _re_point(sock, path.open(_family(sock)), _Base.getsockname(sock))
    except OSError as error:
        chain.log.debug("%s path refused for %s: %s", path.name, address, error)
        return None
    sock._fast_opened = path
    return path


def connects(sock: Any, path: Transport, address: Any) -> bool:
    """Connects by a path whose sockets do not meet plain TCP. False: the descriptor is TCP's again, not connected."""
    bound = _Base.getsockname(sock)  # a connect that fails may leave a port of the kernel's choice
    try:
        _Base.connect(sock, address)
    except TimeoutError:
        raise
    except OSError as error:
        chain.log.debug("%s path failed for %s: %s", path.name, address, error)
        _re_point(sock, _socket.socket(_family(sock), _socket.SOCK_STREAM).detach(), bound)
        sock._fast_opened = None
        return False
    return True


def _re_point(sock: Any, stream: int, bound: Any) -> None:
    """The descriptor of `sock` becomes that stream, with its options, at the address `bound`. `stream` is closed."""
    made = _Base(_family(sock), _socket.SOCK_STREAM, 0, stream)
    try:
        descriptor, timeout = _Base.fileno(sock), _Base.gettimeout(sock)
        options = dict(sock._fast_options or {})
        for (level, option), value in options.items():
            made.setsockopt(level, option, *value)
        if bound[1]:
            # Two sockets may be bound to one port while neither listens, if both say so. Nobody else can take it then.
            reuse = _Base.getsockopt(sock, *_REUSE)
            _Base.setsockopt(sock, *_REUSE, 1)
            made.setsockopt(*_REUSE, 1)
            try:
                made.bind(bound)
            finally:
                _Base.setsockopt(sock, *_REUSE, reuse)
            made.setsockopt(*_REUSE, reuse)
        originals.dup2(made.fileno(), descriptor, originals.get_inheritable(descriptor))
    finally:
        made.close()
    _Base.settimeout(sock, timeout)


def option(sock: Any, level: int, number: int, length: tuple[int, ...]) -> Any:
    """getsockopt() of a socket that a path opened: TCP's answer, also where the path's own kernel code has another."""
    if level == _socket.SOL_SOCKET and number in _AS_TCP_HAS_THEM:
        given = (sock._fast_options or {}).get((level, number))
        if given is not None or number in _KIND:
            options = {} if given is None else {(level, number): given}
            return tcp_options.read_back(sock.family, options, level, number, length)
    return _Base.getsockopt(sock, level, number, *length)


def note(sock: Any, path: Transport, role: str, local: Any, peer: Any) -> None:
    """`sock` has a connection that the kernel carries by that path, or by TCP after all."""
    if role == "accept":
        _inherit(sock)
    connection = registry.Connection(role, path.name, Reason.JOINED, sock.family, sock.proto, local, peer)
    connection.is_tcp = True  # the descriptor answers for itself
    connection.opener = path
    sock._fast_channel, sock._fast_connection = None, connection
    registry.opened(connection, sock)


def _inherit(sock: Any) -> None:
    """TCP's listeners pass on all that was set on them. The path's kernel code passes on the buffers only."""
    for (level, number), value in (sock._fast_options or {}).items():
        if level == _socket.SOL_SOCKET and number not in (_socket.SO_SNDBUF, _socket.SO_RCVBUF, _socket.SO_REUSEADDR):
            with contextlib.suppress(OSError):
                _Base.setsockopt(sock, level, number, *value)
