"""Ids, sends and receives, and what a status tells."""

from __future__ import annotations

import threading

from ..ranks import on_ranks


@on_ranks(3)
def check_ids(device):
    assert device.id() == device.job.rank
    assert 0 <= device.id() < 3


@on_ranks(2)
def check_send_and_receive(device):
    if device.id() == 0:
        device.send(b"hello", 1, 7)
        assert device.recv(None, 1, 8).value == b"back"
        return
    buffer = bytearray(9)
    status = device.recv(buffer, 0, 7)
    assert bytes(buffer) == b"hello\0\0\0\0"
    assert (status.source, status.tag, status.context, status.length) == (0, 7, 0, 5)
    assert status.count(1) == 5 and status.value is None and not status.cancelled
    device.send(b"back", 0, 8)


@on_ranks(2)
def check_given_status_is_filled(device):
    from fastsock.xxdev import Status

    if device.id() == 0:
        device.send(bytes(12), 1, 3, 5)
        return
    status = Status()
    request = device.irecv(bytearray(20), 0, 3, 5, status)
    assert request.iwait() is status
    assert (status.source, status.tag, status.context, status.length, status.count("f4")) == (0, 3, 5, 12, 3)


@on_ranks(4)
def check_everybody_to_everybody(device):
    me = device.id()
    for round_ in range(20):
        sends = [device.isend((me, other, round_), other, round_) for other in range(4)]
        for other in range(4):
            assert device.recv(None, other, round_).value == (other, me, round_)
        for each in sends:
            each.iwait()


@on_ranks(1)
def check_one_rank_alone(device):
    request = device.irecv(None, 0, 1)
    assert request.itest() is None
    device.send([1, 2], 0, 1)
    status = request.iwait()
    assert status.value == [1, 2] and status.source == 0
    device.send(b"kept until it is received", 0, 2)
    assert device.recv(None, 0, 2).value == b"kept until it is received"


@on_ranks(2)
def check_message_to_oneself(device):
    import numpy

    me = device.id()
    for size in (0, 1, 1000, 1 << 20):
        source = numpy.arange(size, dtype="u1")
        target = numpy.zeros_like(source)
        request = device.irecv(target, me, 4)
        device.send(source, me, 4)
        assert request.iwait().source == me
        assert (target == source).all()


@on_ranks(2)
def check_long_message_to_oneself_before_its_receive(device):
    me = device.id()
    data = bytes(range(256)) * 8192
    request = device.isend(data, me, 1)
    assert device.recv(None, me, 1).value == data
    request.iwait()


@on_ranks(2)
def check_all_sizes(device):
    """Around every limit that a protocol might have."""
    sizes = sorted({max(0, (1 << power) + extra) for power in range(0, 23, 1) for extra in (-65, -64, -1, 0, 1)})
    for size in sizes:
        block = bytes([size & 255]) * size
        if device.id() == 0:
            device.send(block, 1, 1)
            assert device.recv(None, 1, 1).length == size
        else:
            target = bytearray(size)
            assert device.recv(target, 0, 1).length == size
            assert target == block
            device.send(target, 0, 1)


@on_ranks(2)
def check_requests_complete_once(device):
    if device.id() == 0:
        request = device.isend([1], 1, 1)
        first = request.iwait()
        assert request.iwait() is first and request.itest() is first and request.done
        assert (first.source, first.tag) == (1, 1) or first.tag == 1
    else:
        request = device.irecv(None, 0, 1)
        value = request.iwait().value
        assert request.iwait().value is value


@on_ranks(2)
def check_finish_delivers_what_was_sent(device):
    """A rank that sent much and leaves at once takes nothing with it."""
    if device.id() == 0:
        for number in range(100):
            device.send(bytes(1000) + bytes([number]), 1, number)
        device.finish()
        return
    for number in reversed(range(100)):
        assert device.recv(None, 0, number).value == bytes(1000) + bytes([number])


@on_ranks(2)
def check_calls_after_finish_are_refused(device):
    from fastsock.xxdev import Code, XxdevError

    device.finish()
    device.finish()
    try:
        device.send(b"", 0, 1)
    except XxdevError as error:
        assert error.code == Code.CLOSED, error
    else:
        raise AssertionError("a send after finish() was accepted")


@on_ranks(2)
def check_impossible_arguments_are_refused(device):
    from fastsock.xxdev import Code, XxdevError

    for call in (
        lambda: device.send(b"", 2, 1),
        lambda: device.send(b"", -1, 1),
        lambda: device.send(b"", 0, -1),
        lambda: device.isend(b"", 0, 1 << 31),
        lambda: device.irecv(None, 0, -2),
        lambda: device.iprobe(0, 1 << 40),
        lambda: device.recv(None, 2, 1),
        lambda: device.recv(b"read-only", 0, 1),
        lambda: device.recv("no buffer", 0, 1),
        lambda: device.recv({}, 0, 1),
    ):
        try:
            call()
        except XxdevError as error:
            assert error.code == Code.ARGUMENT, error
            continue
        raise AssertionError("an impossible argument was accepted")


@on_ranks(2)
def check_several_threads_of_a_rank(device):
    """Each thread of one rank talks with its counterpart in the other, all at the same time."""
    me, other = device.id(), 1 - device.id()
    failures = []

    def talk(tag):
        try:
            for number in range(50):
                if me == 0:
                    device.send((tag, number), other, tag)
                    assert device.recv(None, other, tag).value == (tag, number)
                else:
                    device.send(device.recv(None, other, tag).value, other, tag)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=talk, args=(tag,)) for tag in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
