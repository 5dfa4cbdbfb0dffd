"""Subclasses of plain values: what is sent of an instance, and how it is made again without a call of its class.

What is sent is the contents, a value of the plain class, and the attributes. The receiver makes the instance by the
plain class's own `__new__`, and fills it by the plain class's own methods. So no function of the subclass runs. A
subclass that wants one to run (`__reduce__`, `__setstate__`, `__del__`) must be registered.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import BadFrame, NotPackable
from .values import FILLED, STATE, ClassDescription

_HEAP_TYPE = 1 << 9  # of a class's flags: it was made by a class statement, or as if by one
_WORD = 8
_OWN_WAYS = frozenset({"__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__del__"})


class Plain(NamedTuple):
    """A class whose subclasses travel. made: of the class and the contents. Without it the instance is begun empty."""

    contents: Callable[[Any], Any]
    made: Callable[[type, Any], Any] | None = None
    fill: Callable[[Any, Any], None] | None = None


class Attributes(NamedTuple):
    """Where the attributes of a class's instances are."""

    has_dict: bool
    slots: dict[str, Any]

    def of(self, value: Any) -> dict[str, Any] | None:
        """None: there are none."""
        found = dict(vars(value)) if self.has_dict else {}
        for name, slot in self.slots.items():
            try:
                found[name] = slot.__get__(value)
            except AttributeError:  # it is not set
                continue
        return found or None

    def put(self, value: Any, attributes: Any) -> None:
        """Sets what a peer sent. Raises BadFrame."""
        if attributes is None:
            return
        if type(attributes) is not dict or not all(type(name) is str for name in attributes):
            raise BadFrame(f"the attributes of a {type(value).__qualname__} are none")
        for name, item in attributes.items():
            slot = self.slots.get(name)
            if slot is not None:
                slot.__set__(value, item)
            elif self.has_dict:
                vars(value)[name] = item
            else:
                raise BadFrame(f"a {type(value).__qualname__} has no attribute {name!r}")


def describe_derived(cls: type, name: str) -> ClassDescription | None:
    """The description of a plain class's subclass, or of one of PLAIN itself. None: it is no such class."""
    base: Any = plain_class(cls)
    if base is None or why_not_derived(cls, base) is not None:
        return None
    plain = PLAIN[base]
    attributes = _attributes_of(cls, base)
    fields = (base.__qualname__, *getattr(cls, "_fields", ()))

    def pack(value: Any) -> Any:
        return plain.contents(value), attributes.of(value)

    def begin() -> Any:
        return base.__new__(cls)

    def fill(value: Any, state: Any) -> None:
        contents, held = _parts(cls, state)
        if plain.fill is not None:
            plain.fill(value, contents)
        attributes.put(value, held)

    def unpack(state: Any) -> Any:
        contents, held = _parts(cls, state)
        if type(contents) is not base:
            raise BadFrame(f"a {cls.__qualname__} is made of {type(contents).__qualname__}, not of {base.__qualname__}")
        value = made(cls, contents)
        attributes.put(value, held)
        return value

    made: Any = plain.made
    if made is None:
        return ClassDescription(cls, name, FILLED, fields, 0, pack=pack, begin=begin, fill=fill)
    return ClassDescription(cls, name, STATE, fields, 0, pack=pack, unpack=unpack)


def plain_class(cls: type) -> type | None:
    """The plain class that a class is, or is derived from. None: there is none."""
    return next((each for each in cls.__mro__ if each in PLAIN), None)


def why_not_derived(cls: type, base: type) -> str | None:
    """Why the instances of a subclass cannot be made again without its help. None: they can."""
    for each in cls.__mro__:
        if each in base.__mro__:
            continue
        if not each.__flags__ & _HEAP_TYPE:
            return "it is not written in Python"
        own = sorted(_OWN_WAYS & vars(each).keys())
        if own:
            return f"it has {own[0]}() of its own"
    slots = len(_attributes_of(cls, base).slots)
    if cls.__basicsize__ > base.__basicsize__ + _WORD * (2 + slots):  # its dict, its weak references
        return "it keeps a state that is not Python's"
    try:
        _sample(cls, base)
    except TypeError:  # the class's own __new__ must be used
        return "it is not written in Python"
    return None


def slots_of(value: Any, base: type) -> dict[str, Any]:
    """The attributes of an instance that have slots, but for those of a base."""
    return Attributes(False, _attributes_of(type(value), base).slots).of(value) or {}


def _sample(cls: type, base: Any) -> Any:
    made = PLAIN[base].made
    return base.__new__(cls) if made is None else made(cls, _LEAST[base]())


def _attributes_of(cls: type, base: type) -> Attributes:
    slots = {
        name: found
        for each in reversed(cls.__mro__)
        if each not in base.__mro__
        for name, found in vars(each).items()
        if type(found) is types.MemberDescriptorType
    }
    return Attributes(bool(cls.__dictoffset__), slots)


def _parts(cls: type, state: Any) -> tuple[Any, Any]:
    if type(state) is not tuple or len(state) != 2:
        raise BadFrame(f"a {cls.__qualname__} is no pair of contents and attributes")
    return state


# What can be inside an instance is taken past what its class says of it.


def _new(base: Any) -> Callable[[type, Any], Any]:
    return lambda cls, contents: base.__new__(cls, contents)


