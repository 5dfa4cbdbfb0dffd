"""The descriptor numbers of this process's fast connections, with the socket and the channel of each."""

from __future__ import annotations

import _socket
import os
import sys
import weakref
from collections.abc import Callable

from ..connection import carriers
from ..system.originals import originals
from . import detached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..transport import Channel

SO_COOKIE = 57  # the kernel's own name for an open socket, never used twice

known: dict[int, Channel] = {}
"""The channel of each fast connection, by its number. To be read only."""

_sockets: dict[int, weakref.ref[Any]] = {}
_first_hooks: list[Callable[[], None]] = []
_lock = originals.RLock()

channel_of = carriers.finder(known)
"""channel_of(descriptor) -> what has the data calls of a fast connection, or None: a look-up in a dictionary and in the
core's table."""


def attach(descriptor: int, sock: Any, channel: Channel) -> None:
    """Notes that `descriptor` is a fast connection's from now on."""

    def lost(reference: weakref.ref[Any], is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_ending():
            return
        if _sockets.get(descriptor) is reference:  # dropped without a close: its number may be anybody's now
            detach(descriptor)

    stale = detached.taken(descriptor)
    if stale is not None:
        _socket.socket.detach(stale)
    known[descriptor] = channel
    _sockets[descriptor] = weakref.ref(sock, lost)
    if _first_hooks:
        _begin()


def _begin() -> None:
    with _lock:  # a second caller must find them done
        for hook in _first_hooks:
            hook()
        _first_hooks.clear()


def detach(descriptor: int) -> None:
    """Notes that `descriptor` is no longer a fast connection's."""
    known.pop(descriptor, None)
    _sockets.pop(descriptor, None)


def descriptors() -> list[int]:
    """The descriptors of all fast connections of this process."""
    return [*known, *carriers.descriptors()]


def release(descriptor: int) -> None:
    """Makes the raw descriptor itself carry the bytes. Does nothing if it does already."""
    reference = _sockets.get(descriptor)
    sock = reference() if reference is not None else None
    if sock is not None:
        sock._fast_release(survives=True)
        if detached.taken(descriptor) is not None:
            sock.detach()
    elif carriers.is_known(descriptor):
        carriers.give_away(descriptor)


def share(descriptor: int) -> None:
    """Before the number is duplicated by the kernel alone. Either one is a connection of the table, or a stream."""
    if descriptor in _sockets:
        release(descriptor)


def duplicated(descriptor: int, number: int) -> None:
    """The kernel has made `number` a duplicate."""
    carriers.duplicated(descriptor, number)


def forget(descriptor: int) -> None:
    """Called before a program closes the number without its socket object."""
    channel = known.get(descriptor)
    if channel is not None:
        reference = _sockets.get(descriptor)
        sock = reference() if reference is not None else None
        detach(descriptor)
        keeper = detached.taken(descriptor)
        if keeper is None:  # its socket object gets EBADF, as for any closed number
            channel.closed_by_number(sock is not None and sock._fast_resets())
        else:
            channel.rebind(originals.dup(descriptor))
            keeper.close()
    else:
        carriers.forget(descriptor)


def before_first_attach(hook: Callable[[], None]) -> None:
    """Calls `hook` once, when this process gets its first fast descriptor."""
    if known or carriers.descriptors():
        hook()
    else:
        _first_hooks.append(hook)
        carriers.before_first(_begin)


def recall(sock: Any) -> Any:
    """The fast socket object that is open on the very same connection, or None."""
    if not _sockets:
        return None
    name = _cookie(sock)
    for reference in _sockets.copy().values():
        other = reference()
        if other is not None and other is not sock and _socket.socket.fileno(other) >= 0 and _cookie(other) == name:
            return other
    return None


def _cookie(sock: Any) -> int:
    return int.from_bytes(_socket.socket.getsockopt(sock, _socket.SOL_SOCKET, SO_COOKIE, 8), "little")


def _forked() -> None:
    global _lock
    _lock = originals.RLock()
    for channel in known.values():
        channel.forked()


os.register_at_fork(after_in_child=_forked)
