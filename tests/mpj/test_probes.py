"""Looking for messages that are not there yet: whoever looks again and again lets the others have the core."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .ranks import DEVICES, run


@pytest.fixture
def core() -> Iterator[int]:
    """All that this test starts runs on this core."""
    before = os.sched_getaffinity(0)
    chosen = min(before)
    os.sched_setaffinity(0, {chosen})
    yield chosen
    os.sched_setaffinity(0, before)


def test_four_ranks_that_look_on_one_core(core: int) -> None:
    def body():
        status = MPI.Status()
        for turn in range(200):
            comm.Send(np.array([turn]), (rank + 1) % size, turn)
            while not comm.Iprobe((rank - 1) % size, turn, status):
                pass
            assert (status.source, status.tag, status.Get_count(MPI.LONG)) == ((rank - 1) % size, turn, 1)
            request = comm.Irecv(np.zeros(1, int), (rank - 1) % size, turn)
            while not MPI.Request.Testall([request]):
                pass

    run(body, 4)


def test_two_ranks_that_come_to_one_core() -> None:
    def body():
        import os

        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        status, data = MPI.Status(), np.zeros(1, int)
        for turn in range(500):
            if turn % 2 == rank:
                comm.Send(np.array([turn]), 1 - rank)
            else:
                while not comm.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
                    pass
                comm.Recv(data, status.source, status.tag)
                assert data[0] == turn

    run(body, 2)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_there_is_told_and_left_there(device: str) -> None:
    def body():
        half = comm.Split(rank % 2, -rank)  # its ranks are others than the world's, in another order
        status, other = MPI.Status(), 1 - half.rank
        assert half.size == 2
        assert not half.Iprobe() and half.Improbe() is None
        comm.Barrier()
        half.Send(np.arange(3.0), other, 7)
        for call in (half.Probe, half.probe):
            assert call(MPI.ANY_SOURCE, MPI.ANY_TAG, status) is True
            assert (status.source, status.tag, status.Get_count(MPI.DOUBLE)) == (other, 7, 3)
        for call in (half.Iprobe, half.iprobe):
            assert call(other, 7, status) is True and call() is True
            assert (status.source, status.tag, status.Get_count(MPI.DOUBLE)) == (other, 7, 3)
            assert call(half.rank, 7) is False and call(other, 8) is False
            assert call(MPI.PROC_NULL, 3, status) is True
            assert (status.source, status.tag) == (MPI.PROC_NULL, MPI.ANY_TAG)
        into = np.zeros(3)
        half.Recv(into, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        assert into.tolist() == [0, 1, 2] and (status.source, status.tag) == (other, 7)
        for wrong in (lambda: half.Iprobe(2), lambda: half.Probe(-7), lambda: half.iprobe(0, -7)):
            try:
                wrong()
            except MPI.Exception as error:
                assert error.Get_error_class() in (MPI.ERR_RANK, MPI.ERR_TAG)
            else:
                raise AssertionError("not refused")

    run(body, 4, device)
