# What other compiled modules may know of _unpacking.pyx.
cimport cython
from fastsock.rmi.codec._unpacking_objects cimport ObjectUnpacker


@cython.final
cdef class Unpacker(ObjectUnpacker):
    cdef bint is_broken
    cdef readonly bint is_reading
    cdef object body

    cpdef begin(self, object body, object segments=*)
    cpdef begin_within(self, bytearray memory, Py_ssize_t at, Py_ssize_t size, object segments=*)
    cdef int _start(self) except -1
    cdef int _begin(self, object segments) except -1
    cpdef unpack(self)
    cpdef list unpack_frame(self, object body, object segments=*)
    cpdef bint has_more(self) noexcept
    cpdef end(self)
    cdef int _check_end(self) except -1
    cdef int _hold(self, object body) except -1
    cdef int _let_go(self) except -1
    cdef object read_safely(self)
