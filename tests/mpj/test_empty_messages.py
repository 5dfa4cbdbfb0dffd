"""Messages of no items: arrays of length 0, a count of 0, and None."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

from importlib import resources

import pytest

from .ranks import DEVICES, run


@pytest.mark.parametrize("device", DEVICES)
def test_they_are_sent_received_and_too_long_ones_refused(device):
    def body():
        other = 1 - rank
        forms = [np.zeros(0), np.zeros(0, "c16"), np.zeros((3, 0), "i4"), bytearray(), np.zeros(0, "?")]
        forms += [[np.zeros(2), 0, MPI.DOUBLE], [np.zeros(0, "i"), MPI.INT], [None, 0, MPI.DOUBLE], [None, 0, "i"]]
        forms += [[MPI.BOTTOM, 0, MPI.DOUBLE], (None, 0, MPI.BYTE)]
        for mine in forms:
            for theirs in forms:
                status = MPI.Status()
                status.Set_elements(MPI.BYTE, 7)
                sent, received = (mine, theirs) if rank == 0 else (theirs, mine)
                comm.Send(sent, other, 4)
                comm.Recv(received, other, 4, status)
                assert (status.source, status.tag) == (other, 4)
                assert status.Get_count(MPI.DOUBLE) == 0 and status.Get_elements(MPI.BYTE) == 0
                comm.Sendrecv(sent, other, 5, received, other, 5, status)
                assert status.tag == 5 and status.Get_count(MPI.INT) == 0
                requests = [comm.Irecv(received, other, 6), comm.Isend(sent, other, 6), comm.Issend(sent, other, 7)]
                comm.Recv(received, other, 7)
                statuses = [MPI.Status() for _ in requests]
                MPI.Request.Waitall(requests, statuses)
                assert statuses[0].Get_count(MPI.BYTE) == 0
        for nothing in forms:
            comm.Send(np.ones(1), other, 8)
            try:
                comm.Recv(nothing, other, 8)
                raise SystemExit("a message of one item into none")
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_TRUNCATE, error
            room = np.full(3, 5.0)
            request = comm.Irecv(room, other, 9)
            comm.Send(nothing, other, 9)
            request.Wait()
            assert (room == 5).all()
        try:
            comm.Send([None, 1, MPI.DOUBLE], other)
            raise SystemExit("an item of nothing")
        except ValueError:
            pass

    run(body, 2, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", ["shared memory", "messages"])
def test_collectives_of_nothing(device, way, monkeypatch, tmp_path):
    def body():
        # each rank writes its nothing in another way, and takes another path through the library with it
        forms = [np.zeros(0), [None, 0, MPI.DOUBLE], [np.zeros(3), 0, MPI.DOUBLE], [MPI.BOTTOM, 0, MPI.DOUBLE]]
        zeros = [0] * size
        forms_v = [[np.zeros(0), zeros], [None, zeros, zeros, MPI.DOUBLE]]
        forms_v += [[np.zeros(2), (zeros, [1] * size), MPI.DOUBLE]]
        for turn in range(12):
            mine, other = forms[(rank + turn) % 4], forms[(rank + turn // 4) % 4]
            mine_v, other_v = forms_v[(rank + turn) % 3], forms_v[(rank + turn // 3) % 3]
            root = turn % size
            comm.Bcast(mine, root)
            comm.Allreduce(mine, other)
            comm.Allreduce(MPI.IN_PLACE, mine)
            comm.Reduce(mine, other, MPI.MAX, root)
            comm.Scan(mine, other)
            comm.Exscan(mine, other)
            comm.Gather(mine, other, root)
            comm.Scatter(mine, other, root)
            comm.Allgather(mine, other)
            comm.Alltoall(mine, other)
            comm.Reduce_scatter_block(mine, other)
            comm.Reduce_scatter(mine, other, zeros)
            comm.Gatherv(mine, other_v, root)
            comm.Scatterv(mine_v, other, root)
            comm.Allgatherv(mine, other_v)
            comm.Alltoallv(mine_v, other_v)
            started = [comm.Ibcast(mine, root), comm.Iallreduce(mine, other), comm.Ialltoall(mine, other)]
            started += [comm.Igather(mine, other, root), comm.Ialltoallv(mine_v, other_v), comm.Ibarrier()]
            MPI.Request.Waitall(started)
            # what comes afterwards still fits
            here = np.array([rank, turn])
            there = np.zeros(2, here.dtype)
            comm.Allreduce(here, there)
            assert there.tolist() == [size * (size - 1) // 2, size * turn]
        # one rank has something, the others nothing
        counts = [0] * (size - 1) + [3]
        room = np.zeros(3)
        comm.Allgatherv(np.full(counts[rank], 7.0), [room, counts])
        assert room.tolist() == [7.0] * 3
        comm.Alltoallv([np.full(sum(counts), float(rank)), counts], [room := np.zeros(3 * size), [counts[rank]] * size])
        assert not counts[rank] or room.tolist() == [float(source) for source in range(size) for _ in range(3)]

    if way == "messages":
        table = tmp_path / "table.txt"
        table.write_text("".join(f"{line.replace(' messages ', ' host ')}\n" for line in _lines_of_messages()))
        monkeypatch.setenv("FASTSOCK_MPJ_COLLECTIVES", str(table))
    run(body, 3, device)


def _lines_of_messages():
    shipped = resources.files("fastsock.mpj.collectives").joinpath("table.txt").read_text()
    return [line for line in shipped.splitlines() if " messages " in line and not line.startswith("#")]
