"""A program for ``-m fastsock.mpj.futures``: rank 0 runs it, and the others execute what it submits."""

import os
import sys
import threading
import time

import numpy as np

from fastsock.mpj import futures
from fastsock.mpj.util.pool import Pool

WORKERS = int(sys.argv[1])


class Point:
    """Goes to a worker and comes back."""

    def __init__(self, x):
        self.x = x

    def twice(self):
        return Point(2 * self.x)


class Unreadable:
    def __reduce__(self):
        return int, ("no number",)


def who():
    return os.getpid()


def together(value):
    comm = futures.get_comm_workers()
    comm.Barrier()
    return comm.allreduce(value), comm.Get_rank()


def fail(text):
    raise ValueError(text)


def remember(value):
    global remembered
    remembered = value


def recall():
    return remembered, __name__


def expect(error, call):
    try:
        call()
    except error as raised:
        return raised
    raise AssertionError(f"no {error.__name__}")


def check_calls(executor):
    assert executor.num_workers == WORKERS
    assert executor.submit(Point(4).twice).result().x == 8
    array = np.arange(300_000)
    assert (executor.submit(np.negative, array).result() == -array).all()
    ranks = [executor.submit(together, 1) for _ in range(WORKERS)]
    assert sorted(future.result() for future in ranks) == [(WORKERS, rank) for rank in range(WORKERS)]
    expect(RuntimeError, futures.get_comm_workers)


def check_maps(executor):
    expected = [pow(3, n) for n in range(40)]
    for chunk in (1, 7, 100):
        assert list(executor.map(pow, [3] * 40, range(40), chunksize=chunk)) == expected
        assert sorted(executor.map(pow, [3] * 40, range(40), chunksize=chunk, unordered=True)) == expected
        assert list(executor.starmap(pow, ((3, n) for n in range(40)), chunksize=chunk, buffersize=3)) == expected
    expect(futures.TimeoutError, lambda: list(executor.map(time.sleep, [2], timeout=0.01)))
    expect(ValueError, lambda: executor.map(abs, [1], chunksize=0))
    results = executor.map(divmod, [1, 1, 1], [1, 0, 1])
    assert next(results) == (1, 0)
    expect(ZeroDivisionError, lambda: next(results))


def check_errors(executor):
    error = expect(ValueError, executor.submit(fail, "a reason").result)
    assert "a reason" in str(error.__cause__) and "in fail" in str(error.__cause__)
    expect(ValueError, executor.submit(Unreadable).result)
    expect(ValueError, executor.submit(abs, Unreadable()).result)
    expect(Exception, executor.submit(threading.Lock).result)
    expect(TypeError, executor.submit(abs, threading.Lock()).result)
    expect(SystemExit, executor.submit(sys.exit, 3).result)
    assert executor.submit(abs, -1).result() == 1


def check_initializers():
    with futures.MPIPoolExecutor(initializer=remember, initargs=(5,), env={"ONE": "1"}, path=["/nowhere"]) as executor:
        assert executor.submit(recall).result() == (5, "__worker__")
        assert executor.submit(os.getenv, "ONE").result() == "1"
    expect(RuntimeError, lambda: executor.submit(abs, 1))
    assert executor.num_workers == 0
    broken = futures.MPIPoolExecutor(initializer=fail, initargs=("at the start",)).bootup()
    said = expect(futures.BrokenExecutor, lambda: broken.submit(abs, 1))
    assert "at the start" in str(said)
    unsent = futures.MPIPoolExecutor(initializer=threading.Lock().acquire)
    expect(futures.BrokenExecutor, lambda: unsent.bootup().submit(abs, 1))


def check_ends():
    executor = futures.MPIPoolExecutor()
    first = [executor.submit(time.sleep, 0.05) for _ in range(20 * WORKERS)]
    executor.shutdown(wait=True, cancel_futures=True)
    assert any(future.cancelled() for future in first) and all(future.done() for future in first)
    executors = [futures.MPIPoolExecutor() for _ in range(8)]
    called = [each.submit(abs, -n) for n in range(50) for each in executors]
    del executors[:4]
    assert sorted(future.result() for future in called) == sorted(list(range(50)) * 8)
    with Pool() as pool:
        assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
        assert sorted(pool.imap_unordered(abs, [-1, -2])) == [1, 2]


if __name__ == "__main__":
    with futures.MPIPoolExecutor() as one:
        check_calls(one)
        check_maps(one)
        check_errors(one)
    check_initializers()
    check_ends()
    futures.MPIPoolExecutor().submit(print, "left running", flush=True)
    if sys.argv[2:]:
        raise SystemExit(int(sys.argv[2]))
