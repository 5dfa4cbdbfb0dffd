# cython: language_level=3, freethreading_compatible=True
"""The memory that follows a body: how much of which kind a frame says, and where it is received."""
from fastsock.rmi.codec._format cimport BYTEARRAY_OBJECT, BYTES_OBJECT, MEMORY, SIZE_BITS, WORD

from fastsock.rmi.codec._type_table import load_numpy
from fastsock.rmi.errors import BadFrame


def new_segment(kind, size):
    """Fresh memory for a segment: what `Unpacker.begin` takes, and the writable buffer to receive into.

    Raises BadFrame for a kind that is none. The caller has checked the size.
    """
    if kind == MEMORY:
        return _aligned(size)
    if kind in (BYTES_OBJECT, BYTEARRAY_OBJECT):
        made = bytearray(size)
        return made, made
    raise BadFrame(f"a segment is for memory of the kind {kind}, which does not exist")


def _aligned(size):
    numpy = load_numpy()
    room = numpy.empty(size + 63, "u1")
    first = -room.__array_interface__["data"][0] % 64
    memory = room[first : first + size]
    return memory, memory


def segment_words(body, count):
    """Kind and size in bytes of each segment that follows a body. Raises BadFrame where the body is too short."""
    end = memoryview(body).nbytes
    first = end - WORD * count
    if first < 0:
        raise BadFrame(f"a body of {end} bytes cannot tell the lengths of {count} segments")
    text = bytes(memoryview(body)[first:])
    words = [int.from_bytes(text[at : at + WORD], "little") for at in range(0, len(text), WORD)]
    return [(word >> SIZE_BITS, word & 0xFFFFFFFFFFFFFF) for word in words]
