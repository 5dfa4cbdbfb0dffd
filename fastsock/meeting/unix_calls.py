"""The kernel's calls on sockets with names in the abstract UNIX namespace. With the core they are native.

Streams are non-blocking. They are plain descriptor numbers.
"""

from __future__ import annotations

import _socket
import os
import struct
from collections.abc import Callable

from .. import core
from ..system.originals import originals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Raw = _socket.socket
UNIX = _socket.AF_UNIX
DATAGRAM = _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
_STREAM = _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC
_CREDENTIALS = struct.Struct("iII")
_USUAL_OVERFLOW = 65534
_EVERYBODY = b"4294967295"


def knock(name: bytes) -> bool:
    """Whether a datagram socket is bound to the name. Raises OSError."""
    probe = _socket.socket(_socket.AF_UNIX, DATAGRAM)
    try:
        probe.sendto(b"", name)
    except ConnectionRefusedError:
        return False
    except BlockingIOError:  # its queue is full of such messages
        return probe.connect_ex(name) == 0
    finally:
        probe.close()
    return True


def listen(name: bytes) -> int:
    """The descriptor of a stream listener at the name. Raises OSError."""
    listener = _socket.socket(_socket.AF_UNIX, _STREAM)
    try:
        listener.bind(name)
        listener.listen(1)
    except BaseException:
        listener.close()
        raise
    return listener.detach()


def _accept(listener: int) -> int:
    """The descriptor of a connection that waits there. Raises OSError: BlockingIOError if none waits."""
    borrowed: Any = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, listener)
    try:
        accepted = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, borrowed._accept()[0])
    finally:
        borrowed.detach()
    accepted.setblocking(False)
    return accepted.detach()


def _reach(name: bytes) -> int:
    """The descriptor of a stream connected to the listener at the name, or -1 without a listener. Raises OSError."""
    stream = _socket.socket(_socket.AF_UNIX, _STREAM)
    try:
        stream.connect(name)
    except ConnectionRefusedError:
        stream.close()
        return -1
    except BaseException:
        stream.close()
        raise
    return stream.detach()


def _peer(stream: int) -> tuple[int, int]:
    """Process and user at the other end of a connected UNIX stream. Raises OSError."""
    borrowed = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, stream)
    try:
        found = borrowed.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
    finally:
        borrowed.detach()
    process, user, _ = _CREDENTIALS.unpack(found)
    return process, user


def _is_own_user(user: int) -> bool:
    """Whether the user that the kernel tells is surely this process's own.

    In a user namespace all users without a number there get one number, the overflow number. This process's user may be
    one of them. So that number proves nothing, unless all users have numbers.
    """
    return user == originals.geteuid() and (user != _overflow_user() or _all_users_have_numbers())


def _overflow_user() -> int:
    try:
        return int(_content("/proc/sys/kernel/overflowuid"))
    except (OSError, ValueError):
        return _USUAL_OVERFLOW


def _all_users_have_numbers() -> bool:
    """Whether every user has a number here, as in the first user namespace."""
    try:
        return _content("/proc/self/uid_map").split()[2:] == [_EVERYBODY]
    except OSError:
        return False


def _content(path: str) -> bytes:
    file = originals.open(path, _READ_ONLY)
    try:
        return originals.read(file, 4096)
    finally:
        originals.close(file)


accept: Callable[[int], int] = core.abstract_accept if core.available else _accept
reach: Callable[[bytes], int] = core.abstract_reach if core.available else _reach
peer: Callable[[int], tuple[int, int]] = core.abstract_peer if core.available else _peer
is_own_user: Callable[[int], bool] = core.abstract_is_own_user if core.available else _is_own_user
