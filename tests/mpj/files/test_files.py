"""What a file says of itself, views and representations, atomic accesses, threads, and forked children."""

# ruff: noqa: F821  (comm, rank, size, MPI, np, os, pathlib, name and raised are the ranks' own)
from __future__ import annotations

import pytest

from ..ranks import DEVICES, run
from .test_errors import before

DEVICE = pytest.mark.parametrize("device", DEVICES)


@DEVICE
def test_what_a_file_says_of_itself(device, tmp_path):
    def body():
        amode = MPI.MODE_CREATE | MPI.MODE_RDWR
        hints = MPI.Info.Create({"file_perm": "600", "cb_nodes": "1"})
        file = MPI.File.Open(comm, pathlib.Path(name), amode, hints)
        assert os.stat(name).st_mode & 0o777 == 0o600
        assert file.amode == file.Get_amode() == amode
        assert (file.group_size, file.group_rank) == (size, rank)
        assert MPI.Group.Compare(file.group, comm.group) == MPI.IDENT
        assert file.info.Get("cb_nodes") == "1"
        file.info = MPI.Info.Create({"cb_nodes": "2", "other": "x"})
        assert dict(file.Get_info().items()) == {"file_perm": "600", "cb_nodes": "2", "other": "x"}
        file.Set_size(100)
        assert file.size == file.Get_size() == 100
        file.Preallocate(50)
        assert file.size == 100
        file.Preallocate(200)
        assert file.size == 200
        file.Sync()
        assert file.Get_view() == (0, MPI.BYTE, MPI.BYTE, "native")
        pairs = MPI.INT.Create_contiguous(2)
        file.Set_view(8, MPI.INT, pairs, "internal")
        pairs.Free()
        displacement, etype, filetype, datarep = file.Get_view()
        assert (displacement, etype, filetype.size, datarep) == (8, MPI.INT, 8, "internal")
        filetype.Free()
        assert file.Get_byte_offset(3) == 20
        same = MPI.File.f2py(file.py2f())
        assert same == file and MPI.File.fromhandle(file.handle) == file and MPI.File(file) == file
        assert not file.atomicity
        file.atomicity = True
        assert file.Get_atomicity()
        file.Close()
        assert not file and file == MPI.FILE_NULL
        file.free()
        for spelled in (name, os.fsencode(name)):
            file = MPI.File.Open(MPI.COMM_SELF, spelled)
            file.free()
            assert not file

    run(body, 2, device, before=before(tmp_path))


def test_the_portable_representation(tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_view(0, MPI.INT, MPI.INT.Create_resized(0, 8), "external32")
        own = np.arange(5, dtype="i4") + 100 * rank
        file.Write_ordered(own)
        comm.Barrier()
        found = np.fromfile(name, ">i4")
        assert list(found[::2]) == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]
        room = np.zeros(10, "i4")
        file.Read_at(0, room)
        assert list(room) == list(found[::2])
        comm.Barrier()
        file.Set_size(18)
        status = MPI.Status()
        room[:] = -1
        file.Read_at(0, room, status)
        assert status.Get_count(MPI.INT) == 2 and list(room[:3]) == [0, 1, -1]
        file.Set_size(0)
        mixed = MPI.Datatype.Create_struct([1, 1, 2], [0, 8, 24], [MPI.INT8_T, MPI.DOUBLE, MPI.INT16_T])
        record = mixed.Create_resized(0, 32)
        file.Set_view(0, MPI.BYTE, MPI.BYTE, "external32")
        memory = bytearray(96)
        for place in range(0, 96, 32):
            memory[place : place + 1] = bytes([place + 1])
            memory[place + 8 : place + 16] = np.array([place + 0.5]).tobytes()
            memory[place + 24 : place + 28] = np.array([place, place + 1], "i2").tobytes()
        if rank == 0:
            file.Write([memory, 3, record], status)
            assert status.Get_count(record) == 3 and file.Get_position() == 39
        comm.Barrier()
        wanted = np.zeros(3, [("a", "i1"), ("b", ">f8"), ("c", ">i2", 2)])
        for number in range(3):
            wanted[number] = (32 * number + 1, 32 * number + 0.5, (32 * number, 32 * number + 1))
        assert pathlib.Path(name).read_bytes() == wanted.tobytes()
        back = bytearray(96)
        file.Read_at(0, [back, 3, record])
        assert back == memory
        assert file.Get_type_extent(MPI.DOUBLE) == 8 and file.Get_type_extent(MPI.WCHAR) == 2
        assert file.Get_type_extent(MPI.WCHAR.Create_vector(2, 1, 3)) == 8
        file.Close()

    run(body, 2, before=before(tmp_path))


