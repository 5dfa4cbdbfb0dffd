"""What cannot travel is refused where it is sent. The advice of each refusal is followed here, and works."""

from __future__ import annotations

import array
import ast
import asyncio
import collections
import contextlib
import ctypes
import dataclasses
import enum
import functools
import itertools
import json
import mmap
import operator
import random
import re
import sys
import threading
import traceback
import typing
import weakref
from typing import Any, Protocol

import attrs
import numpy
import pytest

from fastsock import rmi
from fastsock.rmi.codec import values
from fastsock.rmi.errors import NotPackable
from tests.rmi.codecs import Way


class Plain:
    def __init__(self, number: int) -> None:
        self.number = number


@dataclasses.dataclass
class Point:
    x: int


@dataclasses.dataclass(slots=True)
class Slotted:
    x: int


@attrs.define
class Defined:
    x: int


@dataclasses.dataclass
class Unmade(random.Random):
    """Its fields are known, and no instance can be made of them alone."""

    x: int = 1


class Packed(array.array):
    pass


class Failure(Exception):
    pass


class Locking(Protocol):
    def acquire(self) -> bool: ...


class Reading(Protocol):
    def readline(self) -> str: ...


class Lines(list):
    def __reduce__(self) -> Any:
        return list, ()


class Celsius(numpy.ndarray):
    pass


class Numbers(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int)]


def generate():
    yield 1


async def generate_later():
    yield 1


async def work():
    return 1


