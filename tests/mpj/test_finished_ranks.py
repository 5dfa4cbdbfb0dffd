"""What a rank that has ended in order leaves to those that ask for its messages, as against one that died.

By the standard (MPI 4.1, 3.8 and 3.7), a call that does not wait says that nothing is there, and a receive stays
pending: it can be cancelled. A call that waits would never return. Here it raises ERR_PROC_FAILED instead.
"""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from .ranks import DEVICES, run

PROCESSES = ["iodev", "sysvdev"]  # where a rank is a process: has signals, and an end, of its own


@pytest.mark.parametrize("device", DEVICES)
def test_calls_that_do_not_wait_say_that_nothing_is_there(device):
    def body():
        def ended(call, *args, **named):
            try:
                call(*args, **named)
            except MPI.Exception as error:
                in_status = call.__name__ == "Waitall"
                assert error.Get_error_class() == (MPI.ERR_IN_STATUS if in_status else MPI.ERR_PROC_FAILED), error
                assert "finished" in str(error), error
                return True
            raise AssertionError("not raised")

        if rank == 1:
            comm.send("last", 0, 5)
            MPI.Finalize()
        elif rank == 2:
            assert comm.recv(source=0, tag=7) == "go"
            comm.Send(np.full(3, 2.0), 0, 8)
            MPI.Finalize()
        else:
            there = [np.zeros(3) for _ in range(8)]
            one = [there[1], 1, MPI.DOUBLE]
            before = [comm.Irecv(there[0], 1, 9), comm.irecv(source=1, tag=9), comm.Irecv(one, 1, 9)]
            ended(comm.Probe, 1, 9)  # until rank 1 has ended
            ended(comm.Mprobe, 1, 9)
            ended(comm.Recv, there[0], 1, 9)
            ended(comm.recv, source=1, tag=9)
            # what came before is there
            status = MPI.Status()
            assert comm.Iprobe(1, 5) and comm.Iprobe(MPI.ANY_SOURCE, 5, status) and status.source == 1
            assert comm.improbe(1, 5).recv() == "last"
            for _ in range(100):
                assert not comm.Iprobe(1, 9) and not comm.iprobe(1, MPI.ANY_TAG)
                assert comm.Improbe(1, 9) is None and comm.improbe(1, 9) is None
                assert not comm.Iprobe(MPI.ANY_SOURCE, 9) and comm.Improbe(MPI.ANY_SOURCE, 9) is None
            # receives, started before its end and after
            persistent = comm.Recv_init(there[2], 1, 9)
            persistent.Start()
            both = comm.Isendrecv(there[3], 0, 3, there[4], 1, 9)
            requests = [*before, comm.Irecv(there[5], 1, 9), comm.irecv(source=1, tag=9), persistent, both]
            for _ in range(10):
                for request in requests:
                    assert not request.Test() and request and not request.Get_status()
                    assert request.test() == (False, None)
                assert not MPI.Request.Testall(requests) and MPI.Request.testall(requests) == (False, None)
                assert MPI.Request.Testany(requests) == (MPI.UNDEFINED, False)
                assert MPI.Request.Testsome(requests) == [] and MPI.Request.Get_status_some(requests) == []
                assert MPI.Request.Get_status_any(requests) == (MPI.UNDEFINED, False)
            # whoever waits for one of several waits for those that can come
            alive = comm.Irecv(there[6], 2, 8)
            comm.send("go", 2, 7)
            assert MPI.Request.Waitany([*requests, alive], status) == len(requests) and status.source == 2
            assert (there[6] == 2.0).all()
            self_sent = comm.Irecv(there[7], 0, 4)
            comm.Send(np.full(3, 4.0), 0, 4)
            assert MPI.Request.Waitsome([*requests, self_sent]) == [len(requests)]
            # they can be cancelled
            for request in [before[0], before[1], persistent, both]:
                request.Cancel()
                status = MPI.Status()
                assert request.Test(status) and status.Is_cancelled()
            # whoever waits for such ones alone is told
            ended(MPI.Request.Waitany, [before[2], MPI.REQUEST_NULL])
            ended(requests[3].Wait)
            ended(requests[4].wait)
            assert not before[2] and not requests[3] and not requests[4]
            ended(MPI.Request.Waitsome, [comm.Irecv(there[0], 1, 9)])
            ended(MPI.Request.Waitall, [comm.Irecv(there[0], 1, 9)])
            ended(comm.Sendrecv, there[0], 0, 3, there[4], 1, 9)
            print("rank 0 is fine", flush=True)

    assert "rank 0 is fine" in run(body, 3, device)


@pytest.mark.parametrize("device", PROCESSES)
def test_one_that_died_is_told_to_those_that_do_not_wait(device):
    def body():
        import os
        import signal

        def failed(call, *args, code=MPI.ERR_PROC_FAILED):
            try:
                call(*args)
            except MPI.Exception as error:
                assert error.Get_error_class() == code and "rank 1" in str(error), error
                return
            raise AssertionError("not raised")

        if rank == 1:
            comm.recv(source=0)
            os.kill(os.getpid(), signal.SIGKILL)
        request = comm.Irecv(np.zeros(3), 1, 9)
        comm.send("go", 1)
        failed(comm.Probe, 1, 9)
        failed(comm.Iprobe, 1, 9)
        failed(comm.Improbe, 1, 9)
        failed(comm.Iprobe, MPI.ANY_SOURCE, 9)
        failed(request.Test)
        failed(comm.Irecv(np.zeros(3), 1, 9).Test)
        failed(comm.Irecv(np.zeros(3), MPI.ANY_SOURCE, 9).Test, code=MPI.ERR_PROC_FAILED_PENDING)
        print("rank 0 is fine", flush=True)

    assert "rank 0 is fine" in run(body, 2, device, status=None)


@pytest.mark.parametrize("device", PROCESSES)
def test_draining_after_a_barrier(device):
    """The other rank may have ended by then, or not."""

    def body():
        for number in range(20):
            comm.send(number, 1 - rank, 2)
        comm.Barrier()
        if rank == 1:
            found = []
            for _ in range(20_000):
                if comm.Iprobe(0, 2):
                    found.append(comm.recv(source=0, tag=2))
            assert found == list(range(20))

    run(body, 2, device)


@pytest.mark.parametrize("device", PROCESSES)
def test_the_last_statement_may_be_the_first_buffered_send(device):
    """The connection is made while the program ends. From Python 3.12 on no thread can be started then."""

    def body():
        MPI.Attach_buffer(None)
        if rank == 1:
            assert {comm.recv(), comm.recv()} == {0, 2}
            print("rank 1 is fine", flush=True)
        else:
            comm.bsend(rank, 1)

    assert "rank 1 is fine" in run(body, 3, device)


@pytest.mark.parametrize("device", PROCESSES)
def test_all_ranks_may_connect_to_each_other_in_their_last_statements(device):
    def body():
        MPI.Attach_buffer(None)
        for other in range(size):
            comm.bsend(rank, other)

    run(body, 5, device)
