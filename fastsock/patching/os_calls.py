"""Raw descriptor numbers in this process: os.read and its kin keep their meaning on a fast connection.

The number of a fast connection is that of its doorbell. The doorbell carries no payload, so calls that
move bytes go to the connection. After other calls (dup, fdopen) the number alone must do: they first
make it a kernel stream again. Every other descriptor passes through.

Not covered: code that never looks these functions up in their module (C extensions; ``from os
import read`` before the installation), and ``open(number)``, whose replacement would show in the
traceback of every missing file. Such code can use ``sock.detach()`` or ``sock.makefile()``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
from operator import index

from .. import core
from ..system.originals import originals
from . import detached
from .patches import in_place_of, is_replacement, wrapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..transport import Channel
    from .patches import Patches

    class DescriptorTable(Protocol):
        """The numbers of this process's fast connections."""

        def channel_of(self, fd: int, /) -> Channel | None: ...
        def release(self, fd: int, /) -> None: ...
        def share(self, fd: int, /) -> None: ...
        def duplicated(self, fd: int, number: int, /) -> None: ...
        def forget(self, fd: int, /) -> None: ...
        def descriptors(self) -> list[int]: ...


_FROM_START, _FROM_HERE = os.SEEK_SET, os.SEEK_CUR
_SENDFILE_CHUNK = 256 * 1024
_DONT_WAIT = socket.MSG_DONTWAIT
_LEAVING_SECONDS = 60.0
_DUPLICATING = (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC)


def patch(patches: Patches, table: DescriptorTable) -> None:
    """Replace the functions of os, fcntl and socket that take a descriptor number of a stream."""
    for module, name, maker in _MAKERS:
        original = getattr(module, name, None)  # splice, for one, is missing on some systems
        if original is not None and not is_replacement(original):
            patches.replace(module, name, in_place_of(original, module.__name__, maker(original, table)))
    if not is_replacement(os.fdopen):
        patches.replace(os, "fdopen", _fdopen(os.fdopen, table))


# Each maker gives a function that looks the number up first. That is nearly all that an ordinary
# descriptor pays. The original refuses an argument that cannot be a dictionary's key.


