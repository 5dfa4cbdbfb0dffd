# What other compiled modules may know of _messages.pyx.
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize
from fastsock.core.binding._carrier cimport CARRIER_PATIENT, carrier_send


cdef enum:
    HEAD_BYTES = 12
    LENGTH_BYTES = 8
    KEPT = 65536  # bytes of memory that are kept for the next message
    AT_ONCE = 16384  # bytes of a message that goes with its header
    BUFFER = 4096  # bytes from which on a buffer goes beside its pickle
    MOST_BUFFERS = 1048576


cdef inline unsigned char *words_of(bytearray memory) noexcept:
    return <unsigned char *>PyByteArray_AS_STRING(memory)


cdef inline bytes bytes_at(bytearray memory, Py_ssize_t at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(memory) + at, size)


cdef inline Py_ssize_t send_scratch(object carrier, bytearray scratch, Py_ssize_t length) except -1:
    return carrier_send(carrier, PyByteArray_AS_STRING(scratch), length, CARRIER_PATIENT)


cdef class Pickled:
    cdef list parts, buffers

    cpdef object write(self, object data)
    cpdef bint beside(self, object buffer) except -1


cdef class Connection:
    cdef public bint closed, busy
    cdef object _sock, _carrier, _view, _pickler
    cdef bytearray _memory, _scratch
    cdef Pickled _pickled
    cdef Py_ssize_t _start, _end
    cdef unsigned long long _length
    cdef unsigned int _count

    cpdef object exchange(self, object request)
    cpdef Pickled pickled(self, object value)
    cpdef object send_pickled(self, Pickled message)
    cdef int _send_small(self, bytes data) except -1
    cdef object _send_large(self, list parts, list buffers)
    cpdef tuple receive(self)
    cdef int _read_head(self) except -1
    cdef object _read_length(self)
    cdef object _read(self, unsigned long long size)
    cdef Py_ssize_t _take(self, Py_ssize_t size) except -1
    cdef bytearray _fresh(self, unsigned long long size)
    cdef Py_ssize_t _receive(self, bytearray memory, object view, Py_ssize_t at) except -1


cpdef object loaded(object body, object buffers)
