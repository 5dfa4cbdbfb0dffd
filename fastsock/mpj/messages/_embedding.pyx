# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Large buffers of an object inside its pickle, none of them copied.

pickle (protocol 5) can leave buffers out: it writes an opcode that says "the next buffer". Here the buffer itself takes
the place of that opcode, so that the message is a pickle which any unpickler reads. A trailer behind the pickle's end,
where no unpickler looks, says where the buffers lie. Whoever knows it leaves them where they are.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from struct import Struct

MAGIC = b"fsk-oob\x00"  # a pickle ends with a full stop
ENTRY = Struct("<QQQQ")  # where the buffer's stretch begins, where the buffer does, its length, whether it is read-only
TAIL = Struct("<Q8s")  # the number of buffers
ALIGNMENT = 64  # of each buffer: an array that arrives lies where its message was received

cdef Py_ssize_t LINE = ALIGNMENT

cdef enum:
    NEXT_BUFFER = 0x97
    READONLY_BUFFER = 0x98
    FRAME = 0x95

# What follows each opcode: so many bytes; or as many as a number of 1, 4 or 8 bytes says; or one or two lines.
cdef enum:
    UNKNOWN = -1
    COUNTED_1 = -2
    COUNTED_4 = -3
    COUNTED_8 = -4
    LINE_1 = -5
    LINE_2 = -6

cdef signed char[256] FOLLOWS


cdef _describe(signed char what, bytes opcodes):
    cdef unsigned char each
    for each in opcodes:
        FOLLOWS[each] = what


for _ in range(256):
    FOLLOWS[_] = UNKNOWN
_describe(0, b"(.012N)]}abdeloQRstu\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98")
_describe(1, b"Khq\x80\x82")
_describe(2, b"M\x83")
_describe(4, b"Jjr\x84")
_describe(8, b"G\x95")
_describe(COUNTED_1, b"UC\x8a\x8c")
_describe(COUNTED_4, b"TXB\x8b")
_describe(COUNTED_8, b"\x8d\x8e\x96")
_describe(LINE_1, b"FILSVgpP")
_describe(LINE_2, b"ci")


cdef Py_ssize_t _after(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) except -1:
    """Where the next opcode is."""
    cdef int what = FOLLOWS[data[at]], lines
    cdef uint64_t count = 0
    cdef Py_ssize_t width
    at += 1
    if what >= 0:
        at += what
    elif what == LINE_1 or what == LINE_2:
        for lines in range(1 if what == LINE_1 else 2):
            while at < end and data[at] != 10:
                at += 1
            at += 1
    elif what != UNKNOWN:
        width = 1 if what == COUNTED_1 else 4 if what == COUNTED_4 else 8
        if at + width > end:
            raise ValueError("a pickle ends too soon")
        memcpy(&count, data + at, width)
        at += width
        if count > <uint64_t>(end - at):
            raise ValueError("a pickle ends too soon")
        at += <Py_ssize_t>count
    if what == UNKNOWN or at > end:
        raise ValueError("a pickle has an opcode that protocol 5 does not know")
    return at


cdef bytes _padding(Py_ssize_t at):
    """Opcodes that do nothing, up to the place from which a buffer's own opcode leads to a multiple of ALIGNMENT."""
    cdef Py_ssize_t length = -(at + 9) % LINE
    if length < 0:
        length += LINE
    if length == 0:
        return b""
    if length < 3:
        length += LINE
    return b"C" + bytes((length - 3,)) + bytes(length - 3) + b"0"  # a string that is taken off at once


def embedded(bytes data, buffers):
    """The pieces of the message for a pickle and the buffers that it left out: bytes, and the buffers themselves."""
    cdef const unsigned char *opcodes = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data), at = 0, following, kept = 0, length = 0
    cdef bint readonly
    pieces, entries, part = [], [], []  # `part`: what comes before the next buffer
    remaining = iter(buffers)
    while at < end:
        following = _after(opcodes, at, end)
        if opcodes[at] == FRAME:  # frames are a hint for readers of files, and these would be too short
            part.append(data[kept:at])
            length += at - kept
            kept = following
        elif opcodes[at] == NEXT_BUFFER:
            buffer = next(remaining)
            readonly = following < end and opcodes[following] == READONLY_BUFFER
            part.append(data[kept:at])
            length += at - kept
            if readonly:
                following += 1
            kept = following
            padding = _padding(length)
            part += [padding, b"\x8e" if readonly else b"\x96", len(buffer).to_bytes(8, "little")]
            entries.append(ENTRY.pack(length, length + len(padding) + 9, len(buffer), readonly))
            length += len(padding) + 9 + len(buffer)
            pieces += [b"".join(part), buffer]
            part = []
        at = following
    part += [data[kept:], *entries, TAIL.pack(len(entries), MAGIC)]
    pieces.append(b"".join(part))
    return pieces
