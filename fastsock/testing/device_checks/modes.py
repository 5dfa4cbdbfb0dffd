"""Synchronous sends, eager and rendezvous, truncation, both ways at once, bounded memory."""

from __future__ import annotations

from dataclasses import replace

from ..memory import PeakGrowth
from ..ranks import RankMaker, on_ranks

MIB = 1 << 20


@on_ranks(2)
def check_synchronous_send_waits_for_the_receive(device):
    if device.id() == 0:
        for size in (0, 10, MIB):
            request = device.issend(bytes(size), 1, 1)
            device.send("sent before the other received", 1, 2)
            device.recv(None, 1, 3)
            assert request.itest() is None, "complete before its receive began"
            device.send("go", 1, 4)
            request.iwait()
    else:
        for size in (0, 10, MIB):
            device.recv(None, 0, 2)
            device.send(b"", 0, 3)
            device.recv(None, 0, 4)
            assert device.recv(None, 0, 1).length == size


@on_ranks(2)
def check_ssend(device):
    if device.id() == 0:
        for size in (0, 10, MIB):
            device.ssend(bytes(size), 1, 1)
    else:
        for size in (0, 10, MIB):
            assert device.recv(None, 0, 1).length == size


@on_ranks(2)
def check_synchronous_to_oneself(device):
    me = device.id()
    request = device.issend(b"x", me, 1)
    assert request.itest() is None
    assert device.recv(None, me, 1).value == b"x"
    request.iwait()


@on_ranks(2)
def check_short_sends_complete_without_a_receive(device):
    if device.id() == 0:
        for _ in range(10):
            device.send(bytes(1000), 1, 1)
        device.send(b"", 1, 2)
    else:
        device.recv(None, 0, 2)
        for _ in range(10):
            assert device.recv(None, 0, 1).length == 1000


def _limit(device):
    """Beyond the limit a send waits for its receive; up to it, it does not."""
    if device.id() == 0:
        device.send(bytes(1900), 1, 1)
        late = device.isend(bytes(2100), 1, 1)
        device.send(b"", 1, 2)
        device.recv(None, 1, 3)
        assert late.itest() is None, "a message beyond the limit left before its receive began"
        device.send(b"", 1, 4)
        late.iwait()
    else:
        device.recv(None, 0, 2)
        device.send(b"", 0, 3)
        device.recv(None, 0, 4)
        assert [device.recv(None, 0, 1).length for _ in range(2)] == [1900, 2100]


def _with_limit(maker: RankMaker, limit: str) -> RankMaker:
    return replace(maker, environment=(*maker.environment, ("FASTSOCK_MPJ_EAGER_LIMIT", limit)))


def check_the_limit_of_eager_messages_is_a_setting(maker: RankMaker) -> None:
    _with_limit(maker, "2K").run(2, _limit)


def _sizes(device):
    for size in (0, 1, 100, 5000, 300_000):
        if device.id() == 0:
            device.send(bytes(size), 1, 1)
        else:
            assert device.recv(None, 0, 1).length == size


def check_everything_by_rendezvous(maker: RankMaker) -> None:
    _with_limit(maker, "0").run(2, _sizes)


def check_everything_eager(maker: RankMaker) -> None:
    _with_limit(maker, "1G").run(2, _sizes)


@on_ranks(2)
def check_truncation(device):
    from fastsock.xxdev import Code, XxdevError

    for size in (20, 5000, 3 * MIB):
        if device.id() == 0:
            device.send(bytes(size), 1, 1)
            device.send(b"after", 1, 2)
            assert device.recv(None, 1, 3).value == "told"
            continue
        target = memoryview(bytearray(b"\xff") * (size + 100))
        request = device.irecv(target[: size - 1], 0, 1)
        try:
            request.iwait()
        except XxdevError as error:
            assert error.code == Code.TRUNCATED, error
        else:
            raise AssertionError("a message longer than its buffer was received")
        assert bytes(target[size - 1 :]) == b"\xff" * 101, "written behind the buffer"
        assert device.recv(None, 0, 2).value == b"after"
        device.send("told", 0, 3)


@on_ranks(2)
def check_long_messages_both_ways_at_once(device):
    """Everybody sends first: no rank may wait for the other to receive before it does itself."""
    other = 1 - device.id()
    data = bytes([device.id()]) * (8 * MIB)
    for _ in range(3):
        sends = [device.isend(data, other, tag) for tag in range(4)]
        for tag in reversed(range(4)):
            came = device.recv(None, other, tag).value
            assert len(came) == len(data) and came[0] == came[-1] == other
        for each in sends:
            each.iwait()


@on_ranks(2)
def check_blocking_sends_both_ways_below_the_limit(device):
    other = 1 - device.id()
    for _ in range(100):
        device.send(bytes(30_000), other, 1)
        assert device.recv(None, other, 1).length == 30_000


@on_ranks(3)
def check_a_long_message_does_not_stop_short_ones(device):
    """A message whose receive never begins does not keep others of the pair from arriving."""
    if device.id() == 0:
        stuck = [device.isend(bytes(4 * MIB), 1, 100 + number) for number in range(3)]
        for number in range(200):
            device.send(number, 1, 1)
        device.send(b"", 1, 2)
        for each in stuck:
            each.iwait()
    elif device.id() == 1:
        for number in range(200):
            assert device.recv(None, 0, 1).value == number
        device.recv(None, 0, 2)
        for number in range(3):
            assert device.recv(None, 0, 102 - number).length == 4 * MIB


@on_ranks(2)
def check_unexpected_messages_use_bounded_memory(device):
    """100 MiB that nobody receives yet: the receiver's memory stays far below that, and all of it arrives."""
    count, size = 1600, 64 * 1024
    if device.id() == 0:
        block = bytes(size)
        sends = [device.isend(block, 1, 1) for _ in range(count)]
        device.send(b"all begun", 1, 2)
        for each in sends:
            each.iwait()
        return
    memory = PeakGrowth()
    device.recv(None, 0, 2)
    for _ in range(count):
        assert device.recv(None, 0, 1).length == size
    assert memory.kib() < 30_000, f"{memory.kib()} KiB more resident"


@on_ranks(2)
def check_thousands_of_outstanding_requests(device):
    other = 1 - device.id()
    count = 4000
    receives = [device.irecv(None, other, tag) for tag in range(count)]
    sends = [device.isend(tag * 3, other, tag) for tag in reversed(range(count))]
    for tag, each in enumerate(receives):
        assert each.iwait().value == tag * 3
    for each in sends:
        each.iwait()
