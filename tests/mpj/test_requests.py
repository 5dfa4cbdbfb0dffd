"""Non-blocking messages and their requests, of a process with itself."""

from __future__ import annotations

import gc

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
        gc.collect()
        SELF.Sendrecv(np.ones(4), 0, 4, np.zeros(4), 0, 4)


def test_a_persistent_request_that_a_collection_of_garbage_takes_lets_go_of_its_memory():
    for make, memory in ((SELF.Send_init, bytearray(4)), (SELF.Recv_init, bytearray(4))):
        circle: list[object] = [make([memory, MPI.BYTE], 0, 3)]
        circle.append(circle)
        del circle
        gc.collect()
        memory.append(1)  # refused while anybody has it
