"""Handles: Python objects that refer to records, as `MPI_Comm` refers to a communicator in C.

Several handles may refer to one record and are then equal; freeing through one handle makes only that handle null. The
module's constants (`INT`, `SUM`, `COMM_WORLD`) keep referring to their records whatever happens.
"""

from __future__ import annotations

import itertools

from fastsock.system.forkable import new_recursive_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, TypeVar
    from weakref import WeakValueDictionary

    Public = TypeVar("Public", bound=type[Any])

PUBLIC = "fastsock.mpj.MPI"
"""The module that every public class and constant is found in, and pickled by reference to."""

_numbers = itertools.count(1)
_numbering = new_recursive_lock()
_records: WeakValueDictionary[int, Record] | dict[int, Record] = {}
_wrappers: dict[type, type[Handle]] = {}


def public(cls: Public) -> Public:
    """Marks a class as one of the public module's."""
    cls.__module__ = PUBLIC
    return cls


class Record:
    """What handles refer to. `constant` is the module constant that names it, `constant_name` that constant's name."""

    __slots__ = ("__weakref__", "_number", "constant", "constant_name", "predefined")

    _number: int
    constant: Handle | None
    constant_name: str
    predefined: bool

    def __init__(self) -> None:
        self._number = -1
        self.constant = None
        self.constant_name = ""
        self.predefined = False

    @property
    def number(self) -> int:
        """An integer that stands for this record, given on first request."""
        if self._number < 0:
            with _numbering:
                if self._number < 0:
                    self._number = numbered(self)
        return self._number


def numbered(record: Any) -> int:
    """Gives a record a number by which it is found again."""
    global _records
    with _numbering:
        if type(_records) is dict:
            from weakref import WeakValueDictionary

            _records = WeakValueDictionary()
        number = next(_numbers)
        _records[number] = record
        return number


class Handle:
    """What datatypes, operations, groups, requests, communicators and the rest have in common."""

    __slots__ = ("__weakref__", "_constant", "ob")

    ob: Any
    """The record that this handle refers to."""
    _constant: bool
    null: ClassVar[Any]
    """The record of the null handle of this class."""
    _family: ClassVar[type[Handle]]
    """The class whose handles may be made from, and compared with, this one's."""

    def __new__(cls, other: Self | None = None) -> Self:
        """Returns another handle of the same record; a null handle without an argument."""
        self = object.__new__(cls)
        self._constant = False
        if other is None:
            self.ob = cls.null
            return self
        if not isinstance(other, cls._family):
            raise TypeError(f"expected a {cls._family.__name__}, got a {type(other).__name__}")
        self.ob = other.ob
        return self

    def __init_subclass__(cls, wraps: type | tuple[type, ...] = (), **options: Any) -> None:
        """`wraps`: the classes of records whose handles are of this class, where the program did not choose another."""
        super().__init_subclass__(**options)
        if "null" in vars(cls):
            cls._family = cls
        for kind in wraps if isinstance(wraps, tuple) else (wraps,):
            _wrappers[kind] = cls

    @classmethod
    def of(cls, record: Any) -> Self:
        """Returns a new handle of this class for a record."""
        self = object.__new__(cls)
        self._constant = False
        self.ob = record
        return self

    @classmethod
    def named(cls, record: Any, name: str) -> Self:
        """Returns the constant `name` of the public module for a record that is never freed."""
        self = cls.of(record)
        self._constant = True
        if record.constant is None:
            record.constant = self
            record.constant_name = name
            record.predefined = True
        return self

    @classmethod
    def for_record(cls, record: Any) -> Any:
        """Returns the constant of a record that has one, else a new handle of the class that wraps such records."""
        if record.constant is not None:
            return record.constant
        return cls.wrapper(type(record)).of(record)

    @classmethod
    def wrapper(cls, kind: type) -> type[Any]:
        """Returns the class of handles for records of a class: this one where none says that it wraps them."""
        found = _wrappers.get(kind)
        if found is None:
            found = next((_wrappers[base] for base in kind.__mro__ if base in _wrappers), cls)
        return found

    def __bool__(self) -> bool:
        """Return whether the handle is not null."""
        return self.ob is not self.null

    def __eq__(self, other: object) -> bool:
        """Return whether both handles refer to the same thing."""
        if isinstance(other, self._family):
            return self.ob is other.ob
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        """Return whether the handles refer to different things."""
        if isinstance(other, self._family):
            return self.ob is not other.ob
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle constants by name."""
        record = self.ob
        constant = record.constant
        if constant is None:
            raise ValueError(f"cannot serialize '{type(self).__module__}.{type(self).__name__}' instance")
        if self is constant:
            name: str = record.constant_name
            return name
        return _copy, (type(self), constant)

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        """Pickle constants by name."""
        return self.__reduce__()

    @property
    def handle(self) -> int:
        """MPI handle."""
        return self.toint()

    @classmethod
    def fromhandle(cls, handle: int) -> Self:
        """Create object from MPI handle."""
        return cls.fromint(handle)

    def toint(self) -> int:
        """Translate object to integer handle."""
        if self.ob is self.null:
            return 0
        number: int = self.ob.number
        return number

    @classmethod
    def fromint(cls, arg: int, /) -> Self:
        """Translate integer handle to object."""
        record = _records.get(arg) if arg else cls.null
        if record is None:
            raise ValueError(f"no object has the handle {arg}")
        wrapped = [kind for kind, wrapper in _wrappers.items() if issubclass(wrapper, cls._family)]
        kinds: Any = (type(cls.null), *wrapped)
        if not isinstance(record, kinds):
            raise TypeError(f"handle {arg} is not of a {cls.__name__}")
        constant = record.constant
        if isinstance(constant, cls):
            return constant
        if cls is not cls._family:
            return cls.of(record)
        found: Self = cls.for_record(record)
        return found

    def py2f(self) -> int:
        """Translate object to Fortran handle."""
        return self.toint()

    @classmethod
    def f2py(cls, arg: int) -> Self:
        """Translate Fortran handle to object."""
        return cls.fromint(arg)

    def _forget(self) -> None:
        """Makes this handle null, unless it is one of the module's constants."""
        if not self._constant:
            self.ob = self.null

    def _release(self) -> None:
        """Frees the record, then forgets it. `free` calls this when there is something to free."""
        self.Free()  # type: ignore[attr-defined]

    def free(self) -> None:
        """Call `Free` if not null or predefined."""
        if self._constant or self.ob is self.null:
            return
        if self.ob.predefined:
            self.ob = self.null
        else:
            self._release()


def _copy(cls: type[Handle], constant: Handle) -> Handle:
    return cls.__new__(cls, constant)
