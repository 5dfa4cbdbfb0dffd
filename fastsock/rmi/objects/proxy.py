"""Proxies: objects that look like those of another process, made from an interface.

Their class is made once for each interface. It has a descriptor for each method. A method is made at its first use, and
kept in the proxy.
"""

from __future__ import annotations

import os
import weakref
from _thread import RLock
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..api.interfaces import GETTER, IDEMPOTENT, METHOD, SETTER, SPECIAL, Interface
from ..api.interfaces import ONEWAY as IS_ONEWAY
from ..api.introspection import Description, Member, with_self
from ..errors import LostPeer, UnknownMethod, VersionMismatch
from ..wire._connection import Connection, Method, Target
from ..wire._records import process

_NEVER = frozenset(("_rmi_target", "_rmi_interface"))
_Typed = TypeVar("_Typed")
INTERNAL = "_rmi_"  # what begins so is the proxy's own, and is not shown


class Home:
    """Where a target's object lives, and how to reach it again.

    address: what connect() was given, or None for an object without a name: that one cannot be reached again.
    dial: makes a connection to the address, and returns its session, the object's number and the interface. It is given
    the time until which it may take, 0 for none beside that of `connect`.
    named: makes a proxy of an address, wherever a pickle of this one comes to.
    """

    def __init__(
        self,
        address: str | None,
        dial: Callable[[float], tuple[Any, int, Interface]] | None,
        named: Callable[[str, Any, float], Proxy] | None = None,
    ) -> None:
        self.address = address
        self.dial = dial
        self.named = named
        self.interface: Interface | None = None
        self.session: Any = None
        self._lock = RLock()
        self.own = False  # whether closing the proxy closes the connection

    def connect_again(self, method: Method, until: float = 0.0) -> Connection:
        """A connection in the place of one that was lost, or belongs to the process that this one was forked from.

        until: the deadline of the call, by the monotonic clock, or 0.
        """
        target = method.target
        with self._lock:
            connection = target.connection
            if connection is not None and connection.lost is None and connection.forks == process.forks:
                return connection  # type: ignore[no-any-return]
            if self.dial is None:
                if connection is not None and connection.forks != process.forks:
                    raise LostPeer(
                        f"{target.name}: this process was forked from the one that holds the connection, and an object"
                        " without a name cannot be found again; the call has not run"
                    )
                raise connection.session.gone(method, False)
            session, number, interface = self.dial(until)
            if self.interface is not None and interface.digest != self.interface.digest:
                session.close()
                raise VersionMismatch(
                    f"{target.name} at {session.where} has another interface than before: connect() again"
                )
            self.session = session
            target.object_number = number
            target.connection = session.connection
            return session.connection  # type: ignore[no-any-return]

    def call(
        self, method: Method, connection: Connection, arguments: Any, keywords: Any, deadline: float, flags: int = 0
    ) -> Any:
        """A call of a method with marks."""
        if method.flags & IS_ONEWAY:
            connection.notify(method, arguments, keywords, deadline)
            return None
        try:
            return connection.call(method, arguments, keywords, deadline, flags)
        except LostPeer:
            if self.dial is None or connection.lost is None:
                raise
        return self.connect_again(method, deadline).call(method, arguments, keywords, deadline, flags)

    def close(self) -> None:
        """Closes the connection, if it is the proxy's own."""
        session = self.session
        if session is not None and self.own and session.connection.forks == process.forks:
            session.close()


