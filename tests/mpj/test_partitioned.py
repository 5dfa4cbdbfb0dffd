"""Partitioned messages: filled and taken part by part, by several threads too."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from .ranks import DEVICES, run


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def test_parts_arrive_as_they_are_marked_in_any_order_and_again_and_again(device):
    def body():
        data = np.zeros(8)
        if rank == 0:
            request = comm.Psend_init(data, 4, 1, tag=3)
            for turn in range(3):
                request.Start()
                for part in (2, 0, 3, 1):
                    data[2 * part : 2 * part + 2] = 10 * turn + part
                    request.Pready(part)
                    comm.recv(source=1)  # it has that part, and may not have the others
                request.Wait()
        else:
            request = comm.Precv_init(data, 4, 0, tag=3)
            for turn in range(3):
                request.Start()
                for part in (2, 0, 3, 1):
                    while not request.Parrived(part):
                        pass
                    assert (data[2 * part : 2 * part + 2] == 10 * turn + part).all()
                    comm.send(None, 0)
                status = MPI.Status()
                request.Wait(status)
                assert status.Get_source() == 0 and status.Get_tag() == 3 and status.Get_count(MPI.DOUBLE) == 8
        request.Free()

    run(body, 2, device)


def test_the_ends_may_divide_the_message_differently(device):
    def body():
        data = np.zeros(12, "i")
        if rank == 0:
            data[:] = range(12)
            request = comm.Psend_init(data, 6, 1)
            request.Start()
            request.Pready_range(0, 2)
            comm.recv(source=1)
            request.Pready_list([5, 4, 3])
        else:
            request = comm.Precv_init(data, 2, 0, tag=0)
            request.Start()
            while not request.Parrived(0):
                pass
            assert data[:6].tolist() == list(range(6)) and not request.Parrived(1)
            comm.send(None, 0)
        request.Wait()
        assert data.tolist() == list(range(12))
        request.Free()

    run(body, 2, device)


def test_each_thread_marks_its_own_part(device):
    def body():
        import threading

        data = np.zeros(4000)
        if rank == 0:
            request = comm.Psend_init(data, 8, 1)

            def fill(part):
                data[500 * part : 500 * part + 500] = part
                request.Pready(part)

            request.Start()
            threads = [threading.Thread(target=fill, args=(part,)) for part in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            request = comm.Precv_init(data, 8, 0, tag=0)
            request.Start()
        request.Wait()
        assert (data == np.repeat(np.arange(8.0), 500)).all()
        request.Free()

    run(body, 2, device)


def test_a_part_has_arrived_exactly_when_all_that_it_holds_was_marked(device):
    """Random divisions at both ends, marked in a random order; the model knows which parts of the receive are full."""

    def body():
        import random

        choice = random.Random(7)  # the same at both ends
        for _ in range(20):
            sent, taken = choice.choice([1, 2, 3, 4, 6, 8]), choice.choice([1, 2, 3, 4, 6, 8])
            length = 24 * choice.choice([1, 50, 4000])
            order = choice.sample(range(sent), sent)
            call = choice.choice(["Pready", "Pready_list", "Pready_range"])
            data = np.zeros(length, "i")
            if rank == 0:
                request = comm.Psend_init([data, length // sent, MPI.INT], sent, 1, tag=5)
            else:
                request = comm.Precv_init([data, length // taken, MPI.INT], taken, 0, tag=5)
            for turn in (1, 2):
                whole = np.arange(length, dtype="i") * turn
                request.Start()
                marked = set()
                for part in order:
                    marked.add(part)
                    if rank == 0:
                        here = slice(part * length // sent, (part + 1) * length // sent)
                        data[here] = whole[here]
                        arguments = {"Pready": [part], "Pready_list": [[part]], "Pready_range": [part, part]}
                        getattr(request, call)(*arguments[call])
                        comm.recv(source=1)
                        continue
                    for mine in range(taken):
                        needed = range(mine * sent // taken, -(-(mine + 1) * sent // taken))
                        if marked.issuperset(needed):
                            while not request.Parrived(mine):
                                pass
                            here = slice(mine * length // taken, (mine + 1) * length // taken)
                            assert (data[here] == whole[here]).all()
                        else:
                            assert not request.Parrived(mine), (sent, taken, marked, mine)
                    comm.send(None, 0)
                status = MPI.Status()
                request.Wait(status)
                assert (data == whole).all()
                assert rank == 0 or status.Get_count(MPI.INT) == length
            request.Free()

    run(body, 2, device)


def test_what_is_wrong_is_told_in_words():
    def body():
        def told(code, words, call, *given):
            try:
                call(*given)
            except MPI.Exception as error:
                assert error.Get_error_class() == code and words in str(error), error
            else:
                raise AssertionError(words)

        data = np.zeros(4)
        told(MPI.ERR_ARG, "at least 1", comm.Psend_init, data, 0, 0)
        told(MPI.ERR_ARG, "no wildcards", comm.Precv_init, data, 2, MPI.ANY_SOURCE, 0)
        sends, receives = comm.Psend_init(data, 2, 0), comm.Precv_init(data.copy(), 2, 0, 0)
        told(MPI.ERR_ARG, "was not started", sends.Pready, 0)
        sends.Start(), receives.Start()
        told(MPI.ERR_ARG, "no partition 2", sends.Pready, 2)
        told(MPI.ERR_ARG, "only partitions of a send", receives.Pready, 0)
        told(MPI.ERR_ARG, "only partitions of a receive", sends.Parrived, 0)
        sends.Pready(0)
        told(MPI.ERR_ARG, "ready already", sends.Pready, 0)
        sends.Pready(1)
        MPI.Request.Waitall([sends, receives])
        told(MPI.ERR_REQUEST, "not a partitioned", comm.Send_init(data, 0).Pready, 0)
        nobody = comm.Psend_init(data, 2, MPI.PROC_NULL)
        nobody.Start(), nobody.Pready(0), nobody.Wait()

    run(body, 1)
