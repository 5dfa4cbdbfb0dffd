"""What can be sent: buffers, arrays of every kind and layout, objects; and what comes of it."""

from __future__ import annotations

import array
import collections
import datetime
import pickle
from decimal import Decimal

import numpy

from ..ranks import on_ranks

Point = collections.namedtuple("Point", "x y")


class Refuses:
    """An object that cannot be pickled."""

    def __reduce__(self):
        raise pickle.PicklingError("not this one")


OBJECTS = [
    None, True, 0, -(10**30), 1.5, float("inf"), 2j, "text é", ("a", [1, {2: {3}}]), frozenset("ab"), Point(1, 2),
    Decimal("1.10"), datetime.datetime(2020, 1, 2), range(5), int, ValueError("x").args, {"k": numpy.float64(2.5)},
]  # fmt: skip


def layouts():
    """Arrays of every layout, dtype and number of dimensions that the header tells apart."""
    base = numpy.arange(4 * 6 * 10, dtype="f8").reshape(4, 6, 10)
    structured = numpy.zeros(7, dtype=[("a", "<i4"), ("b", "f8", (2,)), ("c", "S3")])
    structured["a"] = range(7)
    return [
        numpy.arange(10), base, base[1], base[:, 2], base[..., ::3], base[::-1, ::2, 1:9], base.T, base[:, :, 0].T,
        numpy.asfortranarray(base), numpy.array(3.5), numpy.zeros((0, 3)), numpy.zeros((2, 0, 2)), numpy.float32(2),
        numpy.array([True, False]), numpy.arange(5, dtype=">i4"), numpy.array(["a", "béc"]), numpy.array([b"x", b"yz"]),
        numpy.arange(3).astype("M8[ms]"), numpy.arange(3).astype("m8[3h]"), structured, structured[::2],
        structured["b"], numpy.arange(4, dtype="c16"), numpy.ones((1,) * 7), numpy.arange(64).reshape((2,) * 6)[..., 1],
        numpy.arange(5, dtype="f2"), numpy.arange(5, dtype="g"), numpy.broadcast_to(numpy.arange(3), (4, 3)),
        numpy.arange(600_000, dtype="i4").reshape(3, -1)[:, ::2],
    ]  # fmt: skip


def same(left, right):
    if isinstance(left, numpy.ndarray) or isinstance(right, numpy.ndarray):
        left, right = numpy.asarray(left), numpy.asarray(right)
        return left.dtype == right.dtype and left.shape == right.shape and bool((left == right).all())
    return type(left) is type(right) and (left == right)


@on_ranks(2)
def check_objects(device):
    for number, value in enumerate(OBJECTS):
        if device.id() == 0:
            device.send(value, 1, number)
        else:
            came = device.recv(None, 0, number).value
            assert same(came, value), (came, value)


@on_ranks(2)
def check_arrays_as_new_objects(device):
    for number, value in enumerate(layouts()):
        if device.id() == 0:
            device.send(value, 1, number)
        else:
            came = device.recv(None, 0, number).value
            assert same(came, value), (number, came.dtype, came.shape)
            assert came.flags.writeable and came.flags.aligned


@on_ranks(2)
def check_arrays_into_arrays(device):
    for number, value in enumerate(layouts()):
        value = numpy.asarray(value)
        if device.id() == 0:
            for target in range(3):
                device.send(value, 1, 10 * number + target)
            continue
        strided = numpy.zeros((*value.shape, 2), value.dtype)[..., 1]
        targets = [numpy.zeros(value.shape, value.dtype), numpy.zeros(value.shape, value.dtype, order="F"), strided]
        for index, target in enumerate(targets):
            device.recv(target, 0, 10 * number + index)
            assert same(numpy.ascontiguousarray(target).reshape(value.shape), value), (number, index)


@on_ranks(2)
def check_part_of_a_larger_array(device):
    """As JFS's write(buf, off, len): a slice leaves, a slice is filled, the rest stays."""
    if device.id() == 0:
        data = numpy.arange(100, dtype="i8")
        device.send(data[10:20], 1, 1)
        device.send(data[10:30:2], 1, 2)
        return
    target = numpy.full(40, -1, dtype="i8")
    device.recv(target[5:25], 0, 1)
    assert target[5:15].tolist() == list(range(10, 20)) and (target[15:] == -1).all() and (target[:5] == -1).all()
    target[:] = -1
    device.recv(target[::3], 0, 2)
    assert target[0:30:3].tolist() == list(range(10, 30, 2)) and (target[1::3] == -1).all()


