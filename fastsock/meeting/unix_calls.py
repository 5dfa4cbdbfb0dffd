"""The kernel calls of a meeting, on sockets with names in the abstract UNIX namespace. With the core they are native.

Streams are non-blocking. They are plain descriptor numbers, because most of them become another socket's descriptor.
"""

from __future__ import annotations

import _socket
import errno
import os
import struct
from collections.abc import Callable

from .. import core
from ..system.genuine import genuine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Raw = _socket.socket
UNIX = _socket.AF_UNIX
DATAGRAM = _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
_STREAM = _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC
_CREDENTIALS = struct.Struct("iII")
_PASSED, _RIGHTS, _ONE_NUMBER = b"S", (_socket.SOL_SOCKET, _socket.SCM_RIGHTS), struct.Struct("i")
_USUAL_OVERFLOW = 65534
_EVERYBODY = b"4294967295"


def _knock(name: bytes) -> bool:
    """Whether a datagram socket is bound to the name. The call also tells its owner. Raises OSError."""
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


def _listen(name: bytes) -> int:
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


def _pair(name: bytes) -> tuple[int, int]:
    """The descriptors of two connected streams, the first of which has the name. Raises OSError."""
    first, second = _socket.socketpair(UNIX, _STREAM)
    try:
        first.bind(name)
    except BaseException:
        first.close()
        second.close()
        raise
    return first.detach(), second.detach()


def _pass_on(stream: int, descriptor: int) -> None:
    """Passes the descriptor over a connected UNIX stream. Raises OSError."""
    borrowed = _socket.socket(UNIX, _socket.SOCK_STREAM, 0, stream)
    try:
        borrowed.sendmsg([_PASSED], [(*_RIGHTS, _ONE_NUMBER.pack(descriptor))], _socket.MSG_DONTWAIT)
    finally:
        borrowed.detach()


def _passed(stream: int) -> int:
    """A duplicate of the descriptor that the other end passed: the stream keeps its own until it is closed.

    Raises OSError: BlockingIOError for nothing yet, ConnectionResetError where the other end hung up.
    """
    flags = _socket.MSG_PEEK | _socket.MSG_DONTWAIT | _socket.MSG_CMSG_CLOEXEC
    borrowed = _socket.socket(UNIX, _socket.SOCK_STREAM, 0, stream)
    try:
        word, ancillary, told, _ = borrowed.recvmsg(1, _socket.CMSG_SPACE(_ONE_NUMBER.size), flags)
    finally:
        borrowed.detach()
    if not word:
        raise ConnectionResetError(errno.ECONNRESET, genuine.strerror(errno.ECONNRESET))
    for level, kind, content in ancillary:
        if (level, kind) == _RIGHTS and word == _PASSED and len(content) == _ONE_NUMBER.size:
            return int(_ONE_NUMBER.unpack(content)[0])
    error = errno.EMFILE if word == _PASSED and told & _socket.MSG_CTRUNC else errno.EPROTO
    raise OSError(error, genuine.strerror(error))


def shut(listener: int) -> None:
    """Lets nobody connect to the listener any more. Who has connected can still be accepted."""
    borrowed = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, listener)
    try:
        borrowed.shutdown(_socket.SHUT_RDWR)
    finally:
        borrowed.detach()


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
    return user == genuine.geteuid() and (user != _overflow_user() or _all_users_have_numbers())


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
    file = genuine.open(path, _READ_ONLY)
    try:
        return genuine.read(file, 4096)
    finally:
        genuine.close(file)


knock: Callable[[bytes], bool] = core.abstract_knock if core.available else _knock
listen: Callable[[bytes], int] = core.abstract_listen if core.available else _listen
accept: Callable[[int], int] = core.abstract_accept if core.available else _accept
pass_on: Callable[[int, int], None] = core.abstract_pass if core.available else _pass_on
passed: Callable[[int], int] = core.abstract_passed if core.available else _passed
pair: Callable[[bytes], tuple[int, int]] = core.abstract_pair if core.available else _pair
reach: Callable[[bytes], int] = core.abstract_reach if core.available else _reach
peer: Callable[[int], tuple[int, int]] = core.abstract_peer if core.available else _peer
is_own_user: Callable[[int], bool] = core.abstract_is_own_user if core.available else _is_own_user
