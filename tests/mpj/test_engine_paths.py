"""The message engine over every path, its ranks being threads."""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import threading
import time

import pytest

from .engines import PATHS, core, join, joined

requests = pytest.importorskip("fastsock.core.binding._requests")

ANY = requests.ANY
HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()  # the interpreter's
REMOTE = [path for path in PATHS if path != "local"]


def together(*functions):
    """Runs them in threads; the first exception is raised here."""
    failures = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert failures or not thread.is_alive(), "a rank hangs"
        if failures:
            raise failures[0]


def progressing(engine, condition):
    while not condition():
        engine.progress()


@pytest.fixture(params=PATHS)
def path(request):
    return request.param


def test_messages_of_every_size_come_back(path):
    sizes = [0, 1, 8, 31, 32, 33, 1000, 65535, 131072, 131073, 1 << 20, 5_000_001]

    def echo():
        for _ in sizes:
            payload, envelope = b.recv_new(0, ANY, 0)
            b.send(payload, 0, envelope.tag + 1, 0)

    def call():
        for tag, size in enumerate(sizes):
            data, back = os.urandom(size), bytearray(size)
            a.send(data, 1, 2 * tag, 0)
            assert a.recv(back, 1, 2 * tag + 1, 0).length == size
            assert back == data

    with joined(2, path) as (a, b):
        together(echo, call)


def test_both_send_large_messages_before_either_receives(path):
    size = 3_000_000

    def exchange(engine, other):
        data = bytes([engine.rank]) * size
        requests = [engine.isend(data, other, 0, 0) for _ in range(5)]
        for _ in range(5):
            buffer = bytearray(size)
            engine.recv(buffer, other, 0, 0)
            assert buffer == bytes([other]) * size
        assert engine.wait_all(requests)

    with joined(2, path) as (a, b):
        together(lambda: exchange(a, 1), lambda: exchange(b, 0))


def test_small_messages_both_ways_before_either_receives(path):
    count, size = 300, 1000

    def exchange(engine, other):
        for number in range(count):
            engine.send(number.to_bytes(4, "little") + bytes(size), other, 0, 0)
        buffer = bytearray(size + 4)
        for number in range(count):
            engine.recv(buffer, other, 0, 0)
            assert int.from_bytes(buffer[:4], "little") == number

    with joined(2, path) as (a, b):
        together(lambda: exchange(a, 1), lambda: exchange(b, 0))


def test_order_holds_between_short_and_long_messages(path):
    chance = random.Random(7)
    sizes = [chance.choice((0, 10, 2000, 40_000, 200_000)) + 4 for _ in range(200)]

    def send():
        requests = [
            a.isend(number.to_bytes(4, "little") + bytes(size - 4), 1, number % 2, 0)
            for number, size in enumerate(sizes)
        ]
        assert a.wait_all(requests)

    def receive():
        last = [-1, -1]
        for _ in sizes:
            payload, envelope = b.recv_new(
                ANY, chance.choice((ANY, ANY, 0, 1)) if min(last) > 0 and max(last) < 150 else ANY, 0
            )
            number = int.from_bytes(memoryview(payload)[:4], "little")
            assert number % 2 == envelope.tag and number > last[envelope.tag] and envelope.length == sizes[number]
            assert number == last[envelope.tag] + 2 or last[envelope.tag] == -1
            last[envelope.tag] = number

    with joined(2, path, credit=300_000) as (a, b):
        together(send, receive)


def test_receives_in_any_order_progress_without_credit(path):
    count, size = 200, 10_000

    def send():
        assert a.wait_all(
            [a.isend(number.to_bytes(4, "little") + bytes(size), 1, number, 0) for number in range(count)]
        )

    def receive():
        buffer = bytearray(size + 4)
        for tag in reversed(range(count)):
            b.recv(buffer, 0, tag, 0)
            assert int.from_bytes(buffer[:4], "little") == tag

    with joined(2, path, credit=50_000) as (a, b):
        together(send, receive)


def test_thousands_outstanding(path):
    count = 3000
    order = list(range(count))
    random.Random(3).shuffle(order)

    def send():
        assert a.wait_all([a.isend(number.to_bytes(4, "little"), 1, number, 0) for number in order])

    def receive():
        buffers = [bytearray(4) for _ in range(count)]
        assert b.wait_all([b.irecv(buffers[tag], 0, tag, 0) for tag in range(count)])
        assert [int.from_bytes(buffer, "little") for buffer in buffers] == list(range(count))

    with joined(2, path) as (a, b):
        together(send, receive)


