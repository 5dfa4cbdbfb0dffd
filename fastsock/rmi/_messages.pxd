# The C types of _messages.py.
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize

from fastsock.core.binding._carrier cimport CARRIER_PATIENT, carrier_send, is_carrier
from fastsock.rmi._memory cimport copy_in, load_u32, load_u64, store_32, store_64
from fastsock.rmi._receiving cimport from_carrier

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
    cdef object __weakref__
    cdef public bint closed, busy
    cdef object _sock, _carrier, _view, _pickler
    cdef bytearray _memory, _scratch
    cdef Pickled _pickled
    cdef Py_ssize_t _start, _end
    cdef unsigned long long _length
    cdef unsigned int _count

    @cython.locals(message=Pickled)
    cpdef object exchange(self, object request)
    @cython.locals(found=Pickled)
    cpdef Pickled pickled(self, object value)
    @cython.locals(parts=list)
    cpdef object send_pickled(self, Pickled message)
    @cython.locals(size=Py_ssize_t, scratch=bytearray, words="unsigned char *", sent=Py_ssize_t)
    cdef int _send_small(self, bytes data) except -1
    @cython.locals(size="unsigned long long", words="unsigned char *", head=bytearray, at=Py_ssize_t)
    cdef object _send_large(self, list parts, list buffers)
    cpdef tuple receive(self)
    @cython.locals(at=Py_ssize_t, words="unsigned char *")
    cdef int _read_head(self) except -1
    @cython.locals(at=Py_ssize_t)
    cdef object _read_length(self)
    @cython.locals(at=Py_ssize_t)
    cdef object _read(self, unsigned long long size)
    @cython.locals(rest=Py_ssize_t, at=Py_ssize_t)
    cdef Py_ssize_t _take(self, Py_ssize_t size) except -1
    @cython.locals(have=Py_ssize_t, whole=Py_ssize_t, memory=bytearray)
    cdef bytearray _fresh(self, unsigned long long size)
    @cython.locals(got=Py_ssize_t)
    cdef Py_ssize_t _receive(self, bytearray memory, object view, Py_ssize_t at) except -1


cpdef object loaded(object body, object buffers)
