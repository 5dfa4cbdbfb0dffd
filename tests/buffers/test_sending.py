"""Buffers between two processes: handed over, lent, copied; in the order of the stream."""

from __future__ import annotations

import gc
import os
import socket as plain
import threading

import pytest

from fastsock import buffers, core, socket

from ..helpers.paths import preferring
from . import far
from .conftest import within

pytestmark = pytest.mark.skipif(not core.available, reason=core.why_not)


def filled(values):
    buffer = buffers.RegisteredBuffer(len(values))
    buffer.view("u1")[:] = values
    return buffer


def run_far(pair, function, *arguments, **options):
    return pair.far.process.run(function, *arguments, **options)


def test_what_was_sent_arrives(stream):
    run_far(stream, far.expect)
    for size in (1, 7, 4096, 70001):
        values = [(size + i) % 251 for i in range(size)]
        with filled(values) as buffer:
            handed = buffers.send_buffer(stream.near, buffer)
            assert handed == (stream.path == "shm")
            assert run_far(stream, far.take) == values
            assert buffer.is_home == (not handed)
            run_far(stream, far.release)
            assert buffer.is_home
            assert buffer.view("u1").tolist() == values


def test_and_the_other_way(stream):
    buffers.expect(stream.near)
    handed = run_far(stream, far.send, [1, 2, 3])
    assert handed == (stream.path == "shm")
    with buffers.recv_buffer(stream.near) as received:
        assert received.view("u1").tolist() == [1, 2, 3]
        assert received.nbytes == 3


def test_between_other_bytes_of_the_stream(stream):
    run_far(stream, far.expect)
    for i in range(20):
        stream.near.sendall(b"before")
        buffer = filled([i] * 5000)
        buffers.send_buffer(stream.near, buffer)
        stream.near.sendall(b"behind")
        assert stream.far.recv(6) == b"before"
        assert run_far(stream, far.take) == [i] * 5000
        assert stream.far.recv(6) == b"behind"
        run_far(stream, far.release)


@pytest.mark.parametrize("region, seen", [(slice(2, 5), [2, 3, 4]), ((7, 3), [7, 8, 9]), (slice(-1, None), [9])])
def test_a_region(stream, region, seen):
    run_far(stream, far.expect)
    buffer = filled(range(10))
    buffers.send_buffer(stream.near, buffer, region)
    assert run_far(stream, far.take) == seen
    assert run_far(stream, far.describe) == (len(seen), True)


@pytest.mark.parametrize("region", [(5, 6), (-1, 2), (0, 0), (0, -1), (1 << 62, 1 << 62), slice(0, 10, 2), slice(5, 5)])
def test_a_region_that_it_has_not(stream, region):
    buffer = filled(range(10))
    with pytest.raises(ValueError):
        buffers.send_buffer(stream.near, buffer, region)
    assert buffer.view("u1").tolist() == list(range(10))


def test_views_hold_it_back(stream):
    run_far(stream, far.expect)
    buffer = filled(range(10))
    view = buffer.view("u1")[3:]
    for lend in (False, True):
        with pytest.raises(buffers.ReferencedError, match="views"):
            buffers.send_buffer(stream.near, buffer, lend=lend)
    del view
    buffers.send_buffer(stream.near, buffer)
    assert run_far(stream, far.take) == list(range(10))


def test_what_is_no_buffer(stream):
    with pytest.raises(TypeError, match="send_array"):
        buffers.send_buffer(stream.near, bytearray(10))


def test_a_released_one(stream):
    buffer = filled(range(10))
    buffer.release()
    with pytest.raises(ValueError, match="released"):
        buffers.send_buffer(stream.near, buffer)


def test_only_one_process_has_it(shared):
    run_far(shared, far.expect)
    buffer = filled(range(10))
    assert buffers.send_buffer(shared.near, buffer)
    for use in (
        lambda: buffer.view("u1"),
        lambda: memoryview(buffer),
        lambda: buffers.send_buffer(shared.near, buffer),
        lambda: buffers.send_buffer(shared.near, buffer, lend=True),
    ):
        with pytest.raises(buffers.ReferencedError, match=f"process {run_far(shared, far.number)} has it"):
            use()
    with pytest.raises(TimeoutError):
        buffer.wait(0.01)
    assert run_far(shared, far.take) == list(range(10))
    run_far(shared, far.write, 9)
    with pytest.raises(buffers.ReferencedError):
        buffer.view("u1")
    run_far(shared, far.release)
    buffer.wait(5)
    assert buffer.view("u1").tolist() == [9] * 10  # no byte was copied: it is the same memory


