"""What is refused, what the system refuses, and what the errors say."""

# ruff: noqa: F821  (comm, rank, size, MPI, np, os, pathlib, name and raised are the ranks' own)
from __future__ import annotations

import pytest

from ..ranks import run
from .test_access import begins

RAISED = """
import os
import pathlib
def raised(code, call, *arguments):
    try:
        call(*arguments)
    except MPI.Exception as error:
        assert error.Get_error_class() == code, error
        return str(error)
    raise AssertionError(f"{call} did not raise")
"""


def before(path):
    return begins(path) + RAISED


def test_what_is_not_opened(tmp_path):
    def body():
        text = raised(MPI.ERR_NO_SUCH_FILE, MPI.File.Open, comm, name)
        assert (repr(name) in text) and (rank or "MODE_CREATE" in text), text
        for amode in (0, MPI.MODE_RDONLY | MPI.MODE_RDWR, MPI.MODE_RDONLY | MPI.MODE_CREATE,
                      MPI.MODE_RDONLY | MPI.MODE_EXCL, MPI.MODE_RDWR | MPI.MODE_SEQUENTIAL):  # fmt: skip
            raised(MPI.ERR_AMODE, MPI.File.Open, comm, name, amode)
            raised(MPI.ERR_AMODE, MPI.File.Open, MPI.COMM_SELF, name, amode)
        different = [MPI.MODE_RDONLY, MPI.MODE_RDWR | MPI.MODE_CREATE][rank % 2]
        raised(MPI.ERR_NOT_SAME, MPI.File.Open, comm, name, different)
        new = MPI.MODE_RDWR | MPI.MODE_CREATE | MPI.MODE_EXCL
        MPI.File.Open(comm, name, new).Close()
        raised(MPI.ERR_FILE_EXISTS, MPI.File.Open, comm, name, new)
        raised(MPI.ERR_BAD_FILE, MPI.File.Open, comm, os.path.dirname(name))
        raised(MPI.ERR_BAD_FILE, MPI.File.Open, comm, name + "/below", MPI.MODE_RDWR | MPI.MODE_CREATE)
        raised(MPI.ERR_BAD_FILE, MPI.File.Open, comm, "x" * 300)
        raised(MPI.ERR_BAD_FILE, MPI.File.Open, comm, "a\0b")
        other = name if rank == 0 else name + ".other"
        if rank:
            pathlib.Path(other).touch()
        raised(MPI.ERR_NOT_SAME, MPI.File.Open, comm, other)
        missing = name if rank == 0 else name + ".missing"
        assert f"rank {rank}" not in raised(MPI.ERR_NO_SUCH_FILE, MPI.File.Open, comm, missing)
        raised(MPI.ERR_COMM, MPI.File.Open, MPI.COMM_NULL, name)
        MPI.File.Open(comm, name, MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE).Close()
        assert not os.path.exists(name)
        raised(MPI.ERR_NO_SUCH_FILE, MPI.File.Delete, name)

    run(body, 2, before=before(tmp_path))


