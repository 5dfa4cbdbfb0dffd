"""What a message of a device looks like: a 64-byte header that says what follows, then the memory itself.

Arrays have the header of `fastsock.array_format`, whose first 64 bytes are all of it for plain dtypes of up to five
dimensions; longer ones are filled up with zeroes to a multiple of 64. Everything else has this one, little-endian:

    offset  bytes  field
    0       4      magic, 93 46 53 4F
    4       1      version, 1
    5       1      kind: 0 a pickled object, 1 bytes, 2 bytearray
    6       2      0
    8       8      bytes of the pickle, or of the data
    16      4      number of out-of-band buffers
    20      44     0

A pickled object is: the header; the length of each out-of-band buffer, 8 bytes each; the pickle; then each buffer. The
pickle and each buffer begin at a multiple of 64 bytes, so that arrays come out aligned and without a copy.
"""

from __future__ import annotations

import struct
import sys

from .. import array_format
from ..system import pickles
from .errors import Code, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADER_BYTES = array_format.HEADER_BYTES

_MAGIC = b"\x93FSO"
_VERSION = 1
_OBJECT, _BYTES, _BYTEARRAY = 0, 1, 2
_HEADER = struct.Struct("<4sBB2xQI44x")
_ZEROS = bytes(HEADER_BYTES)
_MOST_BUFFERS = 1 << 24
_RAW = "u1"

numpy: Any = None  # imported when the first array or buffer is seen: ranks that send objects need not pay for it


def _with_numpy() -> None:
    global numpy
    import numpy as imported

    numpy = imported


def pack(value: object) -> list[Any]:
    """The contiguous buffers that, one after the other, are the message for any value.

    Whatever exports a buffer travels as its memory, anything else as a pickle whose large parts stay where they are.
    Raises what pickling raises.
    """
    kind = type(value)
    if kind is bytes or kind is bytearray:
        header = _HEADER.pack(_MAGIC, _VERSION, _BYTES if kind is bytes else _BYTEARRAY, len(value), 0)  # type: ignore[arg-type]
        return [header, value]
    array = as_array(value)
    if array is not None:
        try:
            array_format.check_sendable(array.dtype)
        except TypeError:
            return _pack_object(value)
        return _pack_array(array)
    return _pack_object(value)


def size_of(message: list[Any]) -> int:
    """Bytes of what pack() made, without the header."""
    return sum(map(len, message)) - HEADER_BYTES


def as_array(value: object) -> Any:
    """A view of a buffer exporter's memory as an array, or None where the value is to be pickled."""
    if numpy is None and "numpy" in sys.modules:
        _with_numpy()
    if numpy is not None:
        if isinstance(value, numpy.ndarray):
            # other subclasses carry more than their memory: a mask, field access
            return value if type(value) in (numpy.ndarray, numpy.memmap) else None
        if isinstance(value, numpy.generic):
            return numpy.asarray(value)
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    if numpy is None:
        _with_numpy()
    try:
        return numpy.asarray(view)
    except (ValueError, TypeError, RuntimeError):  # a format that numpy does not know: its bytes
        return numpy.frombuffer(view.cast("B") if view.c_contiguous else view.tobytes(), _RAW)


def _pack_array(array: Any) -> list[Any]:
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    if not fortran and not array.flags.c_contiguous:
        array = numpy.ascontiguousarray(array)
    header = array_format.pack_header(array.dtype, array.shape, fortran)
    header += _ZEROS[: -len(header) % HEADER_BYTES]
    return [header, memory_of(array)] if array.nbytes else [header]


def memory_of(array: Any) -> Any:
    """A contiguous array's memory as bytes, whatever its dtype and order."""
    return memoryview(array.reshape(-1, order="A").view(_RAW))  # no copy: the array is contiguous in one order


