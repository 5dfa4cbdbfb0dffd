# cython: language_level=3, annotation_typing=False, freethreading_compatible=True
"""Connections as those of multiprocessing.connection, over sockets of fastsock: the path of every call of managers.py.

A message is a header of 12 bytes (bytes of the pickle, number of buffers), the length of each buffer (8 bytes each),
the pickle, the buffers. The buffers are the memory of large arrays (pickle protocol 5): they go from where they lie,
and are received into fresh memory once.
"""

from __future__ import annotations

import copyreg
import errno
import os
import pickle
import select
import weakref
from collections import ChainMap
from multiprocessing import reduction
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from fastsock.rmi import _interpreted as cython

from fastsock.connection import carriers
from fastsock.rmi._receiving import FOR_EVER

if not cython.compiled:
    from fastsock.rmi._interpreted import copy_in, is_carrier, load_u32, load_u64, store_32, store_64

    HEAD_BYTES = 12
    LENGTH_BYTES = 8
    KEPT = 1 << 16  # bytes of memory that are kept for the next message
    AT_ONCE = 1 << 14  # bytes of a message that goes with its header
    BUFFER = 4096  # bytes from which on a buffer goes beside its pickle
    MOST_BUFFERS = 1 << 20
    send_scratch: Any = None  # of native carriers, which only compiled code calls past Python
    from_carrier: Any = None

    def words_of(memory: bytearray) -> Any:
        return memory

    def bytes_at(memory: bytearray, at: int, size: int) -> bytes:
        return bytes(memory[at : at + size])


_forking: Any = reduction.ForkingPickler
_copyreg: Any = copyreg
_reducers: Any = ChainMap(_forking._extra_reducers, _copyreg.dispatch_table)  # of what both know at any time
_loads = pickle.loads


class _Pickler(pickle.Pickler):
    """As that of multiprocessing, which makes this table again for each message."""

    dispatch_table = _reducers