def test_what_an_open_file_refuses(tmp_path):
    def body():
        MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_WRONLY).Close()
        file = MPI.File.Open(comm, name)
        assert "MODE_RDONLY" in raised(MPI.ERR_READ_ONLY, file.Write_at, 0, b"x")
        raised(MPI.ERR_READ_ONLY, file.Iwrite, b"x")
        raised(MPI.ERR_READ_ONLY, file.Set_size, 3)
        raised(MPI.ERR_READ_ONLY, file.Preallocate, 3)
        raised(MPI.ERR_ARG, file.Read_at, -1, bytearray(1))
        raised(MPI.ERR_ARG, file.Seek, -1)
        raised(MPI.ERR_ARG, file.Seek, 0, 7)
        raised(MPI.ERR_ARG, file.Get_byte_offset, -1)
        raised(MPI.ERR_ARG, file.Set_view, -1)
        raised(MPI.ERR_ARG, file.Set_view, MPI.DISPLACEMENT_CURRENT)
        raised(MPI.ERR_UNSUPPORTED_DATAREP, file.Set_view, 0, MPI.BYTE, None, "other")
        raised(MPI.ERR_TYPE, file.Set_view, 0, MPI.DATATYPE_NULL)
        raised(MPI.ERR_TYPE, file.Set_view, 0, MPI.DOUBLE, MPI.INT)
        backwards = MPI.BYTE.Create_indexed([1, 1], [3, 0])
        raised(MPI.ERR_ARG, file.Set_view, 0, MPI.BYTE, backwards)
        raised(MPI.ERR_ARG, file.Set_view, 0, MPI.BYTE, MPI.BYTE.Create_indexed([2, 2], [0, 1]))
        raised(MPI.ERR_NOT_SAME, file.Set_view, 0, [MPI.INT, MPI.DOUBLE][rank])
        raised(MPI.ERR_NOT_SAME, file.Seek_shared, rank)
        file.Set_view(0, MPI.DOUBLE)
        raised(MPI.ERR_TYPE, file.Read_at, 0, bytearray(7))
        raised(MPI.ERR_OTHER, file.Read_all_end, bytearray(8))
        file.Read_all_begin(bytearray(8))
        raised(MPI.ERR_OTHER, file.Write_all_end, b"")
        raised(MPI.ERR_OTHER, file.Close)
        assert file
        file.Read_all_end(bytearray(8))
        file.Close()
        raised(MPI.ERR_FILE, file.Read, bytearray(8))
        raised(MPI.ERR_FILE, file.Close)
        file = MPI.File.Open(comm, name, MPI.MODE_WRONLY)
        assert "MODE_WRONLY" in raised(MPI.ERR_ACCESS, file.Read, bytearray(8))
        raised(MPI.ERR_NOT_SAME, file.Set_size, 1 + rank)
        raised(MPI.ERR_ARG, file.Set_size, -1)
        every_other = MPI.BYTE.Create_resized(0, 2)
        file.Set_view(rank, MPI.BYTE, every_other)
        file.Write_at_all(0, bytes([65 + rank]) * 1000)
        comm.Barrier()
        assert pathlib.Path(name).read_bytes() == b"AB" * 1000
        file.Close()
        file = MPI.File.Open(comm, name, MPI.MODE_WRONLY | MPI.MODE_SEQUENTIAL)
        raised(MPI.ERR_UNSUPPORTED_OPERATION, file.Write, b"x")
        raised(MPI.ERR_UNSUPPORTED_OPERATION, file.Write_at, 0, b"x")
        raised(MPI.ERR_UNSUPPORTED_OPERATION, file.Get_position)
        file.Write_ordered(bytes([67 + rank]))
        file.Set_view(MPI.DISPLACEMENT_CURRENT)
        assert file.Get_view()[0] == 2
        file.Close()
        file = MPI.File.Open(comm, name, MPI.MODE_RDWR | MPI.MODE_APPEND)
        assert (file.Get_position(), file.Get_position_shared()) == (2000, 2000)
        file.Close()

    run(body, 2, before=before(tmp_path))


def test_the_error_handlers_hear_of_errors(tmp_path):
    def body():
        heard = []
        handler = MPI.File.Create_errhandler(lambda file, code: heard.append((bool(file), MPI.Get_error_class(code))))
        MPI.FILE_NULL.Set_errhandler(handler)
        raised(MPI.ERR_NO_SUCH_FILE, MPI.File.Open, comm, name)
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_WRONLY)
        assert file.Get_errhandler() == handler
        MPI.FILE_NULL.Set_errhandler(MPI.ERRORS_RETURN)
        raised(MPI.ERR_ACCESS, file.Read, bytearray(1))
        file.Call_errhandler(MPI.ERR_OTHER)
        file.Set_errhandler(MPI.ERRORS_RETURN)
        raised(MPI.ERR_ACCESS, file.Read, bytearray(1))
        assert heard == [(False, MPI.ERR_NO_SUCH_FILE), (True, MPI.ERR_ACCESS), (True, MPI.ERR_OTHER)], heard
        file.Close()
        handler.Free()

    run(body, 2, before=before(tmp_path))


