"""Bytes that no packer writes end in BadFrame or LimitExceeded. Nothing is allocated by their word."""

from __future__ import annotations

import contextlib
import random
import struct
import sys
import tracemalloc
from typing import Any

import numpy
import pytest

from fastsock.array_format import pack_header
from fastsock.rmi.errors import BadFrame, LimitExceeded, RmiError
from tests.rmi.codecs import Way, codec, tags
from tests.rmi.fuzz_codec import feed, once, samples
from tests.rmi.test_codec import Colour, Frozen, Named, Point, class_table

HUGE = b"\xff" + struct.pack("<Q", 1 << 55)  # a length
BEYOND = b"\xff" + struct.pack("<Q", 1 << 60)
COUNTED = [
    tags.BIG_INT, tags.STR, tags.BYTES, tags.BYTEARRAY, tags.TUPLE, tags.LIST, tags.DICT, tags.SET, tags.FROZENSET,
    tags.DECIMAL, tags.ARRAY_DESCRIBED, tags.DTYPE, tags.PICKLE,
]  # fmt: skip


def unpack(body: bytes, segments: Any = (), **options: Any) -> Any:
    return codec.Unpacker(class_table(), **options).unpack_frame(body, segments)


@pytest.mark.parametrize("tag", COUNTED, ids=hex)
@pytest.mark.parametrize("length", [HUGE, BEYOND, b"\xfe\xff\xff\xff\x7f", b"\xfd\xff\xff", b"\x05"], ids=len)
def test_a_forged_length_allocates_nothing(tag, length):
    unpacker = codec.Unpacker(class_table(), trust_pickle=True)
    body = bytes([0, tag]) + length + b"abc"
    tracemalloc.start()
    try:
        with pytest.raises(BadFrame):
            unpacker.unpack_frame(body)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 100_000


def test_an_array_of_forged_extents():
    for extents in (
        [HUGE],
        [HUGE, HUGE],
        [b"\xff" + struct.pack("<Q", 1 << 32)] * 2,
        [HUGE] * 64,
        [b"\x00", HUGE, HUGE, HUGE],
        [b"\x01"] * 200,
    ):
        for tag in (tags.ARRAY, tags.ARRAY_SEGMENT):
            body = bytes([0, tag, 11, len(extents)]) + b"".join(extents)
            segments = [numpy.zeros(64, "u1")] if tag == tags.ARRAY_SEGMENT else []
            with pytest.raises(BadFrame):
                unpack(body + bytes(8 * len(segments)), segments)
    described = bytearray(pack_header(numpy.dtype("M8[s]"), (4,), False))
    described[16:32] = struct.pack("<QQ", 1 << 60, 1 << 57)
    with pytest.raises(BadFrame):
        unpack(bytes([0, tags.ARRAY_DESCRIBED, len(described)]) + bytes(described) + bytes(100))


NESTING = [
    *(b"\xb1", b"\xa1", b"\xe1\x00", bytes([tags.FROZENSET, 1]), bytes([tags.DATETIME]) + bytes(11)),
    *(bytes([tags.NEW_CACHED, 1]), bytes([tags.PATH, 0])),
    *(bytes([tag]) for tag in (tags.SLICE, tags.RECURSIVE, tags.RANGE, tags.EXCEPTION, tags.FRACTION)),
    *(bytes([tag]) for tag in (tags.REFERENCE, tags.TIMEZONE, tags.SCALAR)),
]


@pytest.mark.parametrize("start", NESTING, ids=bytes.hex)
def test_nesting_of_a_million(start):
    with pytest.raises((BadFrame, LimitExceeded)):
        unpack(b"\0" + start * 1_000_000)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\x40\x40",  # more values than were asked for is the caller's to see; here: none
        b"\x08\x40",  # flags
        b"\x01\x40",  # descriptions that are not there
        b"\x01\xff\xff\xff\x7f",
        b"\0\xc0",  # a class that was never described
        bytes([0, tags.OBJECT]) + HUGE,
        bytes([0, tags.AGAIN, 0]),
        bytes([tags.REPEATS, 0xB1, tags.AGAIN, 5]),
        bytes([0, tags.CACHED, 0]),
        bytes([0, tags.NEW_CACHED]) + HUGE + b"\1",
        bytes([0, tags.BYTES_SEGMENT]),
        bytes([0, tags.ARRAY_SEGMENT, 11, 1, 5]),
        bytes([0, tags.ARRAY, 99, 1, 1]) + bytes(8),
        bytes([0, 0x7F]),
        bytes([0, 0x82, 0xFF, 0xFF]),  # not UTF-8
        bytes([0, 0xE2, 1, 1, 1, 2]),  # a key twice
        bytes([0, tags.SET, 2, 1, 1]),
        bytes([0, tags.SET, 1, 0xB0]),  # a list in a set
        bytes([0, 0xE1, 0xB0, 1]),
        bytes([0, tags.DATE]) + struct.pack("<HBB", 2024, 13, 1),
        bytes([0, tags.TIME, 25, 0, 0, 0, 0, 0, 0, tags.NONE]),
        bytes([0, tags.DATETIME]) + struct.pack("<HBBBBBI", 2024, 1, 1, 0, 0, 0, 0) + b"\x05",
        bytes([0, tags.TIMEDELTA]) + b"\xff\xff\xff\x7f" * 3,
        bytes([0, tags.TIMEZONE, 0xA1, 5]),
        bytes([0, tags.DECIMAL, 1]) + b"x",
        bytes([0, tags.FRACTION, 1, 0]),
        bytes([0, tags.UUID]) + bytes(16) + b"\x07",
        bytes([0, tags.PATH, 9, 0x81]) + b"a",
        bytes([0, tags.ZONE, 0x8A]) + b"../../etc/",
        bytes([0, tags.RANGE, 1, 5, 0]),
        bytes([0, tags.TYPED_ARRAY, ord("d"), 4, 0, tags.BYTES, 0]),
        bytes([0, tags.TYPED_ARRAY, ord("d"), 8, 0, tags.BYTES, 3]) + b"abc",
        bytes([0, tags.VIEW, 1, 0x81]) + b"i" + bytes([1, 3, tags.BYTES, 3]) + b"abc",
        bytes([0, tags.VIEW, 1, 0x82]) + b"&<" + bytes([1, 3, tags.BYTES, 3]) + b"abc",
        bytes([0, tags.EXCEPTION, 0x86]) + b"object" + bytes([0xA0, tags.NONE, tags.NONE]),
        bytes([0, tags.EXCEPTION, 0x8A]) + b"ValueError" + bytes([0xB0, tags.NONE, tags.NONE]),
        bytes([0, tags.EXCEPTION, 0x8A])
        + b"ValueError"
        + bytes([0xA0, 0xE1, 0x89])
        + b"__class__"
        + bytes([1, tags.NONE]),
        bytes([0, tags.EXCEPTION, 0x8A]) + b"ValueError" + bytes([0xA0, tags.NONE, 5]),
        bytes([0, tags.PICKLE, 4]) + b"\x80\x05N.",
        bytes([0, tags.REFERENCE, 0xA0]),
        bytes([0, tags.DTYPE, 3]) + b"abc",
        bytes([0, tags.SCALAR, 0xB0]),
    ],
    ids=bytes.hex,
)
def test_what_no_packer_writes(body):
    if body == b"\0\x40\x40":
        unpacker = codec.Unpacker(class_table())
        unpacker.begin(body)
        assert unpacker.unpack() is None
        with pytest.raises(BadFrame, match="1 bytes are left"):
            unpacker.end()
        return
    with pytest.raises((BadFrame, LimitExceeded)):
        unpack(body)