def test_lent_both_read_and_none_writes(shared):
    run_far(shared, far.expect)
    buffer = filled(range(10))
    reading = buffer.view("u1", readonly=True)
    assert buffers.send_buffer(shared.near, buffer, lend=True)
    assert run_far(shared, far.take) == list(range(10)) == reading.tolist()
    assert run_far(shared, far.describe) == (10, False)
    assert not buffer.view("u1").flags.writeable
    with pytest.raises(buffers.ReferencedError):
        buffers.send_buffer(shared.near, buffer)
    assert buffers.send_buffer(shared.near, buffer, lend=True)  # twice lent
    assert run_far(shared, far.take, "other") == list(range(10))
    run_far(shared, far.release)
    assert not buffer.view("u1").flags.writeable
    run_far(shared, far.release, "other")
    assert buffer.is_home
    del reading
    assert buffer.view("u1").flags.writeable


def test_a_borrower_does_not_hand_on_what_it_may_only_read(shared):
    run_far(shared, far.expect)
    buffers.expect(shared.near)
    buffer = filled(range(10))
    buffers.send_buffer(shared.near, buffer, lend=True)
    run_far(shared, far.take)
    with pytest.raises(buffers.ReferencedError, match="for reading"):
        run_far(shared, far.pass_on)
    assert run_far(shared, far.pass_on, lend=True)
    with buffers.recv_buffer(shared.near) as back:
        assert back.view("u1").tolist() == list(range(10))
        assert "until it releases" in run_far(shared, far.refusal)
    run_far(shared, far.release)
    assert buffer.is_home


def test_a_borrower_hands_on(shared):
    run_far(shared, far.expect)
    buffers.expect(shared.near)
    buffer = filled(range(10))
    buffers.send_buffer(shared.near, buffer)
    run_far(shared, far.take)
    assert run_far(shared, far.pass_on)
    back = buffers.recv_buffer(shared.near)
    back.view("u1")[0] = 77
    assert not buffer.is_home
    back.release()
    run_far(shared, far.release)
    assert buffer.view("u1")[0] == 77


def test_it_comes_back_from_a_borrower_that_drops_it(shared):
    run_far(shared, far.expect)
    buffer = filled(range(10))
    buffers.send_buffer(shared.near, buffer)
    run_far(shared, far.take)
    run_far(shared, far.hold_view)
    run_far(shared, far.drop)
    assert not buffer.is_home  # its view lives
    run_far(shared, far.drop, "view")
    assert buffer.is_home


def test_a_descriptor_goes_once(shared):
    run_far(shared, far.expect)
    with filled(range(10)) as first, filled(range(10)) as second:
        for buffer in (first, second):
            buffers.send_buffer(shared.near, buffer)
            run_far(shared, far.take)
            run_far(shared, far.release)
        known = run_far(shared, far.descriptors)
        for _ in range(100):
            for buffer in (first, second):
                assert buffers.send_buffer(shared.near, buffer)
                run_far(shared, far.take)
                run_far(shared, far.release)
        assert run_far(shared, far.descriptors) == known


def test_memory_that_is_no_more_is_forgotten(shared):
    run_far(shared, far.expect)
    counts = []
    for _ in range(30):
        with filled(range(10)) as buffer:
            assert buffers.send_buffer(shared.near, buffer)
            run_far(shared, far.take)
            run_far(shared, far.release)
        del buffer
        gc.collect()
        counts.append(len(run_far(shared, far.descriptors)))
    assert counts[-1] <= counts[3]


def test_it_is_copied_until_the_other_end_takes_buffers(shared):
    buffer = filled(range(10))
    assert not buffers.send_buffer(shared.near, buffer)
    assert buffer.is_home
    assert run_far(shared, far.take) == list(range(10))
    assert buffers.send_buffer(shared.near, buffer)
    assert run_far(shared, far.take) == list(range(10))


def test_the_last_one_arrives_although_its_sender_has_ended(shared):
    buffers.expect(shared.near)
    run_far(shared, far.send, [0])
    buffers.recv_buffer(shared.near).release()
    ending = shared.far.process.begin(far.send_and_end, [1, 2, 3])
    with pytest.raises(Exception, match="ended"):
        ending.result()
    with buffers.recv_buffer(shared.near) as received:
        assert received.view("u1").tolist() == [1, 2, 3]
    with pytest.raises(EOFError):
        buffers.recv_buffer(shared.near)


def test_the_end_of_the_stream(stream):
    stream.far.close()
    with pytest.raises((EOFError, ConnectionError)):
        buffers.recv_buffer(stream.near)


def test_more_than_may_come(stream):
    run_far(stream, far.send, [1] * 100)
    with pytest.raises(buffers.BufferFormatError, match="100"):
        buffers.recv_buffer(stream.near, max_bytes=99)