def _datetime_of(value: Any) -> datetime.datetime:
    clock = value.hour, value.minute, value.second, value.microsecond, value.tzinfo
    return datetime.datetime(value.year, value.month, value.day, *clock, fold=value.fold)


def _make_datetime(cls: Any, at: datetime.datetime) -> Any:
    clock = at.hour, at.minute, at.second, at.microsecond, at.tzinfo
    return datetime.datetime.__new__(cls, at.year, at.month, at.day, *clock, fold=at.fold)


def _time_of(value: Any) -> datetime.time:
    return datetime.time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold)


def _make_time(cls: Any, at: datetime.time) -> Any:
    return datetime.time.__new__(cls, at.hour, at.minute, at.second, at.microsecond, at.tzinfo, fold=at.fold)


_FACTORIES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(list, dict, set, frozenset, tuple, int, float, complex, bool, str, bytes, bytearray),
        *(collections.OrderedDict, collections.Counter, collections.deque),
    )
}


def _defaults_of(value: Any) -> Any:
    factory = value.default_factory
    if factory is not None and _FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
        raise NotPackable(
            f"a defaultdict whose default_factory is {factory!r} cannot be sent, because a function cannot: "
            "send dict(value), or one whose default_factory is None or a builtin class"
        )
    return None if factory is None else factory.__name__, dict(dict.items(value))


def _fill_defaults(value: Any, contents: Any) -> None:
    factory, items = contents
    _dict_of(items)
    value.default_factory = None if factory is None else _FACTORIES[factory]
    dict.update(value, items)


def _dict_of(contents: Any) -> Any:
    return _exactly(dict, contents)


def _list_of(contents: Any) -> Any:
    return _exactly(list, contents)


def _exactly(kind: type, contents: Any) -> Any:
    if type(contents) is not kind:
        raise BadFrame(f"{type(contents).__qualname__} stands where a {kind.__qualname__} belongs")
    return contents


def _fill_ordered(value: Any, contents: Any) -> None:
    for key, item in _dict_of(contents).items():
        collections.OrderedDict.__setitem__(value, key, item)


def _deque_of(value: Any) -> Any:
    return list(collections.deque.__iter__(value)), value.maxlen


def _fill_deque(value: Any, contents: Any) -> None:
    items, most = contents
    collections.deque.__init__(value, _list_of(items), most)


def _nothing(_: Any) -> None:
    """All that it holds are attributes."""


PLAIN: dict[type, Plain] = {
    int: Plain(int.__int__, _new(int)),
    float: Plain(float.__float__, _new(float)),
    complex: Plain(lambda value: complex(value.real, value.imag), _new(complex)),
    str: Plain(str.__str__, _new(str)),
    bytes: Plain(lambda value: bytes.__getitem__(value, slice(None)), _new(bytes)),
    tuple: Plain(lambda value: tuple(tuple.__iter__(value)), _new(tuple)),
    frozenset: Plain(lambda value: frozenset(frozenset.__iter__(value)), _new(frozenset)),
    datetime.datetime: Plain(_datetime_of, _make_datetime),
    datetime.date: Plain(
        lambda value: datetime.date(value.year, value.month, value.day),
        lambda cls, day: datetime.date.__new__(cls, day.year, day.month, day.day),
    ),
    datetime.time: Plain(_time_of, _make_time),
    datetime.timedelta: Plain(
        lambda value: datetime.timedelta(value.days, value.seconds, value.microseconds),
        lambda cls, span: datetime.timedelta.__new__(cls, span.days, span.seconds, span.microseconds),
    ),
    decimal.Decimal: Plain(decimal.Decimal, _new(decimal.Decimal)),
    list: Plain(lambda value: list(list.__iter__(value)), None, lambda value, held: list.extend(value, _list_of(held))),
    dict: Plain(lambda value: dict(dict.items(value)), None, lambda value, held: dict.update(value, _dict_of(held))),
    set: Plain(lambda value: list(set.__iter__(value)), None, lambda value, held: set.update(value, _list_of(held))),
    bytearray: Plain(
        lambda value: bytearray.__getitem__(value, slice(None)),
        None,
        lambda value, held: bytearray.extend(value, _exactly(bytearray, held)),
    ),
    collections.OrderedDict: Plain(lambda value: dict(collections.OrderedDict.items(value)), None, _fill_ordered),
    collections.Counter: Plain(
        lambda value: dict(dict.items(value)), None, lambda value, held: dict.update(value, _dict_of(held))
    ),
    collections.defaultdict: Plain(_defaults_of, None, _fill_defaults),
    collections.deque: Plain(_deque_of, None, _fill_deque),
    collections.UserDict: Plain(_nothing),
    collections.UserList: Plain(_nothing),
    collections.UserString: Plain(_nothing),
    collections.ChainMap: Plain(_nothing),
    types.SimpleNamespace: Plain(_nothing),
}
_LEAST: dict[type, Callable[[], Any]] = {
    datetime.datetime: lambda: datetime.datetime.min,
    datetime.date: lambda: datetime.date.min,
}  # fmt: skip
for _kind, _plain in PLAIN.items():
    if _plain.made is not None:
        _LEAST.setdefault(_kind, _kind)
