"""What of a class can be called from elsewhere: the marks, and the table of methods that they give.

    @expose                          all public names of the class: methods, properties, special methods of SPECIAL
    @expose(serial=True)             one call at a time
    @oneway, @idempotent             of one method

A Protocol is a table by itself: its public names are what it lists. Never exposed: names with a leading underscore,
but for those of SPECIAL.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, overload

from ..errors import is_own

if TYPE_CHECKING:
    from typing_extensions import Self

_Marked = TypeVar("_Marked")

SPECIAL = frozenset(
    f"__{name}__"
    for name in ("call", "getitem", "setitem", "delitem", "len", "iter", "contains", "enter", "exit", "next", "bool")
)
_FLAGS = "__rmi_flags__"
_CLASS = "__rmi_class__"

# of a method
EXPOSED, ONEWAY, IDEMPOTENT, STREAM, ASYNC = 1, 2, 4, 8, 16
# of a class
SERIAL = 1

# kinds of what a table lists
METHOD, GETTER, SETTER = 0, 1, 2
MOST_METHODS = 0xFFFF


class HiddenMethodsWarning(UserWarning):
    """A subclass of an exposed class adds methods without a mark of its own: they are not exposed."""


class Remote(Protocol):
    """What a proxy does besides: `with` closes its connection. An interface that derives from it tells so to mypy.

    class Store(rmi.Remote, Protocol):
        def add(self, a: int, b: int) -> int: ...

    It lists nothing that can be called.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class AsyncRemote(Protocol):
    """The same of a proxy for an event loop: `async with`, and aclose()."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def aclose(self) -> None:
        """Closes the connection behind all that was sent. Idempotent."""


class Entry(NamedTuple):
    """A row of the table. Its number is its place there."""

    name: str
    kind: int
    flags: int


class Interface:
    """The ordered table of what can be called. Equal tables have equal digests."""

    __slots__ = ("digest", "entries", "flags", "name", "numbers")

    def __init__(self, name: str, entries: tuple[Entry, ...], flags: int = 0) -> None:
        self.name = name
        self.entries = entries
        self.flags = flags
        self.numbers = {(entry.name, entry.kind): number for number, entry in enumerate(entries)}
        text = "\n".join(f"{entry.name} {entry.kind} {entry.flags}" for entry in entries)
        self.digest = hashlib.sha256(text.encode()).digest()[:8]

    def __repr__(self) -> str:
        return f"<interface {self.name}: {', '.join(sorted({entry.name for entry in self.entries}))}>"

    def described(self) -> tuple[Any, ...]:
        """Plain values that tell it to another process; `from_description` reads them."""
        return self.name, self.flags, tuple((entry.name, entry.kind, entry.flags) for entry in self.entries)


def from_description(description: Any) -> Interface:
    """The interface of a description by another process. Raises ValueError where it is none."""
    try:
        name, flags, entries = description
        if not (type(name) is str and type(flags) is int and type(entries) is tuple and len(entries) <= MOST_METHODS):
            raise ValueError
        rows = []
        for entry, kind, marks in entries:
            if type(entry) is not str or kind not in (METHOD, GETTER, SETTER) or type(marks) is not int:
                raise ValueError
            if not is_public(entry):
                raise ValueError
            rows.append(Entry(entry, kind, marks))
    except (TypeError, ValueError):
        raise ValueError("what was received describes no interface") from None
    return Interface(name, tuple(rows), flags)


def is_public(name: str) -> bool:
    """Whether the name may be exposed."""
    return name in SPECIAL or not name.startswith("_")


@overload
def expose(marked: _Marked, /) -> _Marked: ...
@overload
def expose(*, serial: bool = ...) -> Callable[[_Marked], _Marked]: ...
def expose(marked: Any = None, /, *, serial: bool = False) -> Any:
    """Marks a class, a method, a property or a function: it may be called from other processes.

    serial: of a class; at most one call runs at a time, whoever makes it. Raises TypeError for a private name.
    """
    if marked is None:
        return lambda other: _expose(other, serial)
    return _expose(marked, serial)


def _expose(marked: Any, serial: bool) -> Any:
    if isinstance(marked, type):
        setattr(marked, _CLASS, SERIAL if serial else 0)
        return marked
    if serial:
        raise TypeError("serial=True belongs to a class: one lock guards the whole object")
    _mark(marked, EXPOSED)
    return marked


def oneway(method: _Marked) -> _Marked:
    """Marks a method: a call of it sends its arguments and does not wait. What it returns or raises stays there."""
    _mark(method, ONEWAY)
    return method


def idempotent(method: _Marked) -> _Marked:
    """Marks a method that may run twice: a call whose connection was lost is made once more, after reconnecting."""
    _mark(method, IDEMPOTENT)
    return method


def _mark(marked: Any, flag: int) -> None:
    function = marked
    if isinstance(marked, property):
        function = marked.fget
    elif isinstance(marked, (staticmethod, classmethod)):
        function = marked.__func__
    name = getattr(function, "__name__", None)
    if name is None or not callable(function):
        raise TypeError(f"{marked!r} is no method, property, function or class")
    if flag == EXPOSED and not is_public(name):
        raise TypeError(f"{name} is private: names with a leading underscore are never exposed")
    setattr(function, _FLAGS, getattr(function, _FLAGS, 0) | flag)


def is_exposed(kind: type) -> bool:
    """Whether objects of the class may be called from elsewhere: they go by reference."""
    known = vars(kind).get("__rmi_interface__")
    if known is None:
        return _has_marks(kind)
    return bool(known.entries)


def _has_marks(kind: type) -> bool:
    return any(
        _CLASS in vars(each) or any(_marks_of(value) & EXPOSED for value in vars(each).values())
        for each in kind.__mro__[:-1]
    )


def interface_of(kind: type) -> Interface:
    """The table of a class or a Protocol. Raises TypeError where nothing is exposed."""
    known = vars(kind).get("__rmi_interface__")
    if known is None:
        known = _interface(kind)
        try:
            setattr(kind, "__rmi_interface__", known)  # noqa: B010  # a class's own, not its instances'
        except TypeError:  # a class of C cannot keep it
            return known
    return known


def table_of(interface: Any) -> Interface:
    """The table of what a program gave as `interface=`. Raises TypeError."""
    try:
        if isinstance(interface, type):
            return interface_of(interface)
    except TypeError:  # it lists nothing
        pass
    raise TypeError(
        f"interface is {interface!r}, which lists nothing: give a Protocol, or a class with @rmi.expose; the proxy of a"
        " function needs none"
    )


def interface_of_function(function: Callable[..., Any]) -> Interface:
    """The table of a function: it can be called."""
    flags = _marks_of(function) | _nature(function)
    return Interface(getattr(function, "__name__", "function"), (Entry("__call__", METHOD, flags | EXPOSED),))


def _interface(kind: type) -> Interface:
    is_protocol = getattr(kind, "_is_protocol", False)
    names: dict[str, None] = {}
    hidden: dict[str, str] = {}
    serial = 0
    under = ""  # the class marked whole that this one comes from
    for each in reversed(kind.__mro__[:-1]):
        own = vars(each)
        lists = is_protocol and getattr(each, "_is_protocol", False) and each.__module__ not in ("typing", __name__)
        whole = _CLASS in own or lists
        serial |= own.get(_CLASS, 0)
        shown = {name: _marks_of(value) & EXPOSED for name, value in own.items() if _is_callable_there(value)}
        for name, marked in shown.items():
            if is_public(name) and (whole or marked):
                names[name] = None
            elif under and is_public(name) and not any(shown.values()):
                hidden[name] = each.__qualname__
        under = each.__qualname__ if whole else under
    entries = []
    for name in names:
        entries += _entries(name, inspect.getattr_static(kind, name))
    if not entries:
        raise TypeError(
            f"{kind.__qualname__} exposes nothing: write @rmi.expose above the class, or above what may be called"
        )
    _warn_of_hidden(kind, under, {name: where for name, where in hidden.items() if name not in names})
    if len(entries) > MOST_METHODS:
        raise TypeError(f"{kind.__qualname__} exposes {len(entries)} names; {MOST_METHODS} can be told apart")
    return Interface(kind.__qualname__, tuple(entries), serial)


def _warn_of_hidden(kind: type, under: str, hidden: dict[str, str]) -> None:
    """A mark is not inherited: who writes a subclass decides anew. Who did not decide anything is told."""
    if hidden:
        where = " and ".join(dict.fromkeys(hidden.values()))
        warnings.warn(
            f"{', '.join(hidden)} of {where} cannot be called from other processes: @rmi.expose above {under} does not"
            f" hold for what a subclass adds; write it above {where} too, or above the methods that may be called",
            HiddenMethodsWarning,
            stacklevel=_outside(),
        )


def _outside() -> int:
    """The level of the caller that is not in this package."""
    frame = inspect.currentframe()
    level = 0
    while frame is not None and is_own(frame):
        frame, level = frame.f_back, level + 1
    return level


def _entries(name: str, value: Any) -> list[Entry]:
    flags = _marks_of(value) | EXPOSED
    if isinstance(value, property):
        found = [Entry(name, GETTER, flags)]
        if value.fset is not None:
            found.append(Entry(name, SETTER, flags))
        return found
    if name == "__iter__":  # what it returns is read item by item
        flags |= STREAM
    return [Entry(name, METHOD, flags | _nature(getattr(value, "__func__", value)))]


def _nature(function: Any) -> int:
    """What the code itself tells: whether it is a generator or a coroutine function."""
    if inspect.isgeneratorfunction(function):
        return STREAM
    if inspect.isasyncgenfunction(function):
        return STREAM | ASYNC
    return ASYNC if inspect.iscoroutinefunction(function) else 0


def _is_callable_there(value: Any) -> bool:
    return isinstance(value, (property, staticmethod, classmethod)) or (callable(value) and not isinstance(value, type))


def _marks_of(value: Any) -> int:
    function = value
    if isinstance(value, property):
        function = value.fget
    elif isinstance(value, (staticmethod, classmethod)):
        function = value.__func__
    flags = getattr(function, _FLAGS, 0)
    return flags if type(flags) is int else 0
