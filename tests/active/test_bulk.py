"""Bulks: into the segment, into fresh arrays, into a pool; gets; both ends at once."""

from __future__ import annotations

import numpy
import pytest

from fastsock import active, buffers

from .conftest import Near, fresh_name
from .far import TAG, begin, connections, look

SIZES = (0, 1, 8192, 70_000, 1 << 20)
SEGMENT = 1 << 20


def some(size: int) -> numpy.ndarray:
    return (numpy.arange(size, dtype="u8") * 7 % 251).astype("u1")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offset", (None, 0))
def test_arrives_whole(near, size, offset):
    data = some(size)
    near.endpoint.request_bulk(0, 3, data, 4, 5, offset=offset)
    near.until()
    assert near.got == [(size, int(data.sum()), 4, 5)]


def test_any_contiguous_buffer(near):
    for data in (b"abc", bytearray(b"abc"), numpy.arange(1000, dtype="f8").reshape(10, 100)):
        near.endpoint.request_bulk(0, 3, data)
    near.until(3)
    assert [words[0] for words in near.got] == [3, 3, 8000]
    with pytest.raises((BufferError, ValueError)):
        near.endpoint.request_bulk(0, 3, numpy.arange(1000)[::2])
    assert near.call(1, 1) == (1,)


def test_from_a_registered_buffer(near):
    with buffers.RegisteredBuffer(8000) as buffer:
        buffer.view("u1")[:] = some(8000)
        near.endpoint.request_bulk(0, 3, buffer, 4)
        near.until()
        assert near.got == [(8000, int(some(8000).sum()), 4)]
        assert near.call(1, 1) == (1,)


@pytest.mark.parametrize(("offset", "size"), ((SEGMENT, 1), (SEGMENT - 10, 11), (2**64 - 1, 5), (0, SEGMENT + 1)))
def test_outside_of_the_segment_comes_back(near, offset, size):
    near.endpoint.request_bulk(0, 3, some(size), 6, offset=offset)
    near.until()
    (message,) = near.returned
    assert message.reason == active.Reason.OUTSIDE and message.words == (6,)
    assert near.call(1, 5) == (5,)


def test_longer_than_the_other_end_takes(near):
    with pytest.raises(ValueError, match="bulks of 67108864 bytes at most"):
        near.endpoint.request_bulk(0, 3, numpy.empty((64 << 20) + 1, "u1"))
    assert near.endpoint.entries[0].credits == (32, 8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offset", (-1, 0))
def test_comes_back_in_bulk(near, size, offset):
    data = some(size)
    near.endpoint.request_bulk(0, 4, data, offset, 3)
    near.until()
    assert near.got == [(3,)] and near.data == [data.tobytes()]
    if offset == 0:
        assert bytes(near.endpoint.segment[:size]) == data.tobytes()


def test_a_bulk_reply_outside_of_the_asking_segment(near):
    near.endpoint.request_bulk(0, 4, some(100), SEGMENT - 50)
    near.until()
    assert near.returned[0].reason == active.Reason.OUTSIDE
    assert near.call(1, 5) == (5,)


@pytest.mark.parametrize("size", (0, 1, 300, 1 << 20))
def test_get(near, size):
    near.endpoint.get(0, 9, 0, size, 8)
    near.until()
    assert near.got == [(8,)] and near.data == [bytes(i % 256 for i in range(size))]


def test_get_into_memory(near):
    into = numpy.zeros(100, "u4")
    near.endpoint.get(0, 9, 4, 400, into=into)
    near.until()
    assert into.tobytes() == bytes((i + 4) % 256 for i in range(400))
    with pytest.raises(ValueError, match="must be writable and have 10 bytes"):
        near.endpoint.get(0, 9, 0, 10, into=bytes(10))
    near.endpoint.get(0, 9, SEGMENT - 1, 2)
    near.until(2)
    assert near.returned[0].reason == active.Reason.OUTSIDE


def test_more_bulks_than_credits(near):
    for i in range(40):
        near.endpoint.request_bulk(0, 3, some(50_000), i)
        assert near.endpoint.entries[0].under_way <= 8
    near.until(40)
    assert [words[2] for words in near.got] == list(range(40))


def test_short_requests_pass_between_bulks_in_order(near):
    for i in range(20):
        near.endpoint.request_bulk(0, 3, some(30_000), i)
        near.endpoint.request(0, 1, i)
    near.until(40)
    assert [words[-1] for words in near.got] == [i // 2 for i in range(40)]


def test_asynchronous(near):
    data = [some(1 << 20) for _ in range(4)]
    transfers = [near.endpoint.begin_bulk(0, 3, each, i) for i, each in enumerate(data)]
    for transfer in transfers:
        transfer.wait(30)
        assert transfer.sent and transfer.failure is None
    near.until(4)
    assert near.got == [(len(each), int(each.sum()), i) for i, each in enumerate(data)]


def test_both_ends_send_at_once(near):
    """Each end's ring, or kernel's buffer, is much smaller than what both send before they take anything."""
    data = some(3 << 20)
    for i in range(12):
        near.endpoint.request_bulk(0, 4, data, -1, i)
    near.until(12)
    assert near.got == [(i,) for i in range(12)]
    assert all(each == data.tobytes() for each in near.data)


class TestPool:
    @pytest.fixture
    def near(self, near):
        """The far endpoint again, with a pool of two buffers."""
        name = fresh_name()
        near.far.run(begin, name, arrivals=active.Pool(2, 100_000))
        other = Near(near.far, name)
        other.endpoint.map(0, name, TAG)
        yield other
        other.bundle.close()

    def test_is_used_again(self, near):
        for i in range(20):
            near.endpoint.request_bulk(0, 3, some(100 * i), i)
        near.until(20)
        assert [words[0] for words in near.got] == [100 * i for i in range(20)]
        assert near.far.run(pool_is_used)

    def test_longer_ones_get_memory_of_their_own(self, near):
        near.endpoint.request_bulk(0, 3, some(200_000))
        near.until()
        assert near.got[0][0] == 200_000 and near.far.run(pool_is_used)

    def test_gives_way_to_handlers_that_keep(self, near):
        for i in range(5):
            near.endpoint.request_bulk(0, 6, some(1000 + i))
        assert near.call(1) == ()
        assert not near.far.run(pool_is_used)
        assert near.far.run(kept_are) == [some(1000 + i).tobytes() for i in range(5)]


def pool_is_used(here):
    return here.endpoint.arrivals.is_used


def kept_are(here):
    return [bytes(each) for each in look(here, "kept")]


def test_no_credit_for_bulks(near):
    name = fresh_name()
    near.far.run(begin, name, bulk_credits=0)
    near.endpoint.map(1, name, TAG)
    with pytest.raises(active.NotReady, match="no credit for bulks"):
        near.endpoint.request_bulk(1, 3, b"x")
    assert near.far.run(connections) >= 0