@DEVICE
def test_a_representation_of_the_programs_own(device, tmp_path):
    def body():
        def extent(datatype):
            return 2 * datatype.extent

        def write(memory, datatype, count, file, position):
            items, stored = np.frombuffer(memory, "i4"), np.frombuffer(file, "i8")
            assert datatype == MPI.INT and position == 0 and len(stored) == count
            stored[:] = -items[:count]

        def read(memory, datatype, count, file, position):
            np.frombuffer(memory, "i4")[:count] = -np.frombuffer(file, "i8")[:count]

        MPI.Register_datarep("wide", read, write, extent)
        raised(MPI.ERR_DUP_DATAREP, MPI.Register_datarep, "wide", read, write, extent)
        raised(MPI.ERR_DUP_DATAREP, MPI.Register_datarep, "native", read, write, extent)
        raised(MPI.ERR_ARG, MPI.Register_datarep, "x" * 200, read, write, extent)
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_view(0, MPI.INT, MPI.INT.Create_vector(1, 2, 2), "wide")
        assert file.Get_type_extent(MPI.INT) == 8
        file.Write_at_all(4 * rank, np.arange(4, dtype="i4") + 10 * rank)
        comm.Barrier()
        assert list(np.fromfile(name, "i8")) == [0, -1, -2, -3, -10, -11, -12, -13]
        room, status = np.full(6, 99, "i4"), MPI.Status()
        file.Read_at(6, room, status)
        assert list(room) == [12, 13, 99, 99, 99, 99] and status.Get_count(MPI.INT) == 2
        MPI.Register_datarep("plain", None, None, lambda datatype: datatype.extent)
        file.Set_view(0, MPI.INT64_T, None, "plain")
        file.Read_at(1, [room.view("i8"), 1, MPI.INT64_T])
        assert room.view("i8")[0] == -1

        def fails(*_):
            raise KeyError("no such thing")

        MPI.Register_datarep("broken", fails, fails, lambda datatype: datatype.extent)
        file.Set_view(0, MPI.INT, None, "broken")
        assert "no such thing" in raised(MPI.ERR_CONVERSION, file.Write_at, 0, np.zeros(1, "i4"))
        raised(MPI.ERR_CONVERSION, file.Read_at, 0, np.zeros(1, "i4"))
        file.Close()

    run(body, 2, device, before=before(tmp_path))


