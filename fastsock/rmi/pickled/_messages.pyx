# cython: language_level=3, freethreading_compatible=True
"""Connections as those of multiprocessing.connection, over sockets of fastsock: the path of every call of managers.py.

A message is a header of 12 bytes (bytes of the pickle, number of buffers), the length of each buffer (8 bytes each),
the pickle, the buffers. The buffers are the memory of large arrays (pickle protocol 5): they go from where they lie,
and are received into fresh memory once.
"""
from fastsock.core.binding._carrier cimport is_carrier
from fastsock.rmi.codec._memory cimport copy_in, load_u32, load_u64, store_32, store_64
from fastsock.rmi.wire._receiving cimport from_carrier

import copyreg
import errno
import os
import pickle
import select
from collections import ChainMap
from multiprocessing import reduction

from fastsock.connection import carriers
from fastsock.rmi.wire._receiving import FOR_EVER

_forking = reduction.ForkingPickler
_copyreg = copyreg
_reducers = ChainMap(_forking._extra_reducers, _copyreg.dispatch_table)  # of what both know at any time
_loads = pickle.loads


class _Pickler(pickle.Pickler):
    """As that of multiprocessing, which makes this table again for each message."""

    dispatch_table = _reducers


cdef class Pickled:
    """What a pickler made of a value: the pickle in parts, and the buffers beside it. The pickler writes into it."""

    def __init__(self):
        self.parts = []
        self.buffers = []

    cpdef object write(self, object data):
        """A part of the pickle. The memory of a bytearray is copied: other threads may change it."""
        self.parts.append(data if type(data) is bytes else bytes(data))

    cpdef bint beside(self, object buffer) except -1:
        """Whether a buffer goes within the pickle."""
        raw = buffer.raw()
        if raw.nbytes < BUFFER:
            return True
        self.buffers.append(raw)
        return False