def _read(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    channel_of = table.channel_of

    def read(owner, fd, length, /):  # type: ignore[no-untyped-def]
        try:
            channel = channel_of(fd)
        except TypeError:
            channel = None
        if channel is None:
            return original(fd, length)
        return channel.recv(_length(length), _flags(fd))

    return read


def _write(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    channel_of = table.channel_of

    def write(owner, fd, data, /):  # type: ignore[no-untyped-def]
        try:
            channel = channel_of(fd)
        except TypeError:
            channel = None
        if channel is None:
            return original(fd, data)
        return channel.send(data, _flags(fd))

    return write


def _readv(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    channel_of = table.channel_of

    def readv(owner, fd, buffers, /):  # type: ignore[no-untyped-def]
        try:
            channel = channel_of(fd)
        except TypeError:
            channel = None
        if channel is None:
            return original(fd, buffers)
        views = [_writable(buffer) for buffer in _sequence(buffers, "readv")]
        # One receive, whose bytes are spread over the buffers: a second receive would block.
        data = memoryview(channel.recv(sum(view.nbytes for view in views), _flags(fd)))
        taken = 0
        for view in views:
            part = data[taken : taken + view.nbytes]
            view[: part.nbytes] = part
            taken += part.nbytes
        return taken

    return readv


def _writev(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    channel_of = table.channel_of

    def writev(owner, fd, buffers, /):  # type: ignore[no-untyped-def]
        try:
            channel = channel_of(fd)
        except TypeError:
            channel = None
        if channel is None:
            return original(fd, buffers)
        return channel.sendmsg(_sequence(buffers, "writev"), _flags(fd))

    return writev


def _sendfile(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    channel_of = table.channel_of

    def sendfile(owner, out_fd, in_fd, offset, count):  # type: ignore[no-untyped-def]
        try:
            channel = channel_of(out_fd)
        except TypeError:
            channel = None
        if channel is None or index(count) < 0:  # which Python or the kernel refuses, each in its way
            return original(out_fd, in_fd, offset, count)
        by_kernel = getattr(channel, "send_file", None)
        sent = None if by_kernel is None else by_kernel(in_fd, offset, index(count))
        return _send_file(channel, _flags(out_fd), in_fd, offset, index(count)) if sent is None else sent

    return sendfile


def _send_file(channel: Channel, flags: int, in_fd: int, offset: int | None, count: int) -> int:
    """sendfile(2) through a connection. It sends up to ``count`` bytes, to the file's end, or until it would block."""
    try:
        start = originals.lseek(in_fd, 0, _FROM_HERE) if offset is None else index(offset)
    except OSError as error:
        if error.errno == errno.ESPIPE:  # what the kernel says of a source that is no file
            raise OSError(errno.EINVAL, originals.strerror(errno.EINVAL)) from None
        raise
    chunk = memoryview(bytearray(min(count, _SENDFILE_CHUNK)))
    sent = 0
    try:
        while sent < count:
            size = originals.preadv(in_fd, [chunk[: count - sent]], start + sent)
            if size == 0:
                break
            done = 0
            while done < size:
                now = channel.send(chunk[done:size], flags)
                done += now
                sent += now
    except OSError:
        if sent == 0:
            raise
        # What went out counts; the next call meets the same error.
    finally:
        if offset is None:
            originals.lseek(in_fd, start + sent, _FROM_START)
    return sent


def _dup(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    channel_of = table.channel_of

    def dup(owner, fd, /):  # type: ignore[no-untyped-def]
        try:
            channel = channel_of(fd)
        except TypeError:
            channel = None
        if channel is None:
            return original(fd)
        table.share(fd)
        number = original(fd)
        table.duplicated(fd, number)
        return number

    return dup


def _dup2(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    channel_of = table.channel_of
    forgotten = _forgetter(table)

    def dup2(owner, fd, fd2, inheritable=True):  # type: ignore[no-untyped-def]
        try:
            channel = channel_of(fd)
        except TypeError:
            channel = None
        if channel is not None:
            table.share(fd)
        if fd2 != fd:
            forgotten(fd2)
        number = original(fd, fd2, inheritable)
        if channel is not None and fd2 != fd:
            table.duplicated(fd, number)
        return number

    return dup2


def _close(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    channel_of, forget = table.channel_of, table.forget

    def close(owner, fd):  # type: ignore[no-untyped-def]
        try:
            channel = channel_of(fd)
        except TypeError:
            channel = None
        if channel is not None:
            if detached.close(fd):
                return None
            forget(fd)
        return original(fd)

    return close


def _closerange(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    def closerange(owner, fd_low, fd_high, /):  # type: ignore[no-untyped-def]
        for fd in table.descriptors():
            if fd_low <= fd < fd_high:
                table.forget(fd)
        return original(fd_low, fd_high)

    return closerange


def _splice(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    released = _releaser(table)

    def splice(owner, src, dst, count, offset_src=None, offset_dst=None, flags=0):  # type: ignore[no-untyped-def]
        released(src)
        released(dst)
        return original(src, dst, count, offset_src, offset_dst, flags)

    return splice


def _fcntl(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    channel_of = table.channel_of

    def fcntl(owner, fd, cmd, arg=0, /):  # type: ignore[no-untyped-def]
        if cmd in _DUPLICATING:
            number = fd if isinstance(fd, int) or not hasattr(fd, "fileno") else fd.fileno()
            try:
                channel = channel_of(number)
            except TypeError:
                channel = None
            if channel is not None:
                table.share(number)
                second = original(fd, cmd, arg)
                table.duplicated(number, second)
                return second
        if type(arg) is int and not arg:
            return original(fd, cmd)  # twice as fast as with the default written out
        return original(fd, cmd, arg)

    return fcntl


def _fdopen(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    from io import text_encoding

    released = _releaser(table)

    def fdopen(fd, mode="r", buffering=-1, encoding=None, *args, **kwargs):  # type: ignore[no-untyped-def]
        released(fd)
        if encoding is None and "b" not in mode and sys.flags.warn_default_encoding:
            encoding = text_encoding(None)  # here: the warning names our caller
        if not args and not kwargs:
            return original(fd, mode, buffering, encoding)
        return original(fd, mode, buffering, encoding, *args, **kwargs)

    return wrapping(original, fdopen)  # type: ignore[no-any-return]


def _releaser(table: DescriptorTable) -> Callable[[Any], None]:
    """A function that makes the number of a fast connection a kernel stream. It does nothing for other numbers."""
    channel_of, release = table.channel_of, table.release

    def released(fd: Any) -> None:
        try:
            channel = channel_of(fd)
        except TypeError:
            return
        if channel is not None:
            release(fd)

    return released


def _forgetter(table: DescriptorTable) -> Callable[[Any], None]:
    """A function for the table: a number is about to be closed."""
    channel_of, forget = table.channel_of, table.forget

    def forgotten(fd: Any) -> None:
        try:
            channel = channel_of(fd)
        except TypeError:
            return
        if channel is not None:
            forget(fd)

    return forgotten


def _flags(fd: int) -> int:
    """A raw call blocks if the descriptor does, whatever timeout the socket object has."""
    return 0 if originals.get_blocking(fd) else _DONT_WAIT


def _length(value: Any) -> int:
    length = index(value)
    if length < 0:
        raise OSError(errno.EINVAL, originals.strerror(errno.EINVAL))
    return length


def _sequence(buffers: Any, name: str) -> list[Any]:
    if not hasattr(buffers, "__getitem__"):
        raise TypeError(f"{name}() arg 2 must be a sequence")
    return list(buffers)


def _writable(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    if view.readonly:
        raise BufferError("Object is not writable.")
    if not view.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    return view.cast("B")


def _exit(original: Callable[..., Any], table: DescriptorTable) -> Callable[..., Any]:
    def _exit(owner, status):  # type: ignore[no-untyped-def]
        core.rdma_leave(_LEAVING_SECONDS)  # what the kernel would go on to send for TCP
        original(status)

    return _exit


_MAKERS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (os, "read", _read),
    (os, "write", _write),
    (os, "readv", _readv),
    (os, "writev", _writev),
    (os, "sendfile", _sendfile),
    (os, "dup", _dup),
    (os, "dup2", _dup2),
    (os, "close", _close),
    (os, "closerange", _closerange),
    (os, "splice", _splice),
    (fcntl, "fcntl", _fcntl),
    (socket, "dup", _dup),
    (socket, "close", _close),
    *([(os, "_exit", _exit)] if core.available else []),
)
