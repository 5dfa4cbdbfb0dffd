"""Endpoints: handlers by number, a translation table, a segment."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ..system.originals import originals
from ..system.proof import HelloError
from . import door
from ._connection import MOST_CREDITS, Connection, Requests, returned
from .arrivals import Allocated, Arrivals
from .errors import NoEntry, Reason, Returned, Undeliverable
from .hello import Terms, Wanted

HANDLERS = 256
MOST_BULK = 64 << 20

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class Name(NamedTuple):
    """`<machine, name>` of an endpoint. machine: "" for this host, or "host:port" of the door at another one."""

    machine: str
    name: str


class Endpoint(Requests):
    """One end of active messages. `Bundle.endpoint()` makes it.

    tag: others must name it in order to map this endpoint. segment: contiguous writable memory for bulks with an
    offset, or its size in bytes. credits, bulk_credits: requests that each peer may have under way here. most_bulk:
    bytes of the longest bulk that comes without an offset. arrivals: where such bulks arrive, as a Pool; None: fresh
    arrays.
    """

    def __init__(
        self,
        bundle: Any,
        tag: int = 0,
        segment: Any = None,
        credits: int = 32,
        bulk_credits: int = 8,
        most_bulk: int = MOST_BULK,
        arrivals: Arrivals | None = None,
    ) -> None:
        if not 1 <= credits <= MOST_CREDITS or not 0 <= bulk_credits <= MOST_CREDITS:
            raise ValueError(f"credits are from 1 (0 for bulks) to {MOST_CREDITS}, not {credits} and {bulk_credits}")
        if not 0 <= tag < 1 << 64:
            raise ValueError(f"a tag has 64 bits: {tag} does not")
        if isinstance(segment, int):
            segment = bytearray(segment)
        self.segment = memoryview(segment if segment is not None else bytearray()).cast("B")
        if self.segment.readonly and segment is not None:
            raise ValueError("the segment must be writable")
        self.hold_segment(self.segment)
        self.bundle = bundle
        self.tag = tag
        self.arrivals = arrivals or Allocated()
        self.entries: list[Connection | None] = []
        self.handlers: list[Any] = [None] * HANDLERS
        self.most_bulk = max(most_bulk, self.segment.nbytes)
        self.names: list[str] = []
        self.answering: list[Connection] = []
        self.moving = allocate_lock()  # whoever brings a connection finds the bundle that will be polled
        self._closed = False
        self._credits = credits, bulk_credits
        self._error_handler: Callable[[Returned], Any] | None = None

    # ---- handlers ----

    def handle(self, number: int, handler: Callable[..., Any] | None) -> None:
        """Calls `handler(token, *words)` for messages to that number; None: they go back to their senders."""
        if not 0 <= number < HANDLERS:
            raise ValueError(f"a handler's number is from 0 to {HANDLERS - 1}, not {number}")
        self.handlers[number] = handler

    def on(self, number: int) -> Callable[[_Handler], _Handler]:
        """handle(), as a decorator."""

        def take(handler: _Handler) -> _Handler:
            self.handle(number, handler)
            return handler

        return take

    def on_error(self, handler: Callable[[Returned], Any] | None) -> None:
        """Calls `handler(returned)` for each request of this endpoint that comes back. Without one poll() raises."""
        self._error_handler = handler

    def came_back(self, message: Returned) -> None:
        """A request could not be delivered."""
        if self._error_handler is None:
            raise Undeliverable(message)
        self._error_handler(message)

    # ---- names and the translation table ----

    def register(self, name: str) -> None:
        """Others can map this endpoint by the name from now on: on this host by it alone, from elsewhere with the
        address of the bundle's door. Raises Refused where another process has the name."""
        self.bundle.door.register(name, self)
        self.names.append(name)

    def unregister(self, name: str) -> None:
        """Nobody can map it by this name any more. Connections that exist stay."""
        self.names.remove(name)
        self.bundle.door.unregister(name)

    def map(self, index: int, name: Name | str, tag: int = 0, timeout: float = 10.0) -> None:
        """Entry `index` of the translation table is the endpoint of that name from now on.

        timeout: seconds for all of it. Raises Refused where nobody has registered the name, its tag is another, or the
        keys differ; TimeoutError; OSError."""
        machine, text = name if isinstance(name, tuple) else ("", name)
        until = originals.monotonic() + timeout
        address = _address(machine) if machine else door.find(text, timeout)
        wanted = Wanted(text, tag, self.most_bulk)
        sock, terms = door.connect(address, wanted, self.bundle.door.key, until)
        try:
            peer = f"{text!r} at {machine or 'this host'}"
            connection = Connection(sock, self, True, terms.shorts, terms.longs, self.most_bulk, terms.most_bulk, peer)
        except BaseException:
            sock.close()
            raise
        bundle = self._held()
        try:
            if index < len(self.entries) and self.entries[index] is not None:
                self.unmap(index)
            while len(self.entries) <= index:
                self.entries.append(None)
            connection.index = index
            self.entries[index] = connection
            bundle.took(connection)
        finally:
            bundle.release()

    def unmap(self, index: int) -> None:
        """Entry `index` is free. Requests that were not answered come back."""
        bundle = self._held()
        try:
            connection = self.entries[index] if 0 <= index < len(self.entries) else None
            if connection is None:
                raise NoEntry(f"entry {index} of the translation table is not mapped")
            self.entries[index] = None
            bundle.dropped(connection)
        finally:
            bundle.release()

    def _held(self) -> Any:
        """Its bundle, which nobody else uses until release(). Another thread may move the endpoint before that."""
        while True:
            bundle = self.bundle
            bundle.hold()
            if bundle is self.bundle:
                return bundle
            bundle.release()

    def terms(self, wanted: Wanted) -> Terms:
        """What whoever maps this endpoint is granted. Raises HelloError where the tag is another."""
        if wanted.tag != self.tag:
            raise HelloError(f"the tag of {wanted.name!r} is another")
        return Terms(*self._credits, self.most_bulk)

    def accepted(self, sock: Any, peer: str, most_there: int) -> None:
        """Somebody mapped this endpoint. Called by the door's threads."""
        connection = Connection(sock, self, False, *self._credits, self.most_bulk, most_there, peer)
        with self.moving:
            if not self._closed:
                self.bundle.bring(connection)
                return
        connection.bury()

    # ---- ending, moving ----

    def lost(self, connection: Connection, requests: list[Any]) -> None:
        """A connection of this endpoint has ended with requests that were not answered."""
        if connection in self.answering:
            self.answering.remove(connection)
        failures = []
        for known in requests:
            try:
                self.came_back(returned(connection, known, Reason.LOST))
            except Undeliverable as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def move(self, bundle: Any) -> None:
        """The endpoint, its entries and its names belong to another bundle from now on.

        A bundle that is not shared may not be polled meanwhile. Of shared ones a poll() that waits looks anew, and a
        request that waits for credit raises NotReady."""
        while bundle is not self.bundle:
            before = self.bundle
            if bundle.door is not before.door and self.names:
                raise ValueError("an endpoint with names moves only between bundles of one door: unregister them first")
            before.hand_over(self, bundle)

    def close(self) -> None:
        """Ends its names and connections. Requests that were not answered come back."""
        for name in list(self.names):
            self.unregister(name)
        with self.moving:
            self._closed = True
        bundle = self._held()
        try:
            bundle.forget(self)
        finally:
            bundle.release()


def _address(machine: str) -> tuple[str, int]:
    host, _, port = machine.rpartition(":")
    if not host or not port.isdigit() or int(port) > 0xFFFF:
        raise ValueError(f"{machine!r} is no machine: write host:port of its door (bundle.door.address)")
    return host.strip("[]"), int(port)
