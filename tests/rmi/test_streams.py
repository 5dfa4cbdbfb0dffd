"""Generators of another process."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

import pytest

from fastsock import rmi
from fastsock.rmi.wire.frames import WINDOW, WINDOW_BYTES

ITEMS = 1_000_000 if os.environ.get("FASTSOCK_SOAK") else 100_000


def test_a_generator_is_a_stream(store):
    assert list(store.count_to(3)) == [0, 1, 2]
    assert list(store.count_to(0)) == []
    assert sum(store.count_to(10_000)) == sum(range(10_000))


def test_an_async_generator_is_a_stream(store):
    assert list(store.count_later(500)) == list(range(500))


def test_iter(store):
    assert list(store) == [1, 2, 3]


def test_an_error_comes_behind_the_items(store):
    stream = store.breaks()
    assert next(stream) == 1
    with pytest.raises(ValueError, match="broken"):
        next(stream)


def test_leaving_early_closes_the_generator(store):
    with store.count_to(1 << 40) as stream:
        for each in stream:
            if each == 10:
                break
    while store.streams()[0] == 0:
        pass
    assert store.streams()[1] <= 2 * WINDOW


def test_a_dropped_stream_is_closed(store):
    stream = store.count_to(1 << 40)
    assert next(stream) == 0
    del stream
    while store.streams()[0] == 0:
        pass


def test_a_slow_reader_holds_the_generator_back(store):
    stream = store.count_to(1 << 40)
    assert next(stream) == 0
    for _ in range(5):
        assert store.streams()[1] <= WINDOW
    for _ in range(2 * WINDOW):
        next(stream)
    assert store.streams()[1] <= 4 * WINDOW
    stream.close()


def test_a_million_items(served):
    """rpyc #279: not one message for each way and item."""
    store = served.connect()
    before = store._rmi_target.connection.frames_sent
    assert sum(1 for _ in store.count_to(ITEMS)) == ITEMS
    assert store._rmi_target.connection.frames_sent - before <= 2 + ITEMS // (WINDOW // 2)


def test_large_items_beside_other_calls(store):
    """What is credited is what was taken: bytes of other calls are not counted, those of arrays are."""
    stop = threading.Event()

    def call():
        while not stop.is_set():
            store.same(bytes(100_000))

    other = threading.Thread(target=call)
    other.start()
    try:
        found = [array[0] for array in store.arrays(40, WINDOW_BYTES // 16)]
    finally:
        stop.set()
        other.join()
    assert found == list(range(40))


def test_streams_beside_each_other(store):
    streams = [store.count_to(1000) for _ in range(5)]
    assert [sum(row) for row in zip(*streams, strict=True)] == [5 * each for each in range(1000)]
    assert rmi.future(store.add)(1, 2).result() == 3


class Alarm(Exception):
    """What a signal handler raises."""


def test_a_signal_handler_that_raises_while_an_item_arrives(store):
    """Wherever it does: no item comes twice, and no later call is harmed."""
    stream = store.count_to(5)

    def alarm(frame, event, _argument):
        if event == "return" and frame.f_code.co_name == "arrived":
            raise Alarm

    sys.setprofile(alarm)
    try:
        with contextlib.suppress(Alarm):  # compiled, an item arrives whole
            next(stream)
    finally:
        sys.setprofile(None)
    try:
        rest = list(stream)
    except rmi.LostPeer as error:
        assert "Alarm was raised" in str(error)
    else:
        assert rest == sorted(set(rest))
    assert list(store.count_to(5)) == [0, 1, 2, 3, 4]
    assert store.add(1, 2) == 3
