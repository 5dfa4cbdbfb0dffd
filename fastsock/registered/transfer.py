"""Buffers over a stream: handed over where both ends share memory, copied elsewhere."""

from __future__ import annotations

import weakref

from .. import core
from ..system.together import send_together
from . import exporter
from . import importer as importers
from .buffer import BorrowedBuffer, RegisteredBuffer, need_core
from .errors import BufferFormatError, LostBufferError, MidBufferError, MidBufferTimeout

try:
    from ..core.binding._carrier import carrier_of
except ImportError:  # then every buffer is copied
    carrier_of = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket
    from typing import Any, NoReturn

_PARCEL_BYTES: int = core.PARCEL_BYTES if core.available else 0
_LARGEST_PIECE = 1 << 30  # bytes of one call: TLS takes less than 2 GiB

# What came of an announcement whose rest had not come when the timeout passed, or that could not be taken then.
_begun: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()


def _carrier_of(sock: Any) -> Any:
    return None if carrier_of is None else carrier_of(sock)


def expect(sock: socket) -> None:
    """From now on the other end may hand buffers over here. recv_buffer() does it too."""
    need_core()
    carrier = _carrier_of(sock)
    if carrier is not None:
        _importer_shown(carrier)


def _importer_shown(carrier: Any) -> importers.Importer:
    importer = importers.importer()
    if carrier.shown_importer() >> exporter.CONNECTION_BITS != importer.number:
        with importers.lock:
            importer.show(carrier)
    return importer


def send_buffer(sock: socket, buffer: RegisteredBuffer, region: Any = None, lend: bool = False) -> bool:
    """Hands the buffer over. Returns whether that went without a copy.

    region: a slice, or (offset, nbytes): what the receiver sees. lend: both may read until the receiver releases it.
    Copied, the buffer is this process's again at once. Handed over, it is when the receiver has released it
    (`buffer.wait()`), or has ended. Then its contents are whatever the receiver left, or zeroes.

    It is copied on every path but shm; and on shm until the other end has called recv_buffer() or expect() once.

    Raises ReferencedError while views of it live (with `lend`: writable ones), or while another process has it.
    Raises MidBufferTimeout if the socket's timeout passes. Other errors of `sock.sendall` pass through.
    """
    if not isinstance(buffer, RegisteredBuffer):
        kind = type(buffer).__name__
        raise TypeError(f"send_buffer() takes a RegisteredBuffer, not {kind}; send_array() takes arrays")
    offset, nbytes = (0, buffer.nbytes) if region is None else _bounds(buffer, region)
    if not buffer.close_to_send(lend):
        buffer.close_for(lend)
    try:
        carrier = _carrier_of(sock)
        word = carrier.other_importer() if carrier is not None else 0
        if word and _hand_over(sock, carrier, word, buffer, offset, nbytes, lend):
            return True
        _send_copy(sock, buffer, offset, nbytes)
        return False
    finally:
        buffer.settle()


def _bounds(buffer: RegisteredBuffer, region: Any) -> tuple[int, int]:
    if isinstance(region, slice):
        start, stop, step = region.indices(buffer.nbytes)
        if step != 1:
            raise ValueError("a region has no steps")
        offset, nbytes = start, stop - start
    else:
        offset, nbytes = region
    if nbytes < 1 or offset < 0 or nbytes > buffer.nbytes - offset:
        raise ValueError(f"{nbytes} bytes at {offset} are no region of a buffer of {buffer.nbytes} bytes")
    return offset, nbytes


def _hand_over(
    sock: Any, carrier: Any, word: int, buffer: RegisteredBuffer, offset: int, nbytes: int, lend: bool
) -> bool:
    link = exporter.link_to(word)
    if link is None:
        return False
    try:
        return link.hand_over(sock, carrier, word, buffer, offset, nbytes, lend)  # type: ignore[no-any-return]
    except (TimeoutError, BlockingIOError) as error:
        _stopped("sending", error)


