"""What the tests call in another process."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy

from fastsock import rmi


class Unregistered(Exception):
    """An exception that no end knows."""


@rmi.value
class Known(Exception):
    """An exception that both ends know."""


class Fragile:
    """A value whose unpacking runs something, where a test says so."""

    on_unpack: Callable[[], None] | None = None
    unpacked = 0

    def __init__(self, number: int) -> None:
        self.number = number


def _unpack_fragile(number: int) -> Fragile:
    Fragile.unpacked += 1
    if Fragile.on_unpack is not None:
        Fragile.on_unpack()
    return Fragile(number)


rmi.register(Fragile, pack=lambda value: value.number, unpack=_unpack_fragile)


class Brittle:
    """A key whose hash takes more memory than there is, in the process that a test says."""

    breaks = False
    hashed = 0

    def __hash__(self) -> int:
        Brittle.hashed += 1
        if Brittle.breaks:
            raise MemoryError
        return 1


rmi.register(Brittle, pack=lambda value: 0, unpack=lambda _: Brittle())


@rmi.expose
class Counter:
    """An object that goes by reference."""

    living = 0

    def __init__(self) -> None:
        self.count = 0
        type(self).living += 1

    def __del__(self) -> None:
        type(self).living -= 1

    def increase(self) -> int:
        self.count += 1
        return self.count


@rmi.expose
class Store:
    """A bit of everything."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.cancelled = threading.Event()
        self.closed_streams = 0
        self.produced = 0
        self.level_ = 3
        self.kept: Any = None
        self.subscribers: list[Callable[..., Any]] = []

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def same(self, value: Any) -> Any:
        return value

    def size(self, value: Any) -> int:
        return len(value)

    def described(self, *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
        return arguments, keywords

    def thread(self) -> int:
        return threading.get_ident()

    def fragile(self, number: int) -> Fragile:
        return Fragile(number)

    def fragile_ones(self, number: int) -> Iterator[Fragile]:
        try:
            for each in range(number):
                yield Fragile(each)
        finally:
            self.closed_streams += 1

    def break_keys(self, breaks: bool) -> int:
        Brittle.breaks = breaks
        return Brittle.hashed

    def brittle_key(self) -> dict[Brittle, int]:
        return {Brittle(): 1}

    # errors

    def refuse(self, text: str) -> None:
        raise ValueError(text, 42)

    def refuse_strangely(self) -> None:
        raise Unregistered("nobody knows me")

    def refuse_as_known(self) -> None:
        raise Known("both know me", 7)

    def leave(self) -> None:
        raise SystemExit(3)

    def returns_unpackable(self) -> Any:
        return Unpackable()

    # one-way

    @rmi.oneway
    def log(self, line: str) -> None:
        self.lines.append(line)

    @rmi.oneway
    def log_late(self, line: str) -> None:
        self.gate.wait(30)
        self.lines.append(line)

    def first_letters(self) -> str:
        return "".join(line[0] for line in self.logged())

    def logged(self) -> list[str]:
        return self.lines

    # waiting

    def wait(self) -> str:
        self.entered.set()
        self.gate.wait(30)
        return "opened"

    def open(self) -> None:
        self.gate.set()

    def shut(self) -> None:
        self.entered.clear()
        self.gate.clear()

    def began(self) -> bool:
        return self.entered.is_set()

    def has_entered(self) -> bool:
        return self.entered.wait(30)

    def time_left(self) -> float | None:
        return rmi.deadline()

    async def wait_cancelled(self) -> None:
        self.entered.set()
        try:
            await asyncio.Event().wait()  # nobody sets it
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def was_cancelled(self) -> bool:
        return self.cancelled.wait(30)

    async def add_later(self, a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    # streams

    def count_to(self, number: int) -> Iterator[int]:
        try:
            for each in range(number):
                self.produced = each
                yield each
        finally:
            self.closed_streams += 1

    def arrays(self, number: int, size: int) -> Iterator[Any]:
        for each in range(number):
            self.produced = each
            yield numpy.full(size, each)

    def count_gated(self, number: int, at: int) -> Iterator[int]:
        """Stands still before one item until the gate is open."""
        try:
            for each in range(number):
                if each == at:
                    self.entered.set()
                    if not self.gate.wait(30):
                        raise TimeoutError("nobody has opened the gate")
                yield each
        finally:
            self.closed_streams += 1

    async def count_later(self, number: int) -> AsyncIterator[int]:
        for each in range(number):
            await asyncio.sleep(0)
            yield each

    def breaks(self) -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    def streams(self) -> tuple[int, int]:
        return self.closed_streams, self.produced

    # references

    def counter(self) -> Counter:
        return Counter()

    def keep(self, value: Any) -> None:
        self.kept = value

    def kept_one(self) -> Any:
        return self.kept

    def is_kept(self, value: Any) -> bool:
        return value is self.kept

    def living(self) -> int:
        gc.collect()  # without an interpreter's lock an object waits for the thread that made it, which may sleep
        return Counter.living

    # callbacks

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def call_to_the_end(self, function: Callable[..., Iterator[int]]) -> list[int]:
        return list(function())

    def call_add(self, other: Any, a: int, b: int) -> int:
        found: int = other.add(a, b)
        return found

    def subscribe(self, function: Callable[..., Any]) -> None:
        self.subscribers.append(function)

    def publish(self, value: Any) -> int:
        for each in self.subscribers:
            each(value)
        return len(self.subscribers)

    # what a proxy has beside methods

    @property
    def level(self) -> int:
        return self.level_

    @level.setter
    def level(self, value: int) -> None:
        self.level_ = value

    def __call__(self, value: int) -> int:
        return value * 2

    def __len__(self) -> int:
        return 5

    def __getitem__(self, key: Any) -> Any:
        return [key]

    def __contains__(self, value: int) -> bool:
        return value == 3

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2, 3])

    def _private(self) -> None:
        raise AssertionError("never called from elsewhere")


class Unpackable:
    """Nobody registered it."""