def test_segments_that_nobody_takes():
    with pytest.raises(BadFrame, match="segments are left"):
        unpack(b"\0\x40" + bytes(8), [b"abc"])
    with pytest.raises(BadFrame):
        codec.segment_words(b"\0", 3)
    with pytest.raises(BadFrame, match="does not exist"):
        codec.new_segment(77, 10)
    with pytest.raises(BadFrame, match="a segment of 10"):
        unpack(bytes([0, tags.ARRAY_SEGMENT, 11, 1, 5]) + bytes(8), [bytearray(10)])


def test_a_description_that_lies():
    way = Way(class_table())
    body, _ = way.pack(Point(1, 2))
    end = len(body) - 4
    size = struct.unpack("<I", body[end:])[0]
    first = end - size
    for at, byte, error in (
        (first, 9, "kind"),
        (first + 20, 0xFF, "cannot be read"),
        (end - 1, ord("z"), "contradicts"),
    ):
        forged = bytearray(body)
        forged[at] = byte
        with pytest.raises(BadFrame, match=error):
            codec.Unpacker(class_table()).unpack_frame(bytes(forged))
    unpacker = codec.Unpacker(class_table())
    described = body[first:end]
    many = described * 5000
    with pytest.raises(LimitExceeded, match="4096 classes"):
        unpacker.unpack_frame(b"\1" + many + struct.pack("<I", len(many)))


def test_an_enum_of_a_forged_member():
    way = Way(class_table())
    body, _ = way.pack(Colour.RED)
    with pytest.raises(BadFrame, match="member 9"):
        codec.Unpacker(class_table()).unpack_frame(body[:2] + b"\x09" + body[3:])


@pytest.mark.parametrize("which", range(len(samples())))
def test_truncated_at_every_byte(which):
    body, segments = samples()[which]
    for end in range(0, len(body), 1 if len(body) < 600 else 7):
        feed(body[:end], segments)
        feed(body[:end], ())


@pytest.mark.parametrize("which", range(len(samples())))
def test_every_byte_flipped(which):
    body, segments = samples()[which]
    for at in range(0, len(body), 1 if len(body) < 600 else 7):
        for mask in (0x01, 0x80, 0xFF):
            feed(body[:at] + bytes([body[at] ^ mask]) + body[at + 1 :], segments)


def test_memory_is_bounded_by_the_bytes():
    """A byte makes at most one empty container, or one place in one."""
    for start in (b"\xb0", b"\xa1", b"\xb1", b"\xe1\x00", b"\x40"):
        body = bytes([0, tags.LIST, 0xFE]) + struct.pack("<I", 10_000) + start * 10_000
        tracemalloc.start()
        try:
            feed(body, ())
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < 500 * len(body)


def test_nothing_is_kept_of_a_broken_frame():
    unpacker = codec.Unpacker(class_table())
    way = Way(class_table())
    body, _ = way.pack([Point(1, [Named(2, Frozen(3))])] * 3)
    for end in range(1, len(body)):
        with contextlib.suppress(RmiError):
            unpacker.unpack_frame(body[:end])
    unpacker = codec.Unpacker(class_table())
    before = sys.getrefcount(None)
    for _ in range(100):
        with pytest.raises(BadFrame):
            unpacker.unpack_frame(bytes([0, tags.LIST, 100]) + bytes([tags.NONE]) * 99)
    assert sys.getrefcount(None) - before < 100 or sys.version_info >= (3, 12)


def test_a_few_seconds_of_the_fuzzer():
    """`python -m tests.rmi.fuzz_codec` goes on for longer."""
    rng = random.Random(20240607)
    for _ in range(1500):
        once(rng)