def test_a_timeout_before_a_buffer_may_be_repeated(stream):
    stream.near.settimeout(0.01)
    with pytest.raises(TimeoutError):
        buffers.recv_buffer(stream.near)
    run_far(stream, far.send, [1, 2, 3])
    stream.near.settimeout(10)
    assert buffers.recv_buffer(stream.near).view("u1").tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ("shm",))
def test_within_one_process(kind):
    with preferring(kind), within(kind) as (one, other):
        buffers.expect(other)
        buffer = filled(range(10))
        assert buffers.send_buffer(one, buffer)
        received = buffers.recv_buffer(other)
        received.view("u1")[0] = 9
        received.release()
        assert buffer.view("u1")[0] == 9


def test_a_connection_that_is_closed_gives_back_what_nobody_took(shared):
    run_far(shared, far.expect)
    buffer = filled(range(10))
    assert buffers.send_buffer(shared.near, buffer)
    assert not buffer.is_home
    shared.far.close()
    buffer.wait(5)
    assert buffer.view("u1").tolist() == list(range(10))


@pytest.mark.parametrize("first", ["socket", "channel"])
def test_also_where_a_collection_of_garbage_takes_the_connection(shared, first):
    run_far(shared, far.expect)
    buffer = filled(range(10))
    assert buffers.send_buffer(shared.near, buffer)
    run_far(shared, far.lose_in_a_circle, first)
    buffer.wait(5)
    assert buffer.view("u1").tolist() == list(range(10))


@pytest.mark.parametrize("first", ["channel", "closed"])
def test_a_channel_in_a_circle_tells_of_its_end(first):
    """Whatever a collection of garbage clears first: also the function that it is to call."""
    told = []
    doorbell, other = plain.socketpair()
    segment, memory = core.Segment.make(1 << 16)
    os.close(memory)
    parts = {"channel": core.Channel(segment, doorbell.detach(), core.CONNECTED), "closed": lambda: told.append(first)}
    parts["channel"].show_importer(5, parts["closed"])
    parts["itself"], held = parts, parts[first]
    around = [parts]
    del parts
    gc.collect()  # what is found only through others is looked at behind them from now on
    del around, held
    gc.collect()
    assert told == [first]
    other.close()


def test_a_borrower_that_a_collection_of_garbage_takes(shared):
    """A finalizer brings it back: but its memory has gone back to its owner."""
    run_far(shared, far.expect)
    buffer = filled(range(10))
    assert buffers.send_buffer(shared.near, buffer)
    run_far(shared, far.take)
    assert "released" in run_far(shared, far.bring_back)
    buffer.wait(5)
    assert buffer.view("u1").tolist() == list(range(10))


def test_also_where_its_sender_has_closed_first(shared):
    run_far(shared, far.expect)
    buffer = filled(range(10))
    assert buffers.send_buffer(shared.near, buffer)
    shared.near.close()
    assert not buffer.is_home
    assert run_far(shared, far.take) == list(range(10))
    run_far(shared, far.release)
    buffer.wait(5)


def test_what_is_out_outlives_the_connection(shared):
    run_far(shared, far.expect)
    buffer = filled(range(10))
    assert buffers.send_buffer(shared.near, buffer)
    run_far(shared, far.take)
    shared.near.close()
    shared.far.close()
    assert not buffer.is_home
    run_far(shared, far.write, 5)
    run_far(shared, far.release)
    buffer.wait(5)
    assert buffer.view("u1").tolist() == [5] * 10


def test_threads_on_connections_of_their_own(shared):
    def exchange(errors):
        try:
            with within("shm") as (one, other):
                buffers.expect(other)
                pool = buffers.Pool(2, 4096)
                for i in range(300):
                    buffer = pool.take(5)
                    buffer.view("u1")[:] = i % 256
                    assert buffers.send_buffer(one, buffer)
                    buffer.release()
                    with buffers.recv_buffer(other) as received:
                        assert received.view("u1")[4095] == i % 256
        except BaseException as error:
            errors.append(error)

    errors: list[BaseException] = []
    threads = [threading.Thread(target=exchange, args=(errors,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_a_stranger_to_the_interface_is_not_touched(shared):
    before = run_far(shared, far.descriptors)
    shared.near.sendall(b"x" * 100)
    assert shared.far.recv(100) == b"x" * 100
    assert run_far(shared, far.descriptors) == before


def test_a_plain_socket_pair_copies():
    one, other = socket.socketpair()
    with one, other:
        buffer = filled(range(10))
        assert not buffers.send_buffer(one, buffer)
        assert buffers.recv_buffer(other).view("u1").tolist() == list(range(10))
