"""What a window says of itself, what makes one, what is refused, and memory that members share."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import pytest

from .ways import DEVICES, run

DEVICE = pytest.mark.parametrize("device", DEVICES)


@DEVICE
def test_what_a_window_says_of_itself(device):
    def body():
        memory = np.arange(10.0) + rank
        window = MPI.Win.Create(memory, 8, MPI.Info.Create({"no_locks": "true"}), comm)
        assert window.attrs == (MPI.Get_address(memory), 80, 8)
        assert [window.Get_attr(key) for key in (MPI.WIN_BASE, MPI.WIN_SIZE, MPI.WIN_DISP_UNIT)] == list(window.attrs)
        assert window.flavor == window.Get_attr(MPI.WIN_CREATE_FLAVOR) == MPI.WIN_FLAVOR_CREATE
        assert window.model == window.Get_attr(MPI.WIN_MODEL) == MPI.WIN_UNIFIED
        assert (np.frombuffer(window, "d") == memory).all() and len(window.tomemory()) == 80
        assert memoryview(window).nbytes == 80 and bytes(window.tomemory()) == memory.tobytes()
        assert (window.group_rank, window.group_size) == (rank, size)
        assert MPI.Group.Compare(window.group, comm.group) == MPI.IDENT
        assert ("no_locks", "true") in window.info.items()
        window.info = MPI.Info.Create({"no_locks": "false"})
        assert window.Get_info().Get("no_locks") == "false"
        assert window.name == ""
        window.name = "mine"
        assert window.name == "mine"
        key = MPI.Win.Create_keyval(delete_fn=lambda handle, keyval, value: value.append(keyval))
        told = []
        window.Set_attr(key, told)
        assert window.Get_attr(key) is told
        same = MPI.Win.f2py(window.py2f())
        assert same == window and MPI.Win.fromhandle(window.handle) == window and MPI.Win(window) == window
        assert type(same) is MPI.Win
        window.Free()
        assert told == [key] and not window and window == MPI.WIN_NULL
        assert MPI.Win.Free_keyval(key) == MPI.KEYVAL_INVALID
        assert window.Get_name() == "MPI_WIN_NULL"
        window.free()

    run(body, 2, device)


def test_errors_go_to_the_error_handler_of_the_window():
    def body():
        heard = []
        handler = MPI.Win.Create_errhandler(lambda window, code: heard.append((window.name, code)))
        window = MPI.Win.Allocate(8, comm=comm)
        window.name = "heard"
        window.Set_errhandler(handler)
        assert window.Get_errhandler() == handler
        for call in (lambda: window.Put(b"1", 0), lambda: window.Unlock(0), lambda: window.Attach(bytearray(1))):
            try:
                call()
            except MPI.Exception:
                continue
            raise AssertionError(call)
        window.Call_errhandler(MPI.ERR_OTHER)
        codes = [MPI.ERR_RMA_SYNC, MPI.ERR_RMA_SYNC, MPI.ERR_RMA_FLAVOR, MPI.ERR_OTHER]
        assert heard == [("heard", code) for code in codes], heard
        window.Free()
        handler.Free()

    run(body, 2)


def test_what_makes_no_window():
    def body():
        for error_class, make in [
            (MPI.ERR_SIZE, lambda: MPI.Win.Allocate(-1)),
            (MPI.ERR_DISP, lambda: MPI.Win.Allocate(8, 0)),
            (MPI.ERR_DISP, lambda: MPI.Win.Create(bytearray(8), -1)),
            (MPI.ERR_COMM, lambda: MPI.Win.Create_dynamic(comm=MPI.COMM_NULL)),
            (MPI.ERR_WIN, MPI.WIN_NULL.Fence),
            (MPI.ERR_WIN, MPI.WIN_NULL.Free),
            (MPI.ERR_WIN, lambda: MPI.WIN_NULL.Set_name("none")),
        ]:
            try:
                make()
            except MPI.Exception as error:
                assert error.Get_error_class() == error_class, error
            else:
                raise AssertionError(error_class)
        for make in (lambda: MPI.Win.Create(b"read only"), lambda: MPI.Win.Create(12)):
            try:
                make()
            except (TypeError, BufferError):
                continue
            raise AssertionError(make)
        for nothing in (None, MPI.BOTTOM, bytearray()):
            window = MPI.Win.Create(nothing)
            assert window.attrs[1] == 0
            window.Free()

    run(body, 1)


def test_the_memory_of_a_window_stays_as_long_as_a_view_of_it():
    def body():
        window = MPI.Win.Allocate(1 << 20)
        view = memoryview(window).cast("B")
        window.Free()
        view[:] = bytes(1 << 20)
        owned = MPI.Alloc_mem(1 << 20)
        window = MPI.Win.Create(owned)
        MPI.Free_mem(owned)
        window.Lock(0)
        window.Put(np.ones(1000), 0)
        window.Unlock(0)
        window.Free()

    run(body, 1)


def test_free_lets_go_of_the_memory():
    def body():
        import gc
        import weakref

        gc.disable()
        for among in (comm, MPI.COMM_SELF):
            array, attached = np.zeros(1000), np.zeros(10)
            held = [weakref.ref(array), weakref.ref(attached)]
            window, dynamic = MPI.Win.Create(array, 8, comm=among), MPI.Win.Create_dynamic(comm=among)
            dynamic.Attach(attached)
            del array, attached
            window.Fence()
            window.Put(np.ones(100), 0)
            window.Fence()
            assert all(reference() is not None for reference in held)
            window.Free()
            dynamic.Free()
            assert [reference() for reference in held] == [None, None]

    run(body, 2)


def test_threads_share_memory():
    def body():
        window = MPI.Win.Allocate_shared(8 * rank, 8, comm=comm)
        assert window.flavor == MPI.WIN_FLAVOR_SHARED
        np.frombuffer(window, "d")[:] = rank
        comm.Barrier()
        parts = [window.Shared_query(other) for other in range(size)]
        assert [len(part) for part, _ in parts] == [8 * other for other in range(size)]
        assert all((np.frombuffer(part, "d") == other).all() for other, (part, _) in enumerate(parts))
        assert MPI.Get_address(parts[3][0]) == MPI.Get_address(parts[2][0]) + 16
        first, unit = window.Shared_query(MPI.PROC_NULL)
        assert MPI.Get_address(first) == MPI.Get_address(parts[1][0]) and unit == 8
        comm.Barrier()
        window.Fence()
        window.Put(np.full(1, 9.0), (rank + 1) % size or 1)
        window.Fence()
        assert np.frombuffer(parts[2][0], "d")[0] == 9
        window.Free()
        assert len(parts[2][0]) == 16

    run(body, 4, "smpdev")


REFUSED = """
from fastsock.mpj.windows import sharing
def refuse(*_):
    raise PermissionError("not here")