cdef class Connection:
    """Whole messages over a socket: what managers use of multiprocessing's Connection. For one thread at a time."""

    def __init__(self, sock):
        self._sock = sock
        self._carrier = None
        self._memory = bytearray(KEPT)
        self._view = memoryview(self._memory)
        self._start = 0
        self._end = 0
        self._length = 0  # of the pickle that comes
        self._count = 0  # of its buffers
        self._scratch = bytearray(HEAD_BYTES + AT_ONCE)
        self._pickled = None  # those of the last message, for the next one
        self._pickler = None
        self.closed = False
        self.busy = False  # an exchange is under way: a finalizer of this thread must not begin another one

    def __del__(self):
        """A thread that ends leaves its connection. One that was closed costs nothing here: no handler raises in vain."""
        if self._sock is not None and not self.closed:
            self._sock.close()

    def settled(self):
        """The socket's path is known: from now on compiled code uses a native carrier past Python."""
        carrier = carriers.carrier_of(self._sock)
        if is_carrier(carrier):
            self._carrier = carrier

    def fileno(self):
        """The socket's descriptor."""
        return int(self._sock.fileno())

    def close(self):
        """Closes the socket. Idempotent."""
        self.closed = True
        self._sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def poll(self, timeout=0.0):
        """Whether something can be received, after `timeout` seconds at most."""
        if self._end > self._start:
            return True
        poller = select.poll()
        poller.register(self._sock.fileno(), select.POLLIN)
        return bool(poller.poll(None if timeout is None else timeout * 1000))

    cpdef object exchange(self, object request):
        """Sends a message and receives one. What is raised between the two closes the connection: the answer that comes
        later would be taken for that of the next request."""
        cdef Pickled message
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

    def send(self, value):
        """Sends a value as a pickle. Raises what pickling raises, before a byte is sent."""
        self.send_pickled(self.pickled(value))

    cpdef Pickled pickled(self, object value):
        """What send_pickled() sends. Raises what pickling raises."""
        cdef Pickled found = self._pickled
        pickler = self._pickler
        self._pickled = None  # what is called meanwhile may pickle too, and what raises leaves half a pickle
        if found is None:
            found = Pickled()
            pickler = _Pickler(found, 5, buffer_callback=found.beside)
        pickler.dump(value)
        self._pickler = pickler
        return found

    cpdef object send_pickled(self, Pickled message):
        """Sends what pickled() made."""
        cdef list parts = message.parts
        if len(parts) == 1 and len(parts[0]) <= AT_ONCE and not message.buffers:
            self._send_small(parts[0])
            self._pickler.clear_memo()
            parts.clear()
            self._pickled = message
        else:
            self._send_large(parts, message.buffers)

    cdef int _send_small(self, bytes data) except -1:
        """A message that the scratch holds."""
        cdef Py_ssize_t size = len(data)
        cdef bytearray scratch = self._scratch
        cdef unsigned char * words = words_of(scratch)
        store_64(words, 0, size)
        store_32(words, 8, 0)
        copy_in(words, HEAD_BYTES, data, size)
        cdef Py_ssize_t sent = 0
        if self._carrier is not None:
            sent = send_scratch(self._carrier, scratch, HEAD_BYTES + size)
        if sent < HEAD_BYTES + size:
            self._sock.sendall(memoryview(scratch)[sent : HEAD_BYTES + size])

    cdef object _send_large(self, list parts, list buffers):
        cdef Py_ssize_t at
        cdef bytearray head = bytearray(HEAD_BYTES + LENGTH_BYTES * len(buffers))
        cdef unsigned char * words = words_of(head)
        cdef unsigned long long size = 0
        for part in parts:
            size += len(part)
        store_64(words, 0, size)
        store_32(words, 8, len(buffers))
        for at in range(len(buffers)):
            store_64(words, HEAD_BYTES + LENGTH_BYTES * at, buffers[at].nbytes)
        for each in (head, *parts, *buffers):
            self._sock.sendall(each)

    def send_bytes(self, data):
        """Sends bytes as they are."""
        self._send_large([data], [])

    def recv(self):
        """Receives a value. Raises EOFError at the end, OSError where there is no memory for it, and what unpickling
        raises when the message was received whole."""
        body, buffers = self.receive()
        return loaded(body, buffers)

    cpdef tuple receive(self):
        """What loaded() takes: a pickle and its buffers, or None where it has none. Raises as recv()."""
        self._read_head()
        if not self._count:
            return self._read(self._length), None
        if self._count > MOST_BUFFERS:
            raise OSError(f"a message names {self._count} buffers")
        sizes = [self._read_length() for _ in range(self._count)]
        body = self._read(self._length)
        return body, [self._fresh(size) for size in sizes]

    def recv_bytes(self, maxlength=None):
        """Receives bytes. Raises OSError where more come than `maxlength`, before they are read."""
        self._read_head()
        if self._count or (maxlength is not None and self._length > maxlength):
            self.close()
            raise OSError(f"a message of {self._length} bytes is longer than {maxlength}")
        return bytes(self._read(self._length))

    cdef int _read_head(self) except -1:
        cdef Py_ssize_t at = self._take(HEAD_BYTES)
        cdef unsigned char * words = words_of(self._memory)
        self._length = load_u64(words, at)
        self._count = load_u32(words, at + 8)

    cdef object _read_length(self):
        cdef Py_ssize_t at = self._take(LENGTH_BYTES)
        return load_u64(words_of(self._memory), at)

    cdef object _read(self, unsigned long long size):
        """So many bytes, in memory of their own."""
        cdef Py_ssize_t at
        if size > KEPT:
            return self._fresh(size)
        at = self._take(size)
        return bytes_at(self._memory, at, size)

    cdef Py_ssize_t _take(self, Py_ssize_t size) except -1:
        """Where the next bytes are in the memory: valid until the next call."""
        cdef Py_ssize_t rest, at
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

    cdef bytearray _fresh(self, unsigned long long size):
        """So many bytes, in memory of their own that may be written to."""
        cdef Py_ssize_t have, whole
        cdef bytearray memory
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

    cdef Py_ssize_t _receive(self, bytearray memory, object view, Py_ssize_t at) except -1:
        """Receives more behind what there is. Raises EOFError."""
        cdef Py_ssize_t got
        if self._carrier is not None:
            got = from_carrier(self._carrier, memory, at, len(memory) - at, FOR_EVER)
            if got < 0:  # somebody made the descriptor non-blocking
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        else:
            got = self._sock.recv_into(view[at:])
        if not got:
            raise EOFError
        return got


cpdef object loaded(object body, object buffers):
    """The value of a message. Raises what unpickling raises."""
    if buffers is None:
        return _loads(body)
    return _loads(body, buffers=buffers)
