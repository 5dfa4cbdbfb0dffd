"""What is called at a time: the order, and that what was cancelled does not heap up."""

from __future__ import annotations

from fastsock.rmi.threads.timers import Timers


def test_the_earliest_comes_first():
    timers = Timers()
    for when in (3.0, 1.0, 2.0, 1.0):
        timers.add(when, print, when)
    assert timers.next_due() == 1.0
    assert timers.take_due(0.5) == []
    assert [arguments for _, arguments in timers.take_due(2.0)] == [(1.0,), (1.0,), (2.0,)]
    assert timers.next_due() == 3.0


def test_what_was_cancelled_is_not_called():
    timers = Timers()
    first, second = timers.add(1.0, print), timers.add(2.0, print)
    first.cancel()
    first.cancel()
    assert len(timers.take_due(5.0)) == 1
    second.cancel()  # too late
    assert timers.next_due() is None


def test_what_was_cancelled_does_not_heap_up():
    timers = Timers()
    kept = timers.add(1e9, print)
    for each in range(10_000):
        timers.add(1e6 + each, print).cancel()
    assert len(timers._heap) < 200
    kept.cancel()
    for _ in range(3):
        assert timers.take_due(2e9) == []
    assert timers._cancelled == 0