@DEVICE
def test_atomic_accesses_to_one_place_are_whole(device, tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_view(0, MPI.BYTE, MPI.BYTE.Create_resized(0, 3))
        file.Set_atomicity(True)
        length = 200000
        own, found = np.full(length, rank + 1, "u1"), np.zeros(length, "u1")
        file.Write_at_all(0, own)
        for number in range(20):
            if number % 3 == 0:
                file.Write_at(0, own)
            else:
                file.Iwrite_at(0, own).Wait()
            file.Read_at(0, found)
            assert found.min() == found.max() > 0, np.unique(found, return_counts=True)
        file.Close()

    run(body, 3, device, before=before(tmp_path))


@DEVICE
def test_threads_of_a_rank_use_one_file(device, tmp_path):
    def body():
        import threading

        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_view(0, MPI.INT32_T)
        threads, each, errors = 4, 50, []

        def work(number):
            try:
                mine = (rank * threads + number) * each
                for place in range(each):
                    value = np.full(1, mine + place, "i4")
                    file.Write_at(mine + place, value)
                    file.Write_shared(value)
                    found = np.zeros(1, "i4")
                    file.Iread_at(mine + place, found).Wait()
                    assert found[0] == mine + place
            except BaseException as error:
                errors.append(error)

        file.Seek_shared(size * threads * each)
        running = [threading.Thread(target=work, args=[number]) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert errors == []
        comm.Barrier()
        total = size * threads * each
        everything = np.fromfile(name, "i4")
        assert (everything[:total] == np.arange(total)).all()
        assert (np.sort(everything[total:]) == np.arange(total)).all()
        own = np.zeros(each, "i4")
        file.Seek(0)

        def read():
            for _ in range(each):
                room = np.zeros(1, "i4")
                file.Read(room)
                own[room[0] % each] += 1

        running = [threading.Thread(target=read) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert file.Get_position() == threads * each
        file.Close()

    # the ranks of smpdev are threads: those that they start belong to the rank that starts them
    run(body, 2, device, before=before(tmp_path))


def test_a_forked_child_has_no_file(tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Iwrite_at(rank, b"x").Wait()  # its thread has run
        child = os.fork()
        if child == 0:
            try:
                raised(MPI.ERR_OTHER, file.Write_at, 0, b"y")
                raised(MPI.ERR_OTHER, file.Iwrite_shared, b"y")
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        file.Write_at_all(rank, b"z")
        file.Close()
        assert pathlib.Path(name).read_bytes() == b"z" * size

    run(body, 2, before=before(tmp_path))


def test_files_of_communicators_that_are_freed(tmp_path):
    def body():
        half = comm.Split(rank % 2)
        file = MPI.File.Open(half, name + str(rank % 2), MPI.MODE_CREATE | MPI.MODE_RDWR)
        half.Free()
        file.Write_ordered(bytes([65 + rank]))
        file.Close()
        comm.Barrier()
        assert pathlib.Path(name + "0").read_bytes() == b"AC" and pathlib.Path(name + "1").read_bytes() == b"BD"
        several = [MPI.File.Open(comm, f"{name}.{number}", MPI.MODE_CREATE | MPI.MODE_RDWR) for number in range(5)]
        for number, file in enumerate(several):
            file.Iwrite_at_all(rank, bytes([65 + number]))
        for file in reversed(several):
            file.Close()
        assert pathlib.Path(name + ".3").read_bytes() == b"DDDD"

    run(body, 4, before=before(tmp_path))


APART = """
from fastsock.mpj.files import pointers
from fastsock.mpj.windows import formation
pointers.share = formation.share = lambda *_: None
"""


def test_the_shared_pointer_of_ranks_that_share_no_memory(tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE)
        for _ in range(10):
            file.Write_shared(bytes([rank]))
            file.Write_ordered(bytes([rank]))
        comm.Barrier()
        assert file.Get_position_shared() == file.Get_size() == 20 * size
        comm.Barrier()
        file.Seek_shared(-size, MPI.SEEK_END)
        room = bytearray(1)
        file.Read_ordered(room)
        assert room[0] == rank
        file.Close()
        assert not pathlib.Path(name).exists()

    run(body, 3, before=before(tmp_path) + APART)


def test_more_files_than_a_communicator_has_pointers_for(tmp_path):
    def body():
        amode = MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE
        for _ in range(2):
            files = [MPI.File.Open(comm, f"{name}.{number}", amode) for number in range(70)]
            for number, file in enumerate(files):
                assert file.Get_position_shared() == 0
                comm.Barrier()
                file.Write_shared(bytes(number))
            comm.Barrier()
            assert [file.Get_position_shared() for file in files] == [size * number for number in range(70)]
            for file in files:
                file.Close()

    run(body, 2, before=before(tmp_path))


@pytest.mark.parametrize("device", ["iodev", "sysvdev"])
def test_the_others_hear_that_a_member_died(device, tmp_path):
    def body():
        import signal

        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_info(MPI.Info.Create({"collective_buffering": "true"}))
        file.Write_at_all(rank, b"x")
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        request = file.Iwrite_at_all(rank, b"y")
        for call in (request.Wait, file.Sync, lambda: file.Write_ordered(b"z"), file.Set_view):
            assert "rank 2" in raised(MPI.ERR_PROC_FAILED, call)
        file.Write_at(rank, b"w")
        comm.sendrecv(None, 1 - rank, source=1 - rank)
        raised(MPI.ERR_PROC_FAILED, file.Close)
        assert not file
        print("told")
        comm.sendrecv(None, 1 - rank, source=1 - rank)

    assert run(body, 3, device, status=1, before=before(tmp_path)).count("told") == 2


def test_every_member_of_mpi4pys_class_is_there():
    """Names of mpi4py 4.1's File."""
    from fastsock.mpj.MPI import File

    names = """Call_errhandler Close Create_errhandler Delete Get_amode Get_atomicity Get_byte_offset
    Get_errhandler Get_group Get_info Get_position Get_position_shared Get_size Get_type_extent Get_view Iread
    Iread_all Iread_at Iread_at_all Iread_shared Iwrite Iwrite_all Iwrite_at Iwrite_at_all Iwrite_shared Open
    Preallocate Read Read_all Read_all_begin Read_all_end Read_at Read_at_all Read_at_all_begin Read_at_all_end
    Read_ordered Read_ordered_begin Read_ordered_end Read_shared Seek Seek_shared Set_atomicity Set_errhandler
    Set_info Set_size Set_view Sync Write Write_all Write_all_begin Write_all_end Write_at Write_at_all
    Write_at_all_begin Write_at_all_end Write_ordered Write_ordered_begin Write_ordered_end Write_shared amode
    atomicity f2py free fromhandle fromint group group_rank group_size handle info py2f size toint"""
    assert [name for name in names.split() if not hasattr(File, name)] == []
