"""Communicators whose members belong to two jobs, spawned or met by a port: revoked, agreed on, shrunk."""

# ruff: noqa: F821  (whole, inter, first, rank, MPI, die, error_of and until are the ranks' own)
from __future__ import annotations

import pytest

from .. import ranks
from . import soak
from .jobs import MEETINGS, two_jobs

WITH_MEETINGS = pytest.mark.parametrize("meeting", MEETINGS)


def run(meeting, body, before=""):
    """What four ranks wrote, two of each job."""
    with two_jobs(meeting, ranks.source_of(body), (2, 2), before) as (_, output):
        return output.read()


@WITH_MEETINGS
def test_members_of_both_jobs_hear_that_it_is_revoked(meeting):
    def body():
        if whole.rank == 1:
            inter.Revoke()
        for call in (inter.recv, inter.Barrier):
            assert error_of(call) == MPI.ERR_REVOKED, call
        assert inter.Is_revoked() and not whole.Is_revoked()
        assert inter.Agree(7 - (whole.rank == 3)) == 6
        left = inter.Shrink()
        assert (left.size, left.remote_size) == (2, 2)
        assert left.Merge(not first).allgather(whole.rank) == [0, 1, 2, 3]
        whole.Barrier()
        print("fine", flush=True)

    said = run(meeting, body)
    assert said.count("fine") == 4, said


@WITH_MEETINGS
@pytest.mark.parametrize("victim", [0, 3])
def test_those_that_are_left_of_both_jobs_go_on(meeting, victim):
    def body():
        if whole.rank == VICTIM:
            die()
        while whole.Get_failed().size == 0:
            error_of(inter.Iprobe)
        assert inter.Get_failed().size == 1
        assert error_of(inter.recv) == MPI.ERR_PROC_FAILED  # from anybody
        if whole.rank == (VICTIM + 1) % 4:
            whole.Revoke()
        assert error_of(whole.recv, None, whole.rank) == error_of(whole.Barrier) == MPI.ERR_REVOKED
        assert error_of(whole.Agree, 1) == MPI.ERR_PROC_FAILED
        assert whole.Ack_failed() == 1 and whole.Agree(3) == 3
        left = whole.Shrink()
        assert left.allgather(whole.rank) == [each for each in range(4) if each != VICTIM]
        coming, request = inter.Ishrink()
        request.Wait()
        assert coming.size + coming.remote_size == 3
        assert coming.Merge(not first).allgather(whole.rank) == left.allgather(whole.rank)
        left.Barrier()
        print("fine", flush=True)

    said = run(meeting, body, f"VICTIM = {victim}\n")
    assert said.count("fine") == 3, said


@WITH_MEETINGS
def test_all_hear_of_it_where_the_one_that_revokes_dies(meeting):
    def body():
        if whole.rank == 0:
            whole.Revoke()
            die()
        assert error_of(whole.recv, None, whole.rank % 3 + 1) == MPI.ERR_REVOKED  # they wait for each other
        assert whole.Shrink().allreduce(1) == 3
        print("fine", flush=True)

    said = run(meeting, body)
    assert said.count("fine") == 3, said


@WITH_MEETINGS
def test_ranks_of_both_jobs_are_killed_at_random_moments(meeting):
    killed, wrong = soak.job(5, 4, meeting=meeting)
    assert killed and not wrong, wrong