class Pickled:
    """What a pickler made of a value: the pickle in parts, and the buffers beside it. The pickler writes into it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.buffers: list[memoryview] = []

    def write(self, data: Any) -> None:
        """A part of the pickle. The memory of a bytearray is copied: other threads may change it."""
        self.parts.append(data if type(data) is bytes else bytes(data))

    def beside(self, buffer: Any) -> bool:
        """Whether a buffer goes within the pickle."""
        raw = buffer.raw()
        if raw.nbytes < BUFFER:
            return True
        self.buffers.append(raw)
        return False


class Connection:
    """Whole messages over a socket: what managers use of multiprocessing's Connection. For one thread at a time."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._carrier: Any = None
        self._memory = bytearray(KEPT)
        self._view = memoryview(self._memory)
        self._start = 0
        self._end = 0
        self._length = 0  # of the pickle that comes
        self._count = 0  # of its buffers
        self._scratch = bytearray(HEAD_BYTES + AT_ONCE)
        self._pickled: Any = None  # those of the last message, for the next one
        self._pickler: Any = None
        weakref.finalize(self, sock.close).atexit = False  # a thread that ends leaves its connection
        self.closed = False
        self.busy = False  # an exchange is under way: a finalizer of this thread must not begin another one

    def settled(self) -> None:
        """The socket's path is known: from now on compiled code uses a native carrier past Python."""
        carrier = carriers.carrier_of(self._sock)
        if is_carrier(carrier):
            self._carrier = carrier

    def fileno(self) -> int:
        """The socket's descriptor."""
        return int(self._sock.fileno())

    def close(self) -> None:
        """Closes the socket. Idempotent."""
        self.closed = True
        self._sock.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether something can be received, after `timeout` seconds at most."""
        if self._end > self._start:
            return True
        poller = select.poll()
        poller.register(self._sock.fileno(), select.POLLIN)
        return bool(poller.poll(None if timeout is None else timeout * 1000))

    def exchange(self, request: Any) -> Any:
        """Sends a message and receives one. What is raised between the two closes the connection: the answer that comes
        later would be taken for that of the next request."""
        self.busy = True
        try:
            message = self.pickled(request)
            try:
                self.send_pickled(message)
                body, buffers = self.receive()
            except BaseException:
                self.close()
                raise
            return loaded(body, buffers)
        finally:
            self.busy = False

    def send(self, value: Any) -> None:
        """Sends a value as a pickle. Raises what pickling raises, before a byte is sent."""
        self.send_pickled(self.pickled(value))

    def pickled(self, value: Any) -> Pickled:
        """What send_pickled() sends. Raises what pickling raises."""
        found = self._pickled
        pickler = self._pickler
        self._pickled = None  # what is called meanwhile may pickle too, and what raises leaves half a pickle
        if found is None:
            found = Pickled()
            pickler = _Pickler(found, 5, buffer_callback=found.beside)
        pickler.dump(value)
        self._pickler = pickler
        return found  # type: ignore[no-any-return]

    def send_pickled(self, message: Pickled) -> None:
        """Sends what pickled() made."""
        parts = message.parts
        if len(parts) == 1 and len(parts[0]) <= AT_ONCE and not message.buffers:
            self._send_small(parts[0])
            self._pickler.clear_memo()
            parts.clear()
            self._pickled = message
        else:
            self._send_large(parts, message.buffers)

    def _send_small(self, data: Any) -> None:
        """A message that the scratch holds."""
        size = len(data)
        scratch = self._scratch
        words = words_of(scratch)
        store_64(words, 0, size)
        store_32(words, 8, 0)
        copy_in(words, HEAD_BYTES, data, size)
        sent = 0
        if self._carrier is not None:
            sent = send_scratch(self._carrier, scratch, HEAD_BYTES + size)
        if sent < HEAD_BYTES + size:
            self._sock.sendall(memoryview(scratch)[sent : HEAD_BYTES + size])

    def _send_large(self, parts: list[bytes], buffers: list[memoryview]) -> None:
        head = bytearray(HEAD_BYTES + LENGTH_BYTES * len(buffers))
        words = words_of(head)
        size = 0
        for part in parts:
            size += len(part)
        store_64(words, 0, size)
        store_32(words, 8, len(buffers))
        for at in range(len(buffers)):
            store_64(words, HEAD_BYTES + LENGTH_BYTES * at, buffers[at].nbytes)
        for each in (head, *parts, *buffers):
            self._sock.sendall(each)

    def send_bytes(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._send_large([data], [])

    def recv(self) -> Any:
        """Receives a value. Raises EOFError at the end, OSError where there is no memory for it, and what unpickling
        raises when the message was received whole."""
        body, buffers = self.receive()
        return loaded(body, buffers)

    def receive(self) -> tuple[Any, Any]:
        """What loaded() takes: a pickle and its buffers, or None where it has none. Raises as recv()."""
        self._read_head()
        if not self._count:
            return self._read(self._length), None
        if self._count > MOST_BUFFERS:
            raise OSError(f"a message names {self._count} buffers")
        sizes = [self._read_length() for _ in range(self._count)]
        body = self._read(self._length)
        return body, [self._fresh(size) for size in sizes]

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        """Receives bytes. Raises OSError where more come than `maxlength`, before they are read."""
        self._read_head()
        if self._count or (maxlength is not None and self._length > maxlength):
            self.close()
            raise OSError(f"a message of {self._length} bytes is longer than {maxlength}")
        return bytes(self._read(self._length))

    def _read_head(self) -> None:
        at = self._take(HEAD_BYTES)
        words = words_of(self._memory)
        self._length = load_u64(words, at)
        self._count = load_u32(words, at + 8)

    def _read_length(self) -> int:
        at = self._take(LENGTH_BYTES)
        return load_u64(words_of(self._memory), at)

    def _read(self, size: int) -> Any:
        """So many bytes, in memory of their own."""
        if size > KEPT:
            return self._fresh(size)
        at = self._take(size)
        return bytes_at(self._memory, at, size)

    def _take(self, size: int) -> int:
        """Where the next bytes are in the memory: valid until the next call."""
        if self._start + size > KEPT:
            rest = self._end - self._start
            self._memory[:rest] = self._memory[self._start : self._end]
            self._start = 0
            self._end = rest
        while self._end - self._start < size:
            self._end += self._receive(self._memory, self._view, self._end)
        at = self._start
        self._start += size
        if self._start == self._end:
            self._start = self._end = 0
        return at

    def _fresh(self, size: int) -> Any:
        """So many bytes, in memory of their own that may be written to."""
        try:
            memory = bytearray(size)
        except (MemoryError, OverflowError) as error:  # the rest of the message would be taken for the next one
            self.close()
            raise OSError(errno.ENOMEM, f"no memory for {size} bytes of a message: the connection ends") from error
        view = memoryview(memory)
        whole = len(memory)
        have = min(self._end - self._start, whole)
        view[:have] = self._view[self._start : self._start + have]
        self._start += have
        while have < whole:
            have += self._receive(memory, view, have)
        return memory

    def _receive(self, memory: bytearray, view: memoryview, at: int) -> int:
        """Receives more behind what there is. Raises EOFError."""
        if self._carrier is not None:
            got = from_carrier(self._carrier, memory, at, len(memory) - at, FOR_EVER)
            if got < 0:  # somebody made the descriptor non-blocking
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        else:
            got = self._sock.recv_into(view[at:])
        if not got:
            raise EOFError
        return got  # type: ignore[no-any-return]


def loaded(body: Any, buffers: Any) -> Any:
    """The value of a message. Raises what unpickling raises."""
    if buffers is None:
        return _loads(body)
    return _loads(body, buffers=buffers)