class Proxy:
    """An object of another process. Its methods are those that the object exposes there."""

    _rmi_target: Target
    _rmi_interface: Interface
    _rmi_made: dict[int, Method]

    def __init__(self, target: Target, interface: Interface) -> None:
        own = self.__dict__
        own["_rmi_target"] = target
        own["_rmi_interface"] = interface
        own["_rmi_made"] = {}  # methods by number, of properties and of what Python looks for in the class

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_missing(self, name))

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
            return
        raise AttributeError(f"{_name_of(self)} has no property {name} that can be set")

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if not name.startswith(INTERNAL)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proxy) and other._rmi_target is self._rmi_target

    def __hash__(self) -> int:
        return id(self._rmi_target)

    def __repr__(self) -> str:
        target = self._rmi_target
        connection = target.connection
        where = connection.session.where if connection is not None else target.home.address
        return f"<proxy of {self._rmi_interface.name} {target.name!r} at {where}>"

    def __reduce__(self) -> Any:
        home = self._rmi_target.home
        if home.address is None:
            raise TypeError(
                f"{_name_of(self)} has no name, so a proxy of it cannot be pickled: register it by a name, or pass the"
                " proxy in a remote call"
            )
        return home.named, (home.address, self._rmi_interface.described(), self._rmi_target.timeout)


def own(interface: Interface, target: Target, source: Any = None) -> Proxy:
    """A proxy with a connection of its own, which ends when the proxy and all its methods are collected."""
    target.home.own = True
    weakref.finalize(target, _collected, target.home).atexit = False
    return make(interface, target, source)


def _collected(home: Home) -> None:
    session = home.session
    if session is not None and session.connection.forks == process.forks and session.connection.lost is None:
        session.submit_from_anywhere(session.close)


class Classes:
    """The classes of proxies, by interface and what describes it."""

    MOST = 1024

    def __init__(self, maker: Callable[[Interface, Description], Any]) -> None:
        self._maker = maker
        self._made: dict[Any, Any] = {}

    def of(self, interface: Interface, source: Any) -> Any:
        """The class for an interface. source: as of a Description."""
        key = interface.name, interface.entries, source
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= self.MOST:
                self._made.clear()
            made = self._made[key] = self._maker(interface, Description(source))
        return made


def make(interface: Interface, target: Target, source: Any = None) -> Proxy:
    """A proxy for a target. source: the class, or what the daemon told, that dir() and help() show."""
    return _classes.of(interface, source)(target, interface)  # type: ignore[no-any-return]


def target_of(proxy: Proxy) -> Target:
    """What a proxy's methods are called on."""
    return proxy._rmi_target


def interface_of_proxy(proxy: Proxy) -> Interface:
    """What can be called by a proxy."""
    return proxy._rmi_interface


def connected(method: Method, until: float = 0.0) -> Connection:
    """The connection that a call of the method uses: it may be made again first, until that time."""
    connection = method.target.connection
    if connection is None or connection.lost is not None or connection.forks != process.forks:
        return method.target.home.connect_again(method, until)  # type: ignore[no-any-return]
    return connection  # type: ignore[no-any-return]


def method_named(proxy: Proxy, name: str) -> Method | None:
    """A method of a proxy, or None."""
    number = proxy._rmi_interface.numbers.get((name, METHOD))
    return None if number is None else _method(proxy._rmi_target, proxy._rmi_interface, number)


def close(proxy: object) -> None:
    """Closes the connection that connect() made for the proxy, behind all that was sent. Idempotent."""
    target = getattr(proxy, "_rmi_target", None)  # one of an event loop has it too
    if not isinstance(target, Target):
        raise TypeError(f"{proxy!r} is no proxy")
    target.home.close()


class closing(Generic[_Typed]):  # as contextlib.closing
    """`with closing(connect(...)) as store` closes the connection at the end of the block.

    A proxy does so itself. Type checkers know that of a class that derives from Remote. For any other one write this.
    """

    def __init__(self, proxy: _Typed) -> None:
        self._proxy = proxy

    def __enter__(self) -> _Typed:
        return self._proxy

    def __exit__(self, *_: object) -> None:
        close(self._proxy)


def _method(target: Target, interface: Interface, number: int) -> Method:
    entry = interface.entries[number]
    return Method(target, entry.name, number, entry.flags & (IS_ONEWAY | IDEMPOTENT))


