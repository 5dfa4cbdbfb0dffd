# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""The memory that follows a body: how much of which kind a frame says, and where it is received."""

from __future__ import annotations

from typing import Any

from fastsock.rmi._format import BYTEARRAY_OBJECT, BYTES_OBJECT, MEMORY, SIZE_BITS, WORD
from fastsock.rmi._kinds import load_numpy
from fastsock.rmi.errors import BadFrame

Buffer = Any


def new_segment(kind: int, size: int) -> tuple[Any, Any]:
    """Fresh memory for a segment: what `Unpacker.begin` takes, and the writable buffer to receive into.

    Raises BadFrame for a kind that is none. The caller has checked the size.
    """
    if kind == MEMORY:
        return _aligned(size)
    if kind in (BYTES_OBJECT, BYTEARRAY_OBJECT):
        made = bytearray(size)
        return made, made
    raise BadFrame(f"a segment is for memory of the kind {kind}, which does not exist")


def _aligned(size: int) -> tuple[Any, Any]:
    numpy = load_numpy()
    room = numpy.empty(size + 63, "u1")
    first = -room.__array_interface__["data"][0] % 64
    memory = room[first : first + size]
    return memory, memory


def segment_words(body: Buffer, count: int) -> list[tuple[int, int]]:
    """Kind and size in bytes of each segment that follows a body. Raises BadFrame where the body is too short."""
    end = memoryview(body).nbytes
    first = end - WORD * count
    if first < 0:
        raise BadFrame(f"a body of {end} bytes cannot tell the lengths of {count} segments")
    text = bytes(memoryview(body)[first:])
    words = [int.from_bytes(text[at : at + WORD], "little") for at in range(0, len(text), WORD)]
    return [(word >> SIZE_BITS, word & 0xFFFFFFFFFFFFFF) for word in words]
