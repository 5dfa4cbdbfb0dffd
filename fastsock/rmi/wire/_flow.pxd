# What other compiled modules may know of _flow.pyx.
from fastsock.rmi.wire._locks cimport Lock
from fastsock.rmi.wire._sending cimport Sender


cdef class Outflow:
    cdef public Sender connection
    cdef public object source
    cdef public unsigned int number
    cdef public bint closed, is_taking
    cdef public long long items, size
    cdef Lock _credit

    cpdef object credited(self, long long items, long long size)
    cdef int _use(self, long long items, long long size) except -1
    cpdef bint has_credit(self) noexcept
    cpdef int pour(self) except -1
    cpdef object send_item(self, object item)
    cdef object _send(self, object item)


cdef class Inflow:
    cdef object __weakref__  # here, not of Stream: a class without other fields of its own would not clear it
    cdef public object session, method, items, error
    cdef object waker
    cdef public Sender connection
    cdef public unsigned int number
    cdef public double deadline
    cdef public bint over
    cdef list _pulses
    cdef long long _taken, _taken_size
    cdef Lock _counting

    cpdef object arrived(self, object item, Py_ssize_t size)
    cpdef object beat(self)
    cpdef bint wakes(self, object function) except -1
    cdef object _next(self)
    cdef double _until(self) except -1
    cpdef object late(self)
    cpdef object close(self)
    cpdef object take(self)


cdef class Stream(Inflow):
    cpdef object ended(self, object error)
    cpdef object close(self)
