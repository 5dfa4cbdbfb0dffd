"""What calls say when a member has died, and what is acknowledged; jobs that go on."""

# ruff: noqa: F821  (comm, rank, size, MPI, np and what jobs.BEFORE has are the ranks' own)
from __future__ import annotations

import subprocess
import sys

import pytest

from .jobs import DEVICES, run

DEVICE = pytest.mark.parametrize("device", DEVICES)


@DEVICE
def test_calls_that_need_a_dead_rank_raise_and_others_go_on(device):
    def body():
        comm.Barrier()
        if rank == 1:
            die()
        until(MPI.ERR_PROC_FAILED, comm.Iprobe, 1, 5)
        for call in (comm.Probe, comm.Mprobe, comm.recv):
            assert error_of(call, source=1) == MPI.ERR_PROC_FAILED, call
        assert error_of(comm.send, None, 1) == MPI.ERR_PROC_FAILED
        assert error_of(comm.Recv, np.zeros(2), 1) == MPI.ERR_PROC_FAILED
        assert error_of(comm.Irecv(np.zeros(2), 1).Wait) == MPI.ERR_PROC_FAILED
        assert error_of(comm.isend(None, 1).wait) == MPI.ERR_PROC_FAILED
        assert error_of(comm.Barrier) == MPI.ERR_PROC_FAILED
        assert comm.sendrecv(rank, 2 - rank, source=2 - rank) == 2 - rank
        print("fine", flush=True)

    assert run(body, 3, device).count("fine") == 2


@DEVICE
def test_receives_from_anybody_wait_until_failures_are_acknowledged(device):
    def body():
        other = 2 - rank
        waiting = comm.Irecv(here := np.zeros(1), MPI.ANY_SOURCE, 3)
        repeated = comm.Recv_init(there := np.zeros(1), MPI.ANY_SOURCE, 4)
        repeated.Start()
        objects = comm.irecv(None, MPI.ANY_SOURCE, 6)
        comm.Barrier()
        if rank == 1:
            die()
        for request in (waiting, repeated, objects):
            until(MPI.ERR_PROC_FAILED_PENDING, request.Test)
            assert request and error_of(request.Wait) == MPI.ERR_PROC_FAILED_PENDING and request
        assert error_of(MPI.Request.Waitany, [waiting]) == MPI.ERR_PROC_FAILED_PENDING
        status = MPI.Status()
        assert error_of(MPI.Request.Waitall, [waiting], [status]) == MPI.ERR_IN_STATUS
        assert status.error == MPI.ERR_PROC_FAILED_PENDING and waiting
        assert error_of(comm.recv, None, MPI.ANY_SOURCE, 9) == MPI.ERR_PROC_FAILED
        assert error_of(comm.Iprobe, MPI.ANY_SOURCE, 9) == MPI.ERR_PROC_FAILED
        failed = comm.Get_failed()
        assert failed.Translate_ranks([0], comm.Get_group()) == [1]
        assert comm.Ack_failed(0) == 0 and error_of(comm.recv, None, MPI.ANY_SOURCE, 9) == MPI.ERR_PROC_FAILED
        assert comm.Ack_failed() == 1 == comm.Ack_failed(9)
        assert not waiting.Test() and not comm.Iprobe(MPI.ANY_SOURCE, 9)
        comm.sendrecv(None, other, 8, source=other, recvtag=8)
        for tag in (3, 4):
            comm.Send(np.full(1, tag + rank, float), other, tag)
        comm.send("word", other, 6)
        waiting.Wait(status)
        repeated.Wait()
        assert not waiting and repeated and here[0] == 3 + other and there[0] == 4 + other
        assert status.source == other and objects.wait() == "word"
        assert comm.sendrecv(rank, other) == other  # from anybody
        print("fine", flush=True)

    assert run(body, 3, device).count("fine") == 2


@DEVICE
def test_a_receive_that_was_cancelled_after_a_failure_is(device):
    def body():
        waiting = comm.Irecv(np.zeros(1), MPI.ANY_SOURCE, 3)
        comm.Barrier()
        if rank == 1:
            die()
        until(MPI.ERR_PROC_FAILED_PENDING, waiting.Test)
        waiting.Cancel()
        status = MPI.Status()
        waiting.Wait(status)
        assert status.Is_cancelled() and not waiting
        print("fine", flush=True)

    assert "fine" in run(body, 2, device)


@DEVICE
def test_collectives_raise_in_all_members_also_while_they_begin(device):
    def body():
        made = [comm.Dup() for _ in range(6)]
        if rank == size - 1:
            die()
        if rank == 0:
            until(MPI.ERR_PROC_FAILED, comm.Iprobe, size - 1)
        calls = (
            lambda comm: comm.Barrier(),
            lambda comm: comm.bcast("x" * 50, 0),
            lambda comm: comm.allreduce(1),
            lambda comm: comm.Ibarrier().Wait(),
            lambda comm: comm.Split(0),
            lambda comm: comm.scatter(list("x" * size), 0),
        )
        for each, call in zip(made, calls, strict=True):
            assert error_of(call, each) in (MPI.SUCCESS, MPI.ERR_PROC_FAILED)
            assert error_of(each.Barrier) == MPI.ERR_PROC_FAILED
        print("fine", flush=True)

    assert run(body, 5, device).count("fine") == 4


def test_a_rank_that_never_arrives_is_dead_for_those_that_do(tmp_path):
    app = tmp_path / "app.py"
    app.write_text(
        "import os\n"
        "if os.environ['FASTSOCK_MPJ_RANK'] == '1': os._exit(3)\n"
        "from fastsock.mpj import MPI\n"
        "comm = MPI.COMM_WORLD\n"
        "assert comm.Get_failed().Get_size() == 1\n"
        "new = comm.Shrink()\n"
        "print('rank', comm.rank, 'of', comm.size, 'is', new.rank, 'of', new.size, new.allreduce(1), flush=True)\n"
    )
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", "3", "--keep-going", "--timeout", "50", str(app)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    assert "exited with status 3; 2 of 3 ranks go on" in done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 3 is 0 of 2 2", "rank 2 of 3 is 1 of 2 2"], done.stderr


def test_a_thread_that_ends_by_an_error_leaves_the_others(tmp_path):
    app = tmp_path / "app.py"
    app.write_text(
        "from fastsock.mpj import MPI\n"
        "comm = MPI.COMM_WORLD\n"
        "comm.Barrier()\n"
        "if comm.rank == 1: raise ValueError('the end')\n"
        "try:\n"
        "    while True: comm.Barrier()\n"
        "except MPI.Exception as error:\n"
        "    assert error.Get_error_class() == MPI.ERR_PROC_FAILED\n"
        "new = comm.Shrink()\n"
        "print(new.rank, new.size, new.allreduce(1), flush=True)\n"
    )
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", "3", "--device", "smpdev", "--keep-going", str(app)]
    done = subprocess.run([*command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and sorted(done.stdout.splitlines()) == ["0 2 2", "1 2 2"], done.stdout + done.stderr


def test_an_abort_ends_all_ranks_all_the_same():
    program = "from fastsock.mpj import MPI\ncomm = MPI.COMM_WORLD\nif comm.rank == 0: comm.Abort(7)\ncomm.recv()"
    command = [sys.executable, "-m", "fastsock.mpj.run", "-n", "2", "--keep-going", "--timeout", "50", "-c", program]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 7
