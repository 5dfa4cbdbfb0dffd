"""A deadline ends all that is done for the call: callbacks, nested calls three processes deep, streams, futures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from fastsock import rmi
from fastsock.rmi import aio

from .conftest import fresh_name, until


@rmi.expose
class Between:
    """In a second process: its methods call what they are given, and note how that ended."""

    def __init__(self):
        self.ended = threading.Event()
        self.became = None

    def call(self, function, *arguments):
        try:
            self.became = function(*arguments)
        except BaseException as error:
            self.became = type(error).__name__
            raise
        finally:
            self.ended.set()
        return self.became

    def wait_for(self, address, method):
        """Calls an object of a third process."""
        with rmi.connect(address) as third:
            return self.call(getattr(third, method))

    def wait_for_future(self, address, method):
        with rmi.connect(address) as third:
            return self.call(rmi.future(getattr(third, method))().result)

    def read(self, address, *arguments):
        with rmi.connect(address) as third:
            return self.call(lambda: list(third.count_gated(*arguments)))

    def batch(self, address):
        with rmi.connect(address) as third:

            def run():
                with rmi.batch(third) as calls:
                    calls.wait()

            return self.call(run)

    def rows(self, address) -> Iterator[Any]:
        yield 0
        yield self.wait_for(address, "wait")

    def time_left_of_rows(self) -> Iterator[Any]:
        yield rmi.deadline()

    async def later_rows(self) -> AsyncIterator[int]:
        yield 0
        try:
            await asyncio.Event().wait()  # nobody sets it
        except asyncio.CancelledError:
            self.became = "cancelled"
            raise
        finally:
            self.ended.set()

    async def wait_later_for(self, address, method):
        async with await aio.connect(address) as third:
            try:
                await getattr(third, method)()
            except BaseException as error:
                self.became = type(error).__name__
                raise
            finally:
                self.ended.set()

    def call_by_future(self, function):
        return rmi.future(function)().result()

    def outcome_now(self):
        return self.became

    def outcome(self):
        assert self.ended.wait(30)
        return self.became


def register_between(here, name):
    here.daemon.register(Between(), name)
    return f"rmi:{name}"


@pytest.fixture
def between(begin):
    with rmi.connect(begin().far.run(register_between, fresh_name("between")), Between) as found:
        yield found


@pytest.fixture
def third(served):
    """The address of a Store in the third process."""
    return f"rmi:{served.name}"


SHORT = 0.3


def test_a_callback_is_given_up_at_the_deadline(between):
    told = rmi.future(between.outcome)()
    with pytest.raises(rmi.CallTimeout):
        rmi.within(SHORT, between.call)(rmi.callback(lambda: told.result(30)))
    assert told.result() == "CallTimeout"


@pytest.mark.parametrize("way", ["wait_for", "wait_for_future"])
def test_a_call_of_a_third_process_ends_with_it(between, third, store, way):
    with pytest.raises(rmi.CallTimeout):
        rmi.within(SHORT, getattr(between, way))(third, "wait")
    assert between.outcome() == "CallTimeout"
    assert store.add(1, 2) == 3


def test_a_batch_for_a_third_process_ends_with_it(between, third):
    with pytest.raises(rmi.CallTimeout):
        rmi.within(SHORT, between.batch)(third)
    assert between.outcome() == "CallTimeout"


@pytest.mark.parametrize("way", ["wait_for", "wait_later_for"])
def test_an_async_method_of_a_third_process_is_cancelled(between, third, store, way):
    for seconds in (SHORT, 1.0, 5.0):  # on a crowded machine it may be over before the method begins
        with pytest.raises(TimeoutError):
            rmi.within(seconds, getattr(between, way))(third, "wait_cancelled")
        if store.began():
            break
    assert store.was_cancelled()


@pytest.mark.parametrize("way", ["wait_for", "wait_for_future"])
def test_the_third_process_sees_what_is_left(between, third, way):
    assert 0 < rmi.within(20, getattr(between, way))(third, "time_left") <= 20


def test_the_deadline_comes_back_with_a_callback(between, third):
    """The method calls this process, and that the third one."""

    def ask():
        with rmi.connect(third) as store:
            return store.time_left()

    assert 0 < rmi.within(20, between.call)(rmi.callback(ask)) <= 20
    assert rmi.deadline() is None


def test_reading_a_stream_ends_with_the_call_that_reads(between, third, store):
    for seconds in (SHORT, 1.0, 5.0):
        with pytest.raises(rmi.CallTimeout):
            rmi.within(seconds, between.read)(third, 3, 1)
        if store.began():
            break
    assert between.outcome() == "CallTimeout"
    store.open()
    until(lambda: store.streams()[0] >= 1)  # the generator was closed; so are those of calls that began too late


def test_within_holds_for_a_whole_stream(between, third):
    for seconds in (SHORT, 1.0, 5.0):
        rows = rmi.within(seconds, between.rows)(third)
        try:
            assert next(rows) == 0
        except rmi.CallTimeout:
            continue
        with pytest.raises(rmi.CallTimeout):
            next(rows)
        break
    assert list(rows) == []
    assert between.outcome() == "CallTimeout"


def test_a_timeout_holds_until_the_stream_begins(served, begin, store):
    patient = served.connect(timeout=SHORT)
    rows = patient.count_gated(3, 1)
    assert next(rows) == 0
    with pytest.raises(rmi.CallTimeout):
        patient.wait()
    store.open()
    assert list(rows) == [1, 2]


def test_a_generator_sees_what_is_left_of_the_stream(between):
    (left,) = rmi.within(20, between.time_left_of_rows)()
    assert 0 < left <= 20
    assert list(between.time_left_of_rows()) == [None]


def test_an_async_generator_that_waits_ends_with_its_stream(between):
    for seconds in (SHORT, 1.0, 5.0):
        rows = rmi.within(seconds, between.later_rows)()
        try:
            assert next(rows) == 0
        except rmi.CallTimeout:
            continue
        with pytest.raises(TimeoutError):
            next(rows)
        break
    assert between.outcome() == "cancelled"


def test_an_async_generator_that_waits_is_cancelled_when_its_reader_leaves(between):
    with between.later_rows() as rows:
        assert next(rows) == 0
    assert between.outcome() == "cancelled"


def test_a_loop_that_reads_a_stream(between, third):
    """The stream is read by a callback that runs in a loop; its time is that of the call."""

    async def read():
        async with await aio.connect(third) as store:
            async for _ in store.count_gated(3, 1):
                pass

    with pytest.raises(TimeoutError):
        rmi.within(1.0, between.call)(rmi.callback(read))
    assert between.outcome() in ("CallTimeout", "TimeoutError")


def test_a_future_ends_at_its_deadline(store):
    waiting = rmi.future(rmi.within(SHORT, store.wait))()
    with pytest.raises(rmi.CallTimeout, match="no answer in time"):
        waiting.result()
    assert waiting.done()
    assert isinstance(waiting.exception(), rmi.CallTimeout)
    store.open()
    assert store.add(1, 2) == 3


def test_a_future_that_nobody_waits_for_is_done_at_its_deadline(store):
    waiting = rmi.future(rmi.within(SHORT, store.wait))()
    until(waiting.done)
    with pytest.raises(rmi.CallTimeout):
        waiting.result()
    store.open()


def test_a_call_back_by_another_connection_is_not_put_behind_its_own_caller(served, begin):
    """The thread waits in two calls, one within the other, of two connections."""
    first, second = served.connect(timeout=20), begin().connect(timeout=20)
    assert first.call(rmi.callback(lambda: second.call(rmi.callback(lambda: first.add(1, 2))))) == 3


def test_a_call_on_behalf_of_one_that_nobody_waits_for_yet(between):
    """It is not put behind the method that has begun it."""
    assert rmi.within(20, between.call_by_future)(rmi.callback(lambda: between.outcome_now())) is None