def test_a_limit_of_file_sizes(tmp_path):
    def body():
        import resource

        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        assert name in raised(MPI.ERR_NO_SPACE, file.Write_at, 99990, bytes(20))
        request = file.Iwrite_at(100000, bytes(20))
        raised(MPI.ERR_NO_SPACE, request.Wait)
        raised(MPI.ERR_NO_SPACE, file.Set_size, 200000)
        raised(MPI.ERR_NO_SPACE, file.Preallocate, 200000)
        file.Set_view(0, MPI.BYTE, MPI.BYTE.Create_resized(0, 8))
        raised(MPI.ERR_NO_SPACE, file.Write_at, 0, bytes(20000))
        file.info = MPI.Info.Create({"collective_buffering": "true"})
        raised(MPI.ERR_NO_SPACE, file.Write_at_all, 0, bytes(20000))
        file.Close()

    run(body, 2, before=before(tmp_path))


SMALL_DISK = """
import ctypes, sys
libc = ctypes.CDLL(None)
new_mounts, private, recursive = 0x20000, 1 << 18, 1 << 14
if (libc.unshare(new_mounts) or libc.mount(b"none", b"/", None, private | recursive, None)
        or libc.mount(b"none", os.path.dirname(name).encode(), b"tmpfs", 0, b"size=256k")):
    print("no mounts")
    sys.exit()
"""


def test_a_full_disk(tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        comm.Barrier()
        raised(MPI.ERR_NO_SPACE, file.Write_at, rank * (1 << 20), bytes(1 << 20))
        comm.Barrier()
        file.Set_size(0)
        file.Set_size(1 << 20)  # a hole: its pages are wanted when they are written
        file.Set_view(0, MPI.BYTE, MPI.BYTE.Create_resized(0, 8))
        text = raised(MPI.ERR_NO_SPACE, file.Write_at, 0, bytes(1 << 17))
        assert "disk" in text
        file.Set_size(0)
        file.Write_at(0, b"it goes on")
        file.Close()

    if "no mounts" in run(body, 1, before=before(tmp_path) + SMALL_DISK):
        pytest.skip("this system permits no mounts (unshare --mount)")


def test_a_file_that_somebody_cuts_meanwhile_is_shorter_and_no_crash(tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_view(0, MPI.BYTE, MPI.BYTE.Create_resized(0, 8))
        if rank == 0:
            found, status, ends = bytearray(1 << 18), MPI.Status(), set()
            while len(ends) < 3:
                file.Write_at(0, bytes(1 << 18))
                file.Read_at(0, found, status)
                ends.add(status.count)
            pathlib.Path(name + ".done").touch()
        else:
            while not pathlib.Path(name + ".done").exists():
                os.truncate(name, 0)
        file.Close()

    run(body, 2, before=before(tmp_path))


def test_writes_next_to_each_other_lose_nothing(tmp_path):
    """One rank reads, changes and writes back what lies between its runs; the others write there meanwhile, through
    another file, by threads, and together."""

    def body():
        import threading

        count = 30000
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        other = MPI.File.Open(MPI.COMM_SELF, name, MPI.MODE_RDWR)
        tile = MPI.BYTE.Create_resized(0, 4 * size)
        for place, each in enumerate((file, other)):
            each.Set_view(4 * rank + place, MPI.BYTE, tile)
        for number in range(1, 6):
            own = np.full(count, number, "u1")
            threads = [threading.Thread(target=each.Write_at, args=[0, own]) for each in (file, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        file.Set_view(0)
        other.Set_view(4 * rank + 2, MPI.BYTE, tile)
        ended = threading.Event()

        def until_ended():
            while not ended.is_set():
                other.Write_at(0, own)

        thread = threading.Thread(target=until_ended)
        thread.start()
        for place in range(4 * rank + 3, 2000 * 4 * size, 4 * size):
            file.Write_at(place, b"\5")
        ended.set()
        thread.join()
        comm.Barrier()
        file.Set_size(4 * size * count)
        found = np.fromfile(name, "u1").reshape(-1, 4)
        assert (found[:, :3] == 5).all(), np.flatnonzero(found != 5)[:9]
        assert (found[: 2000 * size] == 5).all()
        file.Close()
        other.Close()

    run(body, 2, before=before(tmp_path))