class Named:
    """A method in the class of a proxy: made for a proxy at its first use, and kept there."""

    def __init__(self, number: int, shown: Member) -> None:
        self.number = number
        self.shown = shown

    def __get__(self, proxy: Any, kind: type | None = None) -> Any:
        shown = self.shown
        if proxy is None:
            return as_function(lambda self, *given, **named: getattr(self, shown.name)(*given, **named), shown)
        made = proxy.__dict__[shown.name] = self.make(proxy)
        return made

    def make(self, proxy: Any) -> Any:
        """The method of a proxy."""
        made = _method(proxy._rmi_target, proxy._rmi_interface, self.number)
        made.__doc__, made.__signature__ = self.shown.doc, self.shown.signature
        return made


def as_function(function: Any, shown: Member, bound: bool = False) -> Any:
    """The function, shown as the class says. bound: it takes no self."""
    function.__name__ = function.__qualname__ = shown.name
    function.__doc__ = shown.doc
    function.__signature__ = shown.signature if bound else with_self(shown.signature)
    return function


def documentation(interface: Interface, description: Description) -> dict[str, Any]:
    """What a class of proxies begins with."""
    doc = f"A proxy of {interface.name}." if description.doc is None else description.doc
    return {"__module__": __name__, "__doc__": doc}


def _class(interface: Interface, description: Description) -> type[Proxy]:
    names = documentation(interface, description)
    for number, entry in enumerate(interface.entries):
        if entry.kind == SETTER:
            continue
        shown = description.member(entry.name)
        if entry.kind == GETTER:
            setter = interface.numbers.get((entry.name, SETTER))
            set_it = _calling(setter) if setter is not None else None
            names[entry.name] = property(_calling(number), set_it, doc=shown.doc)
        elif entry.name in SPECIAL:
            names[entry.name] = as_function(_calling(number), shown)
        else:
            names[entry.name] = Named(number, shown)
    if "__enter__" not in names or "__exit__" not in names:
        names["__enter__"] = _itself
        names["__exit__"] = _closing
    return type(f"Proxy[{interface.name}]", (Proxy,), names)


def _calling(number: int) -> Callable[..., Any]:
    def call(self: Proxy, *arguments: Any, **keywords: Any) -> Any:
        made = self._rmi_made.get(number)
        if made is None:
            made = self._rmi_made[number] = _method(self._rmi_target, self._rmi_interface, number)
        return made(*arguments, **keywords)

    return call


def _itself(self: Proxy) -> Proxy:
    return self


def _closing(self: Proxy, *_: object) -> None:
    close(self)


_classes = Classes(_class)


def _name_of(proxy: Proxy) -> str:
    return f"{proxy._rmi_interface.name} {proxy._rmi_target.name!r}"


def _missing(proxy: Proxy, name: str) -> str:
    interface = proxy.__dict__.get("_rmi_interface")
    if interface is None:
        return name
    return str(
        UnknownMethod(f"{_name_of(proxy)} exposes no {name!r}: mark it by @rmi.expose, or list it in the Protocol")
    )


class Held:
    """What this end holds of an object at the other end: how often it came, and its target."""

    def __init__(self, references: Any, number: int) -> None:
        self.number = number
        self.count = 1
        self.reported = False  # that it was let go
        self._references = references
        self.target: Callable[[], Target | None] = lambda: None

    def make(self, session: Any, interface: Interface) -> Proxy:
        """A proxy. When all its methods are collected too, the other end is told."""
        home = Home(None, self._found_again if session.reconnect is not None else None)
        home.session = session
        target = Target(interface.name, session.connection, self.number, 0.0, home)
        self.target = weakref.ref(target)
        weakref.finalize(target, self._dropped).atexit = False
        return make(interface, target)

    def move(self, references: Any) -> None:
        """Another connection holds it from now on."""
        self._references = references

    def _dropped(self) -> None:
        self._references.dropped(self)

    def _found_again(self, until: float) -> tuple[Any, int, Any]:
        session = self._references.session
        found = session.reconnect.again(self.number, until)
        if found is None:
            raise session.gone(None, False)
        return found  # type: ignore[no-any-return]


def _forked() -> None:
    process.forks += 1


os.register_at_fork(after_in_child=_forked)
