"""What is put, got and accumulated through windows arrives, on each device and with each way to synchronize."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from .ways import DEVICES, MESSAGES, run

DEVICE = pytest.mark.parametrize("device", DEVICES)


@DEVICE
def test_what_is_put_and_got_between_fences(device):
    def body():
        right, left = (rank + 1) % size, (rank - 1) % size
        for count in (0, 1, 100, 1000, 3000, 200_000):  # with the request, behind it, by rendezvous
            window = MPI.Win.Allocate(8 * count, 8, comm=comm)
            memory = np.frombuffer(window, "d")
            assert (memory == 0).all()
            window.Fence()
            window.Put(np.arange(count, dtype="d") + rank, right)
            window.Fence()
            assert (memory == np.arange(count) + left).all()
            found = np.full(count, -1.0)
            window.Get(found, right)
            window.Fence(MPI.MODE_NOSUCCEED)
            assert (found == np.arange(count) + rank).all()
            window.Free()
            assert not window

    run(body, 3, device)


@DEVICE
def test_displacements_count_in_units_of_the_target(device):
    def body():
        memory = np.zeros(40, "i2")
        window = MPI.Win.Create(memory, 2 * (rank + 1), comm=comm)
        window.Fence()
        if rank == 0:
            for target in range(size):
                window.Put(np.full(2, 7 + target, "i2"), target, 3)
                window.Put(np.full(3, 9, "i2"), target, (5, 3))
                window.Put(np.full(2, 1, "i2"), target, [0, 4, MPI.BYTE])
        window.Fence()
        wanted = np.zeros(40, "i2")
        wanted[3 * (rank + 1) :][:2] = 7 + rank
        wanted[5 * (rank + 1) :][:3] = 9
        wanted[:2] = 1
        assert (memory == wanted).all(), memory
        window.Free()

    run(body, 3, device)


@DEVICE
def test_items_with_gaps_on_both_sides(device):
    def body():
        for count in (7, 5000):
            every_third = MPI.DOUBLE.Create_vector(count, 1, 3).Commit()
            scattered = MPI.DOUBLE.Create_indexed_block(2, list(range(3 * count - 3, -1, -6))).Commit()
            memory = np.full(3 * count, -1.0)
            window = MPI.Win.Create(memory, 8, comm=comm)
            window.Fence()
            data = np.arange(3.0 * count)
            if rank == 0:
                window.Put([data, 1, every_third], 1, [0, 1, every_third])
            window.Fence()
            wanted = np.full(3 * count, -1.0)
            if rank == 1:
                wanted[::3] = data[::3]
            assert (memory == wanted).all()
            memory[:] = data + 1000 * rank
            window.Fence()
            items = scattered.size // 8
            found = np.zeros(items)
            window.Get(found, 1 - rank, [0, 1, scattered])
            window.Fence()
            places = [start + step for start in range(3 * count - 3, -1, -6) for step in (0, 1)]
            assert (found == data[places] + 1000 * (1 - rank)).all()
            window.Fence()
            window.Accumulate(np.full(count, 0.5), 1 - rank, [0, 1, every_third])
            window.Fence()
            wanted = data + 1000 * rank
            wanted[::3] += 0.5
            assert (memory == wanted).all()
            window.Free()

    run(body, 2, device)


@DEVICE
def test_every_operation_on_every_type_that_it_is_defined_on(device):
    def body():
        operations = [MPI.MAX, MPI.MIN, MPI.SUM, MPI.PROD, MPI.LAND, MPI.LOR, MPI.LXOR, MPI.BAND, MPI.BOR, MPI.BXOR]
        pairs = [MPI.MAXLOC, MPI.MINLOC]
        window = MPI.Win.Allocate(1024, 1, comm=comm)
        memory = np.frombuffer(window, "u1")
        tried = 0
        for datatype in {
            value.toint(): value for value in vars(MPI).values() if isinstance(value, MPI.Datatype)
        }.values():
            if not datatype or not 0 < datatype.size <= 32 or datatype.combiner != MPI.COMBINER_NAMED:
                continue
            length = 3 * datatype.extent
            one = np.zeros(length, "u1")
            two = np.zeros(length, "u1")
            one[::4], two[::4] = 1, 2
            told = np.ones(length, bool)
            if datatype.typechar in ("g", "G"):  # what stands behind ten bytes is no part of the number
                told.reshape(-1, 16)[:, 10:] = False
            for op in [*operations, *pairs, MPI.REPLACE, MPI.NO_OP]:
                wanted = two.copy()
                try:
                    op.Reduce_local([one, 3, datatype], [wanted, 3, datatype])
                except MPI.Exception:
                    continue
                tried += 1
                comm.Barrier()
                memory[:length] = two
                before = np.zeros(length, "u1")
                window.Fence()
                if rank == 0:
                    window.Get_accumulate([one, 3, datatype], [before, 3, datatype], 1, [0, 3, datatype], op)
                window.Fence()
                if rank == 1:
                    assert (memory[:length] == wanted)[told].all(), (datatype.name, op.ob.name, memory[:length], wanted)
                elif op != MPI.NO_OP and datatype.size == datatype.extent:
                    assert (before == two).all(), datatype.name
        assert tried > 300, tried
        window.Free()

    run(body, 2, device)


@DEVICE
def test_single_items_fetched_and_swapped(device):
    def body():
        window = MPI.Win.Allocate(32 if rank == 0 else 0, 8, comm=comm)
        before = np.zeros(1, "i8")
        for _ in range(50):
            window.Lock(0, MPI.LOCK_SHARED)
            window.Fetch_and_op(np.ones(1, "i8"), before, 0, 1)
            window.Unlock(0)
        assert 49 <= before[0] < 50 * size
        comm.Barrier()
        window.Lock_all()
        window.Compare_and_swap(np.full(1, rank + 1, "i8"), np.zeros(1, "i8"), before, 0, 2)
        window.Flush(0)
        won = comm.allreduce(int(before[0] == 0))
        assert won == 1
        window.Unlock_all()
        comm.Barrier()
        if rank == 0:
            memory = np.frombuffer(window, "i8")
            assert memory[1] == 50 * size and 1 <= memory[2] <= size
        window.Free()

    run(body, 3, device)


@DEVICE
def test_requests_of_operations(device):
    def body():
        window = MPI.Win.Allocate(8 * 100_000, 8, comm=comm)
        other = 1 - rank
        for count in (1, 100_000):
            window.Lock(other, MPI.LOCK_SHARED)
            data, found, before = np.arange(1.0, count + 1), np.zeros(count), np.zeros(count)
            window.Rput(data, other).Wait()
            window.Flush(other)
            requests = [window.Rget(found, other)]
            MPI.Request.Waitall(requests)
            assert (found == data).all()
            window.Raccumulate(data, other).Wait()
            window.Flush(other)
            request = window.Rget_accumulate(data, before, other, op=MPI.REPLACE)
            while not request.Test():
                pass
            assert not request and (before == 2 * data).all()
            status = MPI.Status()
            window.Rput(None, MPI.PROC_NULL).Wait(status)
            assert status.count == 0
            window.Unlock(other)
            comm.Barrier()
        window.Free()

    run(body, 2, device)


@DEVICE
def test_a_dynamic_window_reaches_what_is_attached(device):
    def body():
        window = MPI.Win.Create_dynamic(comm=comm)
        assert window.attrs == (0, 0, 1) and window.flavor == MPI.WIN_FLAVOR_DYNAMIC
        memory = np.zeros(10)
        window.Attach(memory)
        addresses = comm.allgather(MPI.Get_address(memory))
        other = 1 - rank
        window.Fence()
        window.Put(np.arange(5.0), other, addresses[other] + 16)
        window.Fence()
        assert (memory == [0, 0, 0, 1, 2, 3, 4, 0, 0, 0]).all()
        window.Lock(other, MPI.LOCK_SHARED)
        for call in (window.Put, window.Get, window.Accumulate):
            try:
                call(np.ones(6), other, addresses[other] + 40)  # the last is behind the end
                window.Flush(other)  # by messages it is told by now
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_RMA_RANGE, error
            else:
                raise AssertionError("not raised")
            window.Flush(other)
        window.Unlock(other)
        comm.Barrier()
        assert memory[5] == 3
        window.Detach(memory)
        try:
            window.Detach(memory)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_BASE
        else:
            raise AssertionError("not raised")
        window.Free()

    run(body, 2, device)


def test_long_data_that_a_target_refuses_leave_the_next_in_order():
    def body():
        window = MPI.Win.Create_dynamic(comm=comm)
        memory = np.zeros(50_000)
        window.Attach(memory)
        address = comm.bcast(MPI.Get_address(memory), 1)
        if rank == 0:
            window.Lock(1)
            window.Put(np.ones(50_000), 1, address + 8)
            window.Put(np.full(50_000, 2.0), 1, address)
            try:
                window.Unlock(1)
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_RMA_RANGE
            else:
                raise AssertionError("not raised")
        comm.Barrier()
        assert (memory == (2.0 if rank == 1 else 0.0)).all()
        window.Free()

    run(body, 2, f"iodev{MESSAGES}")


def test_memory_that_its_program_has_unmapped_is_an_error():
    def body():
        import ctypes
        import mmap

        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        place = libc.mmap(None, ctypes.c_size_t(8192), mmap.PROT_READ | mmap.PROT_WRITE, 0x22, -1, ctypes.c_size_t(0))
        memory = (ctypes.c_char * 8192).from_address(place)
        window = MPI.Win.Create(memory, 1, comm=comm)
        first = np.zeros(8, "u1")
        if rank == 0:
            window.Lock(1)
            window.Put(np.ones(8192, "u1"), 1)
            window.Unlock(1)
        comm.Barrier()
        if rank == 1:
            assert bytes(memory) == b"\1" * 8192
            libc.munmap(ctypes.c_void_p(place + 4096), ctypes.c_size_t(4096))
        comm.Barrier()
        if rank == 0:
            window.Lock(1)
            every_fourth = MPI.INT64_T.Create_vector(256, 1, 4).Commit()
            for call, *arguments in [
                (window.Put, np.ones(8192, "u1"), 1), (window.Get, np.ones(8192, "u1"), 1),
                (window.Accumulate, np.ones(1), 1, 4096), (window.Put, np.ones(256), 1, [0, 1, every_fourth]),
                (window.Get_accumulate, np.ones(1), np.ones(1), 1, [8184, 1]),
                (window.Compare_and_swap, np.ones(1, "i8"), np.ones(1, "i8"), np.ones(1, "i8"), 1, 5000),
                (window.Accumulate, np.ones(256), 1, [0, 1, every_fourth], MPI.MAX),
            ]:  # fmt: skip
                try:
                    call(*arguments)
                except MPI.Exception as error:
                    assert error.Get_error_class() == MPI.ERR_RMA_RANGE, error
                else:
                    raise AssertionError(call)
            window.Put(np.ones(16, "u1"), 1)  # of what failed some was done
            window.Get(first, 1)
            window.Accumulate(first, 1, 8)
            window.Unlock(1)
            assert (first == 1).all()
        comm.Barrier()
        if rank == 1:
            assert bytes((ctypes.c_char * 16).from_address(place)) == b"\1" * 8 + b"\2" * 8
        window.Free()

    run(body, 2)
