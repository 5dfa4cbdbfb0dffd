"""The connections that one proxy makes, one after another: objects that go by reference are found again by the lease.

The proxies of such objects have no address. They use the Reconnect of the connection by which they came: if the daemon
still has their object when that connects again, they go on.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any

from ..wire._records import process

if TYPE_CHECKING:
    from ..api.interfaces import Interface
    from ..objects.session import Session


class Reconnect:
    """How a proxy is connected, and again after a loss.

    dial: makes a connection. It is given this object and the time until which it may take, 0 for none, sets
    `token`, and returns what `connect` returns.
    """

    def __init__(self, dial: Callable[[Reconnect, float], tuple[Session, int, Interface]]) -> None:
        self._dial = dial
        self._lock = RLock()
        self._forks = process.forks
        self._made: tuple[Session, int, Interface] | None = None
        self.home: Any = None  # of the proxy: it closes the connection
        self.token: bytes | None = None  # of the lease: None before the first connection, b"" where there is none

    def connect(self, until: float = 0.0) -> tuple[Session, int, Interface]:
        """The connection, a fresh one where there is none; the object's number and interface there."""
        with self._lock:
            made = self._made
            if self._forks != process.forks:  # the lease is the parent's
                self._forks, self.token, made = process.forks, None, None
            if made is None or made[0].connection.lost is not None:
                made = self._made = self._dial(self, until)
                if self.home is not None:
                    self.home.session = made[0]
            return made

    def held(self) -> tuple[int, ...]:
        """What this end still holds of the objects of the connection before: pairs of a number and a count."""
        return () if self._made is None else self._made[0].references.held()

    def began(self, session: Session, token: bytes, numbers: Any) -> None:
        """The daemon gave a lease. numbers: of the objects that it has back."""
        if self._made is not None:
            session.references.take_over(self._made[0].references, numbers)
        self.token = token

    def again(self, number: int, until: float) -> tuple[Session, int, Any] | None:
        """The connection by which an object of a lost one is there again. None: it is not.

        Raises what connecting raises.
        """
        made = self._made
        if not self.token or self._forks != process.forks or made is None or made[0].connection.closing:
            return None
        session, _, _ = self.connect(until)
        return (session, number, None) if session.references.holds(number) else None
