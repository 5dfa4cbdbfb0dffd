"""The socket class whose connections stay TCP and gain memory while they live.

listen, connect, accept and close are the kernel's: they only note in the core's table which numbers are TCP streams.
The data calls are native (`SocketCalls`).
"""

from __future__ import annotations

import _socket
import sys

from . import arrays
from .connection import carriers
from .connection.standing_in import Plain, pass_for_standard, stand_in
from .core.binding._calls import SocketCalls
from .core.binding._table import accepted, begins, is_known, share_doors
from .patching import descriptor_table, detached, guards
from .system.originals import originals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .transport import Channel

_Base: Any = _socket.socket
# These give plain numbers. The properties of the standard class make a member of an enumeration each time.
_family, _kind, _proto = _Base.family.__get__, _Base.type.__get__, _Base.proto.__get__


class socket(SocketCalls, Plain):
    """A socket of the standard class. Its TCP stream gains memory where both ends run fastsock on one host.

    Everything of `socket.socket` keeps its meaning. The data calls, connect and close are those of `SocketCalls`
    (`core/binding/_calls.pyx`).
    """

    __slots__ = ()
    if not TYPE_CHECKING:
        __new__ = _Base.__new__  # a base without fields has one of its own, that makes no socket

    _fast_channel: Channel | None = None  # the layers above find the bytes by the socket itself

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        Plain.__init__(self, family, type, proto, fileno)
        begins(self, fileno)

    @property
    def transport(self) -> str:
        """What carries the bytes: "shm", or "tcp". It is "plain" for anything but a TCP stream."""
        return carriers.transport(self)

    # ---- from accept() to close() ----

    def accept(self) -> tuple[socket, Any]:
        descriptor, address = self._accept()  # type: ignore[attr-defined]
        sock = socket.__new__(socket)
        Plain.__init__(sock, _family(self), _kind(self), _proto(self), descriptor)
        accepted(sock)
        if _socket.getdefaulttimeout() is None and self.gettimeout():
            sock.setblocking(True)
        return sock, address

    def dup(self) -> socket:
        number = _Base.fileno(self)
        descriptor = _socket.dup(number)
        carriers.duplicated(number, descriptor)
        sock: socket = self.__class__(_family(self), _kind(self), _proto(self), fileno=descriptor)
        sock.settimeout(self.gettimeout())
        return sock

    def detach(self) -> int:
        return self._fast_detach(sys._getframe(1).f_globals)

    def _fast_detach(self, taker: dict[str, Any]) -> int:
        """For the module with these globals."""
        number = _Base.fileno(self)
        if is_known(number) and not carriers.has_doors():
            if detached.stays_fast(taker):
                detached.show_askers(taker)
            else:
                carriers.give_away(number)
                carriers.forget(number)  # it is closed by whoever gets it, perhaps in C
        return Plain.detach(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Only multiprocessing may pickle a socket: it passes sockets to other processes."""
        reduction = sys.modules.get("multiprocessing.reduction")
        if reduction is None or sys._getframe(1).f_globals is not vars(reduction):
            if type(self).__reduce__ is SocketCalls.__reduce__:
                self.__getstate__()  # which raises
            return super().__reduce_ex__(protocol)
        return reduction._reduce_socket(self)

    # ---- typed arrays ----

    send_array = arrays.send_array
    recv_array = arrays.recv_array
    recv_array_into = arrays.recv_array_into

    # ---- for engines (connection/engine_socket.py) ----

    _fast_take = accept

    def _fast_meet_from(self, listener: socket, address: Any) -> None:
        """Nothing: the kernel has accepted it."""

    def _fast_give_to(self, engine: Any, peer: int, in_memory: bool) -> None:
        if not in_memory:
            carriers.give_away(_Base.fileno(self))
        carriers.given_away(self)
        descriptor = super().detach() if in_memory else self.detach()
        try:
            (engine.attach_memory if in_memory else engine.attach_descriptor)(peer, descriptor)
        except BaseException:
            carriers.forget(descriptor)
            originals.close(descriptor)
            raise

    def _fast_given_back(self) -> None:
        carriers.given_back(self)


pass_for_standard(socket)
stand_in(globals())
guards.cover(socket)
descriptor_table.before_first_attach(guards.activate)
share_doors(True)
