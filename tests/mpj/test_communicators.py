"""Communicators, requests and objects between ranks: what mpi4py's own tests do not look at."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from fastsock.mpj import MPI
from fastsock.mpj.communicators._records import ContextNumbers

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


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_communicators_are_made_the_same_with_and_without_shared_memory(device, ranks):
    def body():
        def make(parent):
            yield parent.Split(0, -parent.rank)
            yield parent.Split(parent.rank % 2, 0)
            yield parent.Split(MPI.UNDEFINED if parent.rank == 0 else 2**31 - 1, parent.rank % 3)
            yield parent.Create(parent.group)
            yield parent.Create(parent.group.Incl(list(range(1, size))))
            yield parent.Create_cart([size], True).Sub([True])
            yield parent.Create_group(parent.group.Incl(list(range(size))[::-1]))

        everybody = list(range(size))
        orders = [everybody, everybody[::-1], everybody[1:] + everybody[:1]]
        for order in orders:
            fresh, met = (comm.Split(0, order[rank]) for _ in range(2))
            met.Barrier()
            for one, other in zip(make(fresh), make(met), strict=True):
                assert bool(one) == bool(other)
                if one:
                    assert MPI.Comm.Compare(one, other) == MPI.CONGRUENT
                    told = [each.allgather((rank, each.ob.context)) for each in (one, other)]
                    for each, found in zip((one, other), told, strict=True):
                        assert [who for who, _ in found] == list(each.group.Translate_ranks(None, comm.group))
                        assert len({context for _, context in found}) == 1
                        after, before = (each.rank + 1) % each.size, (each.rank - 1) % each.size
                        assert each.sendrecv(each.rank, after, source=before) == before
                        each.Free()
                        assert each == MPI.COMM_NULL

    run(body, ranks, device)


def test_a_communicator_of_a_request_refuses_calls_until_the_request_is_complete():
    def body():
        duplicate, request = comm.Idup()
        room = np.zeros(1)
        for call in (
            lambda: duplicate.Send(room, 0),
            lambda: duplicate.recv(source=0),
            lambda: duplicate.Iprobe(),
            lambda: duplicate.Allreduce(np.ones(1), room),
            lambda: duplicate.bcast(1),
            lambda: duplicate.Barrier(),
            lambda: duplicate.Dup(),
        ):
            try:
                call()
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_COMM
                assert "wait for the request" in str(error), error
            else:
                raise AssertionError("a communicator without contexts was used")
        request.Wait()
        assert duplicate.allreduce(1) == size
        duplicate.Free()

    run(body, 2)


def test_a_freed_communicator_leaves_nothing_for_the_garbage_collector():
    def body():
        import gc

        group, own, grid = comm.Get_group(), comm.Get_group().Incl([rank]), comm.Create_cart([size])
        makers = (
            comm.Dup,
            lambda: comm.Split(rank % 2, 0),
            lambda: comm.Create(own),
            lambda: comm.Create_group(group),
            lambda: comm.Create_cart([size], [True]),
            lambda: comm.Split_type(MPI.COMM_TYPE_SHARED),
            lambda: grid.Sub([False]),
        )
        for make in makers:
            make().Free()
            gc.collect()
            gc.disable()
            before = len(gc.get_objects())
            for _ in range(50):
                make().Free()
            grown = len(gc.get_objects()) - before
            gc.enable()
            assert grown < 50, (make, grown)

    run(body, 2)


def test_numbers_of_freed_communicators_are_given_again_when_all_others_were_given():
    numbers = ContextNumbers(1, 1 << 27)  # every 2 ** 27th number below 2 ** 29, so there are four
    given = [numbers.take() for _ in range(4)]
    assert len(set(given)) == 4
    with pytest.raises(MPI.Exception, match="too many communicators"):
        numbers.take()
    numbers.free(given[2])
    numbers.free(given[2] + 1)  # another process gave it
    assert numbers.take() == given[2]
    numbers.free(given[3])
    numbers.free(given[0])
    first, second = numbers.take(), numbers.take()
    assert {first, second} == {given[0], given[3]}
    numbers.give_back(first)
    assert numbers.take() == first


def test_subclasses_and_further_handles_share_a_communicator():
    def body():
        class Team(MPI.Intracomm):
            greeting = "hello"

        team = Team(comm.Split(0, -rank))
        other = Team(team)
        assert team == other and team.rank == size - 1 - rank
        team.name, key = "team", MPI.Comm.Create_keyval(copy_fn=True)
        team.Set_attr(key, [rank])
        assert other.name == "team" and other.Get_attr(key) == [rank]
        copy = team.Dup()
        assert type(copy) is Team and copy.greeting == "hello" and copy.name == ""
        assert copy.Get_attr(key) is team.Get_attr(key)
        assert MPI.Comm.fromhandle(copy.handle) == copy
        copy.Free()
        assert copy == MPI.COMM_NULL
        team.Free()
        try:
            team.Barrier()
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_COMM
        else:
            raise AssertionError("a freed communicator was used")

    run(body, 3)


def test_after_a_color_that_is_no_number_calls_match():
    def body():
        for _ in range(2):
            for color in 2**70, 1 / 3:
                try:
                    comm.Split(color, 0)
                except (OverflowError, TypeError):
                    continue
                raise AssertionError(color)
            made = comm.Split(0, 0)
            assert made.allgather(made.size) == [size] * size
            comm.Barrier()

    run(body, 2)


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


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
@pytest.mark.parametrize("ranks", [2, 5])
def test_both_groups_agree_on_what_is_made_of_them(device, ranks):
    def body():
        for cut in range(1, size):
            for turn in (1, -1):  # the order in each group
                low = rank < cut
                groups = [list(range(cut))[::turn], list(range(cut, size))[::turn]]
                mine, theirs = groups if low else groups[::-1]
                local = comm.Split(low, turn * rank)
                inter = local.Create_intercomm(0, comm, theirs[0], 7)
                for highs in [(False, False), (False, True), (True, False), (True, True)]:
                    found = inter.Merge(highs[0] if low else highs[1]).allgather(rank)
                    if highs[0] == highs[1]:
                        assert found in (groups[0] + groups[1], groups[1] + groups[0])
                    else:
                        assert found == (groups[1] + groups[0] if highs[0] else groups[0] + groups[1])
                    assert comm.allgather(found) == [found] * size
                assert inter.Dup().allgather(rank) == theirs
                part = inter.Split(rank % 2, -rank)
                ours, others = ([each for each in group if each % 2 == rank % 2] for group in (mine, theirs))
                if ours and others:
                    assert part.allgather(rank) == sorted(others, reverse=True)
                else:
                    assert part == MPI.COMM_NULL
                direct = MPI.Intercomm.Create_from_groups(comm.group.Incl(mine), 0, comm.group.Incl(theirs), 0)
                assert direct.allgather(rank) == theirs
        print("fine")

    assert run(body, ranks, device).count("fine") == ranks


def test_groups_of_their_own_do_not_wait_for_each_other():
    def body():
        groups = [[0], [1, 2]]
        if rank != 0:
            assert comm.recv(source=0) == "made"
        made = comm.Create(comm.group.Incl(groups[rank > 0]))
        if rank == 0:
            for other in (1, 2):
                comm.send("made", other)
        assert made.allgather(rank) == groups[rank > 0]
        print("fine")

    assert run(body, 3).count("fine") == 3


def test_a_group_of_others_is_refused():
    def body():
        part = comm.Split(rank == 0, 0)
        try:
            part.Create(comm.group)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_ARG
            print("fine")

    assert run(body, 2).count("fine") == 2


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
