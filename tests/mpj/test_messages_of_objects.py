"""Objects as messages: without pickle where they are small and plain, with large buffers beside the pickle."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock.mpj import MPI
from fastsock.mpj.messages._plain import dump_plain, load_plain
from fastsock.mpj.messages.pickling import CODEC, Codec, Pickle

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | st.just(b"\x01fsk-pln")
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


@given(objects, st.integers(0, 2100), st.integers(0, 255))
@settings(max_examples=300)
def test_damaged_messages_are_refused_or_give_some_object(obj, place, byte):
    message = bytearray(dump_plain(obj))
    if len(message) <= 8:
        return
    place = 8 + place % (len(message) - 8)
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


@given(st.integers(0, 1 << 63), st.integers(0, 1 << 63), st.integers(0, 200))
def test_damaged_heads_are_refused(count, length, size):
    message = b"\x00fsk-oob" + count.to_bytes(8, "little") + length.to_bytes(8, "little") + bytes(size)
    with pytest.raises((ValueError, EOFError, pickle.UnpicklingError)):
        CODEC.load(message)


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
