"""The lock of a connection's parts, under threads and signals."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time

import pytest

from fastsock.rmi.wire._locks import Lock

ROUNDS = 100_000 if os.environ.get("FASTSOCK_SOAK") else 4000
CONTENDERS = 4
HANGS_AFTER = 60.0


class Alarm(Exception):
    """What a signal handler raises."""


class Guarded:
    """A count that only the holder of the lock changes, and who is within."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.within = 0
        self.most = 0
        self.count = 0

    def add(self, generator: random.Random) -> None:
        """Once more, with the lock. Other threads run meanwhile, and find it taken."""
        with self.lock:
            self.within += 1
            try:
                self.most = max(self.most, self.within)
                before = self.count
                if generator.random() < 0.3:
                    os.sched_yield()  # without the interpreter's lock
                self.count = before + 1
            finally:
                self.within -= 1


@pytest.fixture
def eager():
    """Threads take turns at every chance."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def alarms():
    """Where it is not empty, SIGUSR1 raises once in the main thread. Elsewhere it only ends a system call."""
    armed: list[bool] = []

    def handler(_number, _frame):
        if armed:
            armed.clear()
            raise Alarm

    before = signal.signal(signal.SIGUSR1, handler)
    yield armed
    armed.clear()
    signal.signal(signal.SIGUSR1, before)


def begun(function, *arguments):
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def ended(thread):
    thread.join(HANGS_AFTER)
    return not thread.is_alive()


def contend(guarded, seed, made):
    generator = random.Random(seed)
    for _ in range(ROUNDS):
        guarded.add(generator)
    made.append(ROUNDS)


@pytest.mark.usefixtures("eager")
def test_one_at_a_time():
    guarded, made = Guarded(), []
    threads = [begun(contend, guarded, seed, made) for seed in range(CONTENDERS)]
    assert all(map(ended, threads))
    assert guarded.most == 1
    assert guarded.count == sum(made) == CONTENDERS * ROUNDS
    assert not guarded.lock.locked()


@pytest.mark.usefixtures("eager")
def test_signals_that_raise_in_a_thread_that_waits(alarms):
    """The one that was interrupted has gone without the lock. Nobody else waits for ever, no ring is lost."""
    guarded, made = Guarded(), []
    threads = [begun(contend, guarded, seed, made) for seed in range(CONTENDERS)]
    done = threading.Event()

    def ring():
        generator = random.Random(0)
        targets = [threading.main_thread(), threading.main_thread(), *threads]
        while not done.is_set():
            target = generator.choice(targets)
            if target.is_alive():
                signal.pthread_kill(target.ident, signal.SIGUSR1)
            time.sleep(generator.random() * 1e-4)  # the signals' random times are the test

    ringing = begun(ring)
    generator = random.Random(CONTENDERS)
    raised = held = 0
    until = time.monotonic() + HANGS_AFTER
    while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
        try:
            alarms.append(True)
            guarded.add(generator)
            alarms.clear()
            held += 1
        except Alarm:
            raised += 1
    done.set()
    assert ended(ringing)
    assert len(made) == CONTENDERS
    assert raised
    alarms.clear()
    guarded.add(generator)  # the lock serves on
    assert guarded.most == 1
    assert guarded.count >= sum(made) + held + 1
    assert not guarded.lock.locked()


def test_a_wait_that_is_interrupted(alarms):
    """Again and again, while another thread holds the lock: it stays with that one, and is free after that."""
    lock = Lock()
    letting_go = threading.Event()
    taken = threading.Event()

    def hold():
        with lock:
            taken.set()
            letting_go.wait(HANGS_AFTER)

    holding = begun(hold)
    assert taken.wait(HANGS_AFTER)
    stopped = threading.Event()

    def ring():
        while not stopped.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            time.sleep(1e-5)  # between two signals: synchronises nothing

    ringing = begun(ring)
    interruptions = 0
    while interruptions < 1000:
        try:
            alarms.append(True)
            lock.acquire()
            break
        except Alarm:
            interruptions += 1
    alarms.clear()
    stopped.set()
    assert ended(ringing)
    assert interruptions == 1000
    assert lock.locked()
    assert not lock.acquire(False)
    letting_go.set()
    assert ended(holding)
    assert lock.acquire()
    assert not lock.acquire(False)
    lock.release()
    assert not lock.locked()


def test_another_thread_may_let_it_go():
    lock = Lock()
    assert lock.acquire()
    waiting = begun(lock.acquire)
    lock.release()
    assert ended(waiting)
    assert lock.locked()
    assert ended(begun(lock.release))
    assert not lock.locked()
