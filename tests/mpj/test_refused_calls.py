"""A call that is refused has started nothing: the next one is as if it had never been made."""

# ruff: noqa: F821  (in bodies, comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import numpy as np
import pytest

from fastsock.mpj import MPI

from .ranks import DEVICES, run

PROCESSES = ["iodev", "sysvdev"]  # where a rank is a process: has signals, and an end, of its own


@pytest.mark.parametrize("device", DEVICES)
def test_an_object_that_cannot_be_pickled_in_a_message(device):
    def body():
        other, bad = 1 - rank, lambda: 0

        def refused(call, *args, **named):
            try:
                call(*args, **named)
            except Exception as error:
                assert "pickle" in str(error).lower() or "lambda" in str(error), error
            else:
                raise AssertionError("not refused")

        for turn in range(20):
            good = {"turn": turn, "rank": rank, "data": b"x" * (1 << turn)}
            wanted = good | {"rank": other}
            refused(comm.sendrecv, bad, other, 1, source=other, recvtag=1)
            assert comm.sendrecv(good, other, 1, source=other, recvtag=1) == wanted
            for call in comm.send, comm.ssend, comm.isend, comm.issend:
                refused(call, bad, other, 2)
            request = comm.irecv(source=other, tag=2)
            comm.send(good, other, 2)
            assert request.wait() == wanted

    run(body, 2, device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_rank_that_is_none_in_an_exchange(device):
    def body():
        other = 1 - rank

        def refused(call, *args, **named):
            try:
                call(*args, **named)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_RANK, error
            else:
                raise AssertionError("not refused")

        for turn in range(20):
            here, there = np.full(10, rank + turn), np.full(10, -1)
            refused(comm.sendrecv, turn, 17, 1, source=other, recvtag=1)
            refused(comm.Sendrecv, here, 17, 1, there, other, 1)
            refused(comm.Sendrecv_replace, here, 17, 1, other, 1)
            refused(comm.Isendrecv, here, 17, 1, there, other, 1)
            refused(comm.Isendrecv_replace, here, 17, 1, other, 1)
            assert comm.sendrecv(turn + rank, other, 1, source=other, recvtag=1) == turn + other
            comm.Sendrecv(here, other, 1, there, other, 1)
            assert (there == other + turn).all()
            comm.Sendrecv_replace(here, other, 1, other, 1)
            assert (here == there).all()

    run(body, 2, device)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_no_operation(device):
    def body():
        own, total = np.full(size, rank + 1.0), np.zeros(size)
        part = np.zeros(1)
        shapes = {
            "Reduce": lambda op: (own, total, op),
            "Allreduce": lambda op: (own, total, op),
            "Scan": lambda op: (own, total, op),
            "Exscan": lambda op: (own, total, op),
            "Reduce_scatter_block": lambda op: (own, part, op),
            "Reduce_scatter": lambda op: (own, part, None, op),
        }
        for _ in range(3):
            for bad in 0, None, "SUM", sum, MPI.INT, comm:
                for name, shape in shapes.items():
                    if rank == 0:  # the others find nothing of it
                        for form in name, "I" + name.lower(), name + "_init":
                            try:
                                getattr(comm, form)(*shape(bad))
                            except TypeError as error:
                                assert "MPI.Op" in str(error) and type(bad).__name__ in str(error), error
                            else:
                                raise AssertionError(f"{form} took {bad}")
            comm.Allreduce(own, total)
            assert (total == size * (size + 1) / 2).all()

    run(body, 2, device)


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("device", DEVICES)
def test_an_object_that_cannot_be_pickled_in_a_collective_call(device, ranks):
    def body():
        bad, everybody = (lambda: 0), list(range(size))

        def refused(call, *args, **named):
            try:
                call(*args, **named)
            except Exception as error:
                assert "pickle" in str(error).lower() or "lambda" in str(error), error
            else:
                raise AssertionError("not refused")

        for root in [*everybody] * 4:
            first = rank == root and refused(comm.bcast, bad, root)
            assert not first and comm.bcast(rank, root) == root
            if rank != root:
                refused(comm.gather, bad, root)
            assert comm.gather(rank, root) == (everybody if rank == root else None)
            if rank == root:
                refused(comm.scatter, [bad] * size, root)
                refused(comm.scatter, [*everybody[:-1], bad], root)
            assert comm.scatter(everybody if rank == root else None, root) == rank
            if rank == root:
                refused(comm.allgather, bad)
                refused(comm.allreduce, bad)
                refused(comm.alltoall, [*everybody[:-1], bad])
                refused(comm.reduce, bad)
                refused(comm.scan, bad)
                refused(comm.exscan, bad)
            assert comm.allgather(rank) == everybody
            assert comm.allreduce(rank) == sum(everybody)
            assert comm.alltoall([rank * 100 + each for each in everybody]) == [each * 100 + rank for each in everybody]
            assert comm.reduce(rank) == (sum(everybody) if rank == 0 else None)
            assert comm.scan(rank) == sum(everybody[: rank + 1])
            assert comm.exscan(rank) == (sum(everybody[:rank]) if rank else None)

    run(body, ranks, device)


@pytest.mark.parametrize("device", DEVICES)
def test_an_object_that_cannot_be_pickled_between_groups(device):
    def body():
        bad, low = (lambda: 0), rank < 2
        half = comm.Split(low)
        inter = half.Create_intercomm(0, comm, 2 if low else 0)
        root = (MPI.ROOT if rank == 0 else MPI.PROC_NULL) if low else 0

        def refused(call, *args, **named):
            try:
                call(*args, **named)
            except Exception as error:
                assert "pickle" in str(error).lower() or "lambda" in str(error), error
            else:
                raise AssertionError("not refused")

        for _ in range(5):
            if rank == 0:
                refused(inter.bcast, bad, root)
                refused(inter.scatter, [bad] * inter.remote_size, root)
            assert inter.bcast("all" if rank == 0 else None, root) == (None if low else "all")
            part = inter.scatter(list("ab") if rank == 0 else None, root)
            assert part == (None if low else "ab"[half.rank])
            if not low:
                refused(inter.gather, bad, root)
                refused(inter.reduce, bad, root=root)
            assert inter.gather(rank, root) == ([2, 3] if rank == 0 else None)
            assert inter.reduce(rank, root=root) == (5 if rank == 0 else None)
            refused(inter.allgather, bad)
            refused(inter.allreduce, bad)
            refused(inter.alltoall, [bad] * inter.remote_size)
            assert inter.allgather(rank) == ([2, 3] if low else [0, 1])
            assert inter.allreduce(rank) == (5 if low else 1)
            assert inter.alltoall([rank] * 2) == ([2, 3] if low else [0, 1])
        inter.Free()

    run(body, 4, device)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("device", DEVICES)
def test_memory_that_is_none_in_a_collective_call(device, ranks):
    """One rank is refused, in blocking and non-blocking calls; then it makes the call that the others wait in."""

    def body():
        bad = object()

        def refused(call, *args, **named):
            try:
                call(*args, **named)
            except (TypeError, ValueError, BufferError, MPI.Exception):
                return
            raise AssertionError("not refused")

        total = size * (size + 1) // 2
        for turn in range(3 * size):
            me, mine = turn % size, rank == turn % size
            one, sums, every = np.full(1, rank + 1), np.zeros(1, int), np.zeros(size, int)
            if mine:
                refused(comm.Bcast, bad, me)
                refused(comm.Ibcast, bad, me)
            value = np.full(1, rank)
            comm.Bcast(value, me)
            assert value[0] == me
            if mine:
                refused(comm.Allreduce, bad, sums)
                refused(comm.Allreduce, one, bad)
                refused(comm.Iallreduce, one, bad)
            comm.Allreduce(one, sums)
            assert sums[0] == total
            if mine:
                refused(comm.Allgather, one, bad)
                refused(comm.Iallgather, bad, every)
            comm.Allgather(one, every)
            assert (every == np.arange(1, size + 1)).all()
            if mine:
                refused(comm.Reduce, bad, sums, root=me)
                refused(comm.Gather, one, bad, me)
                refused(comm.Scatter, bad, one, me)
                refused(comm.Alltoall, bad, every)
                refused(comm.Scan, one, bad)
            comm.Reduce(one, sums if mine else None, root=me)
            assert sums[0] == total
            comm.Gather(one, every if mine else None, me)
            assert (every == np.arange(1, size + 1)).all()
            comm.Scatter(every if mine else None, one, me)
            assert one[0] == rank + 1
            comm.Alltoall(np.full(size, rank), every)
            assert (every == np.arange(size)).all()
            comm.Scan(one, sums)
            assert sums[0] == (rank + 1) * (rank + 2) // 2

    run(body, ranks, device)


@pytest.mark.parametrize("device", PROCESSES)
def test_an_exchange_with_a_rank_that_failed(device):
    """The receive of an exchange whose send fails takes no message of a later call."""

    def body():
        import os

        if rank == 0:
            comm.ob.engine.fail(2, "rank 2 is said to be dead")
            here, there = np.zeros(10), np.zeros(10)
            gaps = MPI.DOUBLE.Create_vector(5, 1, 2).Commit()
            calls = [
                lambda: comm.Sendrecv(here, 2, 1, there, 1, 1),
                lambda: comm.Sendrecv([here, 1, gaps], 2, 1, [there, 1, gaps], 1, 1),
                lambda: comm.Isendrecv(here, 2, 1, there, 1, 1).Wait(),
                lambda: comm.Sendrecv_replace(here, 2, 1, 1, 1),
                lambda: comm.sendrecv("object", 2, 1, source=1, recvtag=1),
            ]
            for call in calls:
                try:
                    call()
                except MPI.Exception as error:
                    assert "rank 2" in str(error), error
                else:
                    raise AssertionError("a dead rank was sent to")
            comm.send("go", 1)
            assert [comm.recv(source=1, tag=1) for _ in calls] == list(range(len(calls)))
            print("rank 0 is fine", flush=True)
            comm.send("done", 1)
            comm.recv(source=1)
        elif rank == 1:
            assert comm.recv(source=0) == "go"
            for number in range(5):
                comm.send(number, 0, 1)
            assert comm.recv(source=0) == "done"
            print("rank 1 is fine", flush=True)
            comm.send("done", 0)
            comm.send("done", 2)
        else:  # whoever leaves first ends the others
            assert comm.recv(source=1) == "done"
        os._exit(0)

    output = run(body, 3, device, status=None)
    assert all(f"rank {rank} is fine" in output for rank in range(2)), output


@pytest.mark.parametrize("device", PROCESSES)
def test_a_call_that_a_signal_ends(device):
    """A handler that raises ends a call that waits; the next call takes the message that comes then."""

    def body():
        import signal

        class Enough(Exception):
            pass

        def enough(number, frame):
            raise Enough

        signal.signal(signal.SIGALRM, enough)
        here, there = np.full(200_000, 5.0), np.zeros(200_000)
        gaps = MPI.DOUBLE.Create_vector(5, 1, 2).Commit()
        calls = [
            lambda: comm.Recv(there, 1, 1),
            lambda: comm.Recv([there, 1, gaps], 1, 1),
            lambda: comm.recv(source=1, tag=1),
            lambda: comm.Sendrecv(here[:1], 1, 2, there, 1, 1),
            lambda: comm.Sendrecv([here, 1, gaps], 1, 2, [there, 1, gaps], 1, 1),
            lambda: comm.Sendrecv_replace(there[:1], 1, 2, 1, 1),
            lambda: comm.sendrecv("object", 1, 2, source=1, recvtag=1),
        ]
        for number, call in enumerate(calls):
            if rank == 0:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                try:
                    call()
                except Enough:
                    pass
                else:
                    raise AssertionError("nobody had sent anything")
                comm.send(number, 1, 3)
                assert comm.recv(source=1, tag=1) == number
            elif rank == 1:
                assert comm.recv(source=0, tag=3) == number
                comm.send(number, 0, 1)
        comm.Barrier()
        while rank == 1 and comm.Iprobe(0, 2):  # what was sent before the signal came
            comm.Recv(bytearray(100), 0, 2)

    run(body, 2, device)


@pytest.mark.parametrize("device", DEVICES)
def test_counts_without_memory_and_counts_below_none(device):
    """The forms with counts refuse them as the others do: they do not write to where the displacement points."""

    def body():
        mine, every = np.full(3, rank + 1.0), np.zeros(3 * size)
        counts, displs = [3] * size, [3 * each for each in range(size)]
        types = [MPI.DOUBLE] * size

        def refused(word, call, *args):
            for _ in range(2):
                try:
                    call(*args)
                except ValueError as error:
                    assert word in str(error), error
                else:
                    raise AssertionError("not refused")

        for bad, word in ([None, (counts, displs), MPI.DOUBLE], "None"), ([every, ([-3] * size, displs)], "negative"):
            if rank == 0:
                refused(word, comm.Gatherv, mine, bad)
                refused(word, comm.Igatherv, mine, bad)
                refused(word, comm.Scatterv, bad, mine)
            refused(word, comm.Allgatherv, mine, bad)
            refused(word, comm.Alltoallv, bad, [every, (counts, displs)])
            refused(word, comm.Alltoallv, [every, (counts, displs)], bad)
        for bad, word in ([None, counts, displs, types], "None"), ([every, [-3] * size, displs, types], "negative"):
            refused(word, comm.Alltoallw, bad, [every, counts, [8 * each for each in displs], types])
            refused(word, comm.Ialltoallw, [every, counts, [8 * each for each in displs], types], bad)
        comm.Gatherv(mine, [None, ([0] * size, displs), MPI.DOUBLE] if rank == 1 else [every, (counts, displs)])
        if rank == 0:
            assert (every.reshape(size, 3) == np.arange(1, size + 1)[:, None]).all()

    run(body, 2, device)


@pytest.mark.parametrize("device", DEVICES)
def test_in_place_where_it_means_nothing(device):
    """Only the root's message may be in place in a call with a root."""

    def body():
        mine, every = np.full(2, rank + 1), np.zeros(2 * size, int)
        counts = [2] * size

        def refused(call, *args, **named):
            try:
                call(*args, **named)
            except (TypeError, ValueError, MPI.Exception):
                return
            raise AssertionError(f"{call.__name__} took it")

        for root in range(size):
            for nothing in MPI.IN_PLACE, None:
                if rank != root:
                    refused(comm.Gather, nothing, None, root)
                    refused(comm.Igather, nothing, None, root)
                    refused(comm.Gatherv, nothing, None, root)
                    refused(comm.Scatter, None, nothing, root)
                    refused(comm.Scatterv, None, nothing, root)
                    refused(comm.Reduce, nothing, None, root=root)
                    refused(comm.Ireduce, nothing, None, root=root)
            comm.Gather(mine, every if rank == root else None, root)
            comm.Gatherv(mine, [every, counts] if rank == root else None, root)
            assert rank != root or (every.reshape(size, 2) == np.arange(1, size + 1)[:, None]).all()
            comm.Scatter(every if rank == root else None, mine, root)
            assert (mine == rank + 1).all()

    run(body, 2, device)


@pytest.mark.parametrize("device", DEVICES)
def test_reduce_scatter_counts_items_of_a_type(device):
    """Items of two doubles, then single ones: as many bytes and the same counts, but another call."""

    def body():
        pair = MPI.DOUBLE.Create_contiguous(2).Commit()
        for call in comm.Reduce_scatter, lambda *args: comm.Ireduce_scatter(*args).Wait():
            for _ in range(3):
                own, part = np.full(8, rank + 1.0), np.zeros(4)
                call([own, 4, pair], [part, 2, pair], [2, 2])
                assert (part == 3).all(), part
                try:
                    call(own, part, [2, 2])
                except ValueError:
                    pass
                else:
                    raise AssertionError("four of eight items were enough")

    run(body, 2, device)


def test_a_tag_that_is_none_of_a_message_to_nobody():
    """As on MPICH: only the rank is not looked at."""
    comm, data, nobody = MPI.COMM_SELF, np.zeros(2), MPI.PROC_NULL
    blocking, rest = "Send Ssend Rsend Bsend send ssend bsend", "Isend Issend Irsend Ibsend isend issend"
    sends = f"{blocking} {rest} Send_init Ssend_init Bsend_init"
    receives, probes = "Recv Irecv Recv_init", "Probe Iprobe Mprobe Improbe mprobe"
    calls = [lambda name=name: getattr(comm, name)(data, nobody, -3) for name in (sends + " " + receives).split()]
    calls += [lambda name=name: getattr(comm, name)(data, nobody, MPI.ANY_TAG) for name in sends.split()]
    calls += [lambda name=name: getattr(comm, name)(source=nobody, tag=-3) for name in ("recv", "irecv")]
    calls += [lambda name=name: getattr(comm, name)(nobody, -3) for name in probes.split()]
    for exchange in comm.Sendrecv, comm.Isendrecv:
        calls.append(lambda exchange=exchange: exchange(data, nobody, -3, data, nobody, 0))
        calls.append(lambda exchange=exchange: exchange(data, nobody, 0, data, nobody, -3))
    calls += [lambda: comm.Sendrecv_replace(data, nobody, -3, nobody, 0)]
    calls += [lambda: comm.Sendrecv_replace(data, nobody, 0, nobody, -3)]
    calls += [lambda: comm.sendrecv(1, nobody, -3, source=nobody)]
    for call in calls:
        with pytest.raises(MPI.Exception) as caught:
            call()
        assert caught.value.Get_error_class() == MPI.ERR_TAG
    comm.Send(data, nobody, 0)
    comm.Recv(data, nobody, MPI.ANY_TAG)


def test_items_of_the_null_datatype():
    """As on MPICH: there may be none of them, and to nobody any number."""
    comm, data, null = MPI.COMM_SELF, np.zeros(2), MPI.DATATYPE_NULL
    calls = [comm.Send, comm.Ssend, comm.Isend, comm.Irecv, comm.Bsend]
    refused = [lambda call=call: call([data, 1, null], 0, 9) for call in calls]
    refused += [lambda: comm.Bcast([data, 1, null]), lambda: comm.Allgather([data, 1, null], data)]
    refused += [lambda: comm.Alltoallw([data, [1], [0], [null]], [data, [1], [0], [MPI.DOUBLE]])]
    for call in refused:
        with pytest.raises(MPI.Exception) as caught:
            call()
        assert caught.value.Get_error_class() == MPI.ERR_TYPE
    request = comm.Irecv([data, 0, null], 0, 9)
    comm.Send([data, 0, null], 0, 9)
    request.Wait()
    comm.Bcast([data, 0, null])
    comm.Alltoallw([data, [0], [0], [null]], [data, [0], [0], [null]])
    comm.Send([data, 1, null], MPI.PROC_NULL, 9)


@pytest.mark.parametrize(
    "array",
    [np.zeros(8)[::2], np.zeros(8)[::-1], np.zeros((4, 4))[:, 1], np.zeros(3, "M8[s]"), np.zeros(3, "m8[s]")],
    ids=["strided", "backwards", "column", "datetime", "timedelta"],
)
def test_memory_that_is_not_in_one_piece_or_has_no_type(array):
    """The class of the error is that of mpi4py, whatever numpy raises."""
    comm = MPI.COMM_SELF
    for call in (comm.Send, comm.Isend, comm.Irecv, comm.Ssend, comm.Send_init):
        with pytest.raises(BufferError):
            call(array, 0, 9)
    for call in (comm.Bcast, lambda array: comm.Allreduce(array, np.zeros(8))):
        with pytest.raises(BufferError):
            call(array)


def test_memory_that_may_not_be_written():
    data = np.zeros(3)
    data.flags.writeable = False
    with pytest.raises(BufferError):
        MPI.COMM_SELF.Irecv(data, 0, 9)
