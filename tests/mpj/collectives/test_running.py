"""Running algorithms: errors end them where they are, and scratch memory is never given out twice at a time."""

from __future__ import annotations

import pytest

from fastsock.mpj.collectives import bcast, schedule
from fastsock.mpj.collectives.exchange import drive
from fastsock.mpj.collectives.scratch import LARGE, scratch

from .simulator import Request, World


class Waiting:
    """An engine whose waits end at once, with whatever the requests have."""

    def wait_all(self, requests, timeout):
        assert all(request.done for request in requests)
        return True

    def user_request(self):
        return Request()


class Call:
    engine = Waiting()


def failing(seen, *requests):
    yield requests
    seen.append("went on")


def done(error=None):
    request = Request()
    request.complete(error)
    return request


def test_a_failed_message_ends_a_blocking_call():
    seen = []
    with pytest.raises(ConnectionResetError):
        drive(Call, failing(seen, done(), done(ConnectionResetError())))
    assert not seen


@pytest.mark.parametrize("late", [False, True])
def test_a_failed_message_ends_a_started_call(late):
    seen, first, second = [], Request(), Request()
    user_request = schedule.start(Call, failing(seen, first, second))
    assert not user_request.done
    for request, error in (first, None), (second, ConnectionResetError()):
        assert not user_request.done
        if late:
            request.done, request.error = True, error
            if request.callback is not None:
                request.callback(request)
        else:
            request.complete(error)
    assert user_request.done and isinstance(user_request.error, ConnectionResetError) and not seen


def test_an_error_of_the_algorithm_itself_ends_a_started_call():
    def steps():
        yield [done()]
        raise ArithmeticError("the operation failed")

    user_request = schedule.start(Call, steps())
    assert user_request.done and isinstance(user_request.error, ArithmeticError)


def test_ranks_that_call_one_after_the_other_find_each_other():
    """A root that broadcasts twice before the others look."""
    world = World(2, 0)
    root, other = world.members()
    first, second = memoryview(b"one"), memoryview(b"two")
    into = [memoryview(bytearray(3)) for _ in range(2)]
    sent = [schedule.start(root.exchange(), bcast.flat_tree(root.exchange(), data, 0)) for data in (first, second)]
    came = [schedule.start(other.exchange(), bcast.flat_tree(other.exchange(), data, 0)) for data in into]
    world.settle()
    assert all(user_request.done for user_request in sent + came)
    assert [bytes(data) for data in into] == [b"one", b"two"]


def test_scratch_memory_is_given_out_again_only_when_nobody_has_it():
    views = [scratch(LARGE) for _ in range(3)]
    for number, view in enumerate(views):
        view[:] = bytes([number]) * LARGE
    part = views[0][10:20]
    del views[0]
    more = [scratch(LARGE) for _ in range(3)]
    for view in more:
        view[:] = b"\xff" * LARGE
    assert bytes(part) == b"\0" * 10
    assert [view[0] for view in views] == [1, 2]
    assert len(scratch(2 * LARGE + 1)) == 2 * LARGE + 1 and len(scratch(7)) == 7
