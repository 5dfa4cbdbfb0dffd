"""Connections that stay on TCP. They must cost as little as the standard class's, so native code handles them.

Without the core, Python code decides anew for each connection that it stays, and notes it like any other one.
"""

from __future__ import annotations

import os

from .. import chain, config
from ..meeting import history
from ..meeting.names import is_numeric
from ..system.genuine import genuine
from ..transport import Reason
from . import registry

try:
    from . import _fallback as native
except ImportError:
    native = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..config import Settings

NOBODY_SECONDS = 5e-3
"""After several connections in a row found no fastsock, later ones do not look for it for this many seconds."""

_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC
_ALWAYS = (Reason.EXCLUDED_BY_SETTING, Reason.EXCLUDED_BY_RULE, Reason.NO_NATIVE_CORE, Reason.NO_SOCKETS_DIRECT)
_known: Settings | None = None


class Held:
    """An attribute that a meeting under way decides. A read takes part in it. Then the instance has its own value."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, sock: Any, owner: Any) -> Any:
        if sock is not None and sock._fast_pending is not None:
            sock._fast_decide()
        return None if sock is None else sock.__dict__.get(self._name)

    def known(self, sock: Any) -> bool:
        """Whether the attribute is set."""
        return self._name in sock.__dict__

    def forget(self, sock: Any) -> None:
        """Makes the attribute pending again."""
        sock.__dict__.pop(self._name, None)


def _note(sock: Any, role: str, reason: Reason, local: Any, peer: Any) -> None:
    connection = registry.Connection(role, "tcp", reason, sock.family, sock.proto, local, peer)
    sock._fast_channel, sock._fast_connection = None, connection
    registry.opened(connection, sock)


def note(sock: Any, role: str, reason: Reason, local: Any, peer: Any) -> None:
    """Notes that the connection of `sock` stays on TCP."""
    (_note if native is None else native.note)(sock, role, reason, local, peer)


def _are_new(current: Settings) -> bool:
    return native is not None and current is not _known


def _begin(current: Settings) -> None:
    global _known
    _known = current
    native.begin(current, chain.nothing_but_tcp())


def listening(presences: list[Any], complete: bool, local: Any, reason: Reason | None, first: bool) -> Any:
    """Makes the native record of the connections that a listener will accept, or None where native code cannot serve.

    local: their own address, if all have the same one. reason: the reason why all of them stay on TCP, or None.
    first: whether the listener had no presence before, here or in another process.
    """
    current = config.settings()
    if native is None or (local is None and current.rules):
        return None
    if _are_new(current):
        _begin(current)
    held = [presence.identity() for presence in presences] if complete and presences else None
    return native.Listening(held, _at_most_told(), local, reason, first)


def _at_most_told() -> int:
    """How many unread datagrams a socket keeps before it refuses more."""
    try:
        descriptor = genuine.open("/proc/sys/net/unix/max_dgram_qlen", _READ_ONLY)
        try:
            return int(genuine.read(descriptor, 20))
        finally:
            genuine.close(descriptor)
    except (OSError, ValueError):
        return 0


def last(address: Any) -> float:
    """The time (monotonic seconds) of the last connection there that remember() kept on TCP. 0: there was none."""
    return 0.0 if native is None else native.last(address)


def bind_class(fast: type, plain: type) -> None:
    """Gives the socket class the native calls."""
    if native is not None:
        native.bind_class(fast, plain)


def remember(address: Any, reason: Reason) -> None:
    """Notes that a connection to `address` stays on TCP for that reason. Perhaps the next ones do, too."""
    if native is None or type(address) is not tuple or not is_numeric(address[0]):
        return
    current = config.settings()
    if _are_new(current):
        _begin(current)
    if reason in _ALWAYS:
        native.remember(address, reason, -1, 0.0, False)
    elif reason is Reason.SHORT_LIVED_BEFORE:
        native.remember(address, reason, history.skip_more(address[:2]), history.SOON_SECONDS, True)
    elif reason is Reason.NO_LISTENER_PRESENCE and history.finds_nobody(address[:2]):
        native.remember(address, reason, -1, NOBODY_SECONDS, False)
