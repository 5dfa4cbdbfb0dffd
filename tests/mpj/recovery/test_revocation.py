"""A communicator that is revoked: what is pending on it ends, in all members, whatever they do."""

# ruff: noqa: F821  (comm, rank, size, MPI, np and what jobs.BEFORE has are the ranks' own)
from __future__ import annotations

import pytest

from .jobs import DEVICES, PROCESSES, run

DEVICE = pytest.mark.parametrize("device", [*DEVICES, "smpdev"])
WITH_DEATHS = pytest.mark.parametrize("device", DEVICES)


@WITH_DEATHS
def test_who_has_seen_it_revoked_is_not_told_of_a_death(device):
    """Also in the moment in which the engine knows it, and the communicator does not."""

    def body():
        team = comm.Dup()
        team.Barrier()
        if rank == 2:
            die()
        until(MPI.ERR_PROC_FAILED, team.recv, None, 2)
        type(team.ob).revoked = lambda communicator: None  # so that moment lasts
        if rank == 0:
            team.Revoke()
        assert error_of(team.recv, None, rank) == MPI.ERR_REVOKED
        for call in (team.Barrier, lambda: team.allreduce(1), lambda: team.Bcast(np.zeros(1)), team.recv):
            assert error_of(call) == MPI.ERR_REVOKED, call
        print("fine", flush=True)

    assert run(body, 3, device).count("fine") == 2


@DEVICE
def test_what_is_pending_ends_and_what_begins_is_refused(device):
    def body():
        team, other = comm.Dup(), comm.Dup()
        team.Barrier()
        if rank == 0:
            comm.recv(source=1)
            comm.recv(source=2)
            team.Revoke()
        elif rank == 1:
            requests = [team.Irecv(np.zeros(1), 0), team.Irecv(np.zeros(1)), team.Issend(np.zeros(1), 2, 4)]
            requests += [team.Isend(np.zeros(3_000_000), 2, 4), team.Ibarrier(), team.irecv(source=2)]
            comm.send(None, 0)
            assert [error_of(request.Wait) for request in requests] == [MPI.ERR_REVOKED] * 6
        else:
            comm.send(None, 0)
            assert error_of(team.Barrier) == MPI.ERR_REVOKED
        while not team.Is_revoked():
            comm.Iprobe()

        def refused(call, *arguments):
            def whole():
                request = call(*arguments)
                if isinstance(request, MPI.Request):
                    request.Wait()

            assert error_of(whole) == MPI.ERR_REVOKED, call

        for call in (team.Barrier, team.Ibarrier, team.Dup, team.recv, team.Iprobe, team.Probe, team.irecv):
            refused(call)
        for call in (team.Send, team.Isend, team.Ssend, team.Bsend, team.Recv, team.Irecv):
            refused(call, np.zeros(1), rank)
            refused(call, np.zeros(1), MPI.PROC_NULL)
        refused(team.Split, 0)
        refused(team.bcast, 1)
        refused(team.Ibcast, np.zeros(1))
        assert error_of(team.Create_group, team.Get_group()) == MPI.ERR_REVOKED
        assert team.Get_failed().size == 0 and team.Ack_failed() == 0
        assert team.Agree(3 - (rank == 1)) == 2
        again = team.Shrink()
        assert again.allreduce(1) == size and again.Get_rank() == rank
        team.Free()
        assert other.allreduce(1) == size  # no other one is revoked
        print("fine", flush=True)

    assert run(body, 3, device, deaths=0).count("fine") == 3


@DEVICE
def test_a_blocked_call_of_each_kind_ends(device):
    def body():
        calls = (
            lambda team: team.recv(source=0),
            lambda team: team.recv(),
            lambda team: team.Probe(0, 4),
            lambda team: team.Ssend(np.zeros(1), 0),
            lambda team: team.Send(np.zeros(3_000_000), 0),
            lambda team: team.bcast(None, 0),
            lambda team: team.Allreduce(np.zeros(400_000), np.zeros(400_000)),
            lambda team: team.Split(1),
            lambda team: team.Iallreduce(np.zeros(4), np.zeros(4)).Wait(),
        )
        for number, call in enumerate(calls):
            team = comm.Dup()
            if rank == 0:
                comm.recv(source=1)
                team.Revoke()
            else:
                comm.send(None, 0)
                found = error_of(call, team)
                assert found == MPI.ERR_REVOKED, (number, found)
            comm.Barrier()
        print("fine", flush=True)

    assert run(body, 2, device, deaths=0).count("fine") == 2


@WITH_DEATHS
def test_all_hear_of_it_or_none_where_the_one_that_revokes_dies(device):
    def body():
        team = comm.Dup()
        team.Barrier()
        if rank == 0:
            team.Revoke()
            die()
        assert error_of(team.recv, None, 1 if rank == 2 else 2) == MPI.ERR_REVOKED  # they wait for each other
        assert team.Is_revoked() and team.Shrink().allreduce(1) == 2
        print("fine", flush=True)

    assert run(body, 3, device).count("fine") == 2


@pytest.mark.parametrize("device", [*PROCESSES, "smpdev"])
def test_threads_of_a_member_hear_of_it_in_the_middle_of_their_calls(device):
    def body():
        import threading

        team = comm.Dup()
        ended = []

        def use(tag):
            def turn():
                team.sendrecv(tag, 1 - rank, tag, source=1 - rank, recvtag=tag)

            while (found := error_of(turn)) == MPI.SUCCESS:
                pass
            ended.append(found)

        threads = [threading.Thread(target=use, args=(tag,)) for tag in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            comm.Barrier()
        if rank == 0:
            team.Revoke()
        for thread in threads:
            thread.join()
        comm.Barrier()  # else one might end before the other has heard of it
        assert ended == [MPI.ERR_REVOKED] * 4, ended
        print("fine", flush=True)

    assert run(body, 2, device, deaths=0).count("fine") == 2


@WITH_DEATHS
def test_an_intercommunicator_is_revoked_on_both_sides(device):
    def body():
        half = comm.Split(rank % 2)
        both = half.Create_intercomm(0, comm, 1 - rank % 2)
        if rank == 3:
            die()
        until(MPI.ERR_PROC_FAILED, comm.Iprobe, 3)
        assert both.Get_failed().size == 1
        if rank == 1:
            both.Revoke()
        assert error_of(both.recv, None, 0) == MPI.ERR_REVOKED
        assert error_of(both.Barrier) == MPI.ERR_REVOKED
        assert error_of(both.Agree, 1) == MPI.ERR_PROC_FAILED
        assert both.Ack_failed() == 1 and both.Agree(7 - (rank == 1)) == 6
        left = both.Shrink()
        assert (left.size, left.remote_size) == ((2, 1) if rank % 2 == 0 else (1, 2))
        assert left.allgather(rank) == ([1] if rank % 2 == 0 else [0, 2])
        assert left.Merge().allreduce(1) == 3
        print("fine", flush=True)

    assert run(body, 4, device).count("fine") == 3


def test_a_communicator_of_one_rank_is_revoked_for_that_one():
    def body():
        alone = MPI.COMM_SELF.Dup()
        if rank == 0:
            alone.Revoke()
            for call in (alone.Barrier, alone.Ibarrier, alone.recv):
                assert error_of(call) == MPI.ERR_REVOKED, call
        assert alone.Is_revoked() == (rank == 0)
        assert alone.Shrink().allreduce(1) == 1 and alone.Agree(5) == 5
        comm.Barrier()
        assert not MPI.COMM_SELF.Is_revoked() and not comm.Is_revoked()
        print("fine", flush=True)

    assert run(body, 2, deaths=0).count("fine") == 2
