# The fields of a status, for compiled calls that complete one.
from libc.stdint cimport int64_t


cdef class StatusFields:
    cdef public int _source, _tag, _error
    cdef public int64_t _length
    cdef public bint _cancelled
    cdef public object _memory
    cdef object __weakref__

    cdef int fill(self, int source, int tag, int64_t length, int error, bint cancelled) except -1
    cdef int load(self) except -1
    cdef int store(self) except -1


# Says in the status that a program gave what arrived.
cdef inline int fill_status(
    object status, int source, int tag, int64_t length, int error=0, bint cancelled=False,
) except -1:
    if not isinstance(status, StatusFields):
        raise TypeError(f"expected a Status, got a {type(status).__name__}")
    return (<StatusFields>status).fill(source, tag, length, error, cancelled)