def test_synchronous_sends_end_when_they_are_matched(path):
    matched = threading.Event()

    def send():
        for size in (0, 10, 1_000_000):
            request = a.isend(bytes(size), 1, 5, 0, requests.SYNCHRONOUS)
            a.send(b"", 1, 6, 0)
            assert not request.wait(timeout=0.05)
            matched.set()
            assert request.wait()

    def receive():
        for size in (0, 10, 1_000_000):
            b.recv(None, 0, 6, 0)
            assert b.probe(0, 5, 0).length == size
            progressing(b, matched.is_set)
            matched.clear()
            assert b.recv(bytearray(size), 0, 5, 0).length == size

    with joined(2, path) as (a, b):
        together(send, receive)


@pytest.mark.parametrize("size", [100, 1_000_000])
def test_cancelling_a_send(path, size):
    def send():
        request = a.isend(bytes(size), 1, 0, 0, requests.SYNCHRONOUS)
        a.send(b"", 1, 1, 0)
        assert request.cancel()
        assert request.wait() and request.envelope.cancelled
        second = a.isend(bytes(size), 1, 2, 0, requests.SYNCHRONOUS)
        a.recv(None, 1, 3, 0)
        second.cancel()
        assert second.wait() and not second.envelope.cancelled
        a.send(b"", 1, 4, 0)

    def receive():
        b.recv(None, 0, 1, 0)
        matched = b.mprobe(0, 2, 0)
        b.send(b"", 0, 3, 0)
        for _ in range(1000):
            b.progress()
        assert b.iprobe(0, 0, 0) is None
        assert matched.irecv(bytearray(size)).wait()
        b.recv(None, 0, 4, 0)

    with joined(2, path) as (a, b):
        together(send, receive)


@pytest.mark.parametrize("size", [100, 100_000, 1_000_000])
def test_truncation(path, size):
    def receive():
        for early in (True, False):
            if not early:
                b.probe(0, 0, 0)
            with pytest.raises(requests.MessageError) as caught:
                b.recv(bytearray(50), 0, 0, 0)
            assert caught.value.code == requests.TRUNCATED
            b.send(b"", 0, 1, 0)

    def send():
        for _ in range(2):
            a.send(bytes(size), 1, 0, 0)
            a.recv(None, 1, 1, 0)

    with joined(2, path) as (a, b):
        together(send, receive)


def test_gathered_and_scattered(path):
    parts = [os.urandom(size) for size in (5, 0, 100_000, 1, 300_000)] + [b"x"] * 40

    def send():
        a.send(parts, 1, 0, 0)
        a.send(parts[:1] * 3, 1, 0, 0)

    def receive():
        into = [bytearray(200_000), bytearray(7), bytearray(300_000)]
        envelope = b.recv(into, 0, 0, 0)
        assert b"".join(into)[: envelope.length] == b"".join(parts)
        payload, _ = b.recv_new(0, 0, 0)
        assert bytes(payload) == parts[0] * 3

    with joined(2, path) as (a, b):
        together(send, receive)


