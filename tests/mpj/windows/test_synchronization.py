"""Locks, fences and groups: who waits for whom, what is complete then, and what is refused."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from .ways import DEVICES, run

DEVICE = pytest.mark.parametrize("device", DEVICES)


@DEVICE
def test_a_lock_alone_makes_reads_and_writes_one_step(device):
    def body():
        window = MPI.Win.Allocate(16 if rank == 0 else 0, 8, comm=comm)
        for _ in range(60):
            window.Lock(0)
            value = np.zeros(2, "i8")
            window.Get(value, 0)
            window.Flush(0)
            assert value[0] == value[1]
            window.Put(value + 1, 0)
            window.Unlock(0)
        comm.Barrier()
        if rank == 0:
            assert (np.frombuffer(window, "i8") == 60 * size).all()
        window.Free()

    run(body, 3, device)


@DEVICE
def test_ranks_that_lock_all_do_not_wait_for_each_other_behind_those_who_lock_one(device):
    def body():
        import random

        window, mine = MPI.Win.Allocate(8, 8, comm=comm), random.Random(rank)
        for _ in range(300):
            if rank < 2:
                window.Lock_all()
                window.Unlock_all()
            else:
                target = mine.randrange(2)
                window.Lock(target)
                window.Put(np.ones(1), target)
                window.Unlock(target)
        window.Free()

    run(body, 6, device)


def test_accumulates_of_all_ranks_under_shared_locks_lose_nothing():
    def body():
        window = MPI.Win.Allocate(8 if rank == 0 else 0, 8, comm=comm)
        window.Lock_all()
        for _ in range(2500):
            window.Accumulate(np.ones(1, "i8"), 0)
        window.Unlock_all()
        comm.Barrier()
        if rank == 0:
            assert np.frombuffer(window, "i8")[0] == 10_000
        window.Free()

    run(body, 4)


@DEVICE
def test_a_target_is_served_whatever_it_does(device):
    def body():
        memory = np.zeros(3, "i8")
        window = MPI.Win.Create(memory, 8, comm=comm)
        if rank == 0:
            while memory[0] == 0:  # without any call
                pass
            comm.recv(source=1)  # in a call of something else
            window.Lock(0)
            comm.send(None, 1)
            while memory[2] == 0:
                window.Flush(0)  # in a call that does not wait
            window.Unlock(0)
        else:
            for place in range(2):
                window.Lock(0, MPI.LOCK_SHARED)
                window.Put(np.ones(1, "i8"), 0, place)
                window.Unlock(0)
            comm.send(None, 0)
            comm.recv(source=0)
            window.Lock(0, MPI.LOCK_SHARED, MPI.MODE_NOCHECK)  # which does not wait for the lock
            window.Put(np.ones(1, "i8"), 0, 2)
            window.Unlock(0)
        window.Free()

    run(body, 2, device)


def test_a_signal_handler_that_raises_ends_a_call_and_not_the_service():
    def body():
        import signal

        window = MPI.Win.Allocate(16, 8, comm=comm)
        raised = 0
        armed = set()  # of at most one: whether the next signal ends the call

        def interrupt(number, frame):
            if armed:
                armed.clear()
                raise InterruptedError("by the program")

        if rank == 0:
            signal.signal(signal.SIGALRM, interrupt)
            for _ in range(200):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
                    while True:
                        armed.add("once")
                        comm.iprobe()
                except InterruptedError:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    raised += 1
            assert raised == 200
            comm.send(None, 1)
        else:
            turns = 0
            while turns == 0 or not comm.iprobe(0):
                window.Lock(0)
                window.Accumulate(np.ones(1, "i8"), 0)
                window.Unlock(0)
                turns += 1
            comm.recv(source=0)
            window.Lock(0)
            value = np.zeros(1, "i8")
            window.Get(value, 0)
            window.Unlock(0)
            assert value[0] == turns
        window.Free()

    run(body, 2)


@DEVICE
def test_groups_post_and_start(device):
    def body():
        window = MPI.Win.Allocate(8 * size, 8, comm=comm)
        memory = np.frombuffer(window, "i8")
        group = comm.Get_group()
        others = group.Excl([rank])
        for turn in range(20):
            window.Post(others)
            window.Start(others)
            for other in range(size):
                if other != rank:
                    window.Put(np.full(1, 100 * turn + rank, "i8"), other, rank)
            window.Complete()
            if turn % 2:
                while not window.Test():
                    pass
            else:
                window.Wait()
            assert [memory[other] for other in range(size) if other != rank] == [
                100 * turn + other for other in range(size) if other != rank
            ]
            comm.Barrier()
        everybody = comm.Get_group()
        window.Post(everybody)
        window.Start(everybody)
        window.Complete()
        window.Wait()
        window.Free()

    run(body, 3, device)


@DEVICE
def test_calls_in_the_wrong_epoch_are_refused_and_change_nothing(device):
    def body():
        window = MPI.Win.Allocate(64, 8, comm=comm)
        group, data, other = comm.Get_group(), np.ones(1), 1 - rank
        alone = group.Incl([rank])

        def refused(error_class, call, *arguments):
            try:
                call(*arguments)
            except MPI.Exception as error:
                assert error.Get_error_class() == error_class, error
            else:
                raise AssertionError(call)

        sync, wrong_rank = MPI.ERR_RMA_SYNC, MPI.ERR_RANK
        for call in (window.Put, window.Get, window.Accumulate):
            refused(sync, call, data, other)
            refused(wrong_rank, call, data, size)
            call(data, MPI.PROC_NULL)
        for call, *arguments in [
            (window.Complete,), (window.Wait,), (window.Test,), (window.Unlock, other), (window.Unlock_all,),
            (window.Flush, other), (window.Flush_all,), (window.Flush_local, other), (window.Flush_local_all,),
        ]:  # fmt: skip
            refused(sync, call, *arguments)
        window.Lock(other, MPI.LOCK_SHARED)
        for call, *arguments in [
            (window.Fence,), (window.Start, group), (window.Lock, other), (window.Lock_all,), (window.Put, data, rank),
            (window.Free,),
        ]:  # fmt: skip
            refused(sync, call, *arguments)
        refused(MPI.ERR_LOCKTYPE, window.Lock, rank, 1)
        refused(MPI.ERR_ASSERT, window.Lock, rank, MPI.LOCK_SHARED, MPI.MODE_NOPUT)
        window.Unlock(other)
        window.Lock_all()
        for call, *arguments in [(window.Lock, rank), (window.Fence,), (window.Unlock, rank), (window.Lock_all,)]:
            refused(sync, call, *arguments)
        window.Unlock_all()
        window.Post(alone)
        window.Start(alone)
        for call, *arguments in [
            (window.Post, alone), (window.Start, alone), (window.Fence,), (window.Put, data, other), (window.Free,),
        ]:  # fmt: skip
            refused(sync, call, *arguments)
        window.Complete()
        window.Wait()
        window.Fence()
        window.Put(data, other)
        refused(sync, window.Lock, other)
        window.Fence(MPI.MODE_NOSUCCEED)
        refused(sync, window.Put, data, other)
        refused(MPI.ERR_ASSERT, window.Fence, 1)
        window.Free()
        refused(MPI.ERR_WIN, window.Fence)

    run(body, 2, device)


@DEVICE
def test_an_access_outside_the_targets_memory_is_refused_at_the_origin(device):
    def body():
        window = MPI.Win.Allocate(80 - 8 * rank, 8, comm=comm)
        gaps = MPI.DOUBLE.Create_vector(5, 1, 2).Commit()
        window.Fence()
        for error_class, target in [
            (MPI.ERR_RMA_RANGE, 10), (MPI.ERR_RMA_RANGE, -1), (MPI.ERR_RMA_RANGE, [1 << 62, 1]),
            (MPI.ERR_RMA_RANGE, [1, 2, gaps]), (MPI.ERR_COUNT, [0, -1]),
        ]:  # fmt: skip
            for call in (window.Put, window.Get, window.Accumulate):
                try:
                    call(np.ones(1), 1, target)
                except MPI.Exception as error:
                    assert error.Get_error_class() == error_class, error
                else:
                    raise AssertionError(target)
        window.Put(np.ones(1), 0, 9)
        for call, target in [(window.Put, [0, 1]), (window.Get, [0, 4]), (window.Accumulate, [0, 1])]:
            try:
                call(np.ones(2), 1, target)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_TRUNCATE, error
            else:
                assert call == window.Get
        window.Fence()
        window.Free()

    run(body, 2, device)
