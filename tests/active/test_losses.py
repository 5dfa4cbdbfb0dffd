"""A peer that goes away, at any moment: what it did not answer comes back, once, and nobody hangs."""

from __future__ import annotations

import random

import pytest

from fastsock import active
from fastsock.testing.process import FarProcess

from .conftest import Near, fresh_name
from .far import TAG, begin, connections, end, look

REPLIES = 20  # more than TCP sends to whoever reads nothing


def test_what_is_under_way_comes_back(near):
    near.far.run(end)  # nobody polls there any more
    for i in range(5):
        near.endpoint.request(0, 1, i, data=b"x")
    near.far.kill()
    near.until(5)
    assert sorted(message.words for message in near.returned) == [(i,) for i in range(5)]
    assert {message.reason for message in near.returned} == {active.Reason.LOST}
    assert "may have run" in near.returned[0].text
    with pytest.raises(active.LostPeer, match=f"over {near.endpoint.entries[0].path}"):
        near.endpoint.request(0, 1)


def test_who_waits_for_credit_is_told(near):
    near.far.run(end)
    for i in range(32):
        near.endpoint.request(0, 1, i)
    near.far.begin(leave)
    with pytest.raises(active.LostPeer):
        near.endpoint.request(0, 1, 32)
    near.until(32)


def leave(here):
    import os

    os._exit(0)


def test_a_bulk_to_a_peer_that_goes(near):
    near.far.run(end)
    transfer = near.endpoint.begin_bulk(0, 3, bytes(30 << 20))
    assert not transfer.sent
    near.far.kill()
    with pytest.raises(active.LostPeer):
        transfer.wait(30)
    assert near.returned[0].reason == active.Reason.LOST


def test_unmapping_gives_back_what_is_under_way(near):
    near.far.run(end)
    near.endpoint.request(0, 1, 7)
    near.endpoint.unmap(0)
    assert [message.words for message in near.returned] == [(7,)]


def test_replies_before_a_close_arrive(near):
    """The other end closes with requests that it has not read."""
    for i in range(REPLIES):
        near.endpoint.request(0, 1, i, data=bytes(active.MEDIUM))
    near.endpoint.request(0, 2)
    while not near.far.run(look, "seen"):
        pass
    near.far.run(end)
    for _ in range(5):
        near.endpoint.request(0, 2)
    near.far.run(close)
    near.until(REPLIES + 5)
    assert near.got == [(i,) for i in range(REPLIES)]
    assert {message.reason for message in near.returned} == {active.Reason.LOST}


def close(here):
    here.bundle.close()


def test_the_other_end_forgets_a_peer_that_goes(near):
    other = FarProcess()
    try:
        other.run(map_and_ask, near.name)
        while near.far.run(connections) != 2:
            near.call(1)
        other.kill()
        while near.far.run(connections) != 1:
            near.call(1)
    finally:
        other.close()


def map_and_ask(here, name):
    here.bundle = active.Bundle()
    here.endpoint = here.bundle.endpoint()
    here.endpoint.map(0, name, TAG)
    here.endpoint.request(0, 2, 1)


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_a_random_moment(path, seed):
    """Each request is answered rightly, or comes back; never both, never neither."""
    chance = random.Random(seed)
    for _ in range(3):
        far = FarProcess()
        try:
            name = fresh_name()
            far.run(begin, name)
            near = Near(far, name)
            near.map()
            count = chance.randrange(1, 300)
            asked = 0
            try:
                for i in range(count + 200):
                    if i == count:
                        far.kill()
                    near.endpoint.request(0, 1, i, data=bytes(chance.randrange(2000)))
                    asked += 1
            except active.LostPeer:
                assert asked >= count
            else:
                near.until(asked)
            near.endpoint.unmap(0)
            answered, back = [w[0] for w in near.got], [m.words[0] for m in near.returned]
            assert sorted(answered + back) == list(range(asked))
            assert answered == sorted(answered)
            near.bundle.close()
        finally:
            far.close()


def test_the_error_handler_may_map_again(near):
    name = fresh_name()
    near.far.run(begin, name)
    again = []

    def handler(message):
        again.append(message)
        near.endpoint.map(0, name, TAG)
        near.endpoint.request(0, message.handler, *message.words)

    near.endpoint.on_error(handler)
    near.endpoint.request(0, 200, 3)
    while not again:
        near.bundle.poll(30)
    near.endpoint.on_error(near.returned.append)
    near.until()
    assert near.returned[0].words == (3,)
