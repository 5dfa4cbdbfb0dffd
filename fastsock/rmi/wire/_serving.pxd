# What other compiled modules may know of _serving.pyx.
from fastsock.core.binding._core cimport now_ns
from fastsock.core.binding._shown cimport ShownDaemon
from fastsock.rmi.wire._locks cimport Lock
from fastsock.rmi.wire._records cimport Call, Request
from fastsock.rmi.wire._sending cimport Sender


cdef enum:
    THREAD_SHIFT = 24


cdef inline double now() noexcept:
    return <double>now_ns() / 1e9


cdef class Servant(Sender):
    cdef public dict exports
    cdef public ShownDaemon shown  # what a daemon shows of itself; None: this end is none
    cdef object _current
    cdef Lock _order
    cdef list _running
    cdef dict _free, _given_up

    cdef Request _request(self)
    cdef double _deadline_given(self, object left) except? -1
    cdef unsigned int _behalf_given(self, object number) except? 0
    cpdef bint is_half_read(self, object error) except -1
    cdef int _half_handled(self, object error) except -1
    cdef bint claim(self, Request request) except -1
    cpdef object run_claimed(self, Request request)
    cpdef object run_alone(self, Request request)
    cpdef object make_way(self, Request request)
    cdef Request _following(self, Request request)
    cpdef object cancel(self, unsigned int number)
    cpdef list under_way(self)
    cpdef object run_later(self, object request)
    cdef object _run_inbox_later(self, Call call)
    cdef object _run_apart(self, Call call, Request request)
    cpdef object run_inbox(self, Call call)
    cpdef object put_back(self, Call call, Request request)
    cpdef bint execute(self, Request request) except -1
    cdef object _run_batch(self, Request request)
    cdef object _run_row(self, Request request, tuple given, Py_ssize_t at)
    cpdef object answer(self, Request request, object value)
