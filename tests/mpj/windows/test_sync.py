"""Counters, mutexes, conditions and semaphores that all ranks share."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from .ways import DEVICES, run

DEVICE = pytest.mark.parametrize("device", DEVICES)


@DEVICE
def test_a_counter_gives_each_number_once(device):
    def body():
        from fastsock.mpj.util import sync

        for typecode, root in (("i", 0), ("d", size - 1)):
            counter = sync.Counter(3, 2, typecode=typecode, comm=comm, root=root)
            mine = [next(counter) for _ in range(30)]
            assert mine == sorted(mine)
            every = sorted(number for each in comm.allgather(mine) for number in each)
            assert every == [3 + 2 * number for number in range(30 * size)]
            assert counter.next(0) == 3 + 60 * size
            counter.free()
            counter.free()
            try:
                counter.next()
            except RuntimeError:
                continue
            raise AssertionError("not raised")

    run(body, 3, device)


@DEVICE
def test_one_rank_at_a_time_has_a_mutex(device):
    def body():
        from fastsock.mpj.util import sync

        mutex = sync.Mutex(comm=comm)
        inside = MPI.Win.Allocate(8 if rank == 0 else 0, 8, comm=comm)
        before = np.zeros(1, "i8")

        def add(value):
            inside.Lock(0, MPI.LOCK_SHARED)
            inside.Fetch_and_op(np.full(1, value, "i8"), before, 0)
            inside.Unlock(0)
            return before[0]

        for _ in range(30):
            with mutex:
                assert mutex.locked() and add(1) == 0
                add(-1)
        assert not mutex.locked()
        comm.Barrier()
        got = mutex.acquire(blocking=False)
        assert comm.allreduce(int(got)) == 1
        comm.Barrier()
        if got:
            mutex.release()
        mutex.free()
        inside.Free()

    run(body, 3, device)


@DEVICE
def test_a_recursive_mutex_counts(device):
    def body():
        from fastsock.mpj.util import sync

        mutex = sync.Mutex(recursive=True, comm=comm)
        for _ in range(5):
            with mutex, mutex:
                assert mutex.count() == 2
                assert mutex.acquire(blocking=False)
                mutex.release()
        assert mutex.count() == 0
        refused = 0
        for call in (mutex.release, mutex.free, mutex.acquire):
            try:
                call()
            except RuntimeError:
                refused += 1
        assert refused == 2

    run(body, 3, device)


@DEVICE
def test_ranks_wait_on_a_condition_until_they_are_notified(device):
    def body():
        from fastsock.mpj.util import sync

        condition = sync.Condition(comm=comm)
        for turn in range(10):
            if rank == 0:
                woken = 0
                while woken < size - 1:
                    with condition:
                        woken += condition.notify_all() if turn % 2 else condition.notify()
            else:
                with condition, condition:
                    assert condition.wait() and condition.locked()
                assert not condition.locked()
            comm.Barrier()  # else one that was woken may wait again already
        for call in (condition.wait, condition.notify, lambda: condition.wait_for(lambda: True)):
            try:
                call()
            except RuntimeError:
                continue
            raise AssertionError(call)
        condition.free()

    run(body, 3, device)


@DEVICE
def test_a_semaphore_lets_in_as_many_as_it_says(device):
    def body():
        from fastsock.mpj.util import sync

        semaphore, inside = sync.Semaphore(2, comm=comm), sync.Counter(comm=comm)
        for _ in range(20):
            with semaphore:
                assert inside.next(1) < 2
                inside.next(-1)
        comm.Barrier()
        try:
            semaphore.release()
        except ValueError:
            pass
        else:
            raise AssertionError("not raised")
        comm.Barrier()
        taken = semaphore.acquire(blocking=False)
        assert comm.allreduce(int(taken)) == 2
        if taken:
            semaphore.release()
        semaphore.free()
        inside.free()

    run(body, 3, device)
