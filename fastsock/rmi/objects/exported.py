"""An object that can be called from elsewhere, with the functions of its interface by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from ..api.interfaces import (
    ASYNC,
    GETTER,
    METHOD,
    SERIAL,
    STREAM,
    Interface,
    interface_of,
    interface_of_function,
    is_exposed,
    table_of,
)
from ..wire._records import WAITS, Entry
from .serial import SerialLock, lock_of
from .streams import close_source, is_stream

INSTANCES = ("single", "session", "call")


class Exported(Entry):
    """One object and its functions."""

    __slots__ = ("_lock", "interface", "made_by", "name", "object")

    def __init__(self, target: Any, interface: Interface, name: str, made_by: Callable[[], Any] | None = None) -> None:
        self.object = target
        self.interface = interface
        self.name = name
        self.made_by = made_by  # where each call has an instance of its own
        self._lock: SerialLock | None = None
        if interface.flags & SERIAL:
            self._lock = lock_of(target) if made_by is None else SerialLock()
        flags = 1 if interface.flags & SERIAL or made_by is not None else 0
        functions = functions_of(target, interface) if made_by is None else []
        Entry.__init__(self, flags, functions, len(interface.entries))

    def run(self, request: Any) -> Any:
        """Calls the function of a request. WAITS: another one has the object, and this thread need not wait for it."""
        if self._lock is None:
            return self._run(request)
        if self.interface.entries[request.method].flags & (ASYNC | STREAM):
            raise self._goes_on(request)
        waits = False
        try:
            waits = not self._lock.enter(request)
            if waits:
                return WAITS
            value = self._run(request)
        finally:
            if not waits:
                self._lock.leave(request)
        if is_stream(value):
            close_source(value)
            raise self._goes_on(request)
        return value

    def _run(self, request: Any) -> Any:
        functions = self.functions
        if self.made_by is not None:
            functions = functions_of(self.made_by(), self.interface)
        return functions[request.method](*request.arguments, **(request.keywords or {}))

    def _goes_on(self, request: Any) -> TypeError:
        return TypeError(
            f"{self.name}.{self.interface.entries[request.method].name}: a serial object has no generators and no async"
            " methods, because such a method goes on after its call"
        )


def functions_of(target: Any, interface: Interface) -> list[Callable[..., Any]]:
    """The functions of an object in the order of the interface. Raises TypeError where one is missing."""
    found: list[Callable[..., Any]] = []
    for entry in interface.entries:
        if entry.kind == METHOD:
            function = target if entry.name == "__call__" else getattr(target, entry.name, None)
            if not callable(function):
                raise TypeError(f"{type(target).__qualname__} has no method {entry.name}, which {interface.name} lists")
            found.append(_plain(function) if entry.name != "__iter__" else _iterating(target))
        elif entry.kind == GETTER:
            found.append(_getter(target, entry.name))
        else:
            found.append(_setter(target, entry.name))
    return found


def _plain(function: Any) -> Any:
    """An instance's own special method is found by its class: the instance is called the usual way."""
    return function if isinstance(function, (FunctionType, MethodType, type)) else function.__call__


def _iterating(target: Any) -> Callable[[], Iterator[Any]]:
    """An iterator of any kind as a generator: it is read by a stream."""

    def iterate() -> Iterator[Any]:
        yield from target

    return iterate


def _getter(target: Any, name: str) -> Callable[[], Any]:
    return lambda: getattr(target, name)


def _setter(target: Any, name: str) -> Callable[[Any], None]:
    return lambda value: setattr(target, name, value)


def exported_function(function: Callable[..., Any], name: str) -> Exported:
    """What can be called: a function, or a class, that makes an instance by each call."""
    return Exported(function, interface_of_function(function), name)


def source_of(target: Any, interface: type | None = None) -> tuple[Any, Interface]:
    """What says what `target` exports, and what it says: a class, a Protocol, or the function itself."""
    if interface is not None:
        return interface, table_of(interface)
    if isinstance(target, type):
        return target, interface_of(target)
    if isinstance(target, (FunctionType, MethodType)) or not is_exposed(type(target)):
        return target, interface_of_function(target)
    return type(target), interface_of(type(target))


def exported(target: Any, name: str, interface: type | None = None, instance: str = "single") -> Exported:
    """What `target` exports: an object, a function, or a class whose instances are made as `instance` says.

    Raises TypeError where nothing is exposed, or what the interface lists is missing.
    """
    if instance not in INSTANCES:
        raise ValueError(f"instance is {instance!r}: it is one of {', '.join(INSTANCES)}")
    if instance != INSTANCES[0] and not isinstance(target, type):
        raise TypeError(
            f"instance={instance!r} is for a class, of which instances are made: {target!r} is none; register its class"
        )
    if isinstance(target, type):
        _, table = source_of(target, interface)
        if instance == "call":
            return Exported(None, table, name, made_by=target)
        return Exported(target(), table, name)
    if interface is None and not callable(target) and not is_exposed(type(target)):
        raise TypeError(
            f"{type(target).__qualname__} exposes nothing: write @rmi.expose above the class, or above what may be"
            " called"
        )
    return Exported(target, source_of(target, interface)[1], name)
