"""Every call that moves data, on each device: what one rank writes, the others read."""

# ruff: noqa: F821  (comm, rank, size, MPI, np and name are the ranks' own)
from __future__ import annotations

import pytest

from ..ranks import DEVICES, run

DEVICE = pytest.mark.parametrize("device", DEVICES)
BEGINS = "name = {!r}\n"


def begins(path):
    """Statements of the ranks before a test."""
    return BEGINS.format(str(path / "file"))


@DEVICE
def test_offsets_and_the_own_pointer(device, tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_view(16, MPI.DOUBLE)
        own, all_ = np.arange(4.0) + 10 * rank, np.zeros(4 * size)
        wanted = np.concatenate([np.arange(4.0) + 10 * other for other in range(size)])
        status = MPI.Status()
        for number in range(8):
            own += 1
            wanted += 1
            file.Seek(4 * rank)
            if number == 0:
                file.Write_at(4 * rank, own, status)
            elif number == 1:
                file.Write_at_all(4 * rank, own, status)
            elif number == 2:
                file.Iwrite_at(4 * rank, own).Wait(status)
            elif number == 3:
                file.Iwrite_at_all(4 * rank, own).Wait(status)
            elif number == 4:
                file.Write(own, status)
            elif number == 5:
                file.Write_all(own, status)
            elif number == 6:
                file.Iwrite(own).Wait(status)
            else:
                file.Iwrite_all(own).Wait(status)
            assert status.Get_count(MPI.DOUBLE) == 4
            assert file.Get_position() == 4 * rank + (4 if number > 3 else 0)
            comm.Barrier()
            file.Seek(0)
            all_[:] = 0
            if number == 0:
                file.Read_at(0, all_, status)
            elif number == 1:
                file.Read_at_all(0, all_, status)
            elif number == 2:
                file.Iread_at(0, all_).Wait(status)
            elif number == 3:
                file.Iread_at_all(0, all_).Wait(status)
            elif number == 4:
                file.Read(all_, status)
            elif number == 5:
                file.Read_all(all_, status)
            elif number == 6:
                file.Iread(all_).Wait(status)
            else:
                file.Iread_all(all_).Wait(status)
            assert (all_ == wanted).all(), (number, all_)
            assert status.Get_count(MPI.DOUBLE) == 4 * size
            comm.Barrier()
        assert file.Get_size() == 16 + 32 * size and file.Get_byte_offset(3) == 40
        file.Close()
        assert not file

    run(body, 3, device, before=begins(tmp_path))


@DEVICE
def test_the_shared_pointer(device, tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        for _ in range(5):
            file.Write_shared(bytes([65 + rank]) * 3)
            file.Iwrite_shared(bytes([65 + rank]) * 3).Wait()
        comm.Barrier()
        assert file.Get_position_shared() == file.Get_size() == 30 * size
        found = bytearray(30 * size)
        file.Read_at(0, found)
        pieces = [bytes(found[place : place + 3]) for place in range(0, len(found), 3)]
        assert sorted(pieces) == sorted(bytes([65 + other]) * 3 for other in range(size) for _ in range(10))
        file.Seek_shared(0)
        mine = [bytearray(3) for _ in range(10)]
        for number, room in enumerate(mine):
            if number % 2:
                file.Read_shared(room)
            else:
                file.Iread_shared(room).Wait()
        everything = sorted(bytes(room) for rooms in comm.allgather(mine) for room in rooms)
        assert everything == sorted(pieces)
        file.Close()

    run(body, 3, device, before=begins(tmp_path))


@DEVICE
def test_the_order_of_ranks_and_halves(device, tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        own = np.full(rank + 1, rank, "i4")
        file.Set_view(0, MPI.INT32_T)
        status = MPI.Status()
        file.Write_ordered(own)
        file.Write_ordered_begin(own)
        file.Write_ordered_end(own, status)
        assert status.Get_count(MPI.INT32_T) == rank + 1
        total = size * (size + 1) // 2
        assert file.Get_position_shared() == 2 * total
        file.Seek_shared(-total, MPI.SEEK_END)
        room = np.zeros_like(own)
        file.Read_ordered(room)
        assert (room == own).all()
        file.Seek_shared(0)
        file.Read_ordered_begin(room * 0)
        file.Read_ordered_end(room)
        assert file.Get_position_shared() == total
        room[:] = -1
        file.Read_at_all_begin(total + rank * (rank + 1) // 2, room)
        file.Read_at_all_end(room)
        assert (room == own).all()
        file.Seek(0, MPI.SEEK_END)
        assert file.Get_position() == 2 * total
        comm.Barrier()
        file.Write_all_begin(own)
        try:
            file.Read_all_begin(room)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_OTHER
        else:
            raise AssertionError("two at a time")
        file.Write_all_end(own)
        file.Seek(-(rank + 1), MPI.SEEK_CUR)
        comm.Barrier()
        file.Write_at_all_begin(2 * total, own * 0)
        file.Write_at_all_end(own)
        comm.Barrier()
        file.Read_all_begin(room)
        file.Read_all_end(room)
        assert room.sum() == 0
        file.Close()

    run(body, 3, device, before=begins(tmp_path))


def test_a_read_ends_with_the_file(tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Write_at(0, np.arange(10, dtype="i4"))
        status = MPI.Status()
        room = np.full(8, -1, "i4")
        file.Set_view(0, MPI.INT32_T)
        file.Seek(6)
        file.Read(room, status)
        assert status.Get_count(MPI.INT32_T) == 4 and list(room) == [6, 7, 8, 9, -1, -1, -1, -1]
        assert file.Get_position() == 10
        file.Read(room, status)
        assert status.Get_count(MPI.BYTE) == 0 and file.Get_position() == 10
        every_second = MPI.INT32_T.Create_resized(0, 8)
        file.Set_view(4, MPI.INT32_T, every_second)
        room[:] = -1
        file.Read_at(1, room, status)
        assert status.Get_count(MPI.INT32_T) == 4 and list(room[:5]) == [3, 5, 7, 9, -1]
        file.Seek(0, MPI.SEEK_END)
        assert file.Get_position() == 5
        gaps = MPI.INT32_T.Create_vector(4, 1, 2)
        room[:] = -1
        file.Read_at(2, [room, 1, gaps], status)
        assert status.Get_count(MPI.INT32_T) == 3 and list(room) == [5, -1, 7, -1, 9, -1, -1, -1]
        file.Write_at(0, [np.arange(8, dtype="i4"), 1, gaps])
        file.Read_at(0, room)
        assert list(room[:5]) == [0, 2, 4, 6, 9]
        file.Close()

    run(body, 1, before=begins(tmp_path))
