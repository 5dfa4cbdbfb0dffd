"""Bundles: endpoints that are polled together."""

from __future__ import annotations

import os
from _thread import allocate_lock
from typing import Any

from ..system.originals import originals
from . import door
from ._connection import Connection, Progress
from .arrivals import Arrivals
from .endpoint import MOST_BULK, Endpoint


class Bundle(Progress):
    """Endpoints that are polled together.

    at: the door at which its endpoints are found; None: the process's own, which listens on the loopback.
    shared: several threads may use it at once (AM-II's AM_PAR); else a bundle, and what belongs to it, is used by one
    thread at a time (AM_SEQ). In a shared one any thread that polls may run the handlers, one handler at a time.
    """

    def __init__(self, at: door.Door | None = None, shared: bool = False) -> None:
        self.door = at or door.own()
        self.connections: list[Connection] = []
        self.lost: list[Connection] = []
        self.returned: list[Any] = []
        self.endpoints: list[Endpoint] = []
        self.bell = originals.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.brought: list[Connection] = []
        self._lock = allocate_lock()
        if shared:
            self.share()

    def endpoint(
        self,
        tag: int = 0,
        segment: Any = None,
        credits: int = 32,
        bulk_credits: int = 8,
        most_bulk: int = MOST_BULK,
        arrivals: Arrivals | None = None,
    ) -> Endpoint:
        """A new endpoint of this bundle. Arguments as Endpoint."""
        made = Endpoint(self, tag, segment, credits, bulk_credits, most_bulk, arrivals)
        self.endpoints.append(made)
        return made

    def bring(self, connection: Connection) -> None:
        """A connection for the next poll. Any thread may call it."""
        with self._lock:
            if self.bell >= 0:
                self.brought.append(connection)
                originals.eventfd_write(self.bell, 1)
                return
        connection.bury()  # the bundle was closed meanwhile

    def heard(self) -> None:
        """The bell has rung, or may have. In a bundle that was closed it never does."""
        with self._lock:
            if self.bell < 0:
                return
            try:
                originals.read(self.bell, 8)
            except BlockingIOError:  # somebody else has heard it
                return
            brought, self.brought = self.brought, []
        for connection in brought:
            if connection.endpoint.bundle is self:
                connection.endpoint.answering.append(connection)
                self.connections.append(connection)
            else:
                connection.endpoint.bundle.bring(connection)

    def took(self, connection: Connection) -> None:
        """It is polled from now on."""
        self.hold()
        try:
            self.connections.append(connection)
        finally:
            self.release()

    def dropped(self, connection: Connection) -> None:
        """A connection has ended, or is to end: its requests come back."""
        self.hold()
        try:
            if connection in self.connections:
                self.connections.remove(connection)
                connection.endpoint.lost(connection, connection.bury())
        finally:
            self.release()

    def hand_over(self, endpoint: Endpoint, other: Bundle) -> bool:
        """An endpoint moves to another bundle; whether it was here still. Who waits in either looks anew."""
        first, second = sorted((self, other), key=id)  # two that move endpoints to each other wait for no circle
        first.hold()
        second.hold()
        try:
            if endpoint not in self.endpoints:
                return False
            self.heard()
            own = [connection for connection in self.connections if connection.endpoint is endpoint]
            for connection in own:
                self.connections.remove(connection)
                if connection in self.lost:
                    self.lost.remove(connection)
                    other.lost.append(connection)
            for undelivered in [each for each in self.returned if each[0] in own]:
                self.returned.remove(undelivered)
                other.returned.append(undelivered)
            self.endpoints.remove(endpoint)
            with endpoint.moving:
                endpoint.bundle = other
            other.endpoints.append(endpoint)
            other.connections.extend(own)
            self.heard()  # what was accepted meanwhile belongs to the other one
            return True
        finally:
            second.release()
            first.release()

    def forget(self, endpoint: Endpoint) -> None:
        """An endpoint has been closed."""
        self.hold()
        try:
            if endpoint in self.endpoints:
                self.endpoints.remove(endpoint)
            self.heard()
            for connection in [each for each in self.connections if each.endpoint is endpoint]:
                self.dropped(connection)
        finally:
            self.release()

    def close(self) -> None:
        """Closes its endpoints."""
        for endpoint in list(self.endpoints):
            endpoint.close()
        with self._lock:
            bell, self.bell = self.bell, -1
            if bell >= 0:
                originals.close(bell)

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
