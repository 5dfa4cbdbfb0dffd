"""The data calls of a socket that has left TCP: for another host, its descriptor is a doorbell beside a channel.

The class of such sockets has the native calls of any other one (`core/binding/_calls.pyx`). These come here for a
socket that the core's table does not have and that left TCP. Once foreign code has taken the descriptor, there is no
channel any more: the kernel carries the bytes, by a UNIX stream. Then what TCP does and a UNIX stream does not is done
here.
"""

from __future__ import annotations

import _socket
import errno
import stat

from ..meeting import waiting
from ..system.originals import originals
from . import tcp_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Base: Any = _socket.socket
_FAST_OPEN, _CLOSE_ON_EXEC = 0x20000000, 0x40000000  # MSG_FASTOPEN, MSG_CMSG_CLOEXEC
_TAKEN_FOR_NOBODY = 2560 << 10  # bytes that TCP's buffers take of the first send to an end that has closed


def send(sock: Any, data: Any, flags: int = 0, /) -> int:
    channel = sock._fast_channel
    if channel is not None:
        return channel.send(data, flags)  # type: ignore[no-any-return]
    _check_sending(flags)
    try:
        return _Base.send(sock, data, flags)  # type: ignore[no-any-return]
    except BrokenPipeError:
        length = memoryview(data).nbytes
        if _forgives(sock, length):
            return min(length, _TAKEN_FOR_NOBODY)
        raise


def sendall(sock: Any, data: Any, flags: int = 0, /) -> None:
    channel = sock._fast_channel
    if channel is not None:
        channel.sendall(data, flags)
        return
    _check_sending(flags)
    try:
        _Base.sendall(sock, data, flags)
    except BrokenPipeError:
        length = memoryview(data).nbytes
        if not _forgives(sock, length) or length > _TAKEN_FOR_NOBODY:
            raise


def sendto(sock: Any, data: Any, *rest: Any) -> int:
    if not rest:
        raise TypeError("sendto() takes 2 or 3 arguments (1 given)")
    return send(sock, data, rest[0] if len(rest) > 1 else 0)  # a connected TCP stream ignores the address


def sendmsg(sock: Any, buffers: Any, ancdata: Any = (), flags: int = 0, address: Any = None, /) -> int:
    channel = sock._fast_channel
    buffers = list(buffers)
    if channel is None:
        _check_sending(flags)
        try:
            return _Base.sendmsg(sock, buffers, ancdata, flags, address)  # type: ignore[no-any-return]
        except BrokenPipeError:
            length = sum(memoryview(buffer).nbytes for buffer in buffers)
            if _forgives(sock, length):
                return min(length, _TAKEN_FOR_NOBODY)
            raise
    if ancdata or flags or address is not None:  # a TCP stream ignores them if well-formed, else it refuses them
        tcp_options.check_arguments(_Base.sendmsg, [], ancdata, flags, address)
    return channel.sendmsg(buffers, flags)  # type: ignore[no-any-return]


def recv(sock: Any, bufsize: int, flags: int = 0, /) -> bytes:
    channel = sock._fast_channel
    if channel is not None:
        return channel.recv(bufsize, flags)  # type: ignore[no-any-return]
    thrown_away = flags and _throws_away(sock, flags)
    try:
        data: bytes = _Base.recv(sock, bufsize, flags)
        return bytes(len(data)) if thrown_away else data
    except ConnectionResetError:
        sock._fast_pretended = True  # the program has been told of a reset, so its next send must fail
        raise


def recv_into(sock: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
    channel = sock._fast_channel
    if channel is not None:
        return channel.recv_into(buffer, nbytes, flags)  # type: ignore[no-any-return]
    if flags and _throws_away(sock, flags):
        return len(_Base.recv(sock, nbytes or memoryview(buffer).nbytes, flags))
    return _Base.recv_into(sock, buffer, nbytes, flags)  # type: ignore[no-any-return]


def recvfrom(sock: Any, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
    return recv(sock, bufsize, flags), None


def recvfrom_into(sock: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
    return recv_into(sock, buffer, nbytes, flags), None


def recvmsg(sock: Any, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> tuple[bytes, list[Any], int, Any]:
    tcp_options.check_arguments(_Base.recvmsg, 0, ancbufsize, flags)
    return recv(sock, bufsize, flags), [], flags & _CLOSE_ON_EXEC, None


def recvmsg_into(sock: Any, buffers: Any, ancbufsize: int = 0, flags: int = 0, /) -> tuple[int, list[Any], int, Any]:
    channel = sock._fast_channel
    if channel is None:
        count, ancillary, kinds, _ = _Base.recvmsg_into(sock, buffers, ancbufsize, flags)
        return count, ancillary, kinds, None
    buffers = list(buffers)
    tcp_options.check_arguments(_Base.recvmsg_into, buffers, ancbufsize, flags)
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    data = memoryview(channel.recv(sum(len(view) for view in views), flags))
    taken = 0
    for view in views:
        part = data[taken : taken + len(view)]
        view[: len(part)] = part
        taken += len(part)
    return taken, [], 0, None


def _check_sending(flags: int) -> None:
    if flags & _FAST_OPEN:
        raise OSError(errno.EISCONN, originals.strerror(errno.EISCONN))


def _throws_away(sock: Any, flags: int) -> bool:
    """Whether the flags ask to throw the bytes away. TCP heeds such flags, but a UNIX stream ignores them."""
    if not flags & (_socket.MSG_TRUNC | _socket.MSG_ERRQUEUE):
        return False
    if flags & _socket.MSG_ERRQUEUE:  # the queue is always empty, so a socket with a timeout waits in vain
        timeout = _Base.gettimeout(sock)
        if timeout:
            originals.sleep(timeout)
            raise TimeoutError("timed out")
        raise BlockingIOError(errno.EAGAIN, originals.strerror(errno.EAGAIN))
    return not flags & _socket.MSG_OOB


def _forgives(sock: Any, length: int) -> bool:
    """Whether a send may succeed although the other end is closed.

    TCP lets the first send of any bytes succeed then. A UNIX stream does not.
    """
    if sock._fast_pretended or sock._fast_shut:
        return False
    sock._fast_pretended = length > 0
    return waiting.has_hung_up(sock)  # else this end was shut, by a process that shares the socket


def has_positions(file: Any) -> bool:
    """Whether it is a regular file, so that the kernel could send it by itself."""
    try:
        return stat.S_ISREG(originals.fstat(file.fileno()).st_mode)
    except (AttributeError, OSError):  # io.UnsupportedOperation is an OSError
        return False
