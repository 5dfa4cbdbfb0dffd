# What other compiled modules may know of _receiving.pyx.
from cpython.bytearray cimport PyByteArray_AS_STRING
from fastsock.core.binding._carrier cimport carrier_await, carrier_receive
from fastsock.rmi.codec._unpacking cimport Unpacker
from fastsock.rmi.wire._locks cimport Lock


cdef extern from "Python.h":
    Py_buffer *PyMemoryView_GET_BUFFER(object)

cdef enum:
    RECEIVE_BYTES = 16384  # what is read at once; a larger part would be copied twice
    NOTHING = -1


cdef inline Py_ssize_t receive_at(object carrier, char *target, Py_ssize_t size, double deadline) except -2:
    if deadline < 0:
        return carrier_receive(carrier, target, size)
    return carrier_await(carrier, target, size, deadline)


cdef inline Py_ssize_t from_carrier(object carrier, bytearray memory, Py_ssize_t at, Py_ssize_t size,
                                    double deadline) except -2:
    return receive_at(carrier, PyByteArray_AS_STRING(memory) + at, size, deadline)


cdef inline Py_ssize_t into_view(object carrier, object view, double deadline) except -2:
    return receive_at(carrier, <char *>PyMemoryView_GET_BUFFER(view).buf, PyMemoryView_GET_BUFFER(view).len, deadline)


cdef class Receiver:
    cdef public object sock, session, peer, lost
    cdef public Lock receiving
    cdef public Py_ssize_t limit
    cdef public unsigned long long activity, bytes_received
    cdef Unpacker _unpacker
    cdef object _carrier, _receive, _buffered
    cdef bint _is_native
    cdef bytearray _memory
    cdef object _view
    cdef Py_ssize_t _start, _end
    cdef int _stage
    cdef Py_ssize_t _length
    cdef int _kind, _flags
    cdef unsigned int _segment_count, _number, _object, _method
    cdef bytearray _large
    cdef object _segments, _buffers
    cdef Py_ssize_t _filled
    cdef unsigned int _segment

    cdef bint _read_frame(self, double deadline) except -1
    cdef bint _shows_the_rest(self) except -1
    cdef bint _fill(self, double deadline) except -1
    cdef Py_ssize_t _received(self, Py_ssize_t got, double deadline) except -2
    cdef Py_ssize_t _receive_into(self, object view, double deadline) except -2
    cdef Py_ssize_t _receive_until(self, object view, double deadline) except -2
    cdef bint _read_large(self, double deadline) except -1
    cdef bint _read_segments(self, double deadline) except -1
    cdef int _take(self, Py_ssize_t at, Py_ssize_t have) except -1
    cdef object _body(self)
    cdef Unpacker _begin(self)
    cdef int _taken(self) except -1
    cpdef Py_ssize_t frame_bytes(self) except -1
    cdef bint has_bytes(self) except -1
    cpdef bint has_more(self) except -1
    cdef bint is_whole(self, int kind, unsigned int number) noexcept