"""


@pytest.mark.parametrize(
    "before",
    [
        "sharing.create_window_memory = refuse",
        "if rank == 1: sharing.Control = refuse",
        "sharing.fetch_descriptor = refuse; sharing.meet = lambda *_: None",
    ],
)
def test_ranks_that_cannot_share_memory_are_told(before):
    def body():
        try:
            MPI.Win.Allocate_shared(8, comm=comm)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_RMA_SHARED, error
        else:
            raise AssertionError("not raised")
        window = MPI.Win.Allocate(8 * rank, 8, comm=comm)
        assert len(window.Shared_query(rank)[0]) == 8 * rank
        assert len(window.Shared_query(1 - rank)[0]) == 0
        window.Fence()
        window.Put(np.full(rank, 2.0), 1)
        window.Fence()
        assert (np.frombuffer(window, "d") == 2).all()
        window.Free()

    run(body, 2, before_it=REFUSED + before + "\n")


NO_DOORS = """
from fastsock.mpj.windows import sharing
class Refusing(sharing.Control):
    def meet_doors(self):
        return False
if rank == 1: sharing.Control = Refusing
"""


@pytest.mark.parametrize("refused", [False, True])
def test_own_memory_goes_by_messages_where_one_rank_may_not_reach_into_the_others(refused):
    def body():
        memory = np.zeros(4)
        created, dynamic = MPI.Win.Create(memory, 8, comm=comm), MPI.Win.Create_dynamic(comm=comm)
        assert {type(each.ob).__name__ for each in (created, dynamic)} == {KIND}
        dynamic.Attach(memory)
        addresses = comm.allgather(MPI.Get_address(memory))
        for window, place in ((created, 0), (dynamic, addresses[1 - rank] + 16)):
            window.Fence()
            window.Put(np.full(2, 1.0 + rank), 1 - rank, place)
            window.Fence()
        assert (memory == 2.0 - rank).all()
        dynamic.Detach(memory)
        dynamic.Free()
        created.Free()

    kind = "ServedWindow" if refused else "CreatedWindow"
    run(body, 2, before_it=f"KIND = {kind!r}\n" + (NO_DOORS if refused else ""))


def test_the_leader_hands_memory_to_ranks_that_may_not_take_it():
    def body():
        window = MPI.Win.Allocate_shared(8 * rank, 8, comm=comm)
        shared = [np.frombuffer(window.Shared_query(each)[0], "d") for each in range(size)]
        assert [len(each) for each in shared] == [0, 1, 2]
        assert window.Shared_query(MPI.PROC_NULL)[0].address == window.Shared_query(1)[0].address
        window.Fence()
        shared[2][rank - 1 :] = rank
        window.Fence()
        window.Free()
        assert shared[2][0] in (1, 2), shared  # the memory stays for who has it

    run(body, 3, before_it=REFUSED + "if rank == 2: sharing.fetch_descriptor = refuse\n")


def test_every_member_of_mpi4pys_class_is_there():
    """Names of mpi4py 4.1's Win."""
    from fastsock.mpj.MPI import Win

    names = """Accumulate Allocate Allocate_shared Attach Call_errhandler Compare_and_swap Complete Create
    Create_dynamic Create_errhandler Create_keyval Delete_attr Detach Fence Fetch_and_op Flush Flush_all
    Flush_local Flush_local_all Free Free_keyval Get Get_accumulate Get_attr Get_errhandler Get_group
    Get_info Get_name Lock Lock_all Post Put Raccumulate Rget Rget_accumulate Rput Set_attr
    Set_errhandler Set_info Set_name Shared_query Start Sync Test Unlock Unlock_all Wait attrs f2py
    flavor free fromhandle fromint group group_rank group_size handle info model name py2f toint
    tomemory"""
    assert [name for name in names.split() if not hasattr(Win, name)] == []
