"""Objects that go by reference: exposed objects, `callback(f)`, `reference(obj)`, and proxies on their way home.

What is sent of a reference is a tuple: (HERE, number, its interface described) of an object that lives at the sender,
(THERE, number, None) of one that lives at the receiver, (NAMED, address, its interface described) of one that is
registered elsewhere.

Each end counts for each connection how often it sent an object. The other end tells how many it has let go, in batches,
and all are gone when the connection ends, or when its lease is over (leases.py, reconnect.py).
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..api.interfaces import from_description, interface_of, is_exposed
from ..errors import BadFrame, LimitExceeded, UnknownObject
from ..wire.frames import FIRST_OBJECT, MOST_OBJECTS, RELEASE
from . import proxy as proxies
from .exported import Exported, exported, exported_function

HERE, THERE, NAMED = 0, 1, 2

_Function = TypeVar("_Function")
_by_reference: dict[type, bool] = {}


class Reference(Generic[_Function]):
    """An object that goes by reference, though its class does not say so."""

    __slots__ = ("__weakref__", "interface", "target")

    def __init__(self, target: _Function, interface: type | None = None) -> None:
        self.target = target
        self.interface = interface


def callback(function: _Function) -> _Function:
    """The function, to be given as an argument: the other end gets a proxy, and calls this one by it."""
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called")
    return Reference(function)  # type: ignore[return-value]


def reference(target: _Function, interface: type | None = None) -> _Function:
    """The object, to be given as an argument or returned: the other end gets a proxy.

    interface: a Protocol that lists what may be called. Without it the class of the object must expose something.
    """
    if interface is None:
        interface_of(type(target))
    return Reference(target, interface)  # type: ignore[return-value]


class Kept:
    """The objects that the other end of a lost connection held."""

    __slots__ = ("counts", "exports", "keys", "peer")

    def __init__(
        self, peer: str, exports: dict[int, Exported], counts: dict[int, int], keys: dict[int, tuple[int, int]]
    ) -> None:
        self.peer = peer
        self.exports = exports
        self.counts = counts
        self.keys = keys

    def names(self) -> list[str]:
        """Of the objects."""
        return [known.name for known in self.exports.values()]


class References:
    """The references of one connection, in both directions. The codec asks it.

    keep: what is told when the connection ends of the objects that its other end held, or None where it held none, or
    may not have them back.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self.keep: Callable[[Kept | None], None] | None = None
        self._lock = allocate_lock()
        self._numbers: dict[tuple[int, int], int] = {}  # (id of the object, id of the interface asked for) to number
        self._counts: dict[int, int] = {}
        self._keys: dict[int, tuple[int, int]] = {}
        self._next = FIRST_OBJECT
        self._stamped: list[tuple[int, int]] = []  # (frames sent before, number) of the newest
        self._held: dict[int, proxies.Held] = {}  # what this end holds of the other's objects
        self._dropped: deque[proxies.Held] = deque()

    # ---- the codec's part ----

    def number_of(self, value: Any) -> tuple[Any, ...] | None:
        """What is sent of a value that goes by reference. None: it does not."""
        kind = type(value)
        if kind is Reference:
            found = value.target
            return self.export(found, value.interface)
        if isinstance(value, proxies.Proxy):
            return self._of_proxy(value)
        by_reference = _by_reference.get(kind)
        if by_reference is None:
            by_reference = _by_reference[kind] = is_exposed(kind)
        return self.export(value, None) if by_reference else None

    def object_of(self, owner: Any = None, number: Any = None, description: Any = None) -> Any:
        """The object that a reference stands for: the object itself, where it lives here, else a proxy."""
        if owner == THERE and type(number) is int:
            known = self._session.connection.exports.get(number)
            if known is None:
                raise UnknownObject(f"{self._session.where}: a reference to object {number}, which is not here")
            return known.object
        if owner == HERE and type(number) is int and 0 < number <= MOST_OBJECTS:
            return self._proxy(number, self._interface(description))
        if owner == NAMED and type(number) is str:
            return self._session.named(number, self._interface(description))
        raise BadFrame(f"{self._session.where}: a reference that is none")

    def _interface(self, description: Any) -> Any:
        try:
            return from_description(description)
        except ValueError as error:
            raise BadFrame(f"{self._session.where}: {error}") from None

    def _of_proxy(self, value: Any) -> tuple[Any, ...]:
        target = proxies.target_of(value)
        if target.connection is self._session.connection:
            return THERE, target.object_number, None
        interface = proxies.interface_of_proxy(value)
        address = target.home.address
        if address is not None:
            return NAMED, address, interface.described()
        return self._send(Exported(value, interface, target.name), (id(value), 0))  # this process passes calls on

    # ---- what lives here ----

    def export(self, target: Any, interface: type | None) -> tuple[Any, ...]:
        """A reference to an object that lives here."""
        key = id(target), id(interface)
        with self._lock:
            number = self._numbers.get(key)
        if number is not None:
            return self._again(number)
        if isinstance(target, type) and interface is None:
            return self._send(exported_function(target, _name_of(target)), key)
        return self._send(exported(target, _name_of(target), interface), key)

    def _again(self, number: int) -> tuple[Any, ...]:
        with self._lock:
            self._counts[number] += 1
            self._stamp(number)
            known = self._session.connection.exports[number]
        return HERE, number, known.interface.described()

    def _send(self, known: Exported, key: tuple[int, int]) -> tuple[Any, ...]:
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                number = self._enter(known)
                self._counts[number] = 0  # a signal handler may raise between two lines: what is known is counted
                self._keys[number] = key
                self._numbers[key] = number
            self._counts[number] += 1
            self._stamp(number)
        if not self._session.served:
            self._session.serve()
        return HERE, number, known.interface.described()

    def _stamp(self, number: int) -> None:
        frames = self._session.connection.frames_sent
        if self._stamped and self._stamped[-1][0] != frames:
            self._stamped.clear()
        self._stamped.append((frames, number))

    def abandoned(self) -> None:
        """The frame in which objects were to go was not sent."""
        frames = self._session.connection.frames_sent
        with self._lock:
            stamped, self._stamped = self._stamped, []  # a signal handler may raise in between: none is dropped twice
            for stamp, number in stamped:
                if stamp == frames:
                    self._drop(number, 1)

    def enter(self, known: Exported) -> int:
        """A number for an object that stays until the connection ends."""
        with self._lock:
            return self._enter(known)

    def _enter(self, known: Exported) -> int:
        exports = self._session.connection.exports
        if len(exports) >= self._session.limits.references:
            raise LimitExceeded(
                f"{self._session.where} holds {len(exports)} objects of this process: no more are allowed"
            )
        while self._next in exports or not FIRST_OBJECT <= self._next <= MOST_OBJECTS:
            self._next = self._next + 1 if self._next < MOST_OBJECTS else FIRST_OBJECT
        number = self._next
        self._next += 1
        exports[number] = known
        return number

    def released(self, counts: Any) -> None:
        """The other end has let go of objects: pairs of a number and a count. None: of all, for good."""
        if counts is None:
            if self.keep is not None:
                self.keep(None)
                self.keep = None
            return
        if type(counts) is not tuple or len(counts) % 2 or not all(type(each) is int for each in counts):
            raise BadFrame(f"{self._session.where}: a release of what are no numbers")
        with self._lock:
            for number, count in zip(counts[::2], counts[1::2], strict=True):
                if count < 0 or count > self._counts.get(number, 0):
                    raise BadFrame(
                        f"{self._session.where}: a release of object {number}, which it does not hold so often"
                    )
                self._drop(number, count)

    def _drop(self, number: int, count: int) -> None:
        left = self._counts[number] - count
        if left:
            self._counts[number] = left
            return
        del self._numbers[self._keys[number]]
        del self._keys[number], self._counts[number]
        self._session.connection.exports.pop(number, None)

    def ended(self) -> None:
        """The connection has ended: nobody holds anything by it, unless there is a lease."""
        connection = self._session.connection
        kept = None
        with self._lock:
            if self.keep is not None and self._counts and not isinstance(connection.lost, (BadFrame, LimitExceeded)):
                exports = {number: connection.exports[number] for number in self._counts}
                kept = Kept(self._session.peer, exports, dict(self._counts), dict(self._keys))
            self._counts.clear()
            self._numbers.clear()
            self._keys.clear()
            connection.exports.clear()
        if self.keep is not None:
            self.keep(kept)

    @property
    def session(self) -> Any:
        """The connection's session."""
        return self._session

    def adopt(self, kept: Kept, held: tuple[Any, ...]) -> tuple[int, ...]:
        """Takes over the objects of an earlier connection that its client still holds. Returns their numbers."""
        pairs = dict(zip(held[::2], held[1::2], strict=False))
        exports = self._session.connection.exports
        found = []
        with self._lock:
            for number, known in kept.exports.items():
                count = pairs.get(number, 0)
                if type(count) is not int or not 0 < count <= kept.counts[number] or number in exports:
                    continue
                exports[number] = known
                self._counts[number] = count
                self._keys[number] = kept.keys[number]
                self._numbers[kept.keys[number]] = number
                found.append(number)
        return tuple(found)

    # ---- what lives there ----

    def _proxy(self, number: int, interface: Any) -> Any:
        with self._lock:
            held = self._held.get(number)
            target = held.target() if held is not None else None
            if target is not None and held is not None:
                held.count += 1
                return proxies.make(interface, target)
            self._held[number] = held = proxies.Held(self, number)
            return held.make(self._session, interface)

    def held(self) -> tuple[int, ...]:
        """What is held of the other end's objects: pairs of a number and a count."""
        with self._lock:
            living = [held for held in self._held.values() if held.target() is not None]
            return tuple(each for held in living for each in (held.number, held.count))

    def holds(self, number: int) -> bool:
        """Whether that object of the other end is held."""
        return number in self._held

    def take_over(self, before: References, numbers: Any) -> None:
        """What the connection before held is held by this one, if the other end has it still."""
        with before._lock:
            moved = [held for number in numbers if (held := before._held.pop(number, None)) is not None]
            for held in moved:
                held.move(self)
                self._held[held.number] = held
        for held in moved:
            if held.target() is None:  # it was collected meanwhile, when nobody could be told
                self.dropped(held)

    def dropped(self, held: proxies.Held) -> None:
        """A proxy was collected. This may happen anywhere, so another thread tells the other end."""
        if self._session.connection.lost is None:
            self._dropped.append(held)
            self._session.submit_from_anywhere(self._report_released)

    def _report_released(self) -> None:
        """Tells of all that were collected until now: the jobs of the later ones then find nothing."""
        counts: list[int] = []
        with self._lock:
            while self._dropped:
                held = self._dropped.popleft()
                if held.reported:
                    continue
                held.reported = True
                if self._held.get(held.number) is held:
                    del self._held[held.number]
                counts += held.number, held.count
        if counts:
            self._session.send(RELEASE, 0, (tuple(counts),))


def _name_of(target: Any) -> str:
    return getattr(target, "__qualname__", None) or type(target).__qualname__