def _send_copy(sock: Any, buffer: RegisteredBuffer, offset: int, nbytes: int) -> None:
    source = core.Exporter()
    source.set_memory(buffer.get_memory(), buffer.offset + offset, nbytes)
    view = memoryview(source)
    try:
        send_together(sock, core.pack_parcel(core.PARCEL_COPY, nbytes), view)
    except (TimeoutError, BlockingIOError) as error:
        _stopped("sending", error)


def recv_buffer(sock: socket, *, max_bytes: int = 1 << 32) -> RegisteredBuffer:
    """Receives a buffer. It is this process's until its `release()`.

    Raises EOFError if the peer closed after its last buffer, and MidBufferError if it closed within one. Raises
    BufferFormatError if the bytes are no buffer, or if it has more than `max_bytes` bytes: nothing is allocated then.
    If the socket's timeout passes before the whole announcement of a buffer has come, or if there is no descriptor or
    memory for it, the call may be repeated. Raises LostBufferError where the owner took the buffer back.
    """
    need_core()
    carrier = _carrier_of(sock)
    importer = importers.importer() if carrier is None else _importer_shown(carrier)
    data = _begun.pop(sock, b"") if len(_begun) else b""
    data = data or sock.recv(_PARCEL_BYTES)
    if len(data) < _PARCEL_BYTES:
        data = _rest_of_parcel(sock, data)
    buffer = core.borrow(BorrowedBuffer, data, importer.number, importer.owners, max_bytes)
    return _received(sock, data, importer, max_bytes) if buffer is None else buffer


def _rest_of_parcel(sock: Any, data: bytes) -> bytes:
    while len(data) < _PARCEL_BYTES:
        try:
            more = sock.recv(_PARCEL_BYTES - len(data))
        except BaseException:
            if data:
                _begun[sock] = data
            raise
        if not more:
            if data:
                raise MidBufferError("the stream ended within the announcement of a buffer")
            raise EOFError("the other end sends no more buffers")
        data += more
    return data


def _received(sock: Any, data: bytes, importer: importers.Importer, max_bytes: int) -> RegisteredBuffer:
    """What could not be borrowed at once: a copy, the first of a link or of a memory, and what is wrong."""
    try:
        kind, nbytes, offset, word, link, number, _, _ = core.unpack_parcel(data)
    except ValueError as error:
        raise BufferFormatError(f"{error}; close this connection") from None
    if nbytes > max_bytes:
        raise BufferFormatError(f"a buffer of {nbytes} bytes comes, more than {max_bytes}: close this connection")
    try:
        if kind == core.PARCEL_COPY:
            copy = RegisteredBuffer(nbytes)
        else:
            with importers.lock:
                owner = importer.find(word, link, number)
    except (OSError, MemoryError) as error:
        if not isinstance(error, ConnectionError):
            _begun[sock] = data
        raise
    if kind == core.PARCEL_COPY:
        _fill(sock, copy)
        return copy
    memory = owner.memories[number]
    if nbytes > memory.nbytes - offset or offset > memory.nbytes:
        raise BufferFormatError(
            f"{nbytes} bytes at {offset} are no region of memory of {memory.nbytes} bytes: close this connection"
        )
    buffer = core.borrow(BorrowedBuffer, data, importer.number, importer.owners, max_bytes)
    if buffer is None:
        raise LostBufferError(f"process {owner.process} took the buffer back before it was received")
    return buffer  # type: ignore[no-any-return]


def _fill(sock: Any, buffer: RegisteredBuffer) -> None:
    with memoryview(buffer) as view:
        done = 0
        while done < len(view):
            try:
                got = sock.recv_into(view[done : done + _LARGEST_PIECE])
            except (TimeoutError, BlockingIOError) as error:
                _stopped("receiving", error)
            if not got:
                raise MidBufferError(f"the stream ended {len(view) - done} bytes before the buffer did")
            done += got


def _stopped(what: str, error: OSError) -> NoReturn:
    if isinstance(error, TimeoutError):
        raise MidBufferTimeout(f"the timeout passed while {what} a buffer: close this connection") from error
    raise MidBufferError(f"{what} a buffer would block: close this connection") from error
