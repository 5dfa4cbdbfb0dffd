"""Every call that waits for requests, or asks about them, on requests of every kind."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own)
from __future__ import annotations

import gc
import pickle
import random
import weakref

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastsock.mpj import MPI

from .ranks import DEVICES, run

SELF = MPI.COMM_SELF


class Several:
    """Receives of each kind, in some order; `arrive` sends one of them its message, `check` looks at what came."""

    def __init__(self, chance: random.Random, many: int) -> None:
        self.kinds = [chance.choice(["memory", "again", "object", "gaps", "null", "idle"]) for _ in range(many)]
        self.memory = [np.zeros(4) for _ in range(many)]
        self.every_other = MPI.DOUBLE.Create_vector(2, 1, 2).Commit()
        self.requests = [self._receive(place) for place in range(many)]
        self.missing = [place for place, kind in enumerate(self.kinds) if kind not in ("null", "idle")]
        chance.shuffle(self.missing)
        self.active = set(self.missing)

    def _receive(self, place: int) -> MPI.Request:
        kind, memory = self.kinds[place], self.memory[place]
        if kind == "object":
            return SELF.irecv(source=0, tag=place)
        if kind == "gaps":
            return SELF.Irecv([memory, 1, self.every_other], 0, place)
        if kind == "null":
            return MPI.Request()
        if kind == "memory":
            return SELF.Irecv(memory, 0, place)
        request = SELF.Recv_init(memory, 0, place)
        if kind == "again":
            request.Start()
        return request

    def arrive(self) -> int:
        place = self.missing.pop()
        if self.kinds[place] == "object":
            SELF.isend({"place": place}, 0, place).wait()
        else:
            SELF.Send(np.full(2 if self.kinds[place] == "gaps" else 4, place + 1.0), 0, place)
        return place

    def taken(self, place: int, value: object = None, *, objects: bool = False) -> None:
        self.active.remove(place)
        if self.kinds[place] == "object":
            assert not objects or value == {"place": place}
        else:
            wanted = [place + 1.0, 0, place + 1.0, 0] if self.kinds[place] == "gaps" else [place + 1.0] * 4
            assert value is None and self.memory[place].tolist() == wanted
        if self.kinds[place] == "again":
            assert self.requests[place]  # it can be started once more
        else:
            assert not self.requests[place]

    def end(self) -> None:
        for place, kind in enumerate(self.kinds):
            if kind in ("again", "idle"):
                self.requests[place].Free()
        self.every_other.Free()


@settings(max_examples=160)
@given(st.integers(0, 1 << 32), st.integers(1, 12), st.booleans(), st.booleans())
@example(0, 200, False, False)
@example(0, 200, False, True)
@example(0, 200, True, False)
@example(0, 200, True, True)
def test_calls_take_what_has_come_and_leave_the_rest(seed: int, many: int, objects: bool, statuses: bool) -> None:
    chance = random.Random(seed)
    several = Several(chance, many)
    calls, requests = MPI.Request, several.requests
    while True:
        # nothing is there yet: those that test say so, and take nothing
        status = MPI.Status() if statuses else None
        some: list[MPI.Status] | None = [] if statuses else None
        if several.active:
            assert (calls.testany if objects else calls.Testany)(requests, status)[:2] == (MPI.UNDEFINED, False)
            found = (calls.testsome if objects else calls.Testsome)(requests, some)
            assert found == (([], []) if objects else [])
            assert (calls.testall if objects else calls.Testall)(requests, some) in ((False, None), False)
        if not several.missing:
            break
        come = sorted(several.arrive() for _ in range(min(len(several.missing), chance.randrange(1, 4))))
        how = chance.choice(["any", "some", "one"])
        waits = chance.random() < 0.5
        if how == "some":
            name = ("wait" if waits else "test") + "some"
            found = getattr(calls, name if objects else name.capitalize())(requests, some)
            places, values = found if objects else (found, [None] * len(come))
            assert places == come
            for place, value in zip(places, values, strict=True):
                several.taken(place, value, objects=objects)
            assert not statuses or [each.tag for each in some] == come  # type: ignore[union-attr]
            continue
        for place in come:
            if how == "any":
                name = ("wait" if waits else "test") + "any"
                found = getattr(calls, name if objects else name.capitalize())(requests, status)
                if not waits:
                    assert found[1] is True
                first = found if isinstance(found, int) else found[0]
                assert first == place
                value = found[-1] if objects else None
            elif waits:
                value = requests[place].wait(status) if objects else requests[place].Wait(status) and None
            else:
                found = requests[place].test(status) if objects else (requests[place].Test(status), None)
                assert found[0] is True
                value = found[1]
            several.taken(place, value, objects=objects)
            assert status is None or (status.source, status.tag) == (0, place)
    # none is active
    assert calls.Waitany(requests) == MPI.UNDEFINED and calls.waitany(requests) == (MPI.UNDEFINED, None)
    assert calls.Testany(requests) == (MPI.UNDEFINED, True) and calls.Waitsome(requests) is None
    assert calls.testsome(requests) == (None, None) and calls.Testall(requests) and calls.Waitall(requests)
    assert calls.waitall(requests) == [None] * len(requests)
    several.end()


@pytest.mark.parametrize("seed", range(10))
def test_all_at_once(seed: int) -> None:
    several = Several(random.Random(seed), 12)
    expected = [{"place": place} if kind == "object" else None for place, kind in enumerate(several.kinds)]
    while several.missing:
        assert not MPI.Request.Testall(several.requests)
        several.arrive()
    assert MPI.Request.testall(several.requests)[1] == expected
    for place in list(several.active):
        several.taken(place)
    several.end()


def test_where_one_fails_the_others_are_taken_by_their_calls() -> None:
    short, good = np.zeros(1), np.zeros(4)
    for call in (MPI.Request.Waitany, MPI.Request.Waitsome, MPI.Request.Testsome, MPI.Request.Testany):
        requests = [SELF.Irecv(short, 0, 3), SELF.Irecv(good, 0, 4)]
        SELF.Send(np.ones(4), 0, 3)
        with pytest.raises(MPI.Exception) as caught:
            call(requests)
        assert caught.value.Get_error_class() in (MPI.ERR_TRUNCATE, MPI.ERR_IN_STATUS) and not requests[0]
        SELF.Send(np.ones(4), 0, 4)
        assert call(requests) in (1, [1], (1, True)) and not any(requests)


def test_an_object_that_cannot_be_made_leaves_no_request() -> None:
    request = SELF.irecv(source=0, tag=1)
    SELF.Send(b"\x80\x05no pickle", 0, 1)
    with pytest.raises(pickle.UnpicklingError):
        request.wait()
    assert not request


def test_persistent_requests_are_started_once_at_a_time() -> None:
    data, room = np.arange(3), np.zeros(3, int)
    requests = [SELF.Recv_init(room, 0, 2), SELF.Send_init(data, 0, 2), SELF.Ssend_init(data[:0], 0, 3)]
    nothing = SELF.Recv_init(room[:0], 0, 3)
    assert type(requests[0]) is MPI.Prequest and MPI.Request.Waitall(requests)
    for turn in range(3):
        data[:] = turn
        MPI.Prequest.Startall([*requests, nothing])
        for again in (requests[0].Start, lambda: MPI.Prequest.Startall(requests[:1])):
            with pytest.raises(MPI.Exception) as caught:
                again()
            assert caught.value.Get_error_class() == MPI.ERR_REQUEST
        if turn:
            assert MPI.Request.Waitall([*requests, nothing])
        else:
            for request in (*requests, nothing):
                status = MPI.Status()
                assert request.Wait(status)
        assert (room == turn).all() and all(requests)
    same = MPI.Prequest.fromint(requests[0].toint())
    assert same == requests[0]
    requests[0].Start()
    requests[0].Cancel()
    status = MPI.Status()
    requests[0].Wait(status)
    assert status.Is_cancelled()
    for request in (*requests, nothing):
        request.Free()
        assert not request


def test_what_requests_need_goes_with_them() -> None:
    class Memory(bytearray):
        pass

    def gone(make: object) -> bool:
        memory = Memory(64)
        seen = weakref.ref(memory)
        make(memory)  # type: ignore[operator]
        del memory
        gc.collect()
        return seen() is None

    def persistent(memory: bytearray) -> None:
        requests = [SELF.Recv_init(memory, 0, 5), SELF.Send_init(bytes(64), 0, 5)]
        for _ in range(2):
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)
        requests[1].Start()
        requests[0].Start()
        del requests  # they complete while nobody waits for them

    assert gone(persistent)
    assert gone(lambda memory: (SELF.Isend(memory, 0, 6), SELF.Recv(bytearray(64), 0, 6)))
    assert gone(lambda memory: (SELF.Send(bytes(64), 0, 6), SELF.Mprobe(0, 6).Recv(memory)))


@pytest.mark.parametrize("device", DEVICES)
def test_calls_between_ranks(device: str) -> None:
    def body():
        other, status = 1 - rank, MPI.Status()
        MPI.Attach_buffer(bytearray(4 * (8000 + MPI.BSEND_OVERHEAD)))
        for length in (0, 1, 100, 1000, 100_000):
            out, into = np.full(length, rank + 1.0), np.zeros(length)
            comm.Sendrecv_replace(swapped := out.copy(), other, 3, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            assert (swapped == other + 1).all()
            assert (status.source, status.tag, status.Get_count(MPI.DOUBLE)) == (other, 3, length)
            request = comm.Isend(out, other, 4)
            message = comm.Mprobe(MPI.ANY_SOURCE, 4, status)
            assert type(message) is MPI.Message and message and status.source == other
            message.Recv(into, status)
            assert not message and (into == other + 1).all() and status.Get_count(MPI.DOUBLE) == length
            request.Wait()
            if length <= 1000:
                for _ in range(3):
                    comm.Bsend(out, other, 5)
                into[:] = 0
                for _ in range(3):
                    comm.Recv(into, other, 5)
                assert (into == other + 1).all()
            else:
                try:
                    comm.Bsend(out, other, 5)
                except MPI.Exception as error:
                    assert error.Get_error_class() == MPI.ERR_BUFFER
                else:
                    raise AssertionError("there was no room")
            for sent in ({"length": length, "rank": rank}, out, [b"x" * length, None], "é" * length):
                expected = {"length": length, "rank": other} if isinstance(sent, dict) else sent
                found = comm.sendrecv(sent, other, 6, None, MPI.ANY_SOURCE, 6, status)
                assert (found == other + 1).all() if sent is out else found == expected
                assert (status.source, status.tag) == (other, 6)
                for start in (comm.isend, comm.issend):
                    request = start(sent, other, 7)
                    found = comm.recv(source=other, tag=7, status=status)
                    assert (found == other + 1).all() if sent is out else found == expected
                    request.wait()
                requests = [comm.irecv(source=other, tag=8), comm.isend(sent, other, 8)]
                found = MPI.Request.waitall(requests)[0]
                assert (found == other + 1).all() if sent is out else found == expected
                request = comm.isend(sent, other, 9)
                message = comm.mprobe(source=other, tag=9)
                found = message.recv(status)
                assert (found == other + 1).all() if sent is out else found == expected
                request.wait()
        # the object may be changed at once, and is what it was
        changing = [np.full(100_000, rank), {"rank": rank}]
        request = comm.isend(changing, other, 1)
        changing[0][:] = -1
        changing[1]["rank"] = -1
        comm.Barrier()
        found = comm.recv(source=other, tag=1)
        assert (found[0] == other).all() and found[1] == {"rank": other}
        request.wait()
        MPI.Detach_buffer()

    run(body, 2, device)
