# cython: language_level=3, freethreading_compatible=True
"""A frame that came, from its beginning to its end. `_format.pxd` describes the bytes.

An unpacker belongs to one connection and direction, as the packer at the other end. Two threads may not use it at once.
"""
from fastsock.rmi.codec._format cimport *
from fastsock.rmi.codec._memory cimport memory_of, memory_within

from fastsock.rmi.errors import BadFrame, RmiError
from fastsock.rmi.interrupts import interrupted


cdef class Unpacker(ObjectUnpacker):
    """Makes the values of one connection again. `begin`, `unpack` once or more, `end`, also after an error.

    Raises BadFrame and LimitExceeded for what no packer sends: then the connection must end. After any other error (a
    VersionMismatch, an error of a registered unpack function) `end` reads the rest, and the connection is good.
    """

    def __init__(self, classes, references=None, trust_pickle=False, depth=100):
        if not 0 < depth <= DEEPEST:
            raise ValueError(f"depth is {depth}: it must be from 1 to {DEEPEST}")
        ObjectUnpacker.__init__(self, classes, references, trust_pickle, depth)
        self.body = b""
        self.is_broken = False
        self.is_reading = False

    cpdef begin(self, object body, object segments=()):
        """Take a body without its header room, and its segments in their order. Raises BadFrame."""
        self._start()
        self._hold(body)
        self._begin(segments)

    cpdef begin_within(self, bytearray memory, Py_ssize_t at, Py_ssize_t size, object segments=()):
        """As `begin`, for a body within memory that stays as it is until `end`."""
        self._start()
        self.body = memory
        self.limit = size
        self.data = memory_within(memory, at, size)
        self._begin(segments)

    cdef int _start(self) except -1:
        if self.is_reading:
            raise RuntimeError("an unpack function used the connection that it unpacks for: let it make the value only")
        self.is_broken = True

    cdef int _begin(self, object segments) except -1:
        cdef int flags
        self.segments = segments
        self.next_segment = 0
        self.at = 0
        self.level = 0
        self.failure = None
        self.failures = 0
        if self.numbered:
            self.numbered = []
        if segments:
            self.limit -= WORD * len(segments)
        if self.limit < 1:
            self._short()
        flags = self.data[0]
        self.numbers = (flags & REPEATS) != 0
        self.at = 1
        if flags:
            self._begin_flagged(flags)
        self.is_broken = False

    cpdef unpack(self):
        """The next value. Raises BadFrame, LimitExceeded, VersionMismatch, or what a registered function raised."""
        value = self.read_safely()
        if self.failure is not None:
            failure = self.failure
            self.failure = None
            raise failure
        return value

    cpdef list unpack_frame(self, object body, object segments=()):
        """`begin`, `unpack` of each value, and `end`. Raises as these do."""
        cdef list values = []
        try:
            self.begin(body, segments)
            while self.at < self.limit:
                values.append(self.unpack())
        except BaseException:
            self.end()
            raise
        self.end()
        return values

    cpdef bint has_more(self) noexcept:
        """Whether values are left."""
        return self.at < self.limit

    cpdef end(self):
        """The frame is over. Raises BadFrame where bytes or segments are left, unless the frame was found broken."""
        if self.is_reading:
            raise RuntimeError("a frame is ended by an unpack function")
        try:
            while self.failures and not self.is_broken and self.at < self.limit:
                self.read_safely()
            if not self.is_broken:
                self._check_end()
        finally:
            self._let_go()

    cdef int _check_end(self) except -1:
        left = self.limit - self.at
        if left:
            raise BadFrame(f"{left} bytes are left after the last value of a frame")
        unread = len(self.segments) - self.next_segment
        if unread:
            raise BadFrame(f"{unread} segments are left after the last value of a frame")

    cdef int _hold(self, object body) except -1:
        if type(body) is bytes:
            self.body = body
            self.limit = len(body)
            self.data = body
        else:
            view = memoryview(body)
            if not view.c_contiguous:
                raise BadFrame("a body must be contiguous")
            self.body = view
            self.limit = view.nbytes
            self.data = memory_of(view)

    cdef int _let_go(self) except -1:
        self.body = b""
        self.data = b""
        self.limit = 0
        self.at = 0
        self.segments = ()
        self.next_segment = 0
        if self.numbered:
            self.numbered = []
        self.failure = None
        self.failures = 0

    cdef object read_safely(self):
        if self.is_reading:
            raise RuntimeError("a value is unpacked by an unpack function")
        self.is_reading = True
        try:
            return self.read()
        except (RmiError, MemoryError):
            self.is_broken = True
            raise
        except Exception as error:
            self.is_broken = True
            if interrupted(error):
                raise
            raise BadFrame(f"a value cannot be what it is said to be: {error}") from error
        finally:
            self.is_reading = False
