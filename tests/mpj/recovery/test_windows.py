"""Windows of a job that goes on: who waits in one is freed, and those that are left make another."""

# ruff: noqa: F821  (comm, rank, size, MPI, np and what jobs.BEFORE has are the ranks' own)
from __future__ import annotations

import pytest

from ..windows import ways
from . import jobs

WAY = pytest.mark.parametrize("way", ways.PROCESSES)


def run(function, size, way, **options):
    return jobs.run(function, size, ways.device_of(way), before=ways.before(way), **options)


@WAY
def test_who_waits_in_a_window_of_a_revoked_communicator_is_freed(way):
    def body():
        team = comm.Dup()
        window = MPI.Win.Allocate(8, 8, comm=team)
        window.Fence()
        if rank == 0:
            comm.recv(source=1)
            comm.recv(source=2)
            team.Revoke()
        else:
            comm.send(None, 0)
            wait = window.Fence if rank == 1 else lambda: window.Start(team.Get_group().Incl([1]))
            assert error_of(wait) == MPI.ERR_REVOKED
        comm.Barrier()
        assert not comm.Is_revoked()
        print("fine", flush=True)

    assert run(body, 3, way, deaths=0).count("fine") == 3


@WAY
def test_those_that_are_left_make_a_new_window(way):
    def body():
        window = MPI.Win.Allocate(8, 8, comm=comm)
        if rank == 2:
            window.Lock(0)
            comm.send(None, 0)
            comm.send(None, 1)
            comm.recv(source=1)
            die()
        comm.recv(source=2)
        if rank == 1:
            comm.send(None, 2)
        # the other one may have revoked it by then
        assert error_of(window.Lock, 0) in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED)
        assert error_of(window.Fence) in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED)
        comm.Revoke()
        left = comm.Shrink()
        assert error_of(window.Free) in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED)
        window = MPI.Win.Allocate(8, 8, comm=left)
        window.Lock(0)
        window.Accumulate(np.ones(1, "i8"), 0)
        window.Unlock(0)
        left.Barrier()
        assert rank or np.frombuffer(window, "i8")[0] == 2
        window.Free()
        print("fine", flush=True)

    assert run(body, 3, way).count("fine") == 2
