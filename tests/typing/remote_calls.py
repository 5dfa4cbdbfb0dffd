"""What type checkers see of remote calls. Nothing here is run: .ci/types checks it by mypy and by pyright."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterator
from typing import Any, Protocol

from typing_extensions import assert_type

from fastsock import rmi
from fastsock.rmi import aio


@rmi.expose
class Store:
    def __init__(self, size: int) -> None:
        self.size = size

    def add(self, a: int, b: int) -> int:
        return a + b

    def rows(self, end: int) -> Iterator[str]:
        yield str(end)

    @property
    def level(self) -> float:
        return 1.0

    @rmi.oneway
    def note(self, text: str) -> None: ...


class Adding(rmi.Remote, Protocol):
    def add(self, a: int, b: int) -> int: ...


class AddingTogether(Protocol):
    def add(self, a: int, b: int) -> rmi.Result[int]: ...


class Plain(Protocol):
    def add(self, a: int, b: int) -> int: ...


class AsyncStore(aio.Remote, Protocol):
    async def add(self, a: int, b: int) -> int: ...
    def rows(self, end: int) -> AsyncIterator[str]: ...
    @property
    def level(self) -> Awaitable[float]: ...


class PlainAsyncStore(Protocol):
    async def add(self, a: int, b: int) -> int: ...


def by_threads() -> None:
    store = rmi.connect("rmi:store", Store, timeout=5.0)
    assert_type(store, Store)
    assert_type(store.add(1, 2), int)
    assert_type(store.level, float)
    assert_type(store.rows(3), Iterator[str])
    assert_type(store.note("text"), None)
    store.add("x", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.ad(1, 2)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    rmi.close(store)
    with rmi.closing(rmi.connect("rmi:store", Store)) as closed:
        assert_type(closed, Store)
    assert_type(rmi.connect("rmi:store"), Any)


def by_a_protocol() -> None:
    with rmi.connect("rmi:store", Adding, timeout=5.0) as store:
        assert_type(store, Adding)
        assert_type(store.add(1, 2), int)
        store.add("x", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    plain = rmi.connect("rmi:store", Plain, key="a secret of two programs")
    assert_type(plain, Plain)
    rmi.close(plain)
    with rmi.closing(rmi.connect("rmi:store", Plain)) as closed:
        assert_type(closed.add(1, 2), int)


def later(store: Store) -> None:
    future = rmi.future(store.add)(1, 2)
    assert_type(future, rmi.Future[int])
    assert_type(future.result(), int)
    assert_type(rmi.within(0.1, store.add)(1, 2), int)
    assert_type(rmi.future(rmi.within(0.1, store.add))(1, 2).result(), int)
    rmi.future(store.add)(1, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def together(store: Store) -> None:
    with rmi.batch(store) as calls:
        result = rmi.future(store.add, calls)(1, 2)
        other = calls.add(1, 2)
        rmi.future(store.add, calls)("x", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(result.result(), int)
    assert_type(other.result(), Any)
    assert_type(other.done(), bool)
    with rmi.batch(store, AddingTogether) as typed:
        assert_type(typed, AddingTogether)
        sum_of_two = typed.add(1, 2)
        typed.add("x", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        typed.ad(1, 2)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert_type(sum_of_two, rmi.Result[int])
    assert_type(sum_of_two.result(), int)


async def by_a_loop() -> None:
    async with await aio.connect("rmi:store", AsyncStore, timeout=5.0) as store:
        assert_type(store, AsyncStore)
        assert_type(await store.add(1, 2), int)
        assert_type(await store.level, float)
        async for row in store.rows(3):
            assert_type(row, str)
        await store.add("x", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        await aio.assign(store, "level", 2.0)
    async with aio.closing(await aio.connect("rmi:store", PlainAsyncStore)) as plain:
        assert_type(await plain.add(1, 2), int)
    assert_type(await aio.connect("rmi:store"), Any)


async def by_a_loop_with_a_class() -> None:
    async with aio.closing(await aio.connect("rmi:store", Store)) as store:
        assert_type(await aio.awaited(store.add)(1, 2), int)
        assert_type(aio.awaited(store.rows)(3), AsyncIterable[str])
        async for row in aio.awaited(store.rows)(3):
            assert_type(row, str)
        await store.add(1, 2)  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
        await aio.awaited(store.add)("x", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def serving(daemon: rmi.Daemon) -> None:
    assert_type(daemon.register(Store, "store", instance="session"), str)
    assert_type(daemon.register(Store(1), "adding", interface=Adding), str)