def _pack_object(value: object) -> list[Any]:
    large: list[pickles.PickleBuffer] = []
    text = pickles.dumps(value, protocol=5, buffer_callback=large.append)
    parts = [buffer.raw() for buffer in large]
    lengths = struct.pack(f"<{len(parts)}Q", *(part.nbytes for part in parts))
    message = [_HEADER.pack(_MAGIC, _VERSION, _OBJECT, len(text), len(parts)) + lengths]
    end = len(message[0])
    for part in (text, *parts):
        gap = -end % HEADER_BYTES
        if gap:
            message.append(_ZEROS[:gap])
        message.append(part)  # type: ignore[arg-type]
        end += gap + len(part)
    return message


def unpack(payload: Any) -> object:
    """The value that a whole message holds; arrays and large parts are views of `payload`. Raises XxdevError."""
    message = memoryview(payload).cast("B")
    try:
        if message[:4] == array_format.MAGIC:
            return _read_array(message)
        return _read_other(message)
    except (array_format.ArrayFormatError, struct.error) as error:
        raise failed(Code.PROTOCOL, f"a message cannot be read: {error}") from error


def _read_array(message: memoryview) -> Any:
    if numpy is None:
        _with_numpy()
    dtype, shape, fortran, start = _array_header(message)
    order = "F" if fortran else "C"
    if start == len(message):
        return numpy.empty(shape, dtype, order)
    return numpy.ndarray(shape, dtype, message, start, order=order)


def _array_header(message: memoryview) -> tuple[Any, tuple[int, ...], bool, int]:
    """dtype, shape, order and where the memory begins; the message holds exactly that memory."""
    end = HEADER_BYTES + array_format.extra_bytes(bytes(message[:HEADER_BYTES]))
    dtype, shape, fortran, size = array_format.unpack_header(bytes(message[:end]))
    start = end + -end % HEADER_BYTES
    if size != len(message) - start:
        raise array_format.ArrayFormatError(f"{len(message) - start} bytes follow a header that announces {size}")
    return dtype, shape, fortran, start


def _other_header(message: memoryview) -> tuple[int, int, int]:
    magic, version, kind, length, count = _HEADER.unpack_from(message)
    if magic != _MAGIC or version != _VERSION or kind > _BYTEARRAY:
        raise array_format.ArrayFormatError(f"it begins with {bytes(message[:8])!r}: that is no message of a device")
    return kind, length, count


def _read_other(message: memoryview) -> object:
    kind, length, count = _other_header(message)
    if kind != _OBJECT:
        if length != len(message) - HEADER_BYTES:
            raise array_format.ArrayFormatError(f"{len(message) - HEADER_BYTES} bytes follow, not {length}")
        return bytes(message[HEADER_BYTES:]) if kind == _BYTES else bytearray(message[HEADER_BYTES:])
    if count > _MOST_BUFFERS:
        raise array_format.ArrayFormatError(f"it claims {count} buffers")
    lengths = struct.unpack_from(f"<{count}Q", message, HEADER_BYTES)
    end = HEADER_BYTES + 8 * count
    parts = []
    for each in (length, *lengths):
        start = end + -end % HEADER_BYTES
        end = start + each
        if end > len(message):
            raise array_format.ArrayFormatError(f"it has {len(message)} bytes, and claims at least {end}")
        parts.append(message[start:end])
    if end != len(message):
        raise array_format.ArrayFormatError(f"{len(message) - end} bytes follow its end")
    return pickles.loads(parts[0], buffers=parts[1:])


