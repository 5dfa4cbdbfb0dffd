"""The way back to the kernel: if other code takes the raw descriptor, the descriptor itself carries the bytes."""

from __future__ import annotations

import _socket
import contextlib
import weakref

from .. import core, unix
from ..connection import registry
from ..meeting.names import name_bridge
from ..meeting.ports import HeldPort
from ..system.genuine import genuine
from ..transport import Reason
from . import numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Base: Any = _socket.socket


def release(sock: Any, survives: bool) -> None:
    """Makes the raw descriptor itself carry the bytes, for every socket object that shares it.

    survives: a bridge or a pump goes on after this process has ended or become another program. Raises OSError if
    unread bytes need a bridge and it cannot start. Then the connection goes on as before.
    """
    channel, connection = sock._fast_channel, sock._fast_connection
    if channel is None or connection is None:
        return
    if channel.fileno() < 0:  # closed by its number
        sock._fast_unbind()
        return
    kept = connection.kept  # once: another thread may settle it
    if kept is not None:
        if _Base.gettimeout(sock) != 0:
            kept.wait()
        if leave_custody(sock, survives):
            return
    connection.reset = channel.was_reset()
    holders = [each for each in connection.sockets() if each._fast_channel is not None]
    if channel.release():
        for holder in holders:
            holder._fast_unbind()
    else:
        _bridge(sock, holders, survives)
        connection.bridged = True
    held = kept.held() if kept is not None else None
    if held is not None:
        connection.port = HeldPort(held, [_Base.fileno(holder) for holder in holders])
    registry.moved(connection, "unix", Reason.DESCRIPTOR_TAKEN)


def leave_custody(sock: Any, survives: bool) -> bool:
    """Ends custody, so that the descriptor needs no thread here. Returns whether it is TCP's again."""
    connection, channel = sock._fast_connection, sock._fast_channel
    kept = None if connection is None else connection.kept
    if kept is None or channel is None or channel.fileno() < 0:
        return False
    if len(connection.sockets()) > 1 or not kept.take_back(channel):
        kept.give_up(survives)
        return False
    sock._fast_unbind()
    registry.back_on_tcp(connection, Reason.DESCRIPTOR_TAKEN)
    connection.is_tcp = True
    _Base.settimeout(sock, _Base.gettimeout(sock))
    for (level, option), value in (sock._fast_options or {}).items():
        with contextlib.suppress(OSError):
            _Base.setsockopt(sock, level, option, *value)
    return True


def _bridge(sock: Any, holders: list[Any], survives: bool) -> None:
    """Makes the descriptor one end of a new socket pair, because unread bytes lie in the ring. A pump serves it."""
    outer, inner = _socket.socketpair()
    unix.enlarge_buffer(outer)
    unix.enlarge_buffer(inner)
    name_bridge(outer, sock._fast_connection.local, sock._fast_connection.peer)
    doorbell = genuine.dup(_Base.fileno(sock))
    channel = sock._fast_channel
    channels = [holder._fast_channel for holder in holders]
    for each in channels:
        each.begin_move()  # calls of other threads go on over the bridge
    try:
        channel.bridge(doorbell, inner.fileno(), survives)
    except OSError as error:  # the connection goes on as it was
        for each in channels:
            each.end_move(None)
        genuine.close(doorbell)
        outer.close()
        inner.close()
        path = f"{sock._fast_connection.transport} path to {channel.peer}"
        what = "the descriptor is needed while bytes are unread, but no bridge for them could be started"
        advice = "raise the limit of processes or memory, or read the bytes first"
        raise OSError(error.errno, f"{path}: {what}: {error.strerror}; {advice}") from None
    inner.detach()
    for holder, each in zip(holders, channels, strict=True):
        descriptor, timeout = _Base.fileno(holder), _Base.gettimeout(holder)
        numbers.detach(descriptor)
        core.replace_watched(outer.fileno(), descriptor, genuine.get_inheritable(descriptor))
        if sock._fast_connection.port is not None:
            sock._fast_connection.port.follow(descriptor)
        holder._fast_unbind()
        _Base.settimeout(holder, timeout)
        each.end_move(weakref.ref(holder))
    outer.close()
