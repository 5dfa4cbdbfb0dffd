"""Windows whose members die, fork, or end without Free; several threads of one rank."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from .ways import DEVICES, MESSAGES, OWN, PROCESSES, run

DEVICE = pytest.mark.parametrize("device", DEVICES)
PROCESS = pytest.mark.parametrize("device", PROCESSES)

TOLD = """
def told_of_a_death(call, *arguments):
    try:
        call(*arguments)
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_PROC_FAILED, error
        assert "rank 2" in str(error), error
    else:
        raise AssertionError(call)

def die():
    import os
    import signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


@PROCESS
def test_who_waits_for_a_lock_hears_that_its_owner_died(device):
    def body():
        window = MPI.Win.Allocate(8, 8, comm=comm)
        if rank == 2:
            window.Lock(0)
            comm.send(None, 1)
            comm.recv(source=1)
            window.Lock(1, MPI.LOCK_SHARED)
            comm.send(None, 0)
            comm.recv(source=0)
            die()
        if rank == 1:
            comm.recv(source=2)
            comm.send(None, 2)
            told_of_a_death(window.Lock, 0)
            told_of_a_death(window.Lock, 0, MPI.LOCK_SHARED)
            window.Lock(1)  # which the dead rank had together with others
            window.Unlock(1)
        else:
            comm.recv(source=2)
            comm.send(None, 2)
            told_of_a_death(window.Lock, 0)
            window.Lock(1)
            window.Put(np.ones(1), 1)
            window.Unlock(1)
        told_of_a_death(window.Lock, 2)
        told_of_a_death(window.Fence)
        comm.sendrecv(None, 1 - rank, source=1 - rank)
        told_of_a_death(window.Free)
        assert not window
        print("the end", flush=True)

    assert run(body, 3, device, status=1, before_it=TOLD).count("the end") == 2


@PROCESS
def test_operations_on_the_memory_of_a_rank_that_died(device):
    def body():
        window = MPI.Win.Allocate(8 * 100_000, 8, comm=comm)
        group = comm.Get_group()
        window.Lock_all()
        comm.Barrier()
        if rank == 2:
            die()
        told_of_a_death(comm.recv, None, 2)
        data = np.ones(100_000)
        done = told_of_a_death if IS_TOLD else lambda call: call()
        for count in (1, 100_000):
            for call in (window.Put, window.Accumulate, window.Get):

                def use(call=call, count=count):
                    call(data[:count], 2)
                    window.Flush(2)

                done(use)
        window.Put(data, 1 - rank)
        window.Flush(1 - rank)
        done(lambda: window.Rget(data, 2).Wait())
        if WAITS:
            told_of_a_death(window.Unlock_all)
        else:
            window.Unlock_all()
        told_of_a_death(window.Start, group.Incl([2]))
        window.Post(group.Incl([2]))
        told_of_a_death(window.Wait)
        comm.sendrecv(None, 1 - rank, source=1 - rank)
        print("the end", flush=True)

    # memory that the others map stays there; that of its process goes with it
    by_messages, own = device.endswith(MESSAGES), device.endswith(OWN)
    before = TOLD + f"IS_TOLD, WAITS = {by_messages or own}, {by_messages}\n"
    assert run(body, 3, device, status=1, before_it=before).count("the end") == 2


@DEVICE
def test_a_program_that_ends_without_free_ends(device):
    def body():
        windows = [MPI.Win.Allocate(8, 8, comm=comm) for _ in range(3)]
        windows[0].Lock(1 - rank, MPI.LOCK_SHARED)
        windows[0].Put(np.ones(1), 1 - rank)
        windows[0].Unlock(1 - rank)
        windows[1].Fence()
        print("ended", flush=True)

    assert run(body, 2, device).count("ended") == 2


@DEVICE
def test_a_rank_that_ends_by_an_error_ends(device):
    def body():
        window = MPI.Win.Allocate(8, 8, comm=comm)
        window.Lock(rank)
        raise ValueError("the end")

    assert "the end" in run(body, 2, device, status=1)


@PROCESS
def test_a_forked_child_is_no_member(device):
    def body():
        import os
        import warnings

        warnings.simplefilter("ignore")  # that a process of several threads forks
        faulthandler.cancel_dump_traceback_later()
        for among in (comm, MPI.COMM_SELF):
            window = MPI.Win.Allocate(8, 8, comm=among)
            window.Lock_all()
            child = os.fork()
            if child == 0:
                data, refused = np.ones(1), 0
                for call, *arguments in (
                    (window.Put, data, 0),
                    (window.Get, data, 0),
                    (window.Flush, 0),
                    (window.Unlock_all,),
                    (window.Fence,),
                    (window.Free,),
                ):
                    try:
                        call(*arguments)
                    except MPI.Exception:
                        refused += 1
                os._exit(0 if refused == 6 else 1)
            assert os.waitpid(child, 0)[1] == 0
            window.Put(np.full(1, 3.0), 0)
            window.Unlock_all()
            window.Free()

    run(body, 2, device)


@DEVICE
def test_threads_of_a_rank_share_an_epoch(device):
    def body():
        import threading

        count, turns = 4, 50
        window = MPI.Win.Allocate(8 * 4 * count, 8, comm=comm)
        window.Lock_all()
        errors = []

        def use(number):
            try:
                found, before = np.zeros(1, "i8"), np.zeros(1, "i8")
                place = number + count * rank
                for turn in range(turns):
                    window.Put(np.full(1, turn, "i8"), 1 - rank, place)
                    window.Flush(1 - rank)
                    window.Get(found, 1 - rank, place)
                    window.Flush_local(1 - rank)
                    assert found[0] == turn, (found[0], turn)
                    window.Fetch_and_op(np.ones(1, "i8"), before, 0, 3 * count)
                    window.Flush(0)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        window.Unlock_all()
        comm.Barrier()
        if rank == 0:
            assert np.frombuffer(window, "i8")[3 * count] == 2 * count * turns
        window.Free()

    run(body, 2, device)


@DEVICE
def test_many_windows_at_a_time_and_one_after_another(device):
    def body():
        import threading

        before = threading.active_count()
        windows = [MPI.Win.Allocate(8, 8, comm=comm) for _ in range(10)]
        for number, window in enumerate(windows):
            window.Fence()
            window.Put(np.full(1, float(number)), 1 - rank)
            window.Fence()
            assert np.frombuffer(window, "d")[0] == number
        for window in reversed(windows):
            window.Free()
        for _ in range(20):
            MPI.Win.Allocate(8, 8, comm=comm).Free()
        comm.Barrier()
        if size == 2 and before == 1:
            assert threading.active_count() == 1

    run(body, 2, device)


@DEVICE
def test_two_threads_of_a_rank_do_not_take_one_lock(device):
    def body():
        import threading

        window = MPI.Win.Allocate(8, 8, comm=comm)
        outcomes = []

        def take():
            try:
                window.Lock(0)
            except MPI.Exception as error:
                outcomes.append(error.Get_error_class())
                comm.send(None, 1)  # only now the other thread gets it
            else:
                outcomes.append(0)
                window.Unlock(0)

        if rank == 1:
            window.Lock(0)
            comm.send(None, 0)
            comm.recv(source=0)
            window.Unlock(0)
        else:
            comm.recv(source=1)
            threads = [threading.Thread(target=take) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert outcomes == [MPI.ERR_RMA_SYNC, 0], outcomes
        window.Free()

    run(body, 2, device)
