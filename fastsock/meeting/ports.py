"""The port of a connection that leaves TCP.

The port is chosen before the connection is made, because the other end must find the offer that is named after it. It
is held as long as the connection lives. Otherwise the kernel would give it to another connection, and a server would
see two connections from one address.
"""

from __future__ import annotations

import _socket
import itertools
import os
from resource import RLIM_INFINITY, RLIMIT_NOFILE

from .. import core
from ..system.originals import originals
from ..system.owned_descriptor import OwnedDescriptor, file_of, is_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Base: Any = _socket.socket
_IP_BIND_ADDRESS_NO_PORT = 24  # Linux's number; Python names it since 3.12

_HOLDS_FROM = 3072  # a fork copies the table of descriptors up to the highest
_LOOKS = 2  # at held ports, for each new connection


def take(sock: Any) -> tuple[str, int]:
    """Binds the socket to a port, unless it has one, at the address that its program chose.

    Returns (address, port). Raises OSError if no port is free.
    """
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


def hold(sock: Any) -> OwnedDescriptor:
    """A second descriptor for the TCP socket. Until it is closed, no other connection gets the port.

    Its number is at least three quarters of this process's limit, or 3,072 if that is less. Lower numbers are left to
    the program. Raises OSError: EMFILE if no such number is free.
    """
    if _held:
        with _lock:
            _look_at_some()
    try:
        return _hold(sock)
    except OSError:
        with _lock:
            for held in [*_held.values()]:
                held.look()
        return _hold(sock)


def _hold(sock: Any) -> OwnedDescriptor:
    most = originals.getrlimit(RLIMIT_NOFILE)[0]
    first = _HOLDS_FROM if most == RLIM_INFINITY else min(most // 4 * 3, _HOLDS_FROM)
    return OwnedDescriptor(originals.fcntl(_Base.fileno(sock), originals.F_DUPFD_CLOEXEC, first))


class HeldPort:
    """The port of a connection that has left TCP. It is held as long as a number of this process stands for that.

    A number may outlive its socket object, if TLS or foreign code took it over. Then nothing tells that it is closed.
    So the numbers are looked at when a socket of the connection has been closed, and now and then.
    """

    __slots__ = ("_numbers", "_stands_for", "_tcp")

    def __init__(self, tcp: OwnedDescriptor, descriptors: list[int]) -> None:
        """The descriptors all stand for the connection."""
        self._tcp = tcp
        self._stands_for = _file(descriptors[0])
        self._numbers = set(descriptors)
        with _lock:
            _held[self._stands_for] = self

    def also(self, descriptor: int) -> None:
        """Another number stands for the connection."""
        with _lock:
            self._numbers.add(descriptor)

    def follow(self, descriptor: int) -> None:
        """The number was pointed at another file. That file stands for the connection from now on."""
        with _lock:
            _held.pop(self._stands_for, None)
            self._stands_for = _file(descriptor)
            _held[self._stands_for] = self

    def look(self) -> None:
        """Lets the port go if no number stands for the connection any more."""
        with _lock:
            self._numbers = {number for number in self._numbers if is_file(number, *self._stands_for)}
            if not self._numbers:
                self.let_go()

    def let_go(self) -> None:
        """Frees the port, or leaves it to TCP again. Idempotent."""
        with _lock:
            self._tcp.close()
            if _held.get(self._stands_for) is self:
                del _held[self._stands_for]


def held_for(descriptor: int) -> HeldPort | None:
    """The held port of the connection that a number stands for, or None. Notes the number.

    It is called when a connection comes back to a socket object.
    """
    if not _held:
        return None
    held = _held.get(_file(descriptor))
    if held is not None:
        held.also(descriptor)
    return held


def _file(descriptor: int) -> tuple[int, int]:
    return file_of(descriptor)[:2]


def _look_at_some() -> None:
    """Looks at the oldest held ports. Their numbers may have been closed unseen. The caller holds the lock."""
    for stands_for in _oldest():
        held = _held.pop(stands_for, None)
        if held is None:  # a collection closed its socket meanwhile, in this thread
            continue
        _held[stands_for] = held  # behind all others
        held.look()


def _oldest() -> list[tuple[int, int]]:
    while True:
        try:
            return [*itertools.islice(_held, _LOOKS)]
        except RuntimeError:  # a collection closed a socket while the iterator was made, in this thread
            continue


def _forked() -> None:
    global _lock
    _lock = originals.RLock()


_held: dict[tuple[int, int], HeldPort] = {}  # by the device and inode of the descriptor that carries the bytes
_lock = originals.RLock()
os.register_at_fork(after_in_child=_forked)
