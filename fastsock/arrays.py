"""Typed arrays over any stream socket: a little header, then the raw memory.

    send_array(sock, array)         recv_array(sock)         recv_array_into(sock, out)

There is no pickle, and no copy of the whole array. Contiguous arrays go out from their own memory
and come in to theirs. Slices are gathered through a small buffer. Both ends must call these
functions. The path beneath may be any that keeps bytes in order, plain TCP and TLS included.

One array is one message. If several threads send (or receive) on one socket, each call must
finish before the next begins. A socket's timeout bounds the wait for progress, not the whole array.
"""

from __future__ import annotations

import _socket
from _socket import IPPROTO_TCP, MSG_WAITALL, SHUT_RDWR
from contextlib import suppress

from fastsock.array_format import (
    HEADER_BYTES,
    ArrayFormatError,
    check_magic,
    check_sendable,
    extra_bytes,
    pack_header,
    unpack_header,
)
from fastsock.system.together import send_together

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from socket import socket
    from typing import Any, NoReturn

    import numpy
    from numpy.typing import ArrayLike

    from fastsock.array_format import Shape, Type

    Array = numpy.ndarray[Any, Any]

__all__ = [
    "ArrayFormatError",
    "ArrayMismatchError",
    "MidArrayError",
    "MidArrayTimeout",
    "recv_array",
    "recv_array_into",
    "send_array",
]

# Up to this size in bytes, header and payload are joined for one send: the copy costs less than a
# second call. It is also the size of the buffer that slices are gathered in. Such a buffer fits the
# cache, and is so large that the cost of a call does not show.
_CHUNK = 1 << 16
TCP_CORK: Any = getattr(_socket, "TCP_CORK", None)  # Linux alone has it
_LARGEST_PIECE = 1 << 30  # bytes of one call: TLS takes less than 2 GiB

# Types and shapes seen before, so that a repeated one costs a lookup. Bounded, since a peer chooses them.
_MOST_REMEMBERED = 512
_send_headers: dict[tuple[Type, Shape], bytes] = {}  # of small arrays in C order
_receive_plans: dict[bytes, tuple[Type, Shape, int]] = {}  # of plain types in C order
_packed: dict[tuple[Type, Shape, bool], bytes] = {}
_unpacked: dict[bytes, tuple[Type, Shape, bool, int]] = {}

# numpy, loaded by the first use: programs that send no arrays never pay for it.
_np: Any = None
_ndarray: Any = None
_empty: Any = None


class ArrayMismatchError(ValueError):
    """The array that arrives does not fit ``out``. Its payload has not been received.

    The connection stays open. The next ``payload_bytes`` bytes of the stream are that payload.
    ``shape`` and ``dtype`` describe it.
    """

    def __init__(self, message: str, shape: Shape, dtype: Type, payload_bytes: int) -> None:
        super().__init__(message)
        self.shape = shape
        self.dtype = dtype
        self.payload_bytes = payload_bytes

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.shape, self.dtype, self.payload_bytes)


class MidArrayError(ConnectionError):
    """The stream ended or stopped within an array. Later bytes of it have no meaning: close the socket."""


class MidArrayTimeout(MidArrayError, TimeoutError):
    """The socket's timeout passed within an array. The array is incomplete now: close the socket."""


def send_array(sock: socket, array: ArrayLike) -> None:
    """Send an array of any shape, strides and dtype but object.

    An argument that is no array is sent as ``numpy.asarray`` converts it.

    Raises TypeError if the array's memory means nothing to another process (objects, masks), before
    anything is sent. Raises MidArrayTimeout if the socket's timeout passes, and MidArrayError if a
    socket that does not block cannot take the whole array. Other errors of ``sock.sendall`` pass through.
    """
    if type(array) is _ndarray:
        plain: Any = array
        if plain.flags.c_contiguous:
            header = _send_headers.get((plain.dtype, plain.shape))
            if header is not None:
                try:
                    sock.sendall(b"".join((header, plain)))
                except (TimeoutError, BlockingIOError) as error:
                    _stopped_sending(plain.nbytes, error)
                return
    _send(sock, array)


