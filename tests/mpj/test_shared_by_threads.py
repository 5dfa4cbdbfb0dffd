"""What threads share: communicators, requests, buffers, and objects that are sent while others change them.

What these tests look for is rare with the interpreter's lock: run them on a free-threaded Python too (tests/pythons),
with PYTHON_GIL=0. FASTSOCK_SOAK=1 makes the rounds many.
"""

# ruff: noqa: F821  (comm, rank and size are the ranks' own)

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from fastsock.mpj import MPI
from tests.mpj import ranks
from tests.paths.test_threads import THREADS, rounds, together

SELF = MPI.COMM_SELF
HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()  # the interpreter's


@pytest.mark.skipif(
    not HAS_LOCK,
    reason="pickle itself crashes on a list that another thread changes: seen on 3.13t without fastsock",
)
def test_a_message_is_whole_while_its_lists_and_dicts_change():
    changing = {"list": [0] * 8, "dict": {"a": [1], "b": (2.5, None)}}
    over = threading.Event()

    def change():
        turn = 0
        while not over.is_set():
            turn += 1
            changing["list"] = [turn] * (turn % 12)
            changing["list"].append(turn)
            changing["list"].clear()
            changing["dict"]["b"] = (float(turn), str(turn))
            changing["dict"].pop("a", None)
            changing["dict"]["a"] = [turn]
            changing["list"].extend(range(turn % 9))

    def send_on(tag):
        for _ in range(rounds(300)):
            try:
                found = SELF.sendrecv(changing, 0, tag, None, 0, tag)
            except RuntimeError as error:  # what pickle says of a dict that changed
                assert "changed" in str(error)
                continue
            assert set(found) == {"list", "dict"} and set(found["dict"]) <= {"a", "b"}
            assert all(type(each) is int for each in found["list"])

    def sending():
        try:
            together(*(lambda tag=tag: send_on(tag) for tag in range(THREADS // 2)))
        finally:
            over.set()

    together(sending, *[change] * (THREADS // 2))


def test_a_buffer_is_read_and_released_by_many_threads():
    for _ in range(rounds(100)):
        shared = MPI.memory.allocate(4096, clear=True)

        def read(shared=shared):
            while shared.nbytes:
                assert shared.tobytes() in (bytes(4096), b"")
                try:
                    part = shared[8:24]
                    assert part.tobytes() == bytes(16) and shared[7] == 0
                    shared[40:48] = bytes(8)
                    assert memoryview(shared).tobytes() in (bytes(4096), b"")
                    assert shared.obj is None or len(shared.obj) == 4096
                except (IndexError, ValueError, TypeError):  # released in between: there are no bytes any more
                    assert shared.nbytes == 0

        together(*[read] * (THREADS - 2), shared.release, shared.release)
        assert shared.nbytes == 0


def test_a_request_is_waited_for_by_many_threads():
    """It ends once, all of them see it, and what it holds is let go of once."""
    for turn in range(rounds(100)):
        data = np.full(16, turn, "i")
        target = np.zeros(16, "i")
        receiving, sending = SELF.Irecv(target, 0, 1), SELF.Issend([data, 16, MPI.INT], 0, 1)
        together(*[receiving.Wait] * 3, *[sending.Wait] * 3, lambda r=receiving: MPI.Request.Waitall([r]), sending.Test)
        assert (target == turn).all() and not receiving and not sending


def test_a_handle_has_one_number_whoever_asks_first():
    for _ in range(rounds(50)):
        request, kind = SELF.Irecv(bytearray(1), 0, 9), MPI.INT.Create_contiguous(2)
        seen: list[tuple[int, int]] = []

        def ask(request=request, kind=kind, seen=seen):
            seen.append((request.toint(), kind.toint()))

        together(*[ask] * THREADS)
        assert len(set(seen)) == 1
        assert MPI.Request.fromint(seen[0][0]) == request and MPI.Datatype.fromint(seen[0][1]) == kind
        SELF.Send(b"x", 0, 9)
        request.Wait()
        kind.Free()


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_threads_have_a_communicator_each(device):
    def body():
        import threading

        failures = []

        def work(part, number):
            try:
                for turn in range(40):
                    found = np.zeros(5)
                    part.Allreduce(np.full(5, float(number + turn)), found)
                    assert (found == size * (number + turn)).all(), (found, number, turn)
                    assert part.allgather((rank, turn)) == [(each, turn) for each in range(size)]
                    assert part.bcast({"n": number, "t": turn} if rank == 0 else None) == {"n": number, "t": turn}
                    counts = [2] * size
                    every = np.zeros(2 * size, "i")
                    part.Allgatherv(np.full(2, rank, "i"), [every, counts, None, MPI.INT])
                    assert (every == np.repeat(np.arange(size), 2)).all()
                    other = (rank + 1) % size
                    part.Sendrecv(np.full(3, turn, "i"), other, turn, got := np.zeros(3, "i"), (rank - 1) % size, turn)
                    assert (got == turn).all()
            except BaseException as error:
                failures.append(error)

        parts = [comm.Dup() for _ in range(8)]
        threads = [threading.Thread(target=work, args=(part, number)) for number, part in enumerate(parts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    ranks.run(body, 2, device)


def test_threads_of_a_rank_take_turns_in_one_communicator():
    """MPI wants programs to see to that. A program that does not is to see no other array, and no end of the world."""

    def body():
        import threading

        failures = []

        def work():
            try:
                for _ in range(60):
                    found = np.zeros(6)
                    comm.Allreduce(np.ones(6), found)  # whichever calls meet, they ask for the same
                    assert (found == size).all(), found
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    ranks.run(body, 2)
