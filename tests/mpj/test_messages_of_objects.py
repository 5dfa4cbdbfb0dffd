"""Objects as messages: pickles, written natively where they are small and plain, with large buffers not copied."""

# ruff: noqa: F821  (in bodies, comm, rank, MPI and np are the ranks' own)
from __future__ import annotations

import pickle
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock.mpj import MPI
from fastsock.mpj.messages._embedding import ENTRY, MAGIC, TAIL, embedded
from fastsock.mpj.messages._plain import dump_plain, load_plain
from fastsock.mpj.messages.pickling import CODEC, Codec, Pickle

from .ranks import DEVICES, run

HEAD = b"\x80\x04C\x07fsk-pln0"

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | st.just(HEAD)
    | st.just(MAGIC)
)
objects = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=5)
        | st.tuples(inner, inner)
    ),
    max_leaves=40,
)


def same(one, other):
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@given(objects)
def test_what_is_plain_comes_back_as_it_was(obj):
    message = dump_plain(obj)
    if message:
        found, plain = load_plain(message)
        assert plain and same(found, obj)
        assert same(CODEC.load(message), obj)
        assert same(pickle.loads(message), obj)  # for whoever receives it as bytes
        assert same(pickle._loads(message), obj)  # Python's own unpickler in Python


@given(objects, st.integers(0, 2100), st.integers(0, 255))
@settings(max_examples=300)
def test_damaged_messages_are_refused_or_give_some_object(obj, place, byte):
    message = bytearray(dump_plain(obj))
    if len(message) <= len(HEAD):
        return
    place = len(HEAD) + place % (len(message) - len(HEAD))
    for damaged in (message[:place], message[:place] + bytes([byte]) + message[place + 1 :], message + b"x"):
        try:
            load_plain(damaged)
        except (ValueError, TypeError):  # unhashable keys, bad UTF-8
            continue


class Number(int):
    pass


@pytest.mark.parametrize(
    "obj",
    [Number(3), 1 << 64, "\ud800", {1, 2}, bytearray(b"x"), "x" * 5000, list(range(3000)), [[[[[[[[[[1]]]]]]]]]]],
    ids=["subclass", "long", "surrogate", "set", "bytearray", "text", "many", "deep"],
)
def test_the_rest_is_pickled(obj):
    assert dump_plain(obj) == b""
    found = CODEC.load(CODEC.message(obj))
    assert type(found) is type(obj) and found == obj


def test_what_is_one_object_stays_one():
    shared = [1]
    whole = [shared, {"again": shared}]
    assert dump_plain(whole) == b""
    whole.append(whole)
    assert dump_plain(whole) == b""


@given(st.lists(st.integers(0, 60_000), max_size=4), st.booleans())
@settings(max_examples=40, deadline=None)
def test_arrays_travel_beside_the_pickle(lengths, wide):
    arrays = [np.arange(length, dtype=np.float64 if wide else np.uint8) for length in lengths]
    found = CODEC.load(bytearray(CODEC.message(arrays)))
    for array, other in zip(arrays, found, strict=True):
        assert (array == other).all() and array.dtype == other.dtype
        assert other.flags.writeable
        assert array.nbytes < 16384 or other.ctypes.data % 16 == 0


BUFFERS = {
    "array": np.arange(5000.0),
    "Fortran": np.ones((100, 200), order="F"),
    "several": [np.arange(3000), "between", {"key": np.zeros(9000, "u1")}, bytearray(b"small"), np.arange(2)],
    "twice": [BIG := np.arange(4000.0), BIG],
    "read-only": (READ_ONLY := np.arange(2000.0)),
    "frames": [bytes(70000), list(range(40000)), np.arange(5000.0), "x" * 70000, np.arange(5000.0)],
    "structured": np.zeros(900, [("a", "i4"), ("b", "f8")]),
    "odd": [np.full(8192 + extra, extra, "u1") for extra in range(70)],
    "opcodes": [b"\x97\x98\x95" * 5000, np.frombuffer(b"\x97\x98\x95." * 5000, "u1")],
}
READ_ONLY.flags.writeable = False


