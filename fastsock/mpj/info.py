"""Info objects: hints by name."""

from __future__ import annotations

import sys

from .constants import ERR_ARG, ERR_INFO, ERR_INFO_KEY, ERR_INFO_NOKEY, ERR_INFO_VALUE, MAX_INFO_KEY, MAX_INFO_VAL
from .exceptions import Exception
from .handle import Handle, Record, public

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, Self


class InfoRecord(Record):
    """`items`: the hints, in the order in which they were first set."""

    __slots__ = ("items",)

    def __init__(self, items: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.items: dict[str, str] = dict(items or {})


_null = InfoRecord()


@public
class Info(Handle):
    """Hints by name (MPI 4.1, chapter 10). Calls on a null object raise MPI.Exception (ERR_INFO)."""

    __slots__ = ()

    ob: InfoRecord
    null = _null

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle constants by name, others by their items."""
        if self.ob.constant is not None:
            return super().__reduce__()
        return type(self).Create, (self.items(),)

    def _items(self) -> dict[str, str]:
        if self.ob is _null:
            raise Exception(ERR_INFO, "the info object is null: it was freed, or never made")
        return self.ob.items

    @classmethod
    def Create(cls, items: Info | Mapping[str, str] | Iterable[tuple[str, str]] | None = None) -> Self:
        """Return a new info object with these hints. Raises as `Set` does."""
        self = cls.of(InfoRecord())
        if items is not None:
            self.update(items)
        return self

    @classmethod
    def Create_env(cls, args: Sequence[str] | None = None) -> Self:
        """Return a new info object that describes how the program was started, by the words `args`."""
        argv = [args] if isinstance(args, str) else list(args or ())
        return cls.of(InfoRecord(_environment(argv)))

    def Free(self) -> None:
        """Free the object: this handle becomes null."""
        self._items()
        self._forget()

    def Dup(self) -> Self:
        """Return a copy."""
        return self.of(InfoRecord(self._items()))

    def Get(self, key: str) -> str | None:
        """Return the value of a key; None where there is none. Raises MPI.Exception (ERR_INFO_KEY) as `Set` does."""
        return self._items().get(_key(key))

    def Set(self, key: str, value: str) -> None:
        """Store a value under a key.

        Raises TypeError where one is no str, and MPI.Exception: ERR_INFO_KEY where the key has not 1 to MAX_INFO_KEY
        characters, ERR_INFO_VALUE where the value has not 1 to MAX_INFO_VAL.
        """
        if not isinstance(value, str):
            raise TypeError(f"expected a str, got a {type(value).__name__}")
        if not value or len(value) > MAX_INFO_VAL:
            raise Exception(ERR_INFO_VALUE, f"a value of {len(value)} characters: it has 1 to {MAX_INFO_VAL}")
        self._items()[_key(key)] = value

    def Delete(self, key: str) -> None:
        """Remove a key. Raises MPI.Exception (ERR_INFO_NOKEY) where it is not there."""
        if self._items().pop(_key(key), None) is None:
            raise Exception(ERR_INFO_NOKEY, f"no key {key!r}")

    def Get_nkeys(self) -> int:
        """Return the number of keys."""
        return len(self._items())

    def Get_nthkey(self, n: int) -> str:
        """Return the key of this number, from 0 on. Raises MPI.Exception (ERR_ARG) where there is none."""
        keys = list(self._items())
        if not 0 <= n < len(keys):
            raise Exception(ERR_ARG, f"no key {n}: there are {len(keys)}, from 0 on")
        return keys[n]

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self.ob.items)

    def __contains__(self, key: str) -> bool:
        """Return whether there is a value for the key."""
        return bool(self) and _key(key) in self.ob.items

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the keys."""
        return iter(self.keys())

    def __getitem__(self, key: str) -> str:
        """Return the value of a key. Raises KeyError where there is none."""
        return self.ob.items[key]

    def __setitem__(self, key: str, value: str) -> None:
        """Set the value of a key. Raises KeyError where the handle is null, and as `Set` does."""
        if not self:
            raise KeyError(key)
        self.Set(key, value)

    def __delitem__(self, key: str) -> None:
        """Remove a key. Raises KeyError where it is not there."""
        del self.ob.items[key]

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the value of a key, or `default`."""
        return self.ob.items.get(key, default)

    def keys(self) -> list[str]:
        """Return the list of keys."""
        return list(self.ob.items)

    def values(self) -> list[str]:
        """Return the list of values."""
        return list(self.ob.items.values())

    def items(self) -> list[tuple[str, str]]:
        """Return the list of (key, value)."""
        return list(self.ob.items.items())

    def update(self, items: Info | Mapping[str, str] | Iterable[tuple[str, str]] = (), **kwds: str) -> None:
        """Set several keys. Raises KeyError where the handle is null, and as `Set` does."""
        if not self:
            raise KeyError
        pairs: Any = items
        if hasattr(pairs, "keys"):
            pairs = [(key, pairs[key]) for key in pairs.keys()]  # noqa: SIM118  (any mapping has keys())
        for key, value in pairs:
            self.Set(key, value)
        for key, value in kwds.items():
            self.Set(key, value)

    def pop(self, key: str, *default: str) -> str:
        """Remove a key and return its value, or the default. Raises KeyError without either."""
        return self.ob.items.pop(key, *default)

    def popitem(self) -> tuple[str, str]:
        """Remove the last (key, value) and return it. Raises KeyError where there is none."""
        return self.ob.items.popitem()

    def copy(self) -> Self:
        """Return a copy."""
        return self.Dup() if self else type(self)()

    def clear(self) -> None:
        """Remove all keys."""
        self.ob.items.clear()


def _key(key: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"expected a str, got a {type(key).__name__}")
    if not key or len(key) > MAX_INFO_KEY:
        raise Exception(ERR_INFO_KEY, f"a key of {len(key)} characters: it has 1 to {MAX_INFO_KEY}")
    return key


def _environment(argv: Sequence[str]) -> dict[str, str]:
    """The hints that describe how the program was started."""
    found = {"command": argv[0] if argv else "", "argv": " ".join(argv[1:]), "arch": sys.platform}
    found["thread_level"] = "MPI_THREAD_MULTIPLE"
    return {key: value for key, value in found.items() if value}


INFO_NULL = Info.named(_null, "INFO_NULL")
INFO_ENV = Info.named(InfoRecord(_environment(sys.argv)), "INFO_ENV")
