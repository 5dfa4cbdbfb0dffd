"""Timeouts, deadlines, cancelling, futures."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import CancelledError

import pytest

from fastsock import rmi


def test_a_timeout_ends_the_call_and_not_the_connection(served):
    store = served.connect()
    with pytest.raises(rmi.CallTimeout, match=r"wait.*can have run"):
        rmi.within(0.05, store.wait)()
    assert store.add(1, 2) == 3
    store.open()  # the late answer is dropped
    assert store.add(2, 2) == 4


def test_the_default_timeout_of_a_proxy(served):
    for seconds in (0.05, 1.0, 5.0, 20.0):  # it holds for connecting too, and on a crowded machine that takes longer
        try:
            store = served.connect(timeout=seconds)
        except rmi.ConnectTimeout:
            continue
        with pytest.raises(rmi.CallTimeout):
            store.wait()
        return
    pytest.fail("no connection in 20 s")


def test_a_deadline_travels(store):
    left = rmi.within(20.0, store.time_left)()
    assert 0 < left <= 20.0


def test_without_a_timeout_there_is_no_deadline(served):
    assert served.connect().time_left() is None


def test_an_async_method_is_cancelled_at_its_deadline(served):
    store = served.connect()
    for seconds in (0.2, 1.0, 5.0, 20.0):  # on a crowded machine it may be over before the method begins
        with pytest.raises(TimeoutError):
            rmi.within(seconds, store.wait_cancelled)()
        if store.began():
            break
    assert store.was_cancelled()


def test_async_methods(store):
    assert store.add_later(1, 2) == 3


def test_futures(store):
    began = [rmi.future(store.add)(each, 1) for each in range(100)]
    assert [future.result() for future in began] == list(range(1, 101))
    with pytest.raises(ValueError, match="no"):
        rmi.future(store.refuse)("no").result()


def test_a_future_that_waits_in_vain_goes_on(store):
    waiting = rmi.future(store.wait)()
    with pytest.raises(TimeoutError):
        waiting.result(0.02)
    store.open()
    assert waiting.result(30) == "opened"


def test_a_future_of_several_threads(store):
    waiting = rmi.future(store.wait)()
    found = []
    threads = [threading.Thread(target=lambda: found.append(waiting.result(30))) for _ in range(4)]
    for thread in threads:
        thread.start()
    store.open()
    for thread in threads:
        thread.join()
    assert found == ["opened"] * 4


def test_a_future_tells_when_it_is_done(store):
    told = threading.Event()
    waiting = rmi.future(store.wait)()
    waiting.add_done_callback(lambda future: told.set())
    assert not told.is_set()
    store.open()
    assert told.wait(30)


def test_a_future_tells_when_its_time_is_over(store):
    """Though nobody asks."""
    told = threading.Event()
    waiting = rmi.future(rmi.within(0.05, store.wait))()
    waiting.add_done_callback(lambda future: told.set())
    assert told.wait(30)
    assert waiting.done()
    assert isinstance(waiting.exception(0), rmi.CallTimeout)
    late = threading.Event()
    waiting.add_done_callback(lambda future: late.set())
    assert late.is_set()
    store.open()
    assert store.add(1, 2) == 3


def test_futures_tell_by_the_order_of_their_times(store):
    told, done = [], threading.Event()
    limits = (0.6, 0.1, 0.35)
    for seconds in limits:
        waiting = rmi.future(rmi.within(seconds, store.wait))()
        waiting.add_done_callback(lambda _, seconds=seconds: (told.append(seconds), len(told) == 3 and done.set()))
    assert done.wait(30)
    store.open()
    assert sorted(told) == sorted(limits)


def test_a_future_tells_once(store):
    """Its time passes later, and is nobody's any more."""
    told, ended = [], threading.Event()
    for _ in range(20):
        rmi.future(rmi.within(0.3, store.add))(1, 2).add_done_callback(told.append)
    last = rmi.future(rmi.within(0.6, store.wait))()
    last.add_done_callback(lambda _: ended.set())
    assert ended.wait(30)
    store.open()
    assert len(told) == 20


def test_callbacks_of_a_future_are_called_in_their_order(store, caplog):
    told, done = [], threading.Event()
    waiting = rmi.future(store.wait)()
    for each in range(10):
        waiting.add_done_callback(lambda _, each=each: told.append(each))
    waiting.add_done_callback(lambda _: 1 / 0)  # is logged, as concurrent.futures does
    waiting.add_done_callback(lambda _: done.set())
    store.open()
    assert done.wait(30)
    assert told == list(range(10))
    assert "ZeroDivisionError" in caplog.text


def test_cancelling_a_future_tells(store):
    told = threading.Event()
    waiting = rmi.future(rmi.within(20, store.wait_cancelled))()
    waiting.add_done_callback(lambda future: told.set())
    assert store.has_entered()
    assert waiting.cancel()
    assert told.wait(30)


def test_an_answer_behind_another_is_not_left_in_memory(store):
    """Both come at once, and are received by the call that waits for one of them."""
    for _ in range(50):
        told = threading.Event()
        waiting = rmi.future(store.add)(1, 2)
        waiting.add_done_callback(lambda future, told=told: told.set())
        assert store.add(1, 2) == 3
        assert told.wait(30)


def test_an_answer_that_comes_together_with_another_is_told(store):
    """Over TLS each is a record, and one look at the kernel takes both: nobody looks a second time by itself."""
    for _ in range(200):
        told = threading.Event()
        waiting = rmi.future(store.wait)()
        waiting.add_done_callback(lambda future, told=told: told.set())
        assert store.has_entered()
        store.open()
        assert told.wait(30)
        store.shut()


def test_cancelling_a_future_cancels_the_call(store):
    """zerorpc #221."""
    waiting = rmi.future(store.wait_cancelled)()
    assert store.has_entered()
    assert waiting.cancel()
    assert store.was_cancelled()
    with pytest.raises(CancelledError):
        waiting.result()
    assert store.add(1, 2) == 3


def test_ctrl_c_while_waiting(store):
    """Pyro5 #51: it ends the call, and the connection stays good."""
    entered = rmi.future(store.has_entered)()

    def press():
        entered.result(30)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        store.wait()
    pressing.join()
    assert store.add(1, 2) == 3


def test_a_batch(store):
    with rmi.batch(store) as calls:
        results = [calls.add(each, each) for each in range(100)]
        wrong = calls.refuse("no")
        unpackable = calls.returns_unpackable()
        with pytest.raises(RuntimeError, match="after the block"):
            wrong.result()
    assert [result.result() for result in results] == [each * 2 for each in range(100)]
    with pytest.raises(ValueError, match="no"):
        wrong.result()
    with pytest.raises(rmi.NotPackable):
        unpackable.result()


def test_a_batch_of_calls_of_all_kinds(store):
    """Keywords, arguments that two calls share, and a generator, which cannot go in a batch."""
    shared = [1, 2]
    with rmi.batch(store) as calls:
        described = calls.described(1, two=2)
        same = [calls.same(shared), calls.same(shared)]
        stream = calls.count_to(3)
        with pytest.raises(AttributeError, match="no method '_private'"):
            calls._private()
        with pytest.raises(AttributeError, match="no method 'missing'"):
            calls.missing()
        assert not described.done()
    assert described.result() == store.described(1, two=2)
    assert [each.result() for each in same] == [[1, 2], [1, 2]]
    with pytest.raises(TypeError, match="in a batch"):
        stream.result()
    assert store.add(1, 2) == 3