def recv_array(sock: socket, *, max_bytes: int = 1 << 32) -> Array:
    """Receive one array, as new memory of the sender's dtype, shape and order (C or Fortran).

    Raises EOFError if the peer closed after its last array, and MidArrayError if it closed within one.
    Raises ArrayFormatError if the bytes are no array, or if the array has more than ``max_bytes`` bytes
    (4 GiB by default). No memory is allocated then. If the socket's timeout passes before the first
    byte of an array, the call raises TimeoutError and may be repeated. Later it raises MidArrayTimeout.
    A socket that does not block raises BlockingIOError and MidArrayError instead of these two.

    The items are the sender's bytes, unchecked. Text that is no Unicode, for example, raises when a
    program reads it.
    """
    header = sock.recv(HEADER_BYTES)
    plan = _receive_plans.get(header)
    if plan is None or plan[2] > max_bytes:
        return _receive(sock, header, max_bytes)
    dtype, shape, size = plan
    array: Array = _empty(shape, dtype)
    if size > _CHUNK:
        _fill(sock, array)
        return array
    try:
        received = sock.recv_into(array)
    except (TimeoutError, BlockingIOError) as error:
        _stopped_receiving(0, size, error)
    except ValueError:  # TLS takes bytes only
        received = 0
    if received != size:
        _fill(sock, array, received)
    return array


def recv_array_into(sock: socket, out: Array) -> Array:
    """Receive one array into ``out`` and give ``out`` back.

    It may have any strides, but must have the sender's shape and dtype.

    Raises TypeError if ``out`` is no writable array of plain memory, before anything is received.
    Raises ArrayMismatchError if another shape or dtype arrives, before its payload is received. Other
    errors are those of ``recv_array``.
    """
    items = out
    if type(out) is not _ndarray or not out.flags.writeable or out.dtype.hasobject:
        items = _checked_out(out)
    header = sock.recv(HEADER_BYTES)
    plan = _receive_plans.get(header)
    if plan is None:
        _receive_into(sock, header, items)
        return out
    dtype, shape, size = plan
    if items.shape != shape or items.dtype != dtype:
        _mismatch(items, dtype, shape, size)
    if size > _CHUNK or not items.flags.c_contiguous:
        _fill(sock, items)
        return out
    try:
        received = sock.recv_into(items)
    except (TimeoutError, BlockingIOError) as error:
        _stopped_receiving(0, size, error)
    except ValueError:  # TLS takes bytes only
        received = 0
    if received != size:
        _fill(sock, items, received)
    return out


def _load_numpy() -> None:
    global _np, _ndarray, _empty
    if _np is None:
        import numpy

        _ndarray = numpy.ndarray
        _empty = numpy.empty
        _np = numpy


# Sending


def _send(sock: socket, value: ArrayLike) -> None:
    """Everything but a small contiguous array that was seen before."""
    array = _sendable(value)
    fortran = _prefers_fortran(array)
    key = (array.dtype, array.shape, fortran)
    header = _packed.get(key)
    if header is None:
        header = pack_header(*key)
        _remember(_packed, key, header)
    items = _raw(array.T if fortran else array)
    if items.nbytes <= _CHUNK:
        _send_block(sock, header + items.tobytes(), array.nbytes)
        if not fortran and array.nbytes:
            _remember(_send_headers, key[:2], header)
    elif items.flags.c_contiguous:
        _send_first(sock, header, items, array.nbytes)
    else:
        _gather(sock, header, items, array.nbytes)


def _sendable(value: ArrayLike) -> Array:
    _load_numpy()
    if isinstance(value, _np.ma.MaskedArray):
        raise TypeError("a masked array cannot be sent: send array.filled(value), or array.data and array.mask apart")
    array: Array = _np.asarray(value)
    check_sendable(array.dtype)
    return array


def _prefers_fortran(array: Array) -> bool:
    """Whether the array's memory is in the order of its columns."""
    flags = array.flags
    if flags.c_contiguous or array.ndim < 2:
        return False
    return bool(flags.f_contiguous or 0 < abs(array.strides[0]) < abs(array.strides[-1]))


def _raw(array: Array) -> Array:
    """The same items. Structured ones become bare bytes, so that copies keep their padding."""
    dtype = array.dtype
    return array if dtype.names is None or not dtype.itemsize else array.view(f"V{dtype.itemsize}")


def _send_first(sock: socket, header: bytes, block: Array, total: int) -> None:
    try:
        send_together(sock, header, _bytes_of(block))
    except (TimeoutError, BlockingIOError) as error:
        _stopped_sending(total, error)


