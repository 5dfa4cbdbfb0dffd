"""The short way of reads and writes: what it does at its edges is what the general way does."""

# ruff: noqa: F821  (comm, rank, size, MPI, np, os, pathlib, name and raised are the ranks' own)
from __future__ import annotations

import pytest

from ..ranks import DEVICES, run
from .test_errors import before


@pytest.mark.parametrize("device", DEVICES)
def test_etypes_of_odd_sizes(device, tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        threes = MPI.BYTE.Create_contiguous(3)
        file.Set_view(5, threes)
        for number in range(40):
            file.Write_shared(bytes([rank + 1]) * (3 * (number % 4)))
        raised(MPI.ERR_TYPE, file.Write_shared, b"four")
        raised(MPI.ERR_TYPE, file.Read_shared, bytearray(4))
        raised(MPI.ERR_TYPE, file.Write, b"four")
        assert file.Get_position() == 0
        comm.Barrier()
        assert file.Get_position_shared() == 60 * size
        found = np.fromfile(name, "u1")
        assert len(found) == 5 + 180 * size and not found[:5].any()
        assert [int((found == other + 1).sum()) for other in range(size)] == [180] * size
        groups = found[5:].reshape(-1, 3)
        assert (groups == groups[:, :1]).all()
        comm.Barrier()
        file.Seek_shared(60 * size - 1)
        status, room = MPI.Status(), bytearray(6)
        file.Read_shared(room, status)
        comm.Barrier()
        ends = comm.allgather(status.count)
        assert sorted(ends) == [0] * (size - 1) + [3], ends
        assert file.Get_position_shared() == 60 * size - 1 + 2 * size
        threes.Free()
        file.Close()

    run(body, 2, device, before=before(tmp_path))


def test_displacements_gaps_and_nothing_at_all(tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        status = MPI.Status()
        for call in (file.Write, file.Write_shared, file.Read, file.Read_shared):
            status.Set_elements(MPI.BYTE, 9)
            call(bytearray(0), status)
            assert (status.count, status.source, status.tag) == (0, MPI.ANY_SOURCE, MPI.ANY_TAG)
        file.Write_at(7, np.zeros(0))
        assert (file.Get_size(), file.Get_position(), file.Get_position_shared()) == (0, 0, 0)
        file.Set_view(3, MPI.INT16_T, MPI.INT16_T.Create_resized(0, 6))
        file.Write(np.arange(4, dtype="i2"), status)
        assert status.Get_count(MPI.INT16_T) == 4 and file.Get_position() == 4
        file.Write_shared([np.arange(4, 6, dtype="i2"), 1, MPI.INT16_T])
        file.Write_shared(np.array([8], "i2"))
        assert list(np.frombuffer(pathlib.Path(name).read_bytes()[3:5], "i2")) == [4]
        file.Write_at(2, [np.array([1, 2, 3, 4], "i2"), 2, MPI.INT16_T.Create_vector(1, 1, 2).Create_resized(0, 4)])
        room = np.zeros(9, "i2")
        file.Read_at(0, room, status)
        assert list(room) == [4, 8, 1, 3, 0, 0, 0, 0, 0] and status.Get_count(MPI.INT16_T) == 4
        file.Seek(-2, MPI.SEEK_CUR)
        file.Read(room, status)
        assert (file.Get_position(), status.count) == (4, 4)
        assert bytes(np.fromfile(name, "u1")[5:9]) == bytes(4)
        file.Set_view(0)
        for refused in (np.zeros((4, 4), "u1")[:, ::2], "text", 3.5, b"read-only"):
            for call in (file.Read, file.Read_shared, lambda each: file.Read_at(0, each)):
                try:
                    call(refused)
                except (BufferError, TypeError, ValueError):
                    continue
                raise AssertionError(refused)
        for call in (file.Write, file.Write_shared, lambda each: file.Write_at(0, each)):
            try:
                call(np.zeros((4, 4), "u1")[:, ::2])
            except (BufferError, ValueError):
                continue
            raise AssertionError("memory with gaps that no datatype tells of")
        assert (file.Get_position(), file.Get_position_shared()) == (0, 0)
        file.Write_at(0, np.asfortranarray([[1, 2], [3, 4]], "u1"))
        assert bytes(np.fromfile(name, "u1")[:4]) == b"\1\3\2\4"
        file.Close()

    run(body, 1, before=before(tmp_path))


def test_appending_and_atomic_mode(tmp_path):
    def body():
        pathlib.Path(name).write_bytes(b"begun")
        comm.Barrier()
        file = MPI.File.Open(comm, name, MPI.MODE_APPEND | MPI.MODE_WRONLY)
        file.Write_shared(bytes([65 + rank]))
        comm.Barrier()
        file.Seek(size + 5)
        file.Seek(rank, MPI.SEEK_CUR)
        file.Write(bytes([97 + rank]))
        raised(MPI.ERR_ACCESS, file.Read_shared, bytearray(1))
        assert file.Get_position_shared() == 5 + size
        file.Close()
        found = pathlib.Path(name).read_bytes()
        assert found[:5] == b"begun" and sorted(found[5:7]) == [65, 66] and found[7:] == b"ab"
        file = MPI.File.Open(comm, name, MPI.MODE_RDWR)
        length = 100000
        own, room = np.full(length, rank + 1, "u1"), np.zeros(length, "u1")
        file.Set_atomicity(True)
        file.Write_at(0, own)
        comm.Barrier()
        for _ in range(10):
            file.Write_at(0, own)
            file.Read_at(0, room)
            assert room.min() == room.max() > 0
        comm.Barrier()
        file.Set_atomicity(False)
        file.Write_at(length + rank, b"z")
        comm.Barrier()
        assert pathlib.Path(name).read_bytes()[length:] == b"zz"
        file.Close()

    run(body, 2, before=before(tmp_path))


def test_places_that_no_file_has(tmp_path):
    def body():
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        room, farthest = np.zeros(2), 2**63 - 1
        file.Set_view(16, MPI.DOUBLE)
        for place in (farthest, farthest // 8, farthest // 8 - 1):
            file.Seek(place)
            raised(MPI.ERR_NO_SPACE, file.Write, room)
            file.Seek_shared(place)
            raised(MPI.ERR_NO_SPACE, file.Write_shared, room)
        raised(MPI.ERR_NO_SPACE, file.Read_at, farthest // 8, room)
        raised(MPI.ERR_ARG, file.Write_at, -1, room)
        raised(MPI.ERR_NO_SPACE, file.Write_at_all, farthest // 8, room)
        assert file.Get_size() == 0
        file.Seek(3)
        file.Write(room)
        assert file.Get_position() == 5
        file.Close()

    run(body, 1, before=before(tmp_path))


def test_a_closed_file_and_its_error_handler(tmp_path):
    def body():
        heard = []
        handler = MPI.File.Create_errhandler(lambda file, code: heard.append(MPI.Get_error_class(code)))
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_errhandler(handler)
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for call, *arguments in ((file.Write_at, 1000), (file.Write,), (file.Write_shared,)):
            if call != file.Write_at:
                (file.Seek if call == file.Write else file.Seek_shared)(1000)
            assert name in raised(MPI.ERR_NO_SPACE, call, *arguments, b"x")
        assert heard == [MPI.ERR_NO_SPACE] * 3, heard
        file.Write_at(0, bytes(900))
        raised(MPI.ERR_NO_SPACE, file.Write_at, 900, bytes(200))  # of which there is room for 100
        assert file.Get_size() == 1000
        other = MPI.File(file)
        file.Close()
        for each, words in ((file, "null"), (other, "was closed")):
            for call in (each.Read, each.Read_shared, each.Write, each.Write_shared, each.Get_position_shared):
                text = raised(MPI.ERR_FILE, call, *([] if call == each.Get_position_shared else [bytearray(1)]))
                assert words in text, text
            assert words in raised(MPI.ERR_FILE, each.Write_at, 0, b"x")
            raised(MPI.ERR_FILE, each.Close)
        handler.Free()

    run(body, 2, before=before(tmp_path))


@pytest.mark.parametrize("device", DEVICES)
def test_two_threads_at_once(device, tmp_path):
    def body():
        import threading

        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_view(0, MPI.INT64_T)
        own = MPI.File.Open(MPI.COMM_SELF, f"{name}.{rank}", MPI.MODE_CREATE | MPI.MODE_RDWR)
        own.Set_view(0, MPI.INT64_T)
        each, threads, errors = 1000, 2, []

        def work(number):
            try:
                for place in range(each):
                    value = np.array([(rank * threads + number) * each + place])
                    file.Write_shared(value)
                    own.Write(value)
                    own.Write_shared(value)
            except BaseException as error:
                errors.append(error)

        running = [threading.Thread(target=work, args=[number]) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert errors == []
        comm.Barrier()
        assert (np.sort(np.fromfile(name, "i8")) == np.arange(size * threads * each)).all()
        assert file.Get_position_shared() == size * threads * each
        assert own.Get_position() == own.Get_position_shared() == threads * each
        assert own.Get_size() == 8 * threads * each
        own.Close()
        file.Close()

    run(body, 2, device, before=before(tmp_path))


def test_signals_interrupt_no_access(tmp_path):
    def body():
        import signal

        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        heard = []
        signal.signal(signal.SIGALRM, lambda *_: heard.append(len(heard)))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        block, place = bytes([rank + 1]) * 50000, 0
        while len(heard) < 20:
            file.Write_shared(block)
            file.Write_at(1 << 40, b"")
            place += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        places = sum(comm.allgather(place))
        found = np.fromfile(name, "u1").reshape(-1, 50000)
        assert len(found) == places == file.Get_position_shared() / 50000
        assert (found == found[:, :1]).all() and int((found[:, 0] == rank + 1).sum()) == place

        def interrupted(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupted)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        try:
            while True:
                file.Write_at(0, block)
        except KeyboardInterrupt:
            pass
        comm.Barrier()
        file.Close()

    run(body, 2, before=before(tmp_path))


def test_short_writes_beside_those_that_change_parts(tmp_path):
    """What short writes claim is not written back by others, also in two phases and in atomic mode."""

    def body():
        import threading

        count = 4096
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Set_info(MPI.Info.Create({"collective_buffering": "true"}))
        other = MPI.File.Open(MPI.COMM_SELF, name, MPI.MODE_RDWR)
        tile = MPI.BYTE.Create_resized(0, 4 * size)
        lanes = range(4 * rank, 4 * rank + 4)
        comm.Barrier()

        def short_writes(number):
            for place in range(lanes[0], 4 * size * count, 4 * size):
                other.Write_at(place, bytes([number]))
            assert (np.fromfile(name, "u1")[lanes[0] :: 4 * size] == number).all()

        for number in range(1, 4):
            errors = []

            def work(number=number, errors=errors):
                try:
                    short_writes(number)
                except BaseException as error:
                    errors.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            own = np.full(count, number, "u1")
            file.Set_view(lanes[1], MPI.BYTE, tile)
            file.Write_at_all(0, own)
            file.Set_view(lanes[2], MPI.BYTE, tile)
            file.Set_atomicity(True)
            file.Write_at(0, own)
            file.Set_atomicity(False)
            file.Set_view(lanes[3], MPI.BYTE, tile)
            file.Write_at(0, own)
            thread.join()
            assert errors == [], errors
            comm.Barrier()
            found = np.fromfile(name, "u1")
            assert len(found) == 4 * size * count and (found == number).all(), np.flatnonzero(found != number)[:9]
            comm.Barrier()
        other.Close()
        file.Close()

    run(body, 2, before=before(tmp_path))
