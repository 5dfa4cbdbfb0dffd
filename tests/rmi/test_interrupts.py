"""What a signal handler raises belongs to the main thread's wait, and to no call. An error of a value that is unpacked
harms that value alone."""

from __future__ import annotations

import signal
import threading

import pytest

from fastsock import rmi

from .objects import Brittle, Fragile


class Alarm(Exception):
    """What a signal handler raises."""


@pytest.fixture(params=[Alarm, TimeoutError, OSError, SystemExit, KeyboardInterrupt])
def kind(request):
    """The exception that the handler of SIGUSR1 raises."""

    def handler(_number, _frame):
        raise request.param("of a signal")

    before = signal.signal(signal.SIGUSR1, handler)
    yield request.param
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def interrupting(monkeypatch):
    """A value is interrupted while it is unpacked here."""

    def on_unpack():
        Fragile.on_unpack = None
        signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setattr(Fragile, "on_unpack", staticmethod(on_unpack))


def test_while_a_call_waits(store, kind):
    entered = rmi.future(store.has_entered)()

    def press():
        entered.result(30)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(kind, match="of a signal") as caught:
        store.wait()
    pressing.join()
    assert caught.type is kind
    assert rmi.future(store.add)(1, 2).result() == 3
    store.open()


def test_while_the_answer_of_the_call_is_unpacked(store, kind, interrupting):
    with pytest.raises(kind, match="of a signal"):
        store.fragile(1)
    assert store.fragile(2).number == 2


def test_while_the_answer_of_another_call_is_unpacked(store, kind, interrupting):
    other = rmi.future(store.fragile)(1)
    with pytest.raises(kind, match="of a signal"):
        store.wait()
    with pytest.raises(rmi.LostPeer, match="raised while a message was handled"):
        other.result(30)
    assert store.fragile(2).number == 2


def test_within_a_callback(store, kind):
    """The method that called back is told; what the handler raised is not taken for the answer of the call."""
    with pytest.raises(kind, match="of a signal") as caught:
        store.call(rmi.callback(lambda: signal.raise_signal(signal.SIGUSR1)))
    assert caught.type is kind
    assert store.add(1, 2) == 3


def test_within_a_callback_of_a_batch(store, kind):
    def ring():
        signal.raise_signal(signal.SIGUSR1)

    with pytest.raises(kind, match="of a signal"), rmi.batch(store) as calls:
        calls.call(rmi.callback(ring))
    assert store.add(1, 2) == 3


def test_while_the_answer_of_a_callback_is_packed(store, kind):
    class Ringing:
        """A value whose packing is interrupted."""

    def pack(_):
        signal.raise_signal(signal.SIGUSR1)

    rmi.register(Ringing, pack=pack, unpack=lambda _: None)
    with pytest.raises(kind, match="of a signal"):
        store.call(rmi.callback(lambda: Ringing()))
    assert store.add(1, 2) == 3


def test_within_a_generator_that_is_called_back(store, kind):
    def count():
        yield 1
        signal.raise_signal(signal.SIGUSR1)
        yield 2

    with pytest.raises(kind, match="of a signal"):
        store.call_to_the_end(rmi.callback(count))
    assert store.add(1, 2) == 3


def test_an_error_of_a_callback_is_its_own(store):
    """Of the same class, but no signal handler has raised it."""

    def late():
        raise TimeoutError("of the callback")

    with pytest.raises(TimeoutError, match="of the callback") as caught:
        store.call(rmi.callback(late))
    assert caught.type is TimeoutError


def test_an_item_that_cannot_be_unpacked_ends_its_stream(store, monkeypatch):
    def refuse():
        if Fragile.unpacked == 3:
            raise ValueError("the third one")

    monkeypatch.setattr(Fragile, "unpacked", 0)
    monkeypatch.setattr(Fragile, "on_unpack", staticmethod(refuse))
    stream = store.fragile_ones(1000)
    assert [next(stream).number, next(stream).number] == [0, 1]
    with pytest.raises(ValueError, match="the third one"):
        next(stream)
    assert Fragile.unpacked == 3
    assert list(stream) == []
    monkeypatch.setattr(Fragile, "on_unpack", None)
    assert store.fragile(1).number == 1


def test_a_request_for_whose_values_there_is_no_memory(store):
    """It is not unpacked again: the connection ends, and the call says so."""
    assert store.size({Brittle(): 1}) == 1
    for _ in range(30):  # other threads may come to the connection while it ends
        before = store.break_keys(True)
        with pytest.raises(rmi.LostPeer, match="can have run"):
            store.size({Brittle(): 1})
        assert store.break_keys(False) == before + 1


def test_an_answer_for_whose_values_there_is_no_memory(store, monkeypatch):
    waiting = rmi.future(store.wait)()
    assert store.has_entered()
    monkeypatch.setattr(Brittle, "breaks", True)
    monkeypatch.setattr(Brittle, "hashed", 0)
    with pytest.raises(rmi.LostPeer, match="MemoryError was raised"):
        store.brittle_key()
    assert Brittle.hashed == 1
    with pytest.raises(rmi.LostPeer, match="MemoryError was raised"):
        waiting.result(30)
    monkeypatch.setattr(Brittle, "breaks", False)
    assert len(store.brittle_key()) == 1


def test_a_value_that_takes_too_much_memory_fails_alone(store, monkeypatch):
    def refuse():
        raise MemoryError("for this value")

    monkeypatch.setattr(Fragile, "on_unpack", staticmethod(refuse))
    waiting = rmi.future(store.wait)()
    with pytest.raises(MemoryError, match="for this value"):
        store.fragile(1)
    store.open()
    assert waiting.result(30) == "opened"
