"""Non-blocking messages and their requests, of a process with itself."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from fastsock.mpj import MPI

SELF = MPI.COMM_SELF


def test_a_request_is_found_by_its_number():
    target = np.zeros(4)
    request = SELF.Irecv(target, 0, 3)
    same = MPI.Request.fromint(request.toint())
    assert same == request and type(same) is MPI.Request
    assert not request.Test()
    SELF.Send(np.ones(4), 0, 3)
    status = MPI.Status()
    assert request.Test(status) and not request and same
    assert (status.source, status.tag, status.Get_count(MPI.DOUBLE)) == (0, 3, 4)
    assert same.Wait() and target.sum() == 4


def test_one_that_is_too_long_ends_all_that_are_waited_for():
    requests = [SELF.Irecv(np.zeros(1), 0, 3), SELF.Irecv(np.zeros(4), 0, 4)]
    SELF.Send(np.ones(4), 0, 3)
    SELF.Send(np.ones(4), 0, 4)
    with pytest.raises(MPI.Exception) as caught:
        MPI.Request.Waitall(requests)
    assert caught.value.Get_error_class() == MPI.ERR_IN_STATUS
    assert not any(requests)


@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.parametrize("call", ["Waitall", "Waitsome", "Testall", "Testsome", "waitall", "waitsome", "testall"])
def test_calls_on_several_say_that_the_error_is_in_the_status(call, many):
    """Whatever their number is, and as MPICH does."""
    requests = [SELF.Irecv(np.zeros(1), 0, 3) for _ in range(many)]
    for _ in range(many):
        SELF.Send(np.ones(4), 0, 3)
    with pytest.raises(MPI.Exception) as caught:
        getattr(MPI.Request, call)(requests)
    assert caught.value.Get_error_class() == MPI.ERR_IN_STATUS


def test_the_same_request_twice_and_null_ones():
    target = bytearray(3)
    request = SELF.Irecv(target, 0, 3)
    SELF.Send(b"one", 0, 3)
    assert MPI.Request.Waitall([request, request, MPI.REQUEST_NULL])
    assert MPI.Request.Waitall([]) and MPI.Request.Waitall(()) and target == b"one"


def test_many_with_statuses():
    parts = [np.zeros(2, "i") for _ in range(300)]
    requests = [SELF.Irecv(part, 0, 5) for part in parts]
    requests += [SELF.Isend([np.full(2, number, "i"), 2, MPI.INT], 0, 5) for number in range(300)]
    statuses: list[MPI.Status] = []
    MPI.Request.Waitall(tuple(requests), statuses)
    assert [part[0] for part in parts] == list(range(300))
    assert len(statuses) == 600 and statuses[0].source == 0


@pytest.mark.parametrize(
    "form", [lambda data: data, lambda data: [data, MPI.BYTE], lambda data: [data, (5, 0), MPI.BYTE]]
)
def test_memory_of_a_forgotten_request_stays(form):
    data = bytearray(b"hello")
    SELF.Issend(form(data), 0, 6)
    del data
    gc.collect()
    target = bytearray(5)
    SELF.Recv(target, 0, 6)
    assert target == b"hello"
    SELF.Irecv(form(target), 0, 7)
    SELF.Send(b"world", 0, 7)
    assert target == b"world"


def test_memory_is_held_until_the_wait():
    target = bytearray(5)
    request = SELF.Irecv(target, 0, 7)
    with pytest.raises(BufferError):
        target.append(1)
    SELF.Send(b"world", 0, 7)
    request.Wait()
    target.append(1)


def test_a_cancelled_receive_says_so():
    request = SELF.Irecv(bytearray(1), 0, 9)
    request.Cancel()
    status = MPI.Status()
    request.Wait(status)
    assert status.Is_cancelled()


def persistent_pair() -> list[object]:
    made = [SELF.Recv_init(bytearray(5), 0, 7), SELF.Send_init(b"hello", 0, 7)]
    MPI.Prequest.Startall(made)
    return made


def persistent() -> None:
    incoming, outgoing = SELF.Recv_init(bytearray(5), 0, 7), SELF.Send_init(b"hello", 0, 7)
    MPI.Prequest.Startall([incoming, outgoing])
    MPI.Prequest.Waitall([incoming, outgoing])
    incoming.Free()
    outgoing.Free()


def generalized() -> None:
    request = MPI.Grequest.Start(lambda status: None, lambda: None, lambda completed: None)
    request.Complete()
    request.Wait()


@pytest.mark.parametrize("use", [persistent, generalized])
def test_requests_that_were_complete_before_anybody_waited_are_forgotten(use):
    for _ in range(2):
        use()
        gc.collect()
        before = len(gc.get_objects())
    for _ in range(100):
        use()
    gc.collect()
    assert len(gc.get_objects()) < before + 50


def test_a_failed_request_that_a_collection_of_garbage_takes():
    """The engine lists requests that are complete until somebody takes their results."""
    for _ in range(200):
        request = SELF.Irecv(np.zeros(1), 0, 3)
        SELF.Send(np.ones(4), 0, 3)
        circle: list[object] = [request]
        try:
            MPI.Request.Testall([request])
        except MPI.Exception as error:
            circle.append(error)
        circle.append(circle)
        del request, circle
        gc.collect(1)  # it is young: the rest of the tests need not be looked at 200 times
        SELF.Sendrecv(np.ones(4), 0, 4, np.zeros(4), 0, 4)


def test_a_persistent_request_that_a_collection_of_garbage_takes_lets_go_of_its_memory():
    for make, memory in ((SELF.Send_init, bytearray(4)), (SELF.Recv_init, bytearray(4))):
        circle: list[object] = [make([memory, MPI.BYTE], 0, 3)]
        circle.append(circle)
        del circle
        gc.collect()
        memory.append(1)  # refused while anybody has it


def under_way() -> list[object]:
    return [SELF.Irecv(np.zeros(4), 0, 5), SELF.Isend(np.ones(4), 0, 5)]


def with_gaps() -> list[object]:
    kind = MPI.INT.Create_vector(2, 1, 3).Commit()
    kind.Set_name("of the circle")
    target = bytearray(16)
    return [kind, target, SELF.Irecv([target, 1, kind], 0, 5), SELF.Isend([bytes(16), 1, kind], 0, 5)]


def matched() -> list[object]:
    SELF.Send(np.ones(4), 0, 6)
    return [SELF.Mprobe(0, 6)]


def as_objects() -> list[object]:
    return [SELF.irecv(source=0, tag=7), SELF.isend({"a": bytes(1000)}, 0, 7)]


def collective() -> list[object]:
    source, target = bytearray(8), bytearray(8)
    again = SELF.Allreduce_init([source, MPI.DOUBLE], [target, MPI.DOUBLE])
    again.Start()
    return [again, SELF.Ibarrier(), SELF.Iallgather(np.ones(2), np.zeros(2)), source, target]


def partitioned() -> list[object]:
    return [SELF.Psend_init(np.ones(4), 2, 0, 8), SELF.Precv_init(np.zeros(4), 2, 0, 8)]


def memory() -> list[object]:
    held = bytearray(8)
    return [MPI.buffer(held), MPI.memory.allocate(4096), held, memoryview(MPI.buffer(held))]


def communicator() -> list[object]:
    other = SELF.Dup()
    grid = other.Create_cart([1], [True])
    request = grid.Ineighbor_allgather(np.ones(1), np.zeros(2))
    return [other, grid, request]


def user_request() -> list[object]:
    made = MPI.Grequest.Start(lambda status: None, lambda: None, lambda completed: None)
    made.Complete()
    return [made]


@pytest.mark.parametrize(
    "make",
    [
        under_way,
        with_gaps,
        matched,
        as_objects,
        persistent_pair,
        collective,
        partitioned,
        memory,
        communicator,
        user_request,
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_circle_through_it_is_collected(make, turned):
    """Whichever end of the circle the collector clears first."""

    class Marker:
        pass

    for _ in range(3):
        marker = Marker()
        seen, parts = weakref.ref(marker), make()
        circle: list[object] = [marker, *parts[:: -1 if turned else 1]]
        circle.append(circle)
        held = parts[-1 if turned else 0]
        around = [circle]
        del marker, parts, circle
        gc.collect()  # what is found only through others is looked at behind them from now on
        del held, around
        gc.collect()
        assert seen() is None
        SELF.Sendrecv(np.ones(4), 0, 4, np.zeros(4), 0, 4)
