"""The socket class of a process without the native core: plain TCP, which says why."""

from __future__ import annotations

import _socket
import errno

from .. import arrays, chain
from ..config import settings
from ..transport import WITHOUT_CORE, Refused
from . import registry
from .standing_in import Plain, is_tcp_stream, pass_for_standard, stand_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Base: Any = _socket.socket
# These give plain numbers. The properties of the standard class make a member of an enumeration each time.
_family, _kind, _proto = _Base.family.__get__, _Base.type.__get__, _Base.proto.__get__


class socket(Plain):
    """A socket of the standard class, with typed arrays. Its connections are told of in reports."""

    __slots__ = ("_fast_connection",)

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        Plain.__init__(self, family, type, proto, fileno)
        self._fast_connection: registry.Connection | None = None

    @property
    def transport(self) -> str:
        """What carries the bytes: "tcp". It is "plain" for anything but a TCP stream."""
        return "tcp" if is_tcp_stream(self) else "plain"

    def accept(self) -> tuple[socket, Any]:
        descriptor, address = self._accept()  # type: ignore[attr-defined]
        sock = socket(_family(self), _kind(self), _proto(self), descriptor)
        if _socket.getdefaulttimeout() is None and self.gettimeout():
            sock.setblocking(True)
        if is_tcp_stream(sock):
            _note(sock, "accept", _Base.getsockname(sock), address)
        return sock, address

    def connect(self, address: Any, /) -> None:
        result = 0
        try:
            _Base.connect(self, address)
        except OSError as error:
            result = error.errno or errno.EIO
            raise
        finally:
            _connected(self, result, address)

    def connect_ex(self, address: Any, /) -> int:
        result: int = _Base.connect_ex(self, address)
        _connected(self, result, address)
        return result

    def _real_close(self, _ss: Any = _Base) -> None:
        if self._fast_connection is not None:
            registry.closing(self._fast_connection)
        _ss.close(self)

    def detach(self) -> int:
        if self._fast_connection is not None:
            registry.closing(self._fast_connection)
        return Plain.detach(self)

    # ---- typed arrays ----

    send_array = arrays.send_array
    recv_array = arrays.recv_array
    recv_array_into = arrays.recv_array_into


def _connected(sock: socket, result: int, address: Any) -> None:
    """Notes the connection, unless an earlier call did."""
    if result in (0, errno.EINPROGRESS) and sock._fast_connection is None and is_tcp_stream(sock):
        _note(sock, "connect", None if result else _Base.getsockname(sock), address if result else sock.getpeername())


def _note(sock: socket, role: str, local: Any, peer: Any) -> None:
    why = None
    if role == "accept":
        why = chain.stays_on_tcp("listen", local[0], local[1])
    elif local is not None:
        why = chain.stays_on_tcp("connect", peer[0], peer[1])
    why = why or Refused(WITHOUT_CORE)
    connection = registry.Connection(role, "tcp", why.reason, _family(sock), _proto(sock), local, peer)
    connection.detail = why.detail
    sock._fast_connection = connection
    registry.opened(connection, sock)
    if settings().trace:
        chain.log.info("%s %s stays on tcp: %s", role, peer, why)


pass_for_standard(socket)
stand_in(globals())
