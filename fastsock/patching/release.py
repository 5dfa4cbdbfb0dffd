"""The way back to the kernel: if other code takes the raw descriptor, the descriptor itself carries the bytes."""

from __future__ import annotations

import _socket
import weakref

from .. import core
from ..connection import registry, tcp_options
from ..meeting.names import name_bridge
from ..system.originals import originals
from ..transport import Reason
from . import descriptor_table

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
    connection.reset = channel.was_reset()
    holders = [each for each in connection.sockets() if each._fast_channel is not None]
    if channel.release():
        for holder in holders:
            holder._fast_unbind()
    else:
        _bridge(sock, holders, survives)
        connection.bridged = True
    registry.moved(connection, "unix", Reason.DESCRIPTOR_TAKEN)


def _bridge(sock: Any, holders: list[Any], survives: bool) -> None:
    """Makes the descriptor one end of a new socket pair, because unread bytes lie in the ring. A pump serves it."""
    outer, inner = _socket.socketpair()
    tcp_options.enlarge_buffer(outer)
    tcp_options.enlarge_buffer(inner)
    name_bridge(outer, sock._fast_connection.local, sock._fast_connection.peer)
    doorbell = originals.dup(_Base.fileno(sock))
    channel = sock._fast_channel
    channels = [holder._fast_channel for holder in holders]
    for each in channels:
        each.begin_move()  # calls of other threads go on over the bridge
    try:
        channel.bridge(doorbell, inner.fileno(), survives)
    except OSError as error:  # the connection goes on as it was
        for each in channels:
            each.end_move(None)
        originals.close(doorbell)
        outer.close()
        inner.close()
        path = f"{sock._fast_connection.transport} path to {channel.peer}"
        what = "the descriptor is needed while bytes are unread, but no bridge for them could be started"
        advice = "raise the limit of processes or memory, or read the bytes first"
        raise OSError(error.errno, f"{path}: {what}: {error.strerror}; {advice}") from None
    inner.detach()
    for holder, each in zip(holders, channels, strict=True):
        descriptor, timeout = _Base.fileno(holder), _Base.gettimeout(holder)
        descriptor_table.detach(descriptor)
        core.replace_watched(outer.fileno(), descriptor, originals.get_inheritable(descriptor))
        if sock._fast_connection.port is not None:
            sock._fast_connection.port.follow(descriptor)
        holder._fast_unbind()
        _Base.settimeout(holder, timeout)
        each.end_move(weakref.ref(holder))
    outer.close()
