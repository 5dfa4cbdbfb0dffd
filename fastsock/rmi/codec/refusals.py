"""What the sender of a value is told that cannot travel: why, and what to write instead."""

from __future__ import annotations

import array
import asyncio
import collections.abc
import concurrent.futures
import functools
import io
import operator
import re
import sys
import types
import typing
import weakref
from typing import Any

from .derived import plain_class, why_not_derived
from .values import describe

_FUNCTIONS = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
    *(functools.partial, functools.partialmethod, type(functools.lru_cache(lambda: None)), staticmethod, classmethod),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller),
)
_TYPES = (
    *(types.GenericAlias, types.UnionType, typing.TypeVar, type(typing.Any), type(typing.Optional[int])),  # noqa: UP045
    *(type(typing.List[int]), typing.ForwardRef),  # noqa: UP006
)
_VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))
_LOCKS = ("_thread", "threading", "multiprocessing.synchronize")


def refusal(kind: type) -> str:
    """The text for an instance of the class."""
    name = kind.__qualname__
    for kinds, text in _TEXTS:
        if issubclass(kind, kinds):
            return text.format(name=name)
    return _of_class(kind)


_TEXTS: list[tuple[Any, str]] = [
    (_FUNCTIONS, "a {name} cannot be sent, only called from the other end: send rmi.callback(function)"),
    (type, "a class cannot be sent: send an instance, or rmi.callback(class) to have instances made here"),
    (_TYPES, "a {name} of typing cannot be sent: send its text, str(value)"),
    (types.ModuleType, "a module cannot be sent: send its name, module.__name__, and import it at the other end"),
    (types.CoroutineType, "a coroutine cannot be sent: await it, and send its result"),
    ((asyncio.Future, concurrent.futures.Future), "a {name} cannot be sent: wait for it, and send its result()"),
    (
        (types.AsyncGeneratorType, collections.abc.AsyncIterator),
        "a {name} cannot be sent: send a list, [item async for item in value], or make the method itself a generator, "
        "whose items are sent one by one",
    ),
    (_VIEWS, "a {name} cannot be sent: send a list of it, list(value)"),
    ((types.CodeType, types.FrameType), "a {name} cannot be sent: send its text, str(value)"),
    (types.TracebackType, 'a traceback cannot be sent: send its text, "".join(traceback.format_tb(value))'),
    (re.Match, "a re.Match cannot be sent: send match.group(), match.groups() or match.groupdict()"),
    (weakref.ref, "a weak reference cannot be sent: send what it refers to, value()"),
    (
        (weakref.WeakKeyDictionary, weakref.WeakValueDictionary),
        "a {name} cannot be sent: send what it holds now, dict(value)",
    ),
    (weakref.WeakSet, "a WeakSet cannot be sent: send what it holds now, set(value)"),
    (
        io.IOBase,
        "a file belongs to its process and cannot be sent: send what is in it, file.read(), or its name, or "
        "rmi.reference(file, Protocol) with a class Protocol(typing.Protocol) that lists its methods",
    ),
    (
        collections.abc.Iterator,
        "a {name} is read only once and cannot be sent: send a list of it, list(value), or make the method itself a "
        "generator (yield from value), whose items are sent one by one",
    ),
    (array.array, "a {name} cannot be sent: send a plain one, array.array(value.typecode, value)"),
]


def _of_class(kind: type) -> str:
    name, full = kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    if kind is object:
        return "an object() is nothing but its identity: send a member of an Enum, or rmi.reference(value, Protocol)"
    by_fields = _is_described(kind)
    if by_fields:
        line = f"@rmi.value above class {name} (rmi.register({name}) where it is not yours)"
    else:
        line = f"rmi.register({name}, pack=..., unpack=...)"
    said = f"{full} is not registered, so its instances cannot be sent: write {line} at both ends"
    if by_fields:
        return said
    base = plain_class(kind)
    array_like = _base_array(kind)
    if array_like:
        return f"{said}, or send a plain array, numpy.asarray(value)"
    if base is not None:
        return f"{said} ({_why(kind, base)}), or send {base.__qualname__}(value)"
    if kind.__module__ in _LOCKS:
        return (
            f"a {name} belongs to its process and cannot be sent: send rmi.reference(value, Protocol) with a class "
            "Protocol(typing.Protocol) that lists the methods to be called there"
        )
    if _lends_memory(kind):
        return f"{said}, or send its memory, bytes(value)"
    return (
        f"{said}, where pack gives a value that can be sent and unpack makes an instance of it, or send "
        "rmi.reference(value, Protocol) with a class Protocol(typing.Protocol) that lists what is to be called there"
    )


def _is_described(kind: type) -> bool:
    """Whether it can be registered without functions."""
    try:
        describe(kind)
    except TypeError:
        return False
    return True


def _why(kind: type, base: type) -> str:
    """Why a subclass of a plain class does not travel by itself."""
    reason = why_not_derived(kind, base)
    if reason is not None:
        return f"it is a {base.__qualname__}, but {reason}"
    return f"no other process finds it as {kind.__module__}.{kind.__qualname__}: define it at the top of a module"


def _base_array(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.ndarray)


def _lends_memory(kind: type) -> bool:
    """Whether instances are memory, as those of mmap and ctypes are."""
    import ctypes
    import mmap

    return issubclass(kind, (mmap.mmap, ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._SimpleCData))
