"""How messages lie in the stream: any cut of the bytes gives the same frames, and other bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fastsock.dask.framing import Assembler, FramingError, pack

FRAMES = some.lists(
    some.one_of(
        some.binary(max_size=40),
        some.integers(0, 40_000).map(lambda size: memoryview(bytearray(size))),
        some.integers(16_000, 200_000).map(lambda size: bytes([size % 251]) * size),
    ),
    max_size=8,
)


def _memory(size):
    return memoryview(bytearray(size))


def _stream(*messages):
    return b"".join(bytes(buffer) for message in messages for buffer in pack(message)[0])


def _assembled(stream, cuts):
    """All messages of the stream, received in pieces of the given sizes."""
    assembler, found, at = Assembler(_memory), [], 0
    while at < len(stream):
        room = assembler.room()
        count = min(len(room), next(cuts), len(stream) - at)
        room[:count] = stream[at : at + count]
        assembler.received(count)
        at += count
        while (message := assembler.take()) is not None:
            found.append(message)
    assert assembler.is_between_messages()
    return found


def _repeated(sizes):
    while True:
        yield from sizes


@given(some.lists(FRAMES, max_size=4), some.lists(some.integers(1, 100_000), min_size=1, max_size=5))
def test_any_cut_gives_the_same_messages(messages, cuts):
    cuts = [max(cut, 50) for cut in cuts]  # a megabyte byte by byte takes long
    found = _assembled(_stream(*messages), _repeated(cuts))
    assert [[bytes(frame) for frame in message] for message in found] == [
        [bytes(frame) for frame in message] for message in messages
    ]


def test_byte_by_byte():
    message = [b"head", b"", memoryview(bytearray(b"array")), b"tail"]
    (found,) = _assembled(_stream(message), _repeated([1]))
    assert [bytes(frame) for frame in found] == [bytes(frame) for frame in message]


def test_a_message_waits_in_the_buffer_until_it_is_taken():
    """Who receives before anybody reads comes to an end, and loses nothing."""
    stream, assembler, at = _stream([b"x" * 200_000]), Assembler(_memory), 0
    while room := assembler.room():
        room[:] = stream[at : at + len(room)]
        assembler.received(len(room))
        at += len(room)
    assert 0 < at < len(stream)
    while assembler.take() is None:
        room = assembler.room()
        count = min(len(room), len(stream) - at)
        room[:count] = stream[at : at + count]
        assembler.received(count)
        at += count
    assert at == len(stream)


def test_a_large_frame_is_sent_from_where_it_lies():
    array = memoryview(bytearray(1 << 20))
    buffers, size = pack([b"head", array, b"tail"])
    assert buffers[1] is array
    assert size == sum(len(buffer) for buffer in buffers)


def test_a_large_frame_is_received_where_it_will_lie():
    made = []

    def allocate(size):
        made.append(_memory(size))
        return made[-1]

    stream, assembler = _stream([b"head" * 1000, memoryview(bytearray(1 << 20))]), Assembler(allocate)
    at = 0
    while assembler.take() is None:
        room = assembler.room()
        count = min(len(room), len(stream) - at)
        room[:count] = stream[at : at + count]
        assembler.received(count)
        at += count
    assert len(made[-1]) >= 1 << 20 and room.obj is made[-1].obj


def _owners(message):
    (found,) = _assembled(_stream(message), _repeated([1 << 16]))
    return [id(frame.obj) for frame in found]


def test_arrays_do_not_share_memory():
    """Each can be freed while the other lives."""
    head, one, two = _owners([b"head", memoryview(bytearray(16)), memoryview(bytearray(16))])
    assert head == one != two


def test_an_array_keeps_no_long_header_alive():
    head, array = _owners([b"head" * 1000, memoryview(bytearray(1000))])
    assert head != array


def test_a_split_array_stays_in_one_piece():
    array = memoryview(bytearray(100_000))
    assert len(set(_owners([b"head", array[:60_000], array[60_000:]]))) == 1


@pytest.mark.parametrize("stream", [b"GET / HTTP/1.1\r\n", b"F", b"FsD\x02\0\0\0\0", b"\x10\0\0\0\0\0\0\0"])
def test_other_bytes_are_refused(stream):
    assembler = Assembler(_memory)
    assembler.room()[: len(stream)] = stream
    assembler.received(len(stream))
    if stream == b"F":  # they may still become a message
        assert assembler.take() is None
    else:
        with pytest.raises(FramingError, match="use the same scheme"):
            assembler.take()
