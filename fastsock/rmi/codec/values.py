"""The classes whose instances travel by value: `value` and `register` enter them, a `ClassTable` finds them.

@value                                   dataclasses, NamedTuples, Enums, attrs classes, exceptions
@value(cache=True)                       of a frozen class: an instance goes once a connection, then as its number
register(Money, pack=..., unpack=...)    any other class
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Callable
from typing import Any, TypeVar, overload

_Registered = TypeVar("_Registered", bound=type)

# kinds; FILLED: begun empty, so that what it holds can hold it, and filled then
FIELDS, TUPLE_CLASS, MEMBERS, FLAGS, STATE, RAISED, FILLED = range(7)


class ClassDescription:
    """What is told once a connection of a class. Equal digests mean that instances can be exchanged."""

    __slots__ = (
        "begin", "cache", "cls", "digest", "fields", "fill", "kind", "migrate", "name", "pack", "unpack", "version",
    )  # fmt: skip

    def __init__(
        self,
        cls: type,
        name: str,
        kind: int,
        fields: tuple[str, ...],
        version: int,
        pack: Callable[[Any], Any] | None = None,
        unpack: Callable[[Any], Any] | None = None,
        migrate: Callable[[Any, int], Any] | None = None,
        cache: bool = False,
        begin: Callable[[], Any] | None = None,
        fill: Callable[[Any, Any], None] | None = None,
    ) -> None:
        self.cls = cls
        self.name = name
        self.kind = kind
        self.fields = fields
        self.version = version
        self.pack = pack
        self.unpack = unpack
        self.migrate = migrate
        self.cache = cache
        self.begin = begin
        self.fill = fill
        self.digest = digest_of(name, kind, version, fields)

    def __repr__(self) -> str:
        return f"<class {self.name}, version {self.version}: {', '.join(self.fields) or 'packed by its own function'}>"


def digest_of(name: str, kind: int, version: int, fields: tuple[str, ...]) -> int:
    """64 bits of the SHA-256 of all that both ends must agree on."""
    text = "\0".join((name, str(kind), str(version), *fields))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


class ClassTable:
    """Classes by themselves and by name."""

    def __init__(self) -> None:
        self.by_class: dict[type, ClassDescription] = {}
        self.by_name: dict[str, ClassDescription] = {}
        self.libraries: dict[str, str] = {}  # those whose classes were entered; why they could not be

    def add(self, description: ClassDescription) -> None:
        """Enter a class. A class defined anew in the same place takes the place of the older one.

        Raises ValueError where another class has this name.
        """
        cls, name = description.cls, description.name
        older = self.by_name.get(name)
        if older is not None and older.cls is not cls:
            if (older.cls.__module__, older.cls.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ValueError(
                    f"{older.cls.__module__}.{older.cls.__qualname__} is already registered as {name!r}: "
                    f"register {cls.__module__}.{cls.__qualname__} with name='another name' at both ends"
                )
            self.by_class.pop(older.cls, None)
        former = self.by_class.get(cls)
        if former is not None and former.name != name:
            del self.by_name[former.name]
        self.by_name[name] = self.by_class[cls] = description


classes = ClassTable()  # of this process


@overload
def value(cls: _Registered, /) -> _Registered: ...
@overload
def value(
    *,
    cache: bool = ...,
    name: str | None = ...,
    version: int = ...,
    migrate: Callable[[Any, int], Any] | None = ...,
) -> Callable[[_Registered], _Registered]: ...
def value(
    cls: Any = None,
    /,
    *,
    cache: bool = False,
    name: str | None = None,
    version: int = 0,
    migrate: Callable[[Any, int], Any] | None = None,
) -> Any:
    """Mark a dataclass, NamedTuple, Enum, attrs class or exception: its instances travel by value, field by field.

    `__init__` and `__post_init__` are not called for what arrives. cache: an instance that was sent on a connection is
    sent as its number from then on, so it must never change; the class must be frozen. name: that both ends know it by
    (the qualified name without its module). version, migrate: see `register`. Raises TypeError for another class.
    """
    if cls is None:
        return lambda other: value(other, cache=cache, name=name, version=version, migrate=migrate)  # type: ignore[call-overload]
    register(cls, cache=cache, name=name, version=version, migrate=migrate)
    return cls


def register(
    cls: type,
    *,
    pack: Callable[[Any], Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    name: str | None = None,
    version: int = 0,
    migrate: Callable[[Any, int], Any] | None = None,
    cache: bool = False,
) -> None:
    """Enter a class whose instances then travel by value.

    pack, unpack: pack(instance) gives a packable value, unpack(value) makes the instance. Without them the class is one
    that `value` takes. version: of the class's form, 0 to 2**32 - 1. migrate(state, version): makes the state of this
    version out of one that an end with another version, or other fields, sent. The state is what pack() gave, a dict of
    fields, or the name of an Enum's member. Without it other forms are a VersionMismatch.

    Raises TypeError for a class that needs pack and unpack, ValueError for a name that is taken.
    """
    classes.add(describe(cls, pack, unpack, name, version, migrate, cache))


def describe(
    cls: type,
    pack: Callable[[Any], Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    name: str | None = None,
    version: int = 0,
    migrate: Callable[[Any, int], Any] | None = None,
    cache: bool = False,
) -> ClassDescription:
    """The description of a class. Raises as `register`."""
    if not isinstance(cls, type):
        raise TypeError(f"{cls!r} is no class")
    if (pack is None) != (unpack is None):
        raise TypeError(f"{cls.__qualname__} needs pack= and unpack=, or neither")
    if not 0 <= version < 1 << 32:
        raise ValueError(f"version is {version}: it must be from 0 to 2**32 - 1")
    kind, fields = (STATE, ()) if pack is not None else _form_of(cls)
    if cache and not _is_frozen(cls, kind):
        raise TypeError(
            f"cache=True needs a frozen class, because a changed instance would not be sent again: write "
            f"@dataclass(frozen=True) for {cls.__qualname__}, or leave cache out"
        )
    name = name or cls.__qualname__.rpartition("<locals>.")[2]
    return ClassDescription(cls, name, kind, fields, version, pack, unpack, migrate, cache)


def _form_of(cls: type) -> tuple[int, tuple[str, ...]]:
    if issubclass(cls, enum.Flag):
        return FLAGS, tuple(cls.__members__)
    if issubclass(cls, enum.Enum):
        return MEMBERS, tuple(member.name for member in cls)
    if issubclass(cls, BaseException):
        return RAISED, ()
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return TUPLE_CLASS, tuple(cls._fields)
    fields = getattr(cls, "__attrs_attrs__", None)
    if fields is None and dataclasses.is_dataclass(cls):
        fields = dataclasses.fields(cls)
    if fields is None:
        raise TypeError(
            f"{cls.__qualname__} is no dataclass, NamedTuple, Enum, attrs class or exception: write "
            f"rmi.register({cls.__qualname__}, pack=..., unpack=...)"
        )
    try:
        object.__new__(cls)
    except TypeError as error:
        raise TypeError(f"{cls.__qualname__} needs pack= and unpack=: {error}") from None
    return FIELDS, tuple(field.name for field in fields)


def _is_frozen(cls: type, kind: int) -> bool:
    if kind in (STATE, TUPLE_CLASS):
        return True  # who writes pack() knows
    parameters: Any = getattr(cls, "__dataclass_params__", None)
    if parameters is not None:
        return bool(parameters.frozen)
    return kind == FIELDS and "__setattr__" in vars(cls)
