"""The spellings by which type checkers follow a call: each does what the untyped one does. The types: tests/typing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from fastsock import rmi
from fastsock.rmi import aio
from fastsock.rmi.api import interfaces

from . import objects
from .conftest import fresh_name


class Adding(rmi.Remote, Protocol):
    def add(self, a: int, b: int) -> int: ...


class AddingTogether(Protocol):
    def add(self, a: int, b: int) -> rmi.Result[int]: ...


class Subtracting(Protocol):
    def subtract(self, a: int, b: int) -> rmi.Result[int]: ...


class AsyncStore(aio.Remote, Protocol):
    async def add(self, a: int, b: int) -> int: ...
    def count_to(self, end: int) -> AsyncIterator[int]: ...


def test_closing_closes_the_connection(served):
    with rmi.closing(rmi.connect(f"rmi:{served.name}", objects.Store, **served.options)) as store:
        assert store.add(1, 2) == 3
        session = store._rmi_target.home.session
    assert session.connection.lost is not None


def test_closing_wants_a_proxy():
    with pytest.raises(TypeError, match="is no proxy"), rmi.closing(5):
        pass
    with pytest.raises(TypeError, match="is no proxy"):
        rmi.close("store")


def test_a_remote_protocol_lists_what_is_its_own(served):
    with rmi.connect(f"rmi:{served.name}", Adding, **served.options) as store:
        assert store.add(1, 2) == 3
    with rmi.Daemon() as daemon, pytest.raises(TypeError, match="lists nothing"):
        daemon.register(objects.Store(), fresh_name(), interface=rmi.Remote)


def test_a_class_that_derives_from_remote_exposes_what_is_its_own():
    @rmi.expose
    class Own(rmi.Remote):
        def add(self, a: int, b: int) -> int:
            return a + b

    assert [entry.name for entry in interfaces.interface_of(Own).entries] == ["add"]


def test_future_of_a_batch_is_a_call_of_the_batch(store):
    with rmi.batch(store) as calls:
        results = [rmi.future(store.add, calls)(each, each) for each in range(3)] + [calls.add(3, 3)]
        assert not any(result.done() for result in results)
    assert [result.result() for result in results] == [0, 2, 4, 6]


def test_future_of_a_batch_wants_a_method_of_its_object(served, store):
    other = served.connect()
    with rmi.batch(store) as calls:
        with pytest.raises(TypeError, match="not of the object of this batch"):
            rmi.future(other.add, calls)
        with pytest.raises(TypeError, match="is not what the block of a batch calls"):
            rmi.future(store.add, store)


def test_a_batch_has_the_types_of_its_protocol(store):
    with rmi.batch(store, AddingTogether) as calls:
        result = calls.add(1, 2)
    assert result.result() == 3
    with pytest.raises(rmi.UnknownMethod, match="exposes no method subtract, which Subtracting lists"):
        rmi.batch(store, Subtracting)
    with pytest.raises(TypeError, match="lists nothing"):
        rmi.batch(store, 5)


def test_an_interface_of_async_methods(served):
    async def use():
        async with await aio.connect(f"rmi:{served.name}", AsyncStore, **served.options) as store:
            assert await store.add(1, 2) == 3
            assert [number async for number in store.count_to(3)] == [0, 1, 2]

    asyncio.run(use())


def test_a_class_without_async_in_a_loop(served):
    async def use():
        async with aio.closing(await aio.connect(f"rmi:{served.name}", objects.Store, **served.options)) as store:
            assert await aio.awaited(store.add)(1, 2) == 3
            assert [number async for number in aio.awaited(store.count_to)(3)] == [0, 1, 2]
            await aio.assign(store, "level", 5)
            assert await store.level == 5
        with pytest.raises(TypeError, match="no proxy for a loop"):
            aio.assign(5, "level", 5)

    asyncio.run(use())