@on_ranks(2)
def check_buffers(device):
    import ctypes
    import mmap

    mapped = mmap.mmap(-1, 4096)
    mapped[:3] = b"abc"
    values = [
        (b"bytes", b"bytes"), (bytearray(b"more"), bytearray(b"more")), (b"", b""), (bytearray(), bytearray()),
        (array.array("d", [1.5, 2.5]), numpy.array([1.5, 2.5])),
        (memoryview(b"abcdef")[::2], numpy.frombuffer(b"ace", "u1")),
        (memoryview(b"abcdef"), numpy.frombuffer(b"abcdef", "u1")),
        ((ctypes.c_int * 3)(7, 8, 9), numpy.array([7, 8, 9], dtype="i4")),
        (mapped, numpy.frombuffer(mapped, "u1")),
        (pickle.PickleBuffer(b"pb"), numpy.frombuffer(b"pb", "u1")),
    ]  # fmt: skip
    for number, (sent, expected) in enumerate(values):
        if device.id() == 0:
            device.send(sent, 1, number)
        else:
            came = device.recv(None, 0, number).value
            assert same(came, expected), (number, came, expected)


@on_ranks(2)
def check_into_buffers(device):
    if device.id() == 0:
        for tag in range(4):
            device.send(array.array("i", [1, 2, 3]), 1, tag)
        return
    typed, raw, view = array.array("i", [0] * 5), bytearray(12), memoryview(bytearray(20))
    assert device.recv(typed, 0, 0).count("i4") == 3 and typed.tolist() == [1, 2, 3, 0, 0]
    assert device.recv(raw, 0, 1).length == 12 and array.array("i", bytes(raw)).tolist() == [1, 2, 3]
    device.recv(view[4:16], 0, 2)
    assert array.array("i", bytes(view)).tolist() == [0, 1, 2, 3, 0]
    matrix = numpy.zeros((2, 4), "i4")
    device.recv(matrix, 0, 3)
    assert matrix.ravel().tolist() == [1, 2, 3, 0, 0, 0, 0, 0]


@on_ranks(2)
def check_large_parts_of_objects_are_not_copied_apart(device):
    """Arrays inside objects come out aligned, writable, and as what they were."""
    value = {"a": numpy.arange(300_000.0), "b": [numpy.ones((3, 3), order="F"), b"x" * 100_000], "c": "small"}
    if device.id() == 0:
        device.send(value, 1, 1)
        return
    came = device.recv(None, 0, 1).value
    assert came.keys() == value.keys() and same(came["a"], value["a"]) and same(came["b"][0], value["b"][0])
    assert came["b"][1] == value["b"][1] and came["a"].flags.writeable and came["a"].flags.aligned
    came["a"][0] = 1


@on_ranks(2)
def check_masked_arrays_keep_their_mask(device):
    value = numpy.ma.masked_array([1, 2, 3], mask=[0, 1, 0])
    if device.id() == 0:
        device.send(value, 1, 1)
    else:
        came = device.recv(None, 0, 1).value
        assert isinstance(came, numpy.ma.MaskedArray) and came.mask.tolist() == [False, True, False]


@on_ranks(2)
def check_arrays_of_objects(device):
    value = numpy.array([1, "a", None], dtype=object)
    if device.id() == 0:
        device.send(value, 1, 1)
    else:
        assert device.recv(None, 0, 1).value.tolist() == [1, "a", None]


@on_ranks(2)
def check_what_cannot_be_pickled_is_not_sent(device):
    if device.id() == 0:
        try:
            device.send(Refuses(), 1, 1)
        except pickle.PicklingError:
            pass
        else:
            raise AssertionError("it was sent")
        device.send("after", 1, 1)
    else:
        assert device.recv(None, 0, 1).value == "after"


@on_ranks(2)
def check_wrong_types_are_told(device):
    from fastsock.xxdev import Code, XxdevError

    values = [numpy.arange(4, dtype="f8"), {"an": "object"}, numpy.zeros(2, "M8[s]"), numpy.arange(4, dtype=">f4")]
    if device.id() == 0:
        for tag, value in enumerate(values):
            device.send(value, 1, tag)
        device.send(b"after", 1, 99)
        return
    for tag in range(len(values)):
        try:
            device.recv(numpy.zeros(50, "f4"), 0, tag)
        except XxdevError as error:
            assert error.code == Code.DATATYPE, error
            assert "receive it" in str(error)
        else:
            raise AssertionError(f"{values[tag]!r} was received into float32")
    assert device.recv(None, 0, 99).value == b"after"


@on_ranks(2)
def check_the_sender_may_change_its_buffer_after_send(device):
    if device.id() == 0:
        for size in (100, 200_000, 3_000_000):
            data = numpy.full(size, 7, dtype="u1")
            device.send(data, 1, 1)
            data[:] = 0
            request = device.isend(data, 1, 2)
            request.iwait()
            data[:] = 9
    else:
        for _ in range(3):
            assert (device.recv(None, 0, 1).value == 7).all()
            assert (device.recv(None, 0, 2).value == 0).all()
