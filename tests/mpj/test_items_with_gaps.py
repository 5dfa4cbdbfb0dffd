"""Messages of derived datatypes between ranks, on every path: each byte comes to its place, and no other changes."""

# ruff: noqa: F821  (comm, rank, size, MPI and np are the ranks' own, and what LAYOUTS defines)
from __future__ import annotations

from typing import Any

import pytest

from .ranks import run

WAYS = ["shm", "tcp", "threads"]


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two ranks whose messages go through a ring, through sockets, or from thread to thread."""
    if request.param == "threads":
        return "smpdev"
    monkeypatch.setenv("FASTSOCK_TRANSPORTS", request.param)
    return "iodev"


LAYOUTS = """
DOUBLE, INT = MPI.DOUBLE, MPI.INT
other = 1 - rank


def box(sizes, part, order="C"):
    '''A subarray of doubles, and where its bytes are.'''
    starts = [each.start for each in part]
    counts = [each.stop - each.start for each in part]
    code = MPI.ORDER_C if order == "C" else MPI.ORDER_F
    numbers = np.arange(int(np.prod(sizes))).reshape(sizes, order=order)[part].ravel(order=order)
    return DOUBLE.Create_subarray(sizes, counts, starts, code), doubles(numbers), 8 * int(np.prod(sizes))


def doubles(numbers):
    return (8 * np.asarray(numbers)[:, None] + np.arange(8)).ravel()


def vector(count, length, stride):
    numbers = (stride * np.arange(count)[:, None] + np.arange(length)).ravel()
    first = -min(0, int(numbers.min()))
    made = DOUBLE.Create_vector(count, length, stride)
    if first:  # downwards, from a place within the memory
        made = MPI.Datatype.Create_hindexed(made, [1], [8 * first])
    extent = 8 * (int(numbers.max()) + first + 2)
    return made.Create_resized(0, extent), doubles(numbers + first), extent


def pieces():
    made = MPI.Datatype.Create_struct([1, 0, 3], [4, 8, 24], [INT, INT, DOUBLE]).Create_resized(0, 60)
    return made, np.concatenate([np.arange(4, 8), np.arange(24, 48)]), 60


def nested():
    inner = DOUBLE.Create_vector(3, 1, 2).Create_resized(0, 64)
    numbers = (8 * np.array([0, 1, 3])[:, None] + [0, 2, 4]).ravel()
    return inner.Create_indexed([2, 0, 1], [0, 2, 3]).Create_resized(0, 300), doubles(numbers), 300


S = slice
LAYOUTS = {
    "plane of 2-D": box([40, 50], (S(5, 25), S(7, 37))),
    "column": box([64, 64], (S(0, 64), S(3, 4))),
    "face": box([16, 64, 16], (S(0, 16), S(0, 64), S(1, 2))),
    "face in Fortran's order": box([20, 30, 10], (S(1, 2), S(0, 30), S(2, 9)), "F"),
    "box": box([12, 9, 15], (S(2, 7), S(3, 8), S(1, 14))),
    "upwards": vector(100, 3, 7),
    "downwards": vector(90, 2, -5),
    "struct": pieces(),
    "nested": nested(),
}
for made, _, _ in LAYOUTS.values():
    made.Commit()


def places_of(name, count):
    _, places, extent = LAYOUTS[name]
    return (extent * np.arange(count)[:, None] + places).ravel()


def memory_for(name, count):
    return np.full(LAYOUTS[name][2] * count, 170, np.uint8)


def data_of(length, salt):
    return np.random.default_rng(salt).integers(0, 256, length, np.uint8)


def filled(name, count, salt):
    '''Memory whose items hold random data.'''
    memory, places = memory_for(name, count), places_of(name, count)
    memory[places] = data_of(len(places), salt)
    return memory


def check(memory, name, count, length, salt):
    '''The first bytes of the data came, and nothing else changed.'''
    expected = memory_for(name, count)
    expected[places_of(name, count)[:length]] = data_of(length, salt)
    assert (memory == expected).all(), (name, count, np.flatnonzero(memory != expected)[:9])
