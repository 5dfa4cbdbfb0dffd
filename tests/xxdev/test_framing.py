"""Messages of devices as bytes: what was packed comes out, and what nobody packed is refused without harm."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsock.xxdev import Code, XxdevError, framing

VALUES = [
    b"bytes",
    bytearray(b"array"),
    numpy.arange(12.0).reshape(3, 4),
    numpy.zeros(3, [("a", "i4"), ("b", "M8[s]")]),
    numpy.arange(10)[::2],
    {"a": numpy.arange(20_000), "b": [1, 2, b"x" * 70_000]},
    None,
]


def joined(value):
    """The message as one piece of writable, aligned memory."""
    return bytearray(b"".join(bytes(part) for part in framing.pack(value)))


def read(message):
    """What comes of a message, or the code of the error."""
    try:
        return framing.unpack(message)
    except XxdevError as error:
        return error.code


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_truncated_messages_are_refused(value):
    message = joined(value)
    for length in {0, 1, 4, 63, 64, len(message) // 2, len(message) - 1}:
        if length < len(message):
            assert read(message[:length]) == Code.PROTOCOL
    assert read(message + b"\0") == Code.PROTOCOL


@pytest.mark.parametrize("value", VALUES[:5], ids=lambda value: type(value).__name__)
@given(st.lists(st.tuples(st.integers(0, 127), st.integers(0, 255)), min_size=1, max_size=4))
def test_headers_that_lie_are_refused_or_mean_something(value, changes):
    """Arrays and bytes: no header may lead outside of the message. (A pickle is its sender's, who is authenticated.)"""
    message = joined(value)
    for place, byte in changes:
        if 4 <= place < len(message):
            message[place] = byte
    if message[:4] == b"\x93FSO" and message[5] == 0:
        return
    came = read(message)
    if isinstance(came, numpy.ndarray):
        assert came.nbytes <= len(message)
        came.tobytes()
    else:
        assert came == Code.PROTOCOL or len(came) <= len(message)


@given(st.binary(max_size=300))
def test_what_is_no_message_is_refused(data):
    assert read(data) == Code.PROTOCOL


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=200))
def test_objects_whose_lengths_lie_are_refused(length, count, rest):
    head = b"\x93FSO\x01\x00\x00\x00" + length.to_bytes(8, "little") + count.to_bytes(4, "little") + bytes(44)
    message = head + rest
    if count == 0 and length <= len(rest):
        return  # a pickle, if a short one
    assert read(message) == Code.PROTOCOL


def test_large_parts_are_not_copied():
    array = numpy.arange(100_000)
    parts = framing.pack({"large": array})
    assert any(getattr(part, "nbytes", 0) == array.nbytes for part in parts)
    assert sum(len(part) for part in parts) < array.nbytes + 1000
    message = numpy.frombuffer(joined({"large": array}), "u1")
    came = framing.unpack(message)["large"]
    assert numpy.shares_memory(came, message)


def test_a_target_larger_than_the_message_keeps_its_rest():
    target = framing.Target(memory := numpy.full(8, 7, "u1"))
    message = joined(b"abc")
    for part, piece in zip(target.parts, (message[:64], message[64:]), strict=True):
        memoryview(part)[: len(piece)] = piece
    assert target.accept(len(message), None) == 3
    assert memory.tobytes() == b"abc" + b"\7" * 5
