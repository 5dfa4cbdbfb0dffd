"""The message engine between ranks of one process, and to oneself."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from fastsock.testing.process import until_asleep

requests = pytest.importorskip("fastsock.core.binding._requests")

from fastsock import core  # noqa: E402

ANY = requests.ANY
HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()  # the interpreter's


@pytest.fixture
def engines():
    made = []

    def make(size, **options):
        ranks = [core.Engine(rank, size, **options) for rank in range(size)]
        made.extend(ranks)
        for one in ranks:
            for other in ranks:
                if one is not other:
                    one.attach_local(other.rank, other)
        return ranks

    yield make
    for engine in made:
        engine.close()


def in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    return thread


def when_asleep(function, *arguments):
    """Calls the function in a thread, once the thread that asks for it sleeps."""
    waiting = threading.get_native_id()
    return in_thread(lambda: (until_asleep(os.getpid(), waiting), function(*arguments)))


def test_a_message_to_oneself(engines):
    (engine,) = engines(1)
    buffer = bytearray(5)
    receive = engine.irecv(buffer, 0, 7, 0)
    assert not receive.done
    engine.send(b"hello", 0, 7, 0)
    assert receive.wait() and buffer == b"hello"
    assert (receive.envelope.source, receive.envelope.tag, receive.envelope.length) == (0, 7, 5)


def test_unexpected_messages_are_received_in_order(engines):
    a, b = engines(2)
    for number in range(100):
        a.send(bytes([number]), 1, number % 3, 0)
    seen = [[] for _ in range(3)]
    buffer = bytearray(1)
    for tag in (2, 0, 1):
        while b.iprobe(0, tag, 0) is not None:
            b.recv(buffer, 0, tag, 0)
            seen[tag].append(buffer[0])
    assert seen == [list(range(tag, 100, 3)) for tag in range(3)]


def test_wildcards_take_the_earliest(engines):
    a, b, c = engines(3)
    a.send(b"1", 2, 5, 0)
    b.send(b"2", 2, 4, 0)
    buffer = bytearray(1)
    first = c.recv(buffer, ANY, ANY, 0)
    assert (first.source, first.tag, bytes(buffer)) == (0, 5, b"1")
    second = c.recv(buffer, ANY, 4, 0)
    assert (second.source, second.tag, bytes(buffer)) == (1, 4, b"2")


def test_posted_receives_are_matched_in_order(engines):
    a, b = engines(2)
    buffers = [bytearray(1) for _ in range(3)]
    requests = [
        b.irecv(buffers[0], ANY, ANY, 0),
        b.irecv(buffers[1], 0, 1, 0),
        b.irecv(buffers[2], ANY, 1, 0),
    ]
    for number in b"xyz":
        a.send(bytes([number]), 1, 1, 0)
    assert b.wait_all(requests)
    assert b"".join(buffers) == b"xyz"


def test_contexts_are_apart(engines):
    a, b = engines(2)
    a.send(b"a", 1, 0, 8)
    assert b.iprobe(ANY, ANY, 9) is None
    assert b.iprobe(ANY, ANY, 8).length == 1
    payload, envelope = b.recv_new(ANY, ANY, 8)
    assert bytes(payload) == b"a" and envelope.source == 0


def test_gathered_and_scattered(engines):
    a, b = engines(2)
    a.send([b"ab", b"", b"cdefg"], 1, 0, 0)
    parts = [bytearray(3), bytearray(1), bytearray(9)]
    assert b.recv(parts, 0, 0, 0).length == 7
    assert parts == [b"abc", b"d", b"efg" + bytes(6)]


def test_a_synchronous_send_waits_for_its_receive(engines):
    a, b = engines(2)
    send = a.isend(b"s", 1, 0, 0, requests.SYNCHRONOUS)
    assert not send.test()
    matched = b.improbe(0, 0, 0)
    assert b.iprobe(0, 0, 0) is None
    assert not send.test()
    buffer = bytearray(1)
    assert matched.irecv(buffer).wait() and buffer == b"s"
    assert send.test()
    with pytest.raises(ValueError):
        matched.irecv(buffer)


def test_a_large_send_waits_and_is_copied_once(engines):
    a, b = engines(2, eager_limit=100)
    data = bytes(range(256)) * 100
    send = a.isend(data, 1, 0, 0)
    assert not send.done
    request = b.irecv_new(0, 0, 0)
    assert request.done and send.done
    assert bytes(request.payload) == data
    memoryview(request.payload)[:1] = b"x"


def test_truncation_is_an_error_of_the_receiver_only(engines):
    a, b = engines(2)
    for early in (True, False):
        buffer = bytearray(2)
        request = b.irecv(buffer, 0, 0, 0) if early else None
        send = a.isend(b"long", 1, 0, 0)
        request = request or b.irecv(buffer, 0, 0, 0)
        with pytest.raises(requests.MessageError, match="4 bytes, the buffer 2") as caught:
            request.wait()
        assert caught.value.code == requests.TRUNCATED and caught.value.peer == 0
        assert send.wait() and buffer == b"lo"


def test_cancelling(engines):
    a, b = engines(2, eager_limit=10)
    receive = b.irecv(bytearray(1), ANY, 0, 0)
    assert receive.cancel() and receive.done and receive.envelope.cancelled and receive.wait()
    send = a.isend(bytes(100), 1, 0, 0)
    assert send.cancel() and send.envelope.cancelled
    assert b.iprobe(ANY, ANY, 0) is None
    send = a.isend(bytes(100), 1, 0, 0)
    matched = b.improbe(0, 0, 0)
    assert not send.cancel()
    del matched
    assert send.wait() and not send.envelope.cancelled


def test_waiting_for_threads(engines):
    a, b = engines(2)

    def answer():
        buffer = bytearray(8)
        for _ in range(100):
            b.recv(buffer, 0, 0, 0)
            b.send(buffer, 0, 1, 0)

    thread = in_thread(answer)
    buffer = bytearray(8)
    for number in range(100):
        a.send(number.to_bytes(8, "little"), 1, 0, 0)
        a.recv(buffer, 1, 1, 0)
        assert int.from_bytes(buffer, "little") == number
    thread.join()


def test_wait_any_and_timeouts(engines):
    a, b = engines(2)
    requests = [b.irecv(bytearray(1), 0, tag, 0) for tag in range(100)]
    assert b.wait_any(requests, timeout=0.01) is None
    assert not b.wait_all(requests, timeout=0)
    assert not requests[0].wait(timeout=0.001)
    a.send(b"x", 1, 77, 0)
    assert b.wait_any(requests) == 77
    assert b.wait_any([]) is None and b.wait_all([])


def test_callbacks_run_in_others_waits(engines):
    a, b = engines(2)
    called = []
    first = b.irecv(bytearray(1), 0, 1, 0)

    def then(request):
        called.append(request)
        b.send(b"y", 1, 2, 0)

    first.callback = then
    second = b.irecv(bytearray(1), 1, 2, 0)
    thread = when_asleep(a.send, b"x", 1, 1, 0)
    assert second.wait()
    assert called == [first]
    thread.join()
    third = b.irecv(bytearray(1), 1, 2, 0)
    b.send(b"z", 1, 2, 0)
    third.callback = called.append
    assert called == [first, third]


def test_peek_gives_the_newest(engines):
    a, b = engines(2)
    one, two = (b.irecv(bytearray(1), 0, tag, 0) for tag in (1, 2))
    assert b.peek(timeout=0) is None
    a.send(b"1", 1, 1, 0)
    a.send(b"2", 1, 2, 0)
    assert b.peek() is two and b.peek() is one and b.peek(timeout=0) is None


def test_probe_waits(engines):
    a, b = engines(2)
    thread = when_asleep(a.send, b"xyz", 1, 3, 0)
    assert b.probe(ANY, ANY, 0).length == 3
    assert b.mprobe(0, 3, 0).irecv_new().wait()
    thread.join()


def test_a_missing_peer_is_asked_for_once(engines):
    asked = []
    one, two = core.Engine(0, 2), core.Engine(1, 2)
    one.on_missing = asked.append
    requests = [one.isend(bytes([number]), 1, 0, 0) for number in range(3)]
    assert asked == [1] and not any(request.done for request in requests)
    one.attach_local(1, two)
    two.attach_local(0, one)
    assert one.wait_all(requests)
    buffer = bytearray(1)
    for number in range(3):
        two.recv(buffer, 0, 0, 0)
        assert buffer[0] == number
    with pytest.raises(OSError, match="attached"):
        one.attach_local(1, two)
    one.close()
    two.close()


def test_failures_end_what_concerns_them(engines):
    a, b, c = engines(3)
    a.set_members(6, [2, 0])
    from_b = a.irecv(bytearray(1), 1, 0, 0)
    from_any = a.irecv(bytearray(1), ANY, 0, 0)
    others = a.irecv(bytearray(1), ANY, 0, 6)
    b.send(b"before", 0, 9, 0)
    a.fail(1, "rank 1 on host x was killed by signal 9")
    for request in (from_b, from_any):
        assert request.done and request.error.code == requests.PEER_FAILED and request.error.peer == 1
        assert "killed by signal 9" in str(request.error)
    assert not others.done
    with pytest.raises(requests.MessageError, match="killed"):
        a.send(b"", 1, 0, 0)
    with pytest.raises(requests.MessageError, match="killed"):
        a.recv(None, ANY, 0, 0)
    with pytest.raises(requests.MessageError, match="killed"):
        a.probe(1, 0, 0)
    assert a.recv(bytearray(6), 1, 9, 0).length == 6
    c.send(b"z", 0, 0, 6)
    assert others.wait()


def test_closing_ends_what_waits(engines):
    a, b = engines(2, eager_limit=1)
    send = a.isend(bytes(100), 1, 0, 0)
    late = b.irecv(bytearray(1), 0, 5, 0)
    failures = []

    def wait():
        try:
            a.recv(None, 1, 0, 0)
        except requests.MessageError as error:
            failures.append(error.code)

    thread = in_thread(wait)
    until_asleep(os.getpid(), thread.native_id)
    a.close()
    thread.join()
    assert failures == [requests.CLOSED]
    assert send.error.code in (requests.CLOSED, requests.PEER_FAILED)
    assert late.error.code == requests.PEER_FAILED and "finished" in str(late.error)
    with pytest.raises(requests.MessageError):
        a.send(b"", 0, 0, 0)


def test_a_message_lost_with_its_sender_keeps_its_place(engines):
    a, b, c = engines(3, eager_limit=1)
    a.isend(bytes(100), 1, 0, 0)
    a.send(b"x", 1, 0, 0)
    c.send(b"y", 1, 0, 0)
    a.close()
    with pytest.raises(requests.MessageError, match="finished") as told:
        b.iprobe(ANY, ANY, 0)
    assert told.value.peer == 0
    with pytest.raises(requests.MessageError, match="finished"):
        b.recv(bytearray(100), ANY, ANY, 0)
    buffer = bytearray(1)
    for content in b"xy":
        assert b.iprobe(ANY, ANY, 0).length == 1
        b.recv(buffer, ANY, ANY, 0)
        assert buffer[0] == content


def test_small_messages_that_nobody_receives_stay_bounded(engines):
    a, b = engines(2, credit=10_000)
    requests = [a.isend(bytes(100), 1, 0, 0) for _ in range(1000)]
    assert sum(request.done for request in requests) < 100
    for _ in requests:
        b.recv(bytearray(100), 0, 0, 0)
    assert all(request.done for request in requests)


def test_many_threads_call_at_once(engines):
    a, b = engines(2)
    rounds, threads = 200, 4

    def exchange(engine, other, tag):
        buffer = bytearray(4)
        for number in range(rounds):
            request = engine.irecv(buffer, other, tag, 0)
            engine.send(number.to_bytes(4, "little"), other, tag, 0)
            request.wait()
            assert int.from_bytes(buffer, "little") == number

    running = [in_thread(exchange, *pair, tag) for tag in range(threads) for pair in ((a, 1), (b, 0))]
    for thread in running:
        thread.join()


def test_a_user_request_is_a_request_among_others(engines):
    a, b = engines(2)
    user_request, buffer = a.user_request(), bytearray(1)
    receive = a.irecv(buffer, 1, 0, 0)
    assert not user_request.done and a.wait_any([user_request, receive], timeout=0.01) is None
    receive.callback = lambda request: user_request.complete()
    sender = in_thread(b.send, b"x", 0, 0, 0)
    assert user_request.wait(10) and user_request.error is None and buffer == b"x"
    sender.join()
    with pytest.raises(ValueError, match="once"):
        user_request.complete()


@pytest.mark.skipif(not HAS_LOCK, reason="without the interpreter's lock the list holds what stands there")
def test_a_request_that_is_going_is_not_found_by_what_goes_with_it(engines):
    """The error's own end looks for the request that completed last."""
    (engine,) = engines(1)
    found = []

    class Looks(Exception):
        def __del__(self):
            found.append(engine.peek(0))

    user_request = engine.user_request()
    user_request.complete(Looks())
    del user_request
    assert found == [None]
    last = engine.user_request()
    last.complete()
    assert engine.peek(0) is last


def test_a_user_request_may_end_with_an_error(engines):
    (engine,) = engines(1)
    user_request, seen = engine.user_request(), []
    user_request.callback = seen.append
    waiter = in_thread(engine.wait_all, [user_request])
    user_request.complete(KeyError("why"))
    waiter.join(10)
    engine.progress()
    assert not waiter.is_alive() and seen == [user_request] and isinstance(user_request.error, KeyError)
    with pytest.raises(KeyError, match="why"):
        user_request.wait()