def test_long_and_short_ones_into_memory_of_every_shape(path):
    """Whole, in small parts, and too short for what comes; ready before it comes, or later."""
    chance = random.Random(11)
    sizes = [chance.choice((0, 8, 3000, 20_000, 65_536, 70_000, 131_072, 131_073, 600_000)) for _ in range(240)]
    rooms = [(chance.choice(("whole", "parts", "short")), size) for size in sizes]

    def content(number, size):
        return random.Random(number).randbytes(size)

    def room(kind, size):
        if kind == "parts":
            return [bytearray(size // 20) for _ in range(19)] + [bytearray(size - size // 20 * 19)]
        return [bytearray(size if kind == "whole" else size // 2)]

    def send():
        for first in range(0, len(sizes), 8):
            window = range(first, first + 8)
            assert a.wait_all([a.isend(content(number, sizes[number]), 1, 0, 0) for number in window])
            a.recv(None, 1, 1, 0)

    def receive():
        for first in range(0, len(sizes), 8):
            window = range(first, first + 8)
            into = [room(*rooms[number]) for number in window]
            if first % 16:
                b.probe(0, 0, 0)
            requests = [b.irecv(parts, 0, 0, 0) for parts in into]
            assert b.wait_all(requests)
            for number, parts, request in zip(window, into, requests, strict=True):
                got = b"".join(parts)
                assert got == content(number, sizes[number])[: len(got)], (number, rooms[number])
                assert (request.error is None) == (len(got) == sizes[number])
            b.send(None, 0, 1, 0)

    with joined(2, path) as (a, b):
        together(send, receive)


def test_many_senders_to_one(path):
    ranks, count = 4, 100

    def send(engine):
        for number in range(count):
            engine.send(bytes([number]) * (1 if number % 10 else 200_000), 0, engine.rank, 0)

    def receive():
        last = [-1] * ranks
        for _ in range((ranks - 1) * count):
            payload, envelope = engines[0].recv_new(ANY, ANY, 0)
            assert envelope.tag == envelope.source
            assert memoryview(payload)[0] == last[envelope.source] + 1
            last[envelope.source] += 1

    with joined(ranks, path) as engines:
        together(receive, *(lambda engine=engine: send(engine) for engine in engines[1:]))


def test_threads_of_one_rank_call_at_once(path):
    def exchange(engine, other, tag):
        for number in range(100):
            size = 100_000 if number % 10 == 0 else 8
            request = engine.irecv_new(other, tag, 0)
            engine.send(number.to_bytes(4, "little") + bytes(size), other, tag, 0)
            request.wait()
            assert int.from_bytes(memoryview(request.payload)[:4], "little") == number

    with joined(2, path) as (a, b):
        together(*(lambda pair=pair, tag=tag: exchange(*pair, tag) for tag in range(3) for pair in ((a, 1), (b, 0))))


def test_threads_of_one_rank_start_probe_and_test_at_once(path):
    """Beside a thread that only computes. Each message arrives once, and those of a thread in their order."""
    count, over = 150, threading.Event()

    def compute():
        while not over.is_set():
            sum(range(1000))

    def send(tag):
        waiting = []
        for number in range(count):
            data = number.to_bytes(4, "little") * (20_000 if number % 50 == 0 else 1)
            waiting.append(a.isend(data, 1, tag, 0))
            if number % 7 == 0:
                progressing(a, waiting.pop(0).test)
        for request in waiting:
            progressing(a, lambda request=request: request.test())

    def receive(tag):
        for number in range(count):
            progressing(b, lambda: b.iprobe(0, tag, 0) is not None)
            into = bytearray(b.iprobe(0, tag, 0).length)
            request = b.irecv(into, 0, tag, 0)
            progressing(b, request.test)
            assert request.error is None and into == number.to_bytes(4, "little") * (len(into) // 4)

    def work():
        try:
            together(*(lambda tag=tag, do=do: do(tag) for tag in range(3) for do in (send, receive)))
        finally:
            over.set()

    with joined(2, path) as (a, b):
        together(compute, work)


@pytest.mark.skipif(not HAS_LOCK, reason="there is no interpreter's lock to keep")
def test_who_waits_for_an_engine_keeps_no_other_thread_waiting():
    """One thread copies a long message with the engine's lock, another one asks the engine, a third one goes on."""
    data, target = bytes(1 << 26), bytearray(1 << 26)
    asked, begun, over = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
    turns, gone_on = 0, []

    def go_on():
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0)  # gives the interpreter's lock away: a turn

    def copy():
        while asked.acquire() and not over.is_set():
            begun.release()
            a.send(data, 1, 0, 0)

    def ask():
        try:
            while len(gone_on) < 50 and not any(gone_on):
                into = b.irecv(target, 0, 0, 0)
                asked.release()
                begun.acquire()
                before, was_done = turns, into.done
                b.iprobe(0, 1, 0)
                if into.done and not was_done:  # it has waited for the copy
                    gone_on.append(turns - before)
                into.wait()
        finally:
            over.set()
            asked.release()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # no thread goes on but where another one lets it
    try:
        with joined(2, "local") as (a, b):
            together(ask, copy, go_on)
    finally:
        sys.setswitchinterval(interval)
    assert any(gone_on)


def test_a_flood_that_nobody_receives_is_bounded(path):
    with joined(2, path, credit=200_000) as (a, b):
        requests = [a.isend(bytes(1000), 1, 0, 0) for _ in range(2000)]
        for _ in range(2000):
            a.progress()
            b.progress()
        assert sum(request.done for request in requests) * 1000 < 400_000
        together(
            lambda: a.wait_all(requests),
            lambda: [b.recv(bytearray(1000), 0, 0, 0) for _ in requests],
        )


def test_callbacks_drive_what_follows(path):
    """A ring of requests that only callbacks keep going, while both wait for something else."""
    rounds = 50

    def start(engine, other, ends):
        state = {"number": 0, "buffer": bytearray(4)}

        def arrived(request):
            assert request.error is None
            state["number"] += 1
            if state["number"] == rounds:
                engine.send(b"", engine.rank, 9, 0)
                return
            again()

        def again():
            request = engine.irecv(state["buffer"], other, 1, 0)
            engine.isend(b"abcd", other, 1, 0)
            request.callback = arrived

        again()
        engine.recv(None, engine.rank, 9, 0)
        assert state["number"] == rounds
        ends.append(engine.rank)

    ends = []
    with joined(2, path) as (a, b):
        together(lambda: start(a, 1, ends), lambda: start(b, 0, ends))
    assert sorted(ends) == [0, 1]


@pytest.mark.parametrize("path", REMOTE)
def test_a_goodbye_is_no_failure_of_others(path):
    with joined(3, path) as (a, b, c):
        anyone = b.irecv(bytearray(1), ANY, 0, 0)
        a.send(b"last", 1, 7, 0)
        a.close()
        late = b.irecv(None, 0, 8, 0)
        with pytest.raises(requests.MessageError, match="finished"):
            late.wait()
        assert b.recv(bytearray(4), 0, 7, 0).length == 4
        c.send(b"x", 1, 0, 0)
        assert anyone.wait() and anyone.envelope.source == 2
        b.send(b"dropped", 0, 0, 0)
        with pytest.raises(requests.MessageError, match="finished"):
            b.isend(b"", 0, 0, 0, requests.SYNCHRONOUS).wait()


@pytest.mark.parametrize("path", REMOTE)
@pytest.mark.parametrize("size", [8, 50_000_000])
def test_a_peer_that_is_killed_ends_what_waits_for_it(path, size):
    one, three = core.Engine(0, 3), core.Engine(2, 3)
    join(one, three, "unix")

    def body(two):
        two.recv(bytearray(8), 0, 0, 0)
        two.recv(None, 0, 99, 0)

    child = fork_rank(one, 1, path, body)
    one.send(bytes(8), 1, 0, 0)
    waiting = [one.irecv(bytearray(8), 1, 1, 0), one.irecv(bytearray(8), ANY, 1, 0)]
    waiting.append(one.isend(bytes(size), 1, 5, 0, requests.SYNCHRONOUS))
    one.set_members(4, [2])
    apart = one.irecv(bytearray(8), ANY, 1, 4)
    assert not one.wait_all(waiting, timeout=0.01)
    os.kill(child, signal.SIGKILL)
    assert one.wait_all(waiting, timeout=10)
    os.waitpid(child, 0)
    for request in waiting:
        assert request.error.code == requests.PEER_FAILED and request.error.peer == 1
        assert "died" in str(request.error)
    assert not apart.done
    one.close(timeout=0)
    three.close(timeout=0)


def fork_rank(one, rank, path, body):
    """Runs `body` as that rank in a child process that ends with it."""
    if path == "shm":
        memory = core.create_segment(256 * 1024)
    near, far = socket.socketpair()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            near.close()
            # an engine is its process's: the child makes its own
            fresh = core.Engine(rank, one.size)
            if path == "shm":
                channel = core.Channel(core.Segment(memory), far.detach(), core.ACCEPTED, peer_pid=parent)
                fresh.attach_channel(one.rank, channel)
            else:
                fresh.attach_descriptor(one.rank, far.detach())
            body(fresh)
        finally:
            os._exit(0)
    far.close()
    if path == "shm":
        one.attach_channel(rank, core.Channel(core.Segment(memory), near.detach(), core.CONNECTED, peer_pid=child))
        os.close(memory)
    else:
        one.attach_descriptor(rank, near.detach())
    return child
