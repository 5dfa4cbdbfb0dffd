"""Replaces attributes so that they can be put back exactly, and makes functions that pass for builtins."""

from __future__ import annotations

import sys
from types import MethodType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_ABSENT = object()


class Patches:
    """The attributes that were replaced, with their values before."""

    __slots__ = ("_assigned", "_copies", "_replaced")

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, object, object]] = []
        self._copies: list[tuple[str, str, object, object]] = []
        self._assigned: list[tuple[Any, str, object, object]] = []

    def replace(self, target: Any, name: str, replacement: object) -> None:
        """Set ``target.name``, a module's or a class's attribute, until ``undo()``."""
        original = vars(target).get(name, _ABSENT)
        setattr(target, name, replacement)
        self._replaced.append((target, name, original, replacement))

    def rename(self, kind: type, like: type) -> None:
        """Let a class and its functions name, until ``undo()``, the module of ``like`` as their own."""
        own, module = kind.__module__, like.__module__
        self._assign(kind, "__doc__", like.__doc__)
        for value in (kind, *vars(kind).values()):
            named = value.fget if isinstance(value, property) else value
            if getattr(named, "__module__", None) == own and hasattr(named, "__qualname__"):
                self._assign(named, "__module__", module)

    def _assign(self, target: Any, name: str, value: object) -> None:
        self._assigned.append((target, name, getattr(target, name), value))
        setattr(target, name, value)

    def replace_copy(self, module: str, name: str, original: object, replacement: object) -> None:
        """Replace the copy that "from ... import" makes, or has made, in ``module`` as ``name``."""
        loaded = sys.modules.get(module)
        if getattr(loaded, name, None) is original:
            setattr(loaded, name, replacement)
        self._copies.append((module, name, original, replacement))

    def undo(self) -> list[str]:
        """Put everything back. Returns the names that other code has replaced since. Those are left alone."""
        left = []
        while self._copies:
            module, name, original, replacement = self._copies.pop()
            loaded = sys.modules.get(module)
            if getattr(loaded, name, None) is replacement:
                setattr(loaded, name, original)
        while self._assigned:
            target, name, original, replacement = self._assigned.pop()
            if getattr(target, name) is replacement:
                setattr(target, name, original)
        while self._replaced:
            target, name, original, replacement = self._replaced.pop()
            if vars(target).get(name, _ABSENT) is not replacement:
                left.append(f"{target.__name__}.{name}")
            elif original is _ABSENT:
                delattr(target, name)
            else:
                setattr(target, name, original)
        return left


class _Owner:
    """The object that replacements are bound to. A pickled one is found again by its module and name."""

    __slots__ = ("module",)

    def __init__(self, module: str) -> None:
        self.module = module

    def __reduce__(self) -> tuple[object, ...]:
        from importlib import import_module  # slow to import, and hardly anybody pickles these

        return import_module, (self.module,)

    def __repr__(self) -> str:
        return f"<module {self.module!r}>"


def in_place_of(original: Any, module: str, function: Callable[..., Any]) -> Any:
    """Dress ``function``, which takes an unused first argument, as the builtin ``original`` of ``module``.

    The result is a bound method, because a builtin that becomes the attribute of a class is not
    bound to its instances, and a Python function would be.
    """
    return MethodType(_dressed(function, original), _Owner(module))


def wrapping(original: Any, function: Callable[..., Any]) -> Any:
    """Dress ``function`` as the Python function or method ``original``, signature included."""
    dressed: Any = _dressed(function, original)
    dressed.__wrapped__ = original
    return dressed


def is_replacement(value: object) -> bool:
    """Whether ``in_place_of`` or ``wrapping`` made this, so that it must not be wrapped again."""
    return getattr(value, _MARK, False) is True


_MARK = "__fastsock_replacement__"


def _dressed(function: Callable[..., Any], original: Any) -> Callable[..., Any]:
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(function, name, getattr(original, name, None))
    setattr(function, _MARK, True)
    return function