"""
# eager and long messages
COUNTS = """
COUNTS = {name: [1, 3] for name in LAYOUTS}
for name in ["face", "downwards", "struct", "nested"]:
    COUNTS[name].append(1 + 140000 // len(LAYOUTS[name][1]))
"""


def run_on_two(body: Any, device: str) -> None:
    assert run(body, 2, device, before=LAYOUTS + COUNTS).count("fine") == 2


def test_items_come_to_their_places_in_every_call(device: str) -> None:
    def body() -> None:
        def send_and_receive(out, into):
            if rank == 0:
                comm.Send(out, 1)
                comm.Recv(into, 1)
            else:
                comm.Recv(into, 0)
                comm.Send(out, 0)

        def sendrecv(out, into):
            comm.Sendrecv(out, other, 0, into, other, 0)

        def started(out, into):
            MPI.Request.Waitall([comm.Irecv(into, other), comm.Isend(out, other)])

        def unexpected(out, into):
            request = comm.Issend(out, other)
            comm.Probe(other)
            comm.Recv(into, other)
            request.Wait()

        def matched(out, into):
            request = comm.Isend(out, other)
            comm.Mprobe(other).Recv(into)
            request.Wait()

        def again(out, into):
            requests = [comm.Recv_init(into, other, 3), comm.Send_init(out, other, 3)]
            for _ in range(2):
                MPI.Prequest.Startall(requests)
                MPI.Request.Waitall(requests)

        def replaced(out, into):
            into[0][:] = out[0]
            comm.Sendrecv_replace(into, other, 0, other, 0)

        def buffered(out, into):
            comm.Bsend(out, other)
            comm.Recv(into, other)

        MPI.Attach_buffer(bytearray(1 << 23))
        calls = [send_and_receive, sendrecv, started, unexpected, matched, again, replaced, buffered]
        salt = 0
        for name, (datatype, _, _) in LAYOUTS.items():
            for count in COUNTS[name]:
                for call in calls:
                    salt += 2
                    out, into = filled(name, count, salt + rank), memory_for(name, count)
                    call([out, count, datatype], [into, count, datatype])
                    check(into, name, count, len(places_of(name, count)), salt + other)
        print("fine")

    run_on_two(body, device)


def test_items_arrive_as_bytes_and_as_other_items_of_the_same_data(device: str) -> None:
    def body() -> None:
        salt = 0
        names = [name for name in LAYOUTS if name != "struct"]
        for number, name in enumerate(names):
            datatype, _, _ = LAYOUTS[name]
            for count in COUNTS[name]:
                salt += 2
                out, length = filled(name, count, salt + rank), len(places_of(name, count))
                plain = np.zeros(length // 8)
                comm.Sendrecv([out, count, datatype], other, 0, plain, other, 0)
                assert (plain.view(np.uint8) == data_of(length, salt + other)).all(), name
                back = memory_for(name, count)
                comm.Sendrecv(plain, other, 0, [back, count, datatype], other, 0)
                check(back, name, count, length, salt + rank)
                # the data of another layout: as many items as there is room for
                there = names[(number + 1) % len(names)]
                many = -(-length // len(places_of(there, 1)))
                into = memory_for(there, many)
                status = MPI.Status()
                comm.Sendrecv([out, count, datatype], other, 0, [into, many, LAYOUTS[there][0]], other, 0, status)
                assert status.Get_count(MPI.BYTE) == length
                check(into, there, many, length, salt + other)
        print("fine")

    run_on_two(body, device)


def test_a_message_that_is_too_long_for_its_items_leaves_the_rest_of_memory(device: str) -> None:
    def body() -> None:
        salt = 0
        for name, (datatype, _, _) in LAYOUTS.items():
            for count in COUNTS[name]:
                salt += 2
                out, into = filled(name, count + 1, salt + rank), memory_for(name, count + 1)
                request = comm.Isend([out, count + 1, datatype], other, 1)
                try:
                    comm.Recv([into, count, datatype], other, 1)
                except MPI.Exception as error:
                    assert error.Get_error_class() == MPI.ERR_TRUNCATE
                else:
                    raise AssertionError(name)
                request.Wait()
                untouched = np.ones(len(into), bool)
                untouched[places_of(name, count)] = False
                assert (into[untouched] == 170).all(), name
                into = memory_for(name, count + 1)  # the next message is as good as ever
                comm.Sendrecv([out, count + 1, datatype], other, 2, [into, count + 1, datatype], other, 2)
                check(into, name, count + 1, len(places_of(name, count + 1)), salt + other)
        print("fine")

    run_on_two(body, device)


def test_an_exchange_takes_what_has_come_already_in_the_order_in_which_it_was_sent(device: str) -> None:
    """The other rank sends before this one looks: then this one sends first, and receives behind that."""

    def body() -> None:
        face = LAYOUTS["face"][0]
        for early in range(2):
            for length in (1, 4000, 20000, 100000):
                first, second = np.full(length, 1.0 + early), np.full(length, 2.0)
                if rank == early:
                    requests = [comm.Isend(data, other, 3) for data in (first, second)]
                    requests.append(comm.Isend([filled("face", 1, rank), 1, face], other, 4))
                    answers = [np.zeros(length) for _ in range(3)]
                    for answer in answers:
                        comm.Recv(answer, other, 5)
                    MPI.Request.Waitall(requests)
                    assert [(answer == 7 + place).all() for place, answer in enumerate(answers)] == [True] * 3
                    continue
                comm.Probe(other, 4)  # all three are here
                status = MPI.Status()
                into, items = np.zeros(length), memory_for("face", 1)
                comm.Sendrecv(np.full(length, 7.0), other, 5, into, other, MPI.ANY_TAG, status)
                assert (into == first).all() and status.Get_tag() == 3 and status.Get_count(MPI.DOUBLE) == length
                comm.Sendrecv(np.full(length, 8.0), other, 5, [items, 1, face], other, 4)
                check(items, "face", 1, 8192, other)
                into[:] = 9
                comm.Sendrecv_replace(into, other, 5, MPI.ANY_SOURCE, 3)
                assert (into == second).all()
        print("fine")

    run_on_two(body, device)


def test_a_request_that_was_given_up_still_puts_its_items_in_their_places(device: str) -> None:
    def body() -> None:
        datatype = LAYOUTS["face"][0]
        out, into = filled("face", 1, rank), memory_for("face", 1)
        comm.Irecv([into, 1, datatype], other, 5).Free()
        comm.Isend([out, 1, datatype], other, 5).Free()
        comm.Sendrecv(b"", other, 6, bytearray(), other, 6)  # behind the other one, on the same way
        check(into, "face", 1, 8192, other)
        print("fine")

    run_on_two(body, device)


def test_the_type_may_be_freed_while_its_message_is_under_way(device: str) -> None:
    def body() -> None:
        count = 3000
        made = [LAYOUTS["upwards"][0].Dup().Commit() for _ in range(2)]
        out, into = filled("upwards", count, rank), memory_for("upwards", count)
        requests = [comm.Irecv([into, count, made[0]], other), comm.Isend([out, count, made[1]], other)]
        for datatype in made:
            datatype.Free()
        MPI.Request.Waitall(requests)
        check(into, "upwards", count, len(places_of("upwards", count)), other)
        print("fine")

    run_on_two(body, device)


def test_items_that_a_rank_sends_to_itself() -> None:
    def body() -> None:
        alone = MPI.COMM_SELF
        for name, (datatype, _, _) in LAYOUTS.items():
            for count in COUNTS[name]:
                length = len(places_of(name, count))
                for plain in (False, True):
                    out = filled(name, count, 1)
                    into = np.zeros(length, np.uint8) if plain else memory_for(name, count)
                    request = alone.Isend([out, count, datatype], 0)
                    alone.Recv([into, MPI.BYTE] if plain else [into, count, datatype], 0)
                    request.Wait()
                    if plain:
                        assert (into == data_of(length, 1)).all()
                    else:
                        check(into, name, count, length, 1)
        print("fine")

    assert run(body, 1, before=LAYOUTS + COUNTS).count("fine") == 1
