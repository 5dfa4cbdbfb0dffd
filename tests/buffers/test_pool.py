"""Pools of buffers."""

from __future__ import annotations

import threading

import pytest

from fastsock import buffers, core

from . import far

pytestmark = pytest.mark.skipif(not core.available, reason=core.why_not)


def test_a_released_buffer_is_taken_again():
    pool = buffers.Pool(2, 100)
    first, second = pool.take(), pool.take()
    assert first is not second and first.nbytes == 100
    with pytest.raises(buffers.PoolEmptyError, match="2"):
        pool.take()
    view = first.view("u1")
    with pytest.raises(buffers.ReferencedError):
        first.release()
    del view
    first.release()
    assert pool.take() is first
    first.view("u1")[0] = 1


def test_sizes_that_there_are_not():
    for count, nbytes in ((0, 1), (-1, 1), (1, 0)):
        with pytest.raises(ValueError):
            buffers.Pool(count, nbytes)


def test_a_sent_buffer_comes_back_to_the_pool(shared):
    shared.far.process.run(far.expect)
    pool = buffers.Pool(1, 3)
    for i in range(10):
        buffer = pool.take(5)
        buffer.view("u1")[:] = i
        assert buffers.send_buffer(shared.near, buffer)
        buffer.release()
        with pytest.raises(TimeoutError):
            pool.take(0.001)
        assert shared.far.process.run(far.take) == [i] * 3
        shared.far.process.run(far.release)


def test_threads_share_a_pool():
    pool = buffers.Pool(4, 64)
    wrong = []

    def use(mine):
        for _ in range(2000):
            with pool.take() as buffer:
                view = buffer.view("u1")
                view[:] = mine
                if not (view == mine).all():
                    wrong.append(mine)
                del view

    threads = [threading.Thread(target=use, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
