"""Attributes: values that a program attaches to communicators and datatypes, under keys that it creates."""

from __future__ import annotations

from operator import index

from fastsock.system.forkable import new_lock

from .constants import ERR_KEYVAL, ERR_OTHER, KEYVAL_INVALID
from .exceptions import Exception
from .handle import Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar


class _Key:
    """A key of one kind of object, and the functions to call when an object with such an attribute is copied or freed.

    `integers`: values are integers only, as in a C program.
    """

    __slots__ = ("copy", "delete", "family", "integers")

    def __init__(
        self,
        family: type[Handle],
        copy: Callable[..., Any] | bool | None,
        delete: Callable[..., Any] | None,
        integers: bool,
    ) -> None:
        self.family = family
        self.copy = copy
        self.delete = delete
        self.integers = integers


_FIRST_FREE = 1000  # the predefined keys come before
_keys: dict[int, _Key] = {}
_next_key = _FIRST_FREE
# of the keys alone: a program's functions may communicate, and must not be waited for by other threads
_lock = new_lock()


class Attributed(Handle):
    """A handle of something that has attributes; its record has them as `attributes`: keyval -> (key, value)."""

    __slots__ = ()

    _predefined_keys: ClassVar[frozenset[int]] = frozenset()
    """The keys of the attributes that the library sets."""

    def _predefined_attribute(self, keyval: int) -> Any:
        """The value under one of these keys."""
        raise NotImplementedError

    def Get_attr(self, keyval: int) -> int | Any | None:
        """Return the value under a key; None where there is none.

        Raises MPI.Exception (ERR_KEYVAL) for what is no key of this class of objects.
        """
        if keyval in self._predefined_keys:
            return self._predefined_attribute(keyval)
        found = self._attributes().get(keyval)
        if found is not None:
            return found[1]
        self._key(keyval)
        return None

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Store a value under a key; the delete function of the key gets the value that was there.

        Raises MPI.Exception (ERR_KEYVAL) for a key that this class of objects has not created.
        """
        key = self._key(keyval)
        if key.integers:
            attrval = index(attrval)
        self._delete_one(keyval)
        self.ob.attributes[keyval] = (key, attrval)

    def Delete_attr(self, keyval: int) -> None:
        """Delete the value under a key. Raises MPI.Exception (ERR_KEYVAL) where there is none."""
        if keyval not in self._attributes():
            self._key(keyval)
            raise Exception(ERR_KEYVAL, f"no attribute has the key {keyval}")
        self._delete_one(keyval)

    @classmethod
    def Create_keyval(
        cls,
        copy_fn: Callable[..., Any] | bool | None = None,
        delete_fn: Callable[..., Any] | bool | None = None,
        nopython: bool = False,
    ) -> int:
        """Return a new key for objects of this class (MPI 4.1, chapter 7).

        `copy_fn` is called as (object, key, value) when an object is duplicated. What it returns the copy has, unless
        that is NotImplemented; True: the value itself; None or False: nothing. `delete_fn` is called so when a value is
        deleted. `nopython`: values are integers.
        """
        global _next_key
        with _lock:
            keyval = _next_key
            _next_key += 1
            _keys[keyval] = _Key(
                cls._family, copy_fn or None, None if isinstance(delete_fn, bool) else delete_fn, bool(nopython)
            )
            return keyval

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Free an attribute key. Values that are stored under it stay until they are deleted.

        Returns KEYVAL_INVALID, also for a key that was freed before. Raises MPI.Exception (ERR_KEYVAL) for a key that
        this class of objects has not created.
        """
        with _lock:
            key = _keys.get(keyval)
            if key is None and _FIRST_FREE <= keyval < _next_key:
                return KEYVAL_INVALID
            if key is None or key.family is not cls._family:
                raise Exception(ERR_KEYVAL, f"{keyval} is not a key that {cls.__name__} created")
            del _keys[keyval]
        return KEYVAL_INVALID

    def _attributes(self) -> dict[int, tuple[_Key, Any]]:
        """The attributes; raises where the handle is null."""
        found: dict[int, tuple[_Key, Any]] = self.ob.attributes
        return found

    def _key(self, keyval: int) -> _Key:
        self._attributes()
        key = _keys.get(keyval)
        if key is None or key.family is not self._family:
            raise Exception(
                ERR_KEYVAL, f"{keyval} is not an attribute key that {self._family.__name__}.Create_keyval() returned"
            )
        return key

    def _delete_one(self, keyval: int) -> None:
        found = self.ob.attributes.pop(keyval, None)
        if found is None:
            return
        key, value = found
        if key.delete is not None:
            _call(key.delete, self._family.of(self.ob), keyval, value)

    def _delete_attributes(self) -> None:
        """Deletes all attributes, the last set first: what freeing does."""
        if self.ob.attributes:
            for keyval in reversed(list(self.ob.attributes)):
                self._delete_one(keyval)

    def _copy_attributes(self, new: Any) -> None:
        """Copies the attributes to the record `new`, as far as their keys say that they are copied."""
        for keyval, (key, value) in list(self.ob.attributes.items()):
            if key.copy is None:
                continue
            copied = value
            if callable(key.copy):
                copied = _call(key.copy, self._family.of(self.ob), keyval, value)
                if copied is NotImplemented:
                    continue
            new.attributes[keyval] = (key, copied)


def _call(function: Callable[..., Any], handle: Handle, keyval: int, value: Any) -> Any:
    """Calls a program's function. Its exceptions are printed, and become errors, as for a program in C."""
    try:
        return function(handle, keyval, value)
    except Exception:
        raise
    except BaseException as error:
        import traceback

        traceback.print_exc()
        raise Exception(ERR_OTHER, f"a function of the attribute key {keyval} raised {error!r}") from error
    finally:
        handle.ob = handle.null