class Target:
    """Where a message is received: a caller's buffer.

    `parts` are the buffers to receive into, or None where the message must come whole and is copied afterwards.
    Raises XxdevError where the buffer cannot be received into.
    """

    __slots__ = ("_array", "_fortran", "_header", "parts")

    def __init__(self, buffer: object) -> None:
        array = as_array(buffer)
        if array is None:
            what = f"cannot receive into {type(buffer).__name__}: it exports no buffer; pass None for a new object"
            raise failed(Code.ARGUMENT, what)
        if not array.flags.writeable:
            raise failed(Code.ARGUMENT, f"cannot receive into a {type(buffer).__name__} that is read-only")
        self._array = array
        self._header = bytearray(HEADER_BYTES)
        self._fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        self.parts: list[Any] | None = None
        if (array.flags.c_contiguous or self._fortran) and self._is_plain(array):
            self.parts = [self._header, memory_of(array)] if array.nbytes else [self._header]

    @staticmethod
    def _is_plain(array: Any) -> bool:
        """Whether the header of such an array has no second part."""
        return array.ndim <= 5 and array.dtype.names is None and array.dtype.kind not in "mMO"

    def accept(self, length: int, payload: Any) -> int:
        """The message has come: `length` bytes into `parts`, or whole as `payload`; bytes of it without header.

        Raises XxdevError where what came is not what the buffer is for.
        """
        if self.parts is None:
            return self._take(unpack(payload))
        if length < HEADER_BYTES:
            raise failed(Code.PROTOCOL, f"a message of {length} bytes is too short for its header")
        size = length - HEADER_BYTES
        header = memoryview(self._header)
        try:
            if header[:4] != array_format.MAGIC:
                self._check_bytes(header)
            else:
                self._check_array(size)
        except array_format.ArrayFormatError as error:
            raise failed(Code.PROTOCOL, f"a message cannot be read: {error}") from error
        return size

    def _check_bytes(self, header: memoryview) -> None:
        if _other_header(header)[0] == _OBJECT:
            raise failed(
                Code.DATATYPE, f"a pickled object came for a buffer of {self._array.dtype}: receive it with None"
            )

    def _check_array(self, size: int) -> None:
        if array_format.extra_bytes(bytes(self._header)):
            what = "an array of a structured or time type, or of many dimensions, came"
            raise failed(Code.DATATYPE, f"{what} for a buffer of {self._array.dtype}: receive it with None")
        dtype, shape, fortran, _ = array_format.unpack_header(bytes(self._header))
        self._check_type(dtype)
        if self._fortran or fortran:
            self._reorder(shape, fortran, dtype, size)

    def _check_type(self, dtype: Any) -> None:
        own = self._array.dtype
        if own != dtype and _RAW not in (own.str[1:], dtype.str[1:]):
            what = f"an array of {dtype} came for a buffer of {own}"
            raise failed(Code.DATATYPE, f"{what}: receive it into one of {dtype}, or with None")

    def _reorder(self, shape: tuple[int, ...], fortran: bool, dtype: Any, size: int) -> None:
        """The items belong into the buffer in the sender's logical order, whatever the two memories' orders are."""
        if fortran and self._fortran and shape == self._array.shape:
            return
        came = numpy.frombuffer(bytes(memory_of(self._array)[:size]), _RAW).view(dtype)
        self._take(came.reshape(shape, order="F" if fortran else "C"))

    def _take(self, value: Any) -> int:
        array = self._array
        if isinstance(value, (bytes, bytearray)):
            value = numpy.frombuffer(value, _RAW)
        if not isinstance(value, numpy.ndarray):
            raise failed(Code.DATATYPE, f"a pickled object came for a buffer of {array.dtype}: receive it with None")
        if value.nbytes > array.nbytes:
            what = f"a message of {value.nbytes} bytes came for a buffer of {array.nbytes}"
            raise failed(Code.TRUNCATED, f"{what}: receive it into a larger one, or with None")
        self._check_type(value.dtype)
        if value.shape == array.shape and value.dtype == array.dtype:
            array[...] = value
        else:
            items = value.reshape(-1)
            if items.dtype != array.dtype:
                items = self._cast(numpy.ascontiguousarray(items))
            array.flat[: items.size] = items
        return int(value.nbytes)

    def _cast(self, items: Any) -> Any:
        if items.nbytes % self._array.dtype.itemsize:
            what = f"{items.nbytes} bytes came: that is no whole number of {self._array.dtype}"
            raise failed(Code.DATATYPE, f"{what}: receive them into bytes, or with None")
        return items.view(self._array.dtype)