def _send_block(sock: socket, block: bytes | memoryview, total: int) -> None:
    try:
        sock.sendall(block)
    except (TimeoutError, BlockingIOError) as error:
        _stopped_sending(total, error)


def _send_contiguous(sock: socket, block: Array, total: int) -> None:
    view = _bytes_of(block)
    for start in range(0, len(view), _LARGEST_PIECE):
        _send_block(sock, view[start : start + _LARGEST_PIECE], total)


def _bytes_of(block: Array) -> memoryview:
    """The memory of a contiguous array that is not empty."""
    return memoryview(block.reshape(-1).view("u1"))


def _gather(sock: socket, header: bytes, items: Array, total: int) -> None:
    buffer = bytearray(_CHUNK)
    corked = _cork(sock)
    first = True
    try:
        for block in _blocks(items):
            if not block.flags.c_contiguous:
                copy = _np.ndarray(block.shape, block.dtype, buffer)
                _np.copyto(copy, block)
                block = copy
            if first:
                _send_first(sock, header, block, total)
                first = False
            else:
                _send_contiguous(sock, block, total)
    finally:
        if corked:
            with suppress(OSError):  # closed meanwhile
                sock.setsockopt(IPPROTO_TCP, TCP_CORK, 0)


def _cork(sock: socket) -> bool:
    """Only full segments go until the last block is there. Else a block would end in a short one, and Nagle's algorithm
    would hold the array's last bytes back until the other end acknowledges that: this can take 40 ms. MSG_MORE is not
    enough, for an acknowledgement that comes between two calls sends the short segment all the same."""
    if TCP_CORK is None or getattr(sock, "transport", "tcp") != "tcp":
        return False
    try:
        if sock.getsockopt(IPPROTO_TCP, TCP_CORK):
            return False  # the program's own
        sock.setsockopt(IPPROTO_TCP, TCP_CORK, 1)
    except OSError:
        return False  # not TCP
    return True


def _blocks(items: Array) -> Iterator[Array]:
    """Parts of an array in C order. Each is contiguous, or fits the buffer."""
    if items.nbytes <= _CHUNK or items.flags.c_contiguous:
        yield items
        return
    count = len(items)
    inner = items.nbytes // count
    if inner <= _CHUNK:
        step = _CHUNK // inner
        for start in range(0, count, step):
            yield items[start : start + step]
    elif items.ndim == 1:
        for start in range(count):
            yield items[start : start + 1]
    else:
        for part in items:
            yield from _blocks(part)


def _stopped_sending(total: int, error: OSError) -> NoReturn:
    if isinstance(error, TimeoutError):
        text = f"timed out while sending an array of {total} bytes: the stream may now end within it; close the socket"
        raise MidArrayTimeout(text) from error
    raise MidArrayError(
        f"a socket that does not block could not take an array of {total} bytes at once: the stream may now end "
        "within it; close the socket, and use settimeout(None) or a timeout with arrays"
    ) from error


# Receiving


def _receive(sock: socket, start: bytes, max_bytes: int) -> Array:
    dtype, shape, fortran, size = _receive_header(sock, start)
    if size > max_bytes:
        raise ArrayFormatError(
            f"the array that arrives has {size} bytes, more than max_bytes={max_bytes}; it was not received, so "
            "close the socket, and give recv_array a larger max_bytes if it was meant"
        )
    if not size:
        # numpy.empty would give a string dtype of no characters one character.
        array: Array = _np.ndarray(shape, dtype, order="F" if fortran else "C")
        return array
    array = _np.empty(shape, dtype, "F" if fortran else "C")
    _fill(sock, array.T if fortran else array)
    return array


def _receive_into(sock: socket, start: bytes, out: Array) -> None:
    dtype, shape, fortran, size = _receive_header(sock, start)
    if out.shape != shape or out.dtype != dtype:
        _mismatch(out, dtype, shape, size)
    _fill(sock, out.T if fortran else out)


def _receive_header(sock: socket, start: bytes) -> tuple[Type, Shape, bool, int]:
    _load_numpy()
    if not start:
        raise EOFError("the peer closed the connection, after its last array")
    header = start
    found = _unpacked.get(header)
    if found is None:
        try:
            fixed = _receive_rest(sock, start, HEADER_BYTES)
            header = _receive_rest(sock, fixed, HEADER_BYTES + extra_bytes(fixed))
            found = _unpacked.get(header) or unpack_header(header)
        except ArrayFormatError:
            _shut_down(sock)
            raise
    dtype, shape, fortran, size = found
    # A caller can change a structured dtype in place, and the dtypes nested in it. So nested ones are
    # never kept, and of the others callers get copies.
    if not any(field[0].base.names for field in (dtype.fields or {}).values()):
        _remember(_unpacked, header, found)
    if dtype.names is not None:
        dtype = dtype.newbyteorder("|")  # a copy with each byte order as it is
    elif size and not fortran and len(header) == HEADER_BYTES:
        _remember(_receive_plans, header, (dtype, shape, size))
    return dtype, shape, fortran, size


