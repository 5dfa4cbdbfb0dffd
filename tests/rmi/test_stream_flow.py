"""Streams under way: many items at one wait, credit, and threads that do not wait for a generator."""

from __future__ import annotations

import itertools
import sys
import threading

import pytest

from fastsock import rmi
from fastsock.rmi.wire.frames import WINDOW, WINDOW_BYTES
from fastsock.testing.process import FarProcess

from .conftest import KEY, until
from .objects import Fragile, Store

AT_ONCE = 32  # items that a reader takes at one wait
AROUND = (0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, WINDOW // 2, WINDOW, 3 * WINDOW + 1)
HANGS_AFTER = 30.0
LOCKED = getattr(sys, "_is_gil_enabled", lambda: True)()
SHARED = 20 * WINDOW if LOCKED else 5000 * WINDOW  # without the interpreter's lock threads meet anywhere, if seldom


def arrived(store, index):
    """Waits until the generator has gone on to that item."""
    until(lambda: store.streams()[1] >= index)


# ---- many items at one wait ----


def test_items_keep_their_order(store):
    """Whoever receives them: the reader, or a call between."""
    found = []
    for item in store.count_to(5 * WINDOW):
        found.append(item)
        if item % 7 == 0:
            assert store.add(item, 1) == item + 1
    assert found == list(range(5 * WINDOW))


def test_two_threads_share_a_stream(store):
    stream = store.count_to(SHARED)
    found: list[list[int]] = [[], []]
    threads = [threading.Thread(target=each.extend, args=(stream,)) for each in found]
    for each in threads:
        each.start()
    for each in threads:
        each.join(HANGS_AFTER)
        assert not each.is_alive()
    assert all(each == sorted(each) for each in found)
    assert sorted(found[0] + found[1]) == list(range(SHARED))


def test_a_stream_behind_a_full_one(store):
    """The items of one that nobody reads lie before those of another."""
    full = store.count_to(2 * WINDOW)
    arrived(store, WINDOW - 1)
    assert list(store.count_to(3 * WINDOW)) == list(range(3 * WINDOW))
    assert list(full) == list(range(2 * WINDOW))


@pytest.mark.parametrize("at", AROUND)
def test_an_item_fails_in_the_midst(store, monkeypatch, at):
    """Those before it come, then the error, and nothing behind it."""

    def refuse():
        if Fragile.unpacked == at + 1:
            raise ValueError("of this item")

    monkeypatch.setattr(Fragile, "unpacked", 0)
    monkeypatch.setattr(Fragile, "on_unpack", staticmethod(refuse))
    closed = store.streams()[0]
    stream = store.fragile_ones(1 << 40)
    found = []
    with pytest.raises(ValueError, match="of this item"):
        for item in stream:
            found.append(item.number)
    assert found == list(range(at))
    assert list(stream) == []
    until(lambda: store.streams()[0] == closed + 1)
    assert list(store.count_to(WINDOW)) == list(range(WINDOW))


@pytest.mark.parametrize("at", AROUND)
def test_leaving_where_items_have_come(store, at):
    """The generator is closed, no later stream gives what was left."""
    closed = store.streams()[0]
    with store.count_to(1 << 40) as stream:
        arrived(store, WINDOW - 1)
        assert list(itertools.islice(stream, at)) == list(range(at))
    assert list(stream) == []
    until(lambda: store.streams()[0] == closed + 1)
    assert list(store.count_to(2 * WINDOW)) == list(range(2 * WINDOW))


# ---- credit ----


def test_credit_in_items(store):
    """The generator is never further than the window before its reader, and always half of it."""
    stream = store.count_to(1 << 40)
    for taken in range(1, 4 * WINDOW + 1):
        assert next(stream) == taken - 1
        if taken % 61 == 0 or taken % (WINDOW // 2) == 0:
            arrived(store, taken + WINDOW // 2 - 1)
            assert store.streams()[1] < taken + WINDOW
    stream.close()


def test_credit_in_bytes(store):
    """The last of the items may begin within the window and end behind it."""
    ahead = 8
    stream = store.arrays(1 << 40, WINDOW_BYTES // ahead // 8)
    for taken in range(1, 4 * ahead + 1):
        assert next(stream)[0] == taken - 1
        arrived(store, taken + ahead // 2 - 2)
        assert store.streams()[1] <= taken + ahead
    stream.close()


def test_each_stream_has_its_own_credit(store):
    """A reader that stands still holds back its own generator alone."""
    slow = store.count_to(1 << 40)
    assert next(slow) == 0
    assert sum(1 for _ in store.arrays(10 * WINDOW, 1)) == 10 * WINDOW
    assert list(itertools.islice(slow, 10 * WINDOW)) == list(range(1, 10 * WINDOW + 1))
    slow.close()


# ---- a generator that stands still ----


@pytest.fixture(params=[3, WINDOW + WINDOW // 4])
def at(request):
    """Where it does: in the thread that was called, or in the one that goes on with the stream on credit."""
    return request.param


@pytest.fixture
def reading(store, at):
    """A thread reads a stream whose generator stands still. -> (what it has read, the thread)"""
    found = []

    def read():
        found.extend(store.count_gated(3 * WINDOW, at))

    thread = threading.Thread(target=read)
    thread.start()
    assert rmi.future(store.has_entered)().result(HANGS_AFTER)
    yield found, thread
    rmi.future(store.open)().result(HANGS_AFTER)
    thread.join(HANGS_AFTER)
    assert not thread.is_alive()
    assert found == list(range(3 * WINDOW))


@pytest.mark.usefixtures("reading")
def test_calls_beside_it_are_answered(store, served):
    for each in range(100):
        assert store.add(each, 1) == each + 1
    assert served.connect(timeout=HANGS_AFTER).add(1, 2) == 3
    assert list(store.count_to(3 * WINDOW)) == list(range(3 * WINDOW))


def test_calls_of_the_reader_are_answered(store, at):
    """Its function has returned: what the same thread calls next runs, and may be what the generator waits for."""
    with store.count_gated(3 * WINDOW, at) as stream:
        found = list(itertools.islice(stream, at))
        assert store.has_entered()
        assert store.add(1, 2) == 3
        store.log("a line")
        assert store.logged() == ["a line"]
        store.open()
        found += stream
    assert found == list(range(3 * WINDOW))


def test_leaving_it(store, at):
    """The generator is closed where it stands, as soon as it goes on."""
    with store.count_gated(3 * WINDOW, at) as stream:
        list(itertools.islice(stream, at))
        assert rmi.future(store.has_entered)().result(HANGS_AFTER)
    assert rmi.future(store.streams)().result(HANGS_AFTER)[0] == 0
    rmi.future(store.open)().result(HANGS_AFTER)
    until(lambda: store.streams()[0] == 1)
    assert store.add(1, 2) == 3


def test_closing_its_connection(served, store, at):
    other = served.connect(timeout=HANGS_AFTER)
    stream = other.count_gated(3 * WINDOW, at)
    list(itertools.islice(stream, at))
    assert store.has_entered()
    rmi.close(other)
    with pytest.raises(rmi.LostPeer):
        list(stream)
    assert store.streams()[0] == 0
    store.open()
    until(lambda: store.streams()[0] == 1)


def read_and_stay(here, name, at):
    """In another process: reads up to where the generator stands."""
    here.store = rmi.connect(f"rmi:{name}", Store, timeout=HANGS_AFTER)
    here.stream = here.store.count_gated(3 * WINDOW, at)
    return list(itertools.islice(here.stream, at))


def test_a_killed_reader(served, store, at, monkeypatch):
    monkeypatch.setenv("FASTSOCK_RMI_KEY", KEY)
    with FarProcess() as reader:
        assert reader.run(read_and_stay, served.name, at) == list(range(at))
        assert store.has_entered()
        reader.kill()
        reader.wait()
    assert store.add(1, 2) == 3
    store.open()
    until(lambda: store.streams()[0] == 1)


def test_a_killed_generator(served, store, at):
    """Those items that had come are given, then the reader is told."""
    stream = store.count_gated(3 * WINDOW, at)
    found = list(itertools.islice(stream, at))
    assert rmi.future(store.has_entered)().result(HANGS_AFTER)
    served.far.kill()
    served.far.wait()
    with pytest.raises(rmi.LostPeer):
        found += stream
    assert found == list(range(at))
