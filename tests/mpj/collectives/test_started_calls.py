"""Non-blocking and persistent collectives: the engine brings them further, whatever the program waits for."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from tests.mpj.ranks import DEVICES, run

pytest.importorskip("fastsock.core.binding._core")

PATHS = pytest.mark.parametrize("device", DEVICES)


@PATHS
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_engine_follows_the_schedules_of_plain_arrays(ranks, device):
    def body():
        from fastsock.mpj.messages._point_to_point import StartedCollective

        def check(count):
            own = np.arange(count, dtype="d") + rank
            every = np.arange(count * size, dtype="d") + 100 * rank
            total = np.arange(count) * size + size * (size - 1) / 2
            sums, parts, blocks, part = np.zeros(count), np.zeros(count * size), np.zeros(count * size), np.zeros(count)
            last = size - 1
            data = own.copy()
            handed = every if rank == last else None
            forms = {
                "barrier": (),
                "bcast": (data, last),
                "reduce": (own, sums if rank == last else None, MPI.SUM, last),
                "allreduce": (own, sums, MPI.SUM),
                "allgather": (own, parts),
                "alltoall": (every, blocks),
                "gather": (own, parts if rank == last else None, last),
                "scatter": (handed, part, last),
                "scan": (own, sums, MPI.SUM),
                "exscan": (own, sums, MPI.SUM),
                "reduce_scatter_block": (every, part, MPI.SUM),
            }
            starts = np.arange(size) * 100.0
            summed = every - 100 * rank + 0.0
            expected = {
                "bcast": lambda: (data == np.arange(count) + last).all(),
                "reduce": lambda: rank != last or (sums == total).all(),
                "allreduce": lambda: (sums == total).all(),
                "allgather": lambda: all(
                    (parts[i * count : (i + 1) * count] == np.arange(count) + i).all() for i in range(size)
                ),
                "alltoall": lambda: all(
                    (blocks[i * count : (i + 1) * count] == np.arange(rank * count, (rank + 1) * count) + 100 * i).all()
                    for i in range(size)
                ),
                "gather": lambda: rank != last or parts[-1] == count - 1 + last,
                "scatter": lambda: (part == np.arange(rank * count, (rank + 1) * count) + 100 * last).all(),
                "scan": lambda: (sums == np.arange(count) * (rank + 1) + rank * (rank + 1) / 2).all(),
                "exscan": lambda: rank == 0 or (sums == np.arange(count) * rank + rank * (rank - 1) / 2).all(),
                "reduce_scatter_block": lambda: (
                    part == size * summed[rank * count : (rank + 1) * count] + starts.sum()
                ).all(),
            }
            for name, given in forms.items():
                for _ in range(2):
                    for room in (sums, parts, blocks, part):
                        room[:] = -1
                    request = getattr(comm, "I" + name)(*given)
                    assert type(request.ob) is StartedCollective, name
                    request.Wait()
                    assert request == MPI.REQUEST_NULL and expected.get(name, bool)() is not np.False_, (name, count)
                again = getattr(comm, name.capitalize() + "_init")(*given)
                for _ in range(3):
                    for room in (sums, parts, blocks, part):
                        room[:] = -1
                    again.Start()
                    assert type(again.ob.current) is StartedCollective, name
                    again.Wait()
                    assert name == "barrier" or expected[name](), (name, count)
                again.Free()

        for count in (1, 7, 40000):
            check(count)

    run(body, ranks, device)


@PATHS
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_engine_follows_the_schedules_of_calls_in_place(ranks, device):
    def body():
        from fastsock.mpj.messages._point_to_point import StartedCollective

        def check(count):
            every = np.arange(count * size, dtype="d") + 100 * rank
            mine = slice(rank * count, (rank + 1) * count)
            data, own, root = every.copy(), np.zeros(count), size - 1
            here, counts = MPI.IN_PLACE, [count] * size
            gathered = np.concatenate([np.arange(i * count, (i + 1) * count) + 100.0 * i for i in range(size)])
            scattered = np.arange(rank * count, (rank + 1) * count) + 100.0 * root
            summed = every.copy()
            summed[:count] = np.arange(count * size)[mine] * size + 50.0 * size * (size - 1)
            at_root = rank == root
            gives = (here, data, root) if at_root else (every[mine], None, root)
            forms = {
                "gather": (gives, gathered if at_root else every),
                "scatter": ((data, here, root) if at_root else (None, own, root), every),
                "reduce_scatter_block": ((here, data, MPI.SUM), summed),
                "reduce_scatter": ((here, data, counts, MPI.SUM), summed),
            }
            for name, (given, expected) in forms.items():
                again = getattr(comm, name.capitalize() + "_init")(*given)
                for begin in (lambda: getattr(comm, "I" + name)(*given), again.Start, again.Start):  # noqa: B023
                    data[:] = every
                    own[:] = -1
                    request = begin() or again
                    assert type(getattr(request.ob, "current", request.ob)) is StartedCollective, name
                    request.Wait()
                    assert (data == expected).all(), (name, count)
                    assert name != "scatter" or at_root or (own == scattered).all(), (name, count)
                again.Free()

        for count in (1, 7, 40000):
            check(count)

    run(body, ranks, device)


@PATHS
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_several_at_once_end_in_any_order_among_blocking_calls_and_messages(ranks, device):
    def body():
        chance = np.random.default_rng(rank)
        for round_ in range(20):
            sizes = [1 + 37 * round_, 5, 20000, 3]
            own = [np.full(count, rank + 1.0 + number) for number, count in enumerate(sizes)]
            results = [np.zeros(count) for count in sizes]
            requests = [comm.Iallreduce(a, b) for a, b in zip(own, results, strict=True)]
            word = np.array([rank])
            outgoing = comm.Isend(word, (rank + 1) % size, round_)
            data = np.full(9, rank)
            requests.append(comm.Ibcast(data, round_ % size))
            total = np.zeros(1, "i")
            comm.Allreduce(np.ones(1, "i"), total)
            requests += [comm.Ibarrier(), comm.Ibarrier()]
            came = np.zeros(1, int)
            comm.Recv(came, (rank - 1) % size, round_)
            comm.Barrier()
            assert total[0] == size and came[0] == (rank - 1) % size
            while requests:
                some = int(chance.integers(0, 4))
                if some == 0:
                    requests.pop(int(chance.integers(0, len(requests)))).Wait()
                elif some == 1:
                    place, done = MPI.Request.Testany(requests)
                    if done:
                        del requests[place]
                elif some == 2:
                    del requests[MPI.Request.Waitany(requests)]
                else:
                    requests = [each for each in requests if each != MPI.REQUEST_NULL]
                    for place in sorted(MPI.Request.Waitsome(requests) or [], reverse=True):
                        del requests[place]
            outgoing.Wait()
            for number, result in enumerate(results):
                assert (result == size * (size + 1) / 2 + number * size).all()
            assert (data == round_ % size).all()

    run(body, ranks, device)


@PATHS
def test_a_wait_for_something_else_brings_them_further(device):
    """Rank 0 never waits for its part before the others are done with theirs, which need it in every round."""

    def body():
        own, result = np.full(30000, rank + 1.0), np.zeros(30000)
        word = np.zeros(1)
        request = comm.Iallreduce(own, result)
        if rank == 0:
            for source in range(1, size):
                comm.Recv(word, source)
        else:
            request.Wait()
            comm.Send(word, 0)
        request.Wait()
        assert (result == size * (size + 1) / 2).all()
        data = np.full(5, rank)
        request = comm.Ibcast(data, size - 1)
        request2 = comm.Iscan(own, result)
        comm.Barrier()
        if rank != 1:
            assert request2.Wait() and request.Wait() and (data == size - 1).all()
        else:
            while not MPI.Request.Testall([request, request2]):
                pass
        assert (result == (rank + 1) * (rank + 2) / 2).all()

    run(body, 4, device)


def test_a_thread_that_waits_brings_those_of_others_further():
    def body():
        import threading

        other = comm.Dup()
        own, result = np.full(30000, rank + 1.0), np.zeros(30000)
        word = np.zeros(1)
        if rank == 0:
            waiter = threading.Thread(target=other.Recv, args=(word, 1))
            waiter.start()
        request = comm.Iallreduce(own, result)
        if rank == 0:
            waiter.join()  # not a call of MPI
        else:
            request.Wait()
        if rank == 1:
            other.Send(word, 0)
        request.Wait()
        assert (result == size * (size + 1) / 2).all()

    run(body, 2)


def test_what_the_kernels_do_not_know_goes_on_in_python():
    def body():
        from fastsock.mpj.messages._point_to_point import StartedCollective

        def longest(source, target, datatype):
            a, b = np.frombuffer(source, "i"), np.frombuffer(target, "i")
            b[:] = np.where(abs(a) >= abs(b), a, b)

        op = MPI.Op.Create(longest, True)
        own, result, sums = np.array([rank, -rank], "i"), np.zeros(2, "i"), np.zeros(2, "i")
        first = comm.Iallreduce(own, result, op)
        second = comm.Iallreduce(own, sums)
        assert type(first.ob) is not StartedCollective and type(second.ob) is StartedCollective
        MPI.Request.Waitall([second, first])
        assert list(result) == [size - 1, 1 - size] and sums[0] == size * (size - 1) // 2
        # of items with gaps only the memory is packed; the engine does the rest
        column = MPI.INT.Create_vector(3, 1, 2).Commit()
        data = np.full(6, rank, "i")
        comm.Ibcast([data, 1, column], 1).Wait()
        assert list(data) == [1, rank, 1, rank, 1, rank]

    run(body, 3)


@PATHS
def test_a_killed_rank_is_an_error_of_all_who_wait_for_it_or_for_those_who_do(device):
    if device == "smpdev":
        pytest.skip("its ranks are threads of one process")

    def body():
        import os
        import signal

        comm.Barrier()
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        seen = []
        persistent = comm.Allreduce_init(np.ones(50000), np.zeros(50000))
        for begin in (
            comm.Ibarrier,
            lambda: comm.Iallreduce(np.ones(50000), np.zeros(50000)),
            lambda: comm.Ibcast(np.ones(5), 2),
            lambda: comm.Iallgather(np.ones(50000), np.zeros(200000)),
            lambda: (persistent.Start(), persistent)[1],
        ):
            try:
                begin().Wait()
            except MPI.Exception as error:
                seen.append(error.Get_error_class())
        assert seen == [MPI.ERR_PROC_FAILED] * 5, seen
        print("told", flush=True)

    assert run(body, 4, device, status=1).count("told") == 3


def test_refused_and_misused_ones():
    def body():
        own, result = np.zeros(4), np.zeros(4)

        def refused(call, code):
            try:
                call()
            except MPI.Exception as error:
                assert error.Get_error_class() == code, error
            else:
                raise AssertionError("not refused")

        refused(lambda: comm.Iallreduce(own, result, MPI.BAND), MPI.ERR_OP)
        refused(lambda: comm.Ibcast(own, size), MPI.ERR_ROOT)
        for wrong in (lambda: comm.Iallreduce(own[:2], result), lambda: comm.Allreduce_init(own, result[::2])):
            try:
                wrong()
            except (ValueError, BufferError):
                pass
            else:
                raise AssertionError("not refused")
        room = bytearray(8)
        request = comm.Ibcast(room, 1) if rank else comm.Ibcast(room, 0)
        MPI.Request.Wait(request)
        request = comm.Ibarrier() if rank == 0 else None
        if rank == 0:
            refused(request.Cancel, MPI.ERR_REQUEST)
            assert not request.Test()
            status = MPI.Status()
            assert not request.Get_status(status)
        comm.Send(own, 1 - rank, 5) if rank == 0 else comm.Recv(own, 0, 5)
        if rank:
            request = comm.Ibarrier()
        status = MPI.Status()
        request.Wait(status)
        assert status.Get_source() == MPI.ANY_SOURCE and status.Get_count() == 0 and not request
        again = comm.Bcast_init(own)
        refused(lambda: [again.Start(), again.Start()], MPI.ERR_REQUEST)
        assert again.Wait() and again.Wait() and again.Test()
        again.Free()
        assert again == MPI.REQUEST_NULL

    run(body, 2)


def test_memory_is_held_until_the_end_and_not_longer():
    def body():
        import gc

        room = bytearray(16)
        if rank == 1:
            request = comm.Ibcast(room, 0)
            try:
                room.append(1)
            except BufferError:
                pass
            else:
                raise AssertionError("the memory is free")
            comm.Send(b"posted", 0)
        else:
            comm.Recv(bytearray(6), 1)
            request = comm.Ibcast(room, 0)
        request.Wait()
        room.append(1)
        own, result = np.ones(10), np.zeros(10)

        def use():
            comm.Iallreduce(own, result).Wait()
            comm.Iallreduce(own, result)  # forgotten: it ends all the same
            comm.Ibarrier().Wait()
            again = comm.Allreduce_init(own, result)
            again.Start()
            again.Wait()
            again.Free()

        for _ in range(3):
            use()
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(50):
            use()
        gc.collect()
        assert len(gc.get_objects()) < before + 30

    run(body, 2)


@PATHS
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_blocks_of_sizes_of_their_own(ranks, device):
    """Block i has i + 1 items, with a gap between blocks, in the order of the ranks or against it."""

    def body():
        from fastsock.mpj.messages._point_to_point import StartedCollective

        def check(scale, backwards):
            counts = [scale * (i + 1) for i in range(size)]
            starts = [sum(counts[:i]) + i for i in range(size)]
            if backwards:
                starts = [sum(counts[i + 1 :]) + size - 1 - i for i in range(size)]
            mine, whole = counts[rank], sum(counts) + size
            own = np.arange(mine) + 1000.0 * rank
            parts = np.zeros(whole)
            room = np.zeros(mine)
            outgoing = np.zeros(mine * size)  # for each rank as many as this one has
            for to in range(size):
                outgoing[to * mine : (to + 1) * mine] = np.arange(mine) + 1000.0 * rank + 10.0 * to
            every = np.arange(float(sum(counts))) + rank
            nbytes = [[8 * count for count in counts], [8 * start for start in starts]]
            same = [[mine] * size, [mine * i for i in range(size)]]
            last = size - 1
            source = np.arange(float(whole))
            into = [parts, counts, starts, MPI.DOUBLE]
            forms = {
                "gatherv": (own, into if rank == last else None, last),
                "allgatherv": (own, into),
                "scatterv": ([source, counts, starts, MPI.DOUBLE] if rank == last else None, room, last),
                "alltoallv": ([outgoing, *same, MPI.DOUBLE], into),
                "alltoallw": (
                    [outgoing, same[0], [8 * at for at in same[1]], [MPI.DOUBLE] * size],
                    [parts, counts, nbytes[1], [MPI.DOUBLE] * size],
                ),
                "reduce_scatter": (every, room, counts, MPI.SUM),
            }

            def verify(name):
                if name == "scatterv":
                    assert (room == source[starts[rank] : starts[rank] + mine]).all()
                elif name == "reduce_scatter":
                    begin = sum(counts[:rank])
                    assert (room == size * np.arange(begin, begin + mine) + size * (size - 1) / 2).all()
                elif name != "gatherv" or rank == last:
                    for i in range(size):
                        block = np.arange(counts[i]) + 1000.0 * i + (10.0 * rank if "alltoall" in name else 0)
                        assert (parts[starts[i] : starts[i] + counts[i]] == block).all(), (name, i)

            for name, given in forms.items():
                for _ in range(2):
                    parts[:] = room[:] = -1
                    request = getattr(comm, "I" + name)(*given)
                    assert type(request.ob) is StartedCollective, name
                    request.Wait()
                    verify(name)
                again = getattr(comm, name.capitalize() + "_init")(*given)
                for _ in range(2):
                    parts[:] = room[:] = -1
                    again.Start()
                    assert type(again.ob.current) is StartedCollective, name
                    again.Wait()
                    verify(name)
                again.Free()

        for scale in (1, 3000):
            check(scale, False)
            check(scale, True)

    run(body, ranks, device)


def test_buffers_that_lie_in_each_other_do_not_tell_where_those_of_other_calls_lie():
    def body():
        every = np.zeros(2 * size)
        for _ in range(2):
            every[:] = -1
            mine = every[2 * rank : 2 * rank + 2]
            mine[:] = rank
            comm.Iallgather(mine, every).Wait()
            assert (every == np.repeat(np.arange(size), 2)).all()
            other = np.full(2, rank + 5.0)
            comm.Iallgather(other, every).Wait()
            assert (every == np.repeat(np.arange(size) + 5, 2)).all()

    run(body, 3)
