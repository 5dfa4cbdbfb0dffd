"""Members that live agree, and come together anew, although members die in the middle of it."""

# ruff: noqa: F821  (comm, rank, size, MPI, np and what jobs.BEFORE has are the ranks' own)
from __future__ import annotations

import itertools

import pytest
from fastsock.core.binding._requests import PEER_FAILED, MessageError

from fastsock.mpj.recovery.agreement import State, steps

from . import soak
from .jobs import DEVICES, run

DEVICE = pytest.mark.parametrize("device", [*DEVICES, "smpdev"])
WITH_DEATHS = pytest.mark.parametrize("device", DEVICES)


@DEVICE
def test_all_get_the_flags_that_all_gave(device):
    def body():
        for flags in range(4):
            assert comm.Agree(flags | (rank == 1) << 5) == flags
        assert comm.Agree(-1 - (rank == 2)) == -2
        memory = np.array([6 + rank % 2], "i4")
        request = comm.Iagree(memory)
        assert comm.Ibarrier().Wait()
        request.Wait()
        assert memory[0] == 6
        for wrong in (b"12345678", bytearray(3)):
            try:
                comm.Iagree(wrong)
            except ValueError:
                continue
            raise AssertionError(wrong)
        assert comm.Shrink().allgather(rank) == [0, 1, 2]
        again, request = comm.Ishrink()
        assert error_of(again.Get_size) == MPI.ERR_COMM or request.Test()
        if request:
            request.Wait()
        assert again.allgather(rank) == [0, 1, 2] and again.Get_name() == ""
        print("fine", flush=True)

    assert run(body, 3, device, deaths=0).count("fine") == 3


@WITH_DEATHS
def test_it_raises_in_all_alike_until_all_have_acknowledged(device):
    def body():
        comm.Barrier()
        if rank == 1:
            die()
        if rank == 0:
            until(MPI.ERR_PROC_FAILED, comm.Iprobe, 1)
            comm.Ack_failed()

        def agrees(flag):
            try:
                return comm.Agree(flag), MPI.SUCCESS
            except MPI.Exception as error:
                return error.flag, error.Get_error_class()

        assert agrees(12 + rank) == (12, MPI.ERR_PROC_FAILED)
        memory = np.full(1, 7 - (rank == 2), "i4")
        assert error_of(comm.Iagree(memory).Wait) == MPI.ERR_PROC_FAILED and memory[0] == 6
        comm.Ack_failed()
        assert agrees(5) == (5, MPI.SUCCESS)
        print("fine", flush=True)

    assert run(body, 4, device).count("fine") == 3


@WITH_DEATHS
def test_members_that_die_as_the_others_shrink_are_shrunk_away_next(device):
    def body():
        comm.Barrier()
        if rank == 3:
            die()
        left = comm
        while left.size > 2:
            left = left.Shrink()
            if rank == 5 - left.size:  # 2 dies behind one Shrink, and so on
                die()
            assert error_of(left.Agree, 1) in (MPI.SUCCESS, MPI.ERR_PROC_FAILED)
        assert left.allgather(rank) == [0, 1]
        print("fine", flush=True)

    assert run(body, 4, device, deaths=2).count("fine") == 2


@WITH_DEATHS
def test_who_is_left_alone_goes_on(device):
    def body():
        half = comm.Split(rank % 2)
        both = half.Create_intercomm(0, comm, 1 - rank % 2)
        comm.Barrier()
        if rank:
            die()
        until(MPI.ERR_PROC_FAILED, comm.Iprobe, 1)
        alone = comm.Shrink()
        assert alone.size == 1 and alone.allreduce(5) == 5 and alone.Agree(3) == 3
        assert error_of(both.Shrink) == MPI.ERR_PROC_FAILED  # nobody is left in the other group
        print("fine", flush=True)

    assert "fine" in run(body, 2, device)


def test_calls_that_do_not_belong_together_are_told():
    def body():
        found = error_of(comm.Shrink) if rank else error_of(comm.Agree, 1)
        assert found == MPI.ERR_OTHER
        print("fine", flush=True)

    assert run(body, 2, deaths=0).count("fine") == 2


@pytest.mark.parametrize("seed", range(4))
def test_ranks_are_killed_at_random_moments(seed):
    killed, wrong = soak.job(seed, 3 + seed)
    assert killed > 0 and not wrong


# ---- every order in which a member can die, on a simulator ----


class Wires:
    """Messages between members of this process. A member dies behind so many of its sends; what it sent may be lost."""

    def __init__(self, size, doomed, loses):
        self.size, self.doomed, self.loses = size, dict(doomed), loses
        self.dead = set()
        self.sent = {}

    def end(self, member):
        return End(self, member)


class End:
    def __init__(self, wires, own):
        self.wires, self.own, self.size, self.sends = wires, own, wires.size, 0

    def send(self, data, member, number):
        if self.wires.doomed.get(self.own) == self.sends:
            self.wires.dead.add(self.own)
            raise EOFError
        self.sends += 1
        self.wires.sent[self.own, member, number] = data

    def receive(self, member, number):
        return Arrival(self, member, number)


class Arrival:
    def __init__(self, end, member, number):
        self.end, self.member, self.key = end, member, (member, end.own, number)

    @property
    def payload(self):
        return self.end.wires.sent[self.key]

    @property
    def lost(self):
        wires = self.end.wires
        there = self.key in wires.sent and not (wires.loses and self.member in wires.dead)
        return self.member in wires.dead and not there

    @property
    def done(self):
        return self.lost or self.key in self.end.wires.sent

    @property
    def error(self):
        return MessageError(PEER_FAILED, self.member, "died") if self.lost else None


def decisions(size, doomed, order, loses):
    """What each member decides, None of one that died. `order`: whose turn it is where several can go on."""
    wires = Wires(size, doomed, loses)
    members = {own: steps(wires.end(own), State(7 ^ 1 << own, 0, 0)) for own in range(size)}
    waits = dict.fromkeys(members, ())
    decided = dict.fromkeys(members)
    while members:
        able = [own for own in order if own in members and all(request.done for request in waits[own])]
        assert able, "they stand still"
        try:
            waits[able[0]] = next(members[able[0]])
        except StopIteration as end:
            decided[able[0]] = end.value
            del members[able[0]]
        except EOFError:
            del members[able[0]]
    return wires.dead, decided


@pytest.mark.parametrize("loses", [False, True])
def test_whoever_dies_behind_any_of_its_messages(loses):
    runs = 0
    for order in itertools.permutations(range(3)):
        for victims in itertools.combinations(range(3), 2):
            for behind in itertools.product(range(9), repeat=2):
                dead, decided = decisions(3, zip(victims, behind, strict=True), order, loses)
                living = [decided[member] for member in range(3) if member not in dead]
                assert all(state == living[0] for state in living)
                assert len({state.flags for state in decided.values() if state is not None}) <= 1
                assert all(not state.failed >> member & 1 or member in dead for state in living for member in range(3))
                runs += len(dead) == 2
    assert runs > 100