def _lists(obj):
    if isinstance(obj, np.ndarray):
        return obj.tolist(), str(obj.dtype), obj.flags.writeable
    if isinstance(obj, list | tuple):
        return [_lists(each) for each in obj]
    return {key: _lists(each) for key, each in obj.items()} if isinstance(obj, dict) else obj


@pytest.mark.parametrize("name", BUFFERS)
@pytest.mark.parametrize("loads", [CODEC.load, pickle.loads, pickle._loads], ids=["load", "pickle", "in Python"])
def test_a_message_with_buffers_is_a_pickle(name, loads):
    obj = BUFFERS[name]
    message = bytearray(CODEC.message(obj))
    assert message.endswith(MAGIC)
    found = loads(message)
    assert _lists(found) == _lists(obj)
    if name == "twice":
        assert found[0] is found[1]


def test_buffers_are_not_copied_into_their_message():
    array = np.arange(5000.0)
    assert [piece.address for piece in CODEC.pieces(array) if not isinstance(piece, bytes)] == [array.ctypes.data]
    message = np.frombuffer(CODEC.message(array), "u1")
    assert np.shares_memory(CODEC.load(message.data), message)


@given(st.lists(st.tuples(*[st.integers(0, 60) | st.integers(0, (1 << 64) - 1)] * 4), max_size=4))
@settings(max_examples=300)
def test_damaged_trailers_are_refused(entries):
    data = pickle.dumps([1, "two", 3.0])  # what is read of it is a pickle's beginning: no opcode of chance
    trailer = b"".join(ENTRY.pack(*entry) for entry in entries)
    for count in (len(entries) + 1, 1 << 63):  # more than there are, or than can be
        with pytest.raises((ValueError, OverflowError)):
            CODEC.load(trailer + TAIL.pack(count, MAGIC))
    with suppress(Exception):  # pickle raises many kinds; what counts is that nothing outside the message is read
        CODEC.load(data + trailer + TAIL.pack(len(entries), MAGIC))


@given(st.binary(max_size=60))
@settings(max_examples=300)
def test_only_a_pickle_takes_buffers(data):
    with suppress(ValueError, StopIteration):
        embedded(data, [b"x"])


@pytest.mark.parametrize("device", DEVICES)
def test_a_message_is_received_as_bytes_and_unpickled(device):
    """As programs do that look at a message first; and the other way round."""

    def body():
        import pickle

        objects = [None, True, 5, -(1 << 40), 1.5, "text", b"bytes", (1, [2, {"three": 4.0}]), {"rank": range(3)}]
        objects += [np.arange(5.0), np.arange(5000.0), [np.arange(3000), np.ones((300, 20), order="F")]]
        for call in comm.send, comm.ssend, lambda *args: comm.isend(*args).wait():
            for obj in objects:
                if rank == 0:
                    call(obj, 1, 1)
                    comm.Send(pickle.dumps(obj), 1, 2)
                    continue
                status = MPI.Status()
                comm.Probe(0, 1, status)
                raw = bytearray(status.Get_count(MPI.BYTE))
                comm.Recv(raw, 0, 1)
                assert repr(pickle.loads(raw)) == repr(obj)
                assert repr(comm.recv(source=0, tag=2)) == repr(obj)

    run(body, 2, device)


def test_a_program_may_choose_how_objects_are_pickled():
    chosen = Pickle(lambda obj: repr(obj).encode(), lambda data: eval(bytes(data)))
    codec = Codec(lambda: chosen, 1)
    assert codec.message([1, 2]) == b"[1, 2]"
    assert codec.load(b"[1, 2]") == [1, 2]


def test_memory_for_an_object_is_deprecated_only_where_the_call_blocks(recwarn):
    """As in mpi4py: `irecv` needs it."""
    comm = MPI.COMM_SELF
    request = comm.irecv(bytearray(1000), 0, 1)
    comm.send([1], 0, 1)
    assert request.wait() == [1]
    assert not recwarn.list
    request = comm.isend([2], 0, 2)
    with pytest.warns(UserWarning, match="the 'buf' argument is deprecated"):
        assert comm.recv(bytearray(1000), 0, 2) == [2]
    request.wait()
    with pytest.warns(UserWarning, match="the 'buf' argument is deprecated"):
        assert comm.sendrecv([3], 0, 3, bytearray(1000), 0, 3) == [3]
