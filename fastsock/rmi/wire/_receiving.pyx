# cython: language_level=3, boundscheck=False, wraparound=True, freethreading_compatible=True
"""How frames come in: from the bytes of a socket to a frame that is there as a whole.

Whoever holds `receiving` reads. What a frame is made of may come at any pace: where a call of these returns or raises
before the frame is whole, the next one goes on from there.
"""
from fastsock.core.binding._carrier cimport is_carrier
from fastsock.rmi.wire._frames cimport HEADER_BYTES, LENGTH_BYTES, byte_at, word_16, word_32

from _socket import MSG_DONTWAIT

from fastsock.rmi.errors import BadFrame, LimitExceeded
from fastsock.rmi.wire._locks import Lock
from fastsock.system.originals import originals

_now = originals.monotonic
FOR_EVER = 0.0
NOT_AT_ALL = -1.0


cdef class Receiver:
    """The receiving half of a connection. sock, carrier: None where the kernel carries the bytes."""

    def __init__(self, sock, carrier, session, unpacker, peer, limit):
        self.sock = sock
        self.session = session
        self.peer = peer
        self.limit = limit
        self.lost = None  # the error that ended it
        self.activity = 0
        self.bytes_received = 0
        self.receiving = Lock()
        self._unpacker = unpacker
        self._carrier = carrier
        self._is_native = is_carrier(carrier)
        self._receive = sock.recv_into
        self._buffered = session.buffered  # of TLS
        self._memory = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._memory)
        self._start = 0
        self._end = 0
        # the frame that is being read
        self._stage = 0
        self._length = 0
        self._kind = 0
        self._flags = 0
        self._segment_count = 0
        self._number = 0
        self._object = 0
        self._method = 0
        self._large = None
        self._filled = 0
        self._segments = None
        self._buffers = None  # their memory, while it is filled
        self._segment = 0

    cdef bint _read_frame(self, double deadline) except -1:
        """Reads until a whole frame is there. False: nothing comes for now.

        deadline: as that of a call; NOT_AT_ALL takes only what is there already. Raises TimeoutError, LostPeer,
        BadFrame and what the socket raises.
        """
        cdef Py_ssize_t at
        cdef bytearray memory
        if self._stage == 0:
            while self._end - self._start < HEADER_BYTES:
                if not self._fill(deadline):
                    return False
            at = self._start
            memory = self._memory
            self._length = word_32(memory, at)
            self._kind = byte_at(memory, at + 4)
            self._flags = byte_at(memory, at + 5)
            self._segment_count = word_16(memory, at + 6)
            self._number = word_32(memory, at + 8)
            self._object = word_16(memory, at + 12)
            self._method = word_16(memory, at + 14)
            if self._length > self.limit:
                raise LimitExceeded(f"{self.peer}: a frame of {self._length} bytes is beyond the limit of {self.limit}")
            if self._segment_count * LENGTH_BYTES > self._length:
                raise BadFrame(f"{self.peer}: a frame of {self._length} bytes names {self._segment_count} segments")
            self._start += HEADER_BYTES
            self._stage = 1
        elif self._stage == 3 and self.lost is not None:  # it was handled in part: never a second time
            raise self.session.gone(None, True)
        if self._stage == 1:
            if self._length <= RECEIVE_BYTES:
                while self._end - self._start < self._length:
                    if not self._fill(deadline):
                        return False
            elif not self._read_large(deadline):
                return False
            self._stage = 2
        if self._segment_count and not self._read_segments(deadline):
            return False
        self._stage = 3
        self.activity += 1
        return True

    cdef bint _shows_the_rest(self) except -1:
        """Between frames: whether whoever watches the socket hears of what is left. No whole frame lies here."""
        cdef Py_ssize_t have = self._end - self._start - HEADER_BYTES
        return self._buffered is None and (have < 0 or have < word_32(self._memory, self._start))

    cdef bint _fill(self, double deadline) except -1:
        """Receives more into the scratch. False: nothing comes for now."""
        cdef Py_ssize_t rest, got
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start:
            rest = self._end - self._start
            self._memory[:rest] = self._memory[self._start : self._end]
            self._start = 0
            self._end = rest
        if self._is_native:
            got = from_carrier(self._carrier, self._memory, self._end, RECEIVE_BYTES - self._end, deadline)
            got = self._received(got, deadline)
        else:
            got = self._receive_into(self._view[self._end :], deadline)
        if got == NOTHING:
            return False
        self._end += got
        return True

    cdef Py_ssize_t _received(self, Py_ssize_t got, double deadline) except -2:
        """Counts what came; NOTHING stays that."""
        if got > 0:
            self.bytes_received += got
        elif got == 0:
            raise self.session.ended()
        elif deadline > 0:
            raise TimeoutError
        return got

    cdef Py_ssize_t _receive_into(self, object view, double deadline) except -2:
        cdef Py_ssize_t got
        if self._is_native:
            got = into_view(self._carrier, view, deadline)
            return self._received(got, deadline)
        try:
            if deadline == FOR_EVER:
                got = self._receive(view)
            elif deadline < 0:
                got = self._receive(view, 0, MSG_DONTWAIT)
            else:
                got = self._receive_until(view, deadline)
        except BlockingIOError:
            return NOTHING
        return self._received(got, FOR_EVER)

    cdef Py_ssize_t _receive_until(self, object view, double deadline) except -2:
        cdef double left = deadline - _now()
        if left <= 0:
            raise TimeoutError
        carrier = self._carrier
        if carrier is None:
            if not self.session.await_readable(left):
                raise TimeoutError
            return self._receive(view, 0, MSG_DONTWAIT)
        carrier.settimeout(left)
        try:
            return self._receive(view)
        finally:
            carrier.settimeout(None)

    cdef bint _read_large(self, double deadline) except -1:
        """The body of a frame that the scratch cannot hold."""
        cdef Py_ssize_t have, got
        cdef bytearray memory
        if self._large is None:
            memory = bytearray(self._length)
            have = self._end - self._start
            memory[:have] = self._view[self._start : self._end]
            self._start = self._end = 0
            self._filled = have
            self._large = memory
        while self._filled < self._length:
            got = self._receive_into(memoryview(self._large)[self._filled :], deadline)
            if got == NOTHING:
                return False
            self._filled += got
        return True

    cdef bint _read_segments(self, double deadline) except -1:
        """The segments, each into fresh memory of its own."""
        cdef Py_ssize_t at, size, have, got
        if self._segments is None:
            self._segments, self._buffers = self.session.fresh_segments(self._body(), self._segment_count)
            self._segment = 0
            self._filled = 0
        at = self._start + self._length if self._large is None else self._start
        while self._segment < self._segment_count:
            memory = self._buffers[self._segment]
            size = len(memory)
            while self._filled < size:
                have = min(self._end - at, size - self._filled)
                if have > 0:  # it came with the body
                    memory[self._filled : self._filled + have] = self._view[at : at + have]
                    self._take(at, have)
                    self._filled += have
                else:
                    got = self._receive_into(memory[self._filled :], deadline)
                    if got == NOTHING:
                        return False
                    self._filled += got
            self._filled = 0
            self._segment += 1
        return True

    cdef int _take(self, Py_ssize_t at, Py_ssize_t have) except -1:
        """Takes bytes of a segment out of the scratch: what is behind them moves up to the body."""
        cdef Py_ssize_t rest = self._end - at - have
        if rest:
            self._memory[at : at + rest] = self._memory[at + have : self._end]
        self._end = at + rest

    cdef object _body(self):
        if self._large is not None:
            return self._large
        return self._view[self._start : self._start + self._length]

    cdef Unpacker _begin(self):
        """The unpacker, at the first value of the frame."""
        segments = self._segments
        if segments is None:
            segments = ()
        if self._large is None:
            self._unpacker.begin_within(self._memory, self._start, self._length, segments)
        else:
            self._unpacker.begin_within(self._large, 0, self._length, segments)
        return self._unpacker

    cdef int _taken(self) except -1:
        """The frame is done with."""
        if self._large is None:
            self._start += self._length
        else:
            self._large = None
        if self._segments is not None:
            self._segments = None
            self._buffers = None
        self._stage = 0

    cpdef Py_ssize_t frame_bytes(self) except -1:
        """Bytes of the frame that was read last, its segments included."""
        cdef Py_ssize_t size = self._length
        for each in self._buffers or ():
            size += len(each)
        return size

    cdef bint has_bytes(self) except -1:
        """Whether bytes have come of which the kernel tells nobody any more: in the scratch, or in TLS's memory."""
        return self._end > self._start or (self._buffered is not None and self._buffered())

    cpdef bint has_more(self) except -1:
        """Whether bytes that were received are not read yet."""
        return self._stage != 0 or self.has_bytes()

    cdef bint is_whole(self, int kind, unsigned int number) noexcept:
        """Whether the scratch holds all of the next frame, and it is of this kind and number."""
        cdef bytearray memory
        cdef Py_ssize_t at = self._start
        cdef Py_ssize_t have = self._end - at
        if self._stage or have < HEADER_BYTES:
            return False
        memory = self._memory
        if byte_at(memory, at + 4) != kind or word_32(memory, at + 8) != number or word_16(memory, at + 6):
            return False
        return word_32(memory, at) <= have - HEADER_BYTES