def awaited(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


def gathered(stream: Any) -> Any:
    async def gather() -> list[Any]:
        return [item async for item in stream]

    return asyncio.run(gather())


def future() -> Any:
    from concurrent.futures import Future

    made: Any = Future()
    made.set_result(1)
    return made


def failed() -> Any:
    try:
        raise KeyError(1)
    except KeyError as error:
        return error.__traceback__


def opened() -> Any:
    return open(__file__)


class Referent:
    pass


REFERENT = Referent()
LOCAL = dataclasses.make_dataclass("Local", ["x"])
FOLLOWED = [
    (generate, r"list\(value\).*yield from", list),
    (generate_later, r"\[item async for item in value\]", gathered),
    (work, "await it, and send its result", awaited),
    (lambda: iter([1]), r"list\(value\)", list),
    (lambda: map(str, [1]), r"list\(value\)", list),
    (lambda: zip([1], [2], strict=True), r"list\(value\)", list),
    (lambda: itertools.islice(itertools.count(), 2), r"list\(value\)", list),
    (lambda: {1: 2}.keys(), r"list\(value\)", list),
    (lambda: {1: 2}.items(), r"list\(value\)", list),
    (lambda: {1: 2}.values(), r"list\(value\)", list),
    (lambda: reversed([1]), r"list\(value\)", list),
    (future, r"result\(\)", lambda value: value.result()),
    (lambda: json, "module.__name__", lambda value: value.__name__),
    (lambda: list[int], r"str\(value\)", str),
    (lambda: int | None, r"str\(value\)", str),
    (lambda: typing.Optional[int], r"str\(value\)", str),  # noqa: UP045
    (lambda: typing.Any, r"str\(value\)|a class cannot", str),
    (lambda: typing.TypeVar("T"), r"str\(value\)", str),
    (lambda: re.match("(a)", "a"), r"match\.groups\(\)", lambda value: value.groups()),
    (lambda: weakref.ref(REFERENT), r"value\(\)", lambda value: 1 if value() is REFERENT else 0),
    (lambda: weakref.WeakValueDictionary(), r"dict\(value\)", dict),
    (lambda: weakref.WeakSet(), r"set\(value\)", set),
    (failed, r"traceback\.format_tb\(value\)", lambda value: "".join(traceback.format_tb(value))),
    (lambda: sys._getframe(), r"str\(value\)", str),
    (lambda: generate.__code__, r"str\(value\)", str),
    (opened, r"file\.read\(\)", lambda value: value.read()),
    (lambda: numpy.array([1, "a"], object), r"array\.tolist\(\)", lambda value: value.tolist()),
    (lambda: numpy.zeros(2, [("a", "O")]), r"array\.tolist\(\)", lambda value: value.tolist()),
    (lambda: numpy.zeros(2).view(Celsius), r"numpy\.asarray\(value\)", numpy.asarray),
    (lambda: memoryview(numpy.zeros(2, "c8")), r"numpy\.asarray\(view\)", numpy.asarray),
    (lambda: Lines([1]), r"__reduce__\(\) of its own\), or send list\(value\)", list),
    (lambda: collections.defaultdict(lambda: 1, a=2), r"dict\(value\)", dict),
    (lambda: Packed("i", [1]), r"array\.array\(value\.typecode, value\)", lambda it: array.array(it.typecode, it)),
    (lambda: mmap.mmap(-1, 10), r"bytes\(value\)", bytes),
    (lambda: Numbers(5), r"bytes\(value\)", bytes),
    (lambda: (ctypes.c_int * 3)(1, 2), r"bytes\(value\)", bytes),
]  # fmt: skip


@pytest.fixture
def way():
    return Way(values.ClassTable())


def close(value: Any) -> None:
    if hasattr(value, "close") and not isinstance(value, memoryview):
        with contextlib.suppress(RuntimeError):
            value.close()


@pytest.mark.parametrize(("make", "advice", "follow"), FOLLOWED, ids=lambda part: getattr(part, "__name__", ""))
def test_the_advice_works(way, make, advice, follow):
    value = make()
    with pytest.raises(NotPackable, match=advice):
        way.pack([value])
    followed = follow(value)
    close(value)
    way.carry(followed)


def test_a_memoryview_by_its_bytes(way):
    with pytest.raises(NotPackable, match=r"view\.tobytes\(\)"):
        way.pack(memoryview(numpy.zeros(2, "c8")))


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (Point(1), r"@rmi\.value above class Point \(rmi\.register\(Point\) where it is not yours\)"),
        (Slotted(1), r"@rmi\.value above class Slotted \(rmi\.register\(Slotted\)"),
        (Defined(1), r"@rmi\.value above class Defined \(rmi\.register\(Defined\)"),
        (LOCAL(1), r"@rmi\.value above class Local \(rmi\.register\(Local\)"),
        (Failure(1), r"@rmi\.value above class Failure \(rmi\.register\(Failure\)"),
        (enum.Enum("Loose", "A").A, r"@rmi\.value above class Loose \(rmi\.register\(Loose\)"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_class_whose_form_is_known_is_registered_by_one_line(way, value, line):
    with pytest.raises(NotPackable, match=line):
        way.pack(value)
    way.packer.classes.add(values.describe(type(value)))  # what both lines do
    assert type(way.carry(value)) is type(value)


def test_any_other_class_is_registered_with_two_functions(way):
    for value in (Plain(5), random.Random(5), ast.Constant(5), Unmade(5)):
        with pytest.raises(NotPackable, match=r"pack=\.\.\., unpack=\.\.\.\) at both ends, where pack gives a value"):
            way.pack(value)
    way.packer.classes.add(values.describe(Plain, pack=lambda it: it.number, unpack=Plain))
    assert way.carry(Plain(5)).number == 5


FUNCTIONS = [
    *(len, functools.partial(int, base=2), functools.lru_cache(int), generate, "text".upper, str.upper, [].__len__),
    *(int.__add__, operator.attrgetter("a"), dict.fromkeys, lambda: 1),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: type(function).__name__)
def test_what_can_be_called_goes_as_a_callback(served, function):
    store = served.connect(timeout=30.0)
    with pytest.raises(NotPackable, match=r"rmi\.callback\(function\)"):
        store.same(function)
    assert store.same(rmi.callback(function)) is function


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock, threading.Condition])
def test_what_belongs_to_its_process_goes_by_reference(served, make):
    value = make()
    store = served.connect(timeout=30.0)
    with pytest.raises(NotPackable, match=r"rmi\.reference\(value, Protocol\) with a class Protocol"):
        store.same(value)
    assert store.same(rmi.reference(value, Locking)) is value


def test_a_file_and_a_bare_object_go_by_reference(served):
    store = served.connect(timeout=30.0)
    with open(__file__) as file:
        with pytest.raises(NotPackable, match=r"rmi\.reference\(file, Protocol\)"):
            store.same(file)
        assert store.same(rmi.reference(file, Reading)) is file
    sentinel = object()
    with pytest.raises(NotPackable, match="nothing but its identity"):
        store.same(sentinel)


def test_a_class_is_called_there(served):
    store = served.connect(timeout=30.0)
    with pytest.raises(NotPackable, match=r"rmi\.callback\(class\)"):
        store.same(str)
    assert store.call(rmi.callback(str), 5) == "5"
