# The C types of _serving.py.
cimport cython

from fastsock.core.binding._core cimport now_ns
from fastsock.rmi._frames cimport BATCH, BEHALF, CALL, CHAIN, DEADLINE, FREE, HEADER_BYTES, KEYWORDS, ONEWAY, RESULT
from fastsock.rmi._locks cimport Lock
from fastsock.rmi._packing cimport Packer
from fastsock.rmi._records cimport Call, Entry, Request, context_of, enter_context, goes_on, leave_context, Rows, new_request, whole_number
from fastsock.rmi._sending cimport Sender
from fastsock.rmi._unpacking cimport Unpacker

cdef enum:
    THREAD_SHIFT = 24


cdef inline double now() noexcept:
    return <double>now_ns() / 1e9


cdef class Servant(Sender):
    cdef public dict exports
    cdef object _current
    cdef Lock _order
    cdef list _running
    cdef dict _free, _given_up

    @cython.locals(flags=int, number=cython.uint, request=Request, exported=Entry, unpacker=Unpacker, deadline=double,
                   behalf=cython.uint)
    cdef Request _request(self)
    cdef double _deadline_told(self, object left) except? -1
    cdef unsigned int _behalf_told(self, object number) except? 0
    cpdef bint is_half_read(self, object error) except -1
    cdef int _half_handled(self, object error) except -1
    @cython.locals(key=cython.uint, first=Request)
    cdef bint claim(self, Request request) except -1
    @cython.locals(following=Request)
    cpdef object run_claimed(self, Request request)
    cpdef object run_alone(self, Request request)
    @cython.locals(following=Request)
    cpdef object make_way(self, Request request)
    @cython.locals(key=cython.uint, following=Request)
    cdef Request _following(self, Request request)
    @cython.locals(key=cython.uint, first=Request, each=Request)
    cpdef object cancel(self, unsigned int number)
    cpdef list under_way(self)
    cpdef object run_later(self, object request)
    @cython.locals(request=Request)
    cdef object _run_inbox_later(self, Call call)
    cdef object _run_apart(self, Call call, Request request)
    @cython.locals(request=Request)
    cpdef object run_inbox(self, Call call)
    cpdef object put_back(self, Call call, Request request)
    @cython.locals(exported=Entry)
    cpdef bint execute(self, Request request) except -1
    @cython.locals(found=list, given=tuple, at=Py_ssize_t, count=Py_ssize_t)
    cdef object _run_batch(self, Request request)
    @cython.locals(exported=Entry, rows=Rows, one=Request, arguments=object, keywords=object, number=Py_ssize_t)
    cdef object _run_row(self, Request request, tuple given, Py_ssize_t at)
    @cython.locals(packer=Packer)
    cpdef object answer(self, Request request, object value)
