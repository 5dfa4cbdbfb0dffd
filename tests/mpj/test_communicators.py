"""Communicators, requests and objects between ranks: what mpi4py's own tests do not look at."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from .ranks import run


@pytest.mark.parametrize("device", ["iodev", "sysvdev"])
def test_objects_with_large_arrays_arrive_whole_writable_and_unshared(device):
    def body():
        array = np.arange(100_000, dtype=np.float64) + rank
        other = (rank + 1) % size
        request = comm.isend({"array": array, "small": np.ones(3)}, other, tag=5)
        array[:] = -1  # isend has copied it
        found = comm.recv(source=(rank - 1) % size, tag=5)
        request.wait()
        assert (found["array"] == np.arange(100_000) + (rank - 1) % size).all()
        found["array"][0] = 3  # writable
        gathered = comm.allgather(found["array"])
        gathered[rank][1] = 7
        assert found["array"][1] != 7
        root = comm.bcast(found["array"] if rank == 0 else None)
        root[2] = 9
        assert found["array"][2] != 9

    run(body, 3, device)


def test_threads_make_communicators_at_the_same_time():
    def body():
        import threading

        parents = [comm.Dup() for _ in range(4)]
        made = [[] for _ in parents]

        def work(place):
            for _ in range(10):
                made[place].append(parents[place].Dup())
                made[place].append(parents[place].Split(rank % 2, rank))

        threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        contexts = [each.ob.context for several in made for each in several]
        assert len(set(contexts)) == len(contexts)
        assert len(set(comm.allgather(tuple(contexts[::2])))) == 1  # of the duplicates: the same on all ranks
        for several in made:
            for each in several:
                each.Barrier()

    run(body, 3)


def test_intercommunicators_of_unequal_groups():
    def body():
        half = comm.Split(rank > 0, -rank)  # the keys turn the order around
        leader = 0 if rank > 0 else size - 1
        inter = half.Create_intercomm(0, comm, leader if rank else size - 1, tag=3)
        assert inter.remote_size == (1 if rank else size - 1)
        copy = inter.Dup()
        assert sorted(copy.allgather(rank)) == ([0] if rank else list(range(1, size)))
        merged = copy.Merge(high=rank == 0)
        assert merged.allgather(rank) == [*range(size - 1, 0, -1), 0]

    run(body, 4)


def test_an_error_names_the_rank_and_the_communicator():
    def body():
        short = bytearray(3)
        if rank == 0:
            comm.Send(b"too long", 1, tag=4)
        elif rank == 1:
            status = MPI.Status()
            try:
                comm.Recv(short, 0, 4, status)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_TRUNCATE
                assert "8 bytes" in str(error), error
            else:
                raise AssertionError("a message that does not fit was received")
        for wrong in (size, -7):
            try:
                comm.Send(b"", wrong)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_RANK
                assert "MPI_COMM_WORLD" in str(error)
            else:
                raise AssertionError("there is no such rank")

    run(body, 2)


def test_a_killed_rank_is_an_error_of_those_who_wait_for_it():
    def body():
        import os
        import signal

        comm.Barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            comm.recv(source=1)
        except MPI.Exception as error:
            print("told:", error.Get_error_class() == MPI.ERR_PROC_FAILED, "rank 1" in str(error), flush=True)
            raise

    output = run(body, 2, status=1)
    assert "told: True True" in output or "rank 1" in output, output


def test_requests_of_several_kinds_wait_together():
    def body():
        other = 1 - rank
        inbox = np.zeros(4)
        total = np.zeros(4)
        generalized = MPI.Grequest.Start()
        persistent = comm.Recv_init(inbox, other, 9)
        persistent.Start()
        requests = [
            persistent,
            comm.Iallreduce(np.ones(4), total),
            comm.irecv(source=other, tag=10),
            comm.issend("object", other, tag=10),
            comm.Isend(np.full(4, rank + 1.0), other, 9),
            generalized,
            comm.Ibarrier(),
        ]
        generalized.complete("done")
        values = MPI.Request.waitall(requests)
        assert values[2] == "object" and values[5] == "done"
        assert (inbox == other + 1).all() and (total == 2).all()
        assert persistent and not requests[1]
        persistent.Free()

    run(body, 2)


def test_buffered_sends_take_no_more_than_the_attached_memory():
    def body():
        MPI.Attach_buffer(bytearray(2 * (1000 + MPI.BSEND_OVERHEAD)))
        if rank == 0:
            big = bytearray(900_000)
            MPI.Detach_buffer()
            MPI.Attach_buffer(bytearray(1_000_000))
            comm.Bsend(big, 1)
            try:
                comm.Bsend(big, 1)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_BUFFER
            else:
                raise AssertionError("there was no room")
        comm.Barrier()
        if rank == 1:
            comm.Recv(bytearray(900_000), 0)
        MPI.Detach_buffer()

    run(body, 2)


def test_a_second_buffer_is_refused_while_the_first_is_attached():
    def body():
        session = MPI.Session.Init()
        for holder in (MPI, comm, session):
            first = bytearray(1000 + MPI.BSEND_OVERHEAD)
            holder.Attach_buffer(first)
            try:
                holder.Attach_buffer(bytearray(10))
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_BUFFER
            else:
                raise AssertionError(f"{holder} took two buffers")
            assert len(holder.Detach_buffer()) == len(first)
            holder.Attach_buffer(first)
            holder.Detach_buffer()
        session.Finalize()

    run(body, 1)


def test_a_receive_from_anybody_ends_when_a_member_dies():
    def body():
        import os
        import signal

        comm.Barrier()
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.Recv(bytearray(8), MPI.ANY_SOURCE)

    output = run(body, 3, status=1)
    assert "rank 2" in output, output


def test_memory_of_a_send_that_nobody_waits_for_stays():
    def body():
        if rank == 0:
            for number in range(10):
                comm.Isend(np.full(300_000, number, dtype=np.float64), 1, number)
            junk = [np.full(300_000, -1.0) for _ in range(10)]
            comm.Barrier()
            comm.Recv(bytearray(1), 1)
            assert len(junk) == 10
        else:
            comm.Barrier()
            for number in range(10):
                found = np.zeros(300_000)
                comm.Recv(found, 0, number)
                assert (found == number).all()
            comm.Send(b"x", 0)

    run(body, 2)