def _receive_rest(sock: socket, data: bytes, size: int) -> bytes:
    while True:
        check_magic(data)
        if len(data) == size:
            return data
        try:
            more = sock.recv(size - len(data))
        except (TimeoutError, BlockingIOError) as error:
            _stopped_receiving(len(data), size, error, "the header of an array")
        if not more:
            _ended(len(data), size, "the header of an array")
        data += more


def _fill(sock: socket, items: Array, done: int = 0) -> None:
    """Receive an array's payload in C order, except its first ``done`` bytes."""
    total = items.nbytes
    if not total:
        return
    items = _raw(items)
    if items.flags.c_contiguous:
        _receive_exactly(sock, items, done, 0, total)
        return
    # A slice is never begun elsewhere, so ``done`` is 0.
    buffer = bytearray(_CHUNK)
    for block in _blocks(items):
        if block.flags.c_contiguous:
            _receive_exactly(sock, block, 0, done, total)
        else:
            copy = _np.ndarray(block.shape, block.dtype, buffer)
            _receive_exactly(sock, copy, 0, done, total)
            _np.copyto(block, copy)
        done += block.nbytes


def _receive_exactly(sock: socket, block: Array, done: int, before: int, total: int) -> None:
    """Fill a contiguous block from byte ``done`` on; ``before`` bytes of the payload came earlier."""
    view = _bytes_of(block)
    size = len(view)
    flags = MSG_WAITALL if size - done > _CHUNK else 0
    while done < size:
        try:
            received = sock.recv_into(view[done : done + _LARGEST_PIECE], 0, flags)
        except ValueError:
            if not flags:
                raise
            flags = 0  # TLS takes no flags
            continue
        except (TimeoutError, BlockingIOError) as error:
            _stopped_receiving(before + done, total, error)
        if not received:
            _ended(before + done, total)
        done += received


def _checked_out(out: object) -> Array:
    _load_numpy()
    if not isinstance(out, _ndarray) or isinstance(out, _np.ma.MaskedArray):
        advice = "for other memory, numpy.frombuffer makes one" if not isinstance(out, _ndarray) else "use out.data"
        raise TypeError(f"out must be a numpy array, not {type(out).__name__}; {advice}")
    array: Array = _np.asarray(out)
    if array.dtype.hasobject:
        raise TypeError(
            "out holds Python objects, and objects cannot be received; use a numeric, string or structured dtype"
        )
    if not array.flags.writeable:
        raise TypeError("out is read-only; give a writable array")
    return array


def _mismatch(out: Array, dtype: Type, shape: Shape, size: int) -> NoReturn:
    raise ArrayMismatchError(
        f"an array of shape {shape} and dtype {dtype} arrives, but out has shape {out.shape} and dtype {out.dtype}; "
        f"its {size} bytes are next in the stream",
        shape,
        dtype,
        size,
    )


def _ended(done: int, total: int, what: str = "an array") -> NoReturn:
    place = f"within {what}, after {done} of {total} bytes"
    raise MidArrayError(f"the peer closed the connection {place}; close the socket")


def _stopped_receiving(done: int, total: int, error: OSError, what: str = "an array") -> NoReturn:
    place = f"within {what}, after {done} of {total} bytes: the stream is now mid-array; close the socket"
    if isinstance(error, TimeoutError):
        raise MidArrayTimeout(f"timed out {place}") from error
    advice = "use settimeout(None) or a timeout with arrays"
    raise MidArrayError(f"a socket that does not block had no more {place}, and {advice}") from error


def _shut_down(sock: socket) -> None:
    try:
        sock.shutdown(SHUT_RDWR)
    except OSError:
        return  # the peer has closed the connection already


def _remember(known: dict[Any, Any], key: object, value: object) -> None:
    if len(known) >= _MOST_REMEMBERED and key not in known:
        known.clear()
    known[key] = value
