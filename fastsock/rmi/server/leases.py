"""What a daemon keeps of a connection that was lost: the objects that its client held, until the client is back.

Each connection that asks for it gets a token, a secret of the two ends. Whoever connects, proves the key and shows the
token is the client of the earlier connection. It says what it still holds; the rest is let go. The objects are let go
`seconds` after the loss if nobody comes, and at once where the client closed the connection or broke the protocol.
"""

from __future__ import annotations

import threading
from typing import Any

from ...system.originals import originals
from ...system.starting import start_thread
from ..errors import LostPeer
from ..objects.references import Kept, References

TOKEN_BYTES = 16
MOST_KEPT = 4096  # lost connections: beyond that the oldest is given up


class Leases:
    """The leases of one daemon.

    seconds: how long objects outlive a connection that was lost. 0: they end with it.
    """

    def __init__(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"lease is {seconds}: it is seconds, or 0")
        self.seconds = seconds
        self._changed = threading.Condition()
        self._holders: dict[bytes, References] = {}  # of living connections
        self._kept: dict[bytes, tuple[float, Kept]] = {}  # of lost ones, until when; the oldest first
        self._reaping = False
        self._closed = False

    def begin(self, session: Any, token: Any, held: Any) -> tuple[bytes, tuple[int, ...]] | None:
        """A token for a connection, and the numbers of the objects that it has back. None: there are no leases.

        token: that of the client's earlier connection, or nothing. held: pairs of a number and a count.
        """
        if not self.seconds or type(token) is not bytes or type(held) is not tuple:
            return None
        with self._changed:
            before = self._holders.get(token)
        if before is not None and before is not session.references:  # the loss was not seen here yet
            before.session.connection.fail(LostPeer("its client has connected again"))
        with self._changed:
            _, kept = self._kept.pop(token, (0.0, None))
            fresh = originals.urandom(TOKEN_BYTES)
            self._holders[fresh] = session.references
        session.references.keep = lambda found: self._keep(fresh, found)
        return fresh, () if kept is None else session.references.adopt(kept, held)

    def _keep(self, token: bytes, kept: Kept | None) -> None:
        """A connection has ended. None: nothing of it is kept."""
        with self._changed:
            self._holders.pop(token, None)
            if kept is None or self._closed:
                return
            self._kept[token] = originals.monotonic() + self.seconds, kept
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            if not self._reaping:  # where there can be no thread, the next loss tries again
                self._reaping = start_thread(self._reap, name="fastsock.rmi.leases", for_program=True)

    def _reap(self) -> None:
        """Gives up what nobody came for, and ends when nothing is kept."""
        over: list[Kept] = []
        while True:
            over.clear()  # without the lock: objects end here, and may do anything
            with self._changed:
                while self._kept and not over:
                    token = next(iter(self._kept))
                    left = self._kept[token][0] - originals.monotonic()
                    if left <= 0 or self._closed:
                        over.append(self._kept.pop(token)[1])
                    else:
                        self._changed.wait(left)
                if not over:
                    self._reaping = False
                    return

    def as_values(self) -> list[dict[str, Any]]:
        """What is shown of the objects that wait for their clients."""
        now = originals.monotonic()
        with self._changed:
            return [
                {"peer": kept.peer, "objects": kept.names(), "seconds": max(until - now, 0.0)}
                for until, kept in self._kept.values()
            ]

    def close(self) -> None:
        """Nothing is kept from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
