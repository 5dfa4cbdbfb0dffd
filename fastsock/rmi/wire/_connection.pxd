# What other compiled modules may know of _connection.pyx.
cimport cython
from fastsock.rmi.wire._locks cimport Lock
from fastsock.rmi.wire._records cimport Call, Request, _Process
from fastsock.rmi.wire._serving cimport Servant


cdef enum:
    COUNT_MASK = 0xFFFFFF
    MOST_UNHEEDED = 1 << 20  # bytes sent by who waits for nothing, before it looks at what came
    MOST_ITEMS = 32  # of a stream that are taken before the first of them is given
    IS_ONEWAY = 2  # as ONEWAY of interfaces.py


@cython.final
cdef class Target:
    cdef public str name
    cdef Connection _connection
    cdef public unsigned int object_number
    cdef public double timeout
    cdef public object home
    cdef object __weakref__

    cdef Connection _current(self)


cdef class Method:
    cdef public Target target
    cdef public str name
    cdef public unsigned int number
    cdef public int flags
    cdef public object __name__, __doc__, __signature__
    cdef void *_vectorcall

    cdef object _call(self, object arguments, object keywords)


cdef class Connection(Servant):
    cdef public dict calls
    cdef public bint closing, hurried, knows_chains
    cdef public long forks
    cdef public _Process process
    cdef dict _parked, _threads
    cdef Lock _end_begun
    cdef unsigned long _last_thread
    cdef unsigned int _last_slot, _count
    cdef bint _counted_all
    cdef unsigned long long _heeded
    cdef object _stream
    cdef unsigned int _stream_number
    cdef bint _is_serving
    cdef object _resumed

    cpdef object call(self, Method method, object arguments, object keywords, double deadline, int flags=*)
    cpdef Call start(self, int kind, Method method, object arguments, object keywords, double deadline, int flags)
    cpdef object notify(self, Method method, object arguments, object keywords, double deadline)
    cdef int _send_call(self, int kind, Method method, object arguments, object keywords, double deadline, int flags,
                        Call call) except -1
    cdef unsigned int _next_number(self) except? 0
    cdef unsigned int _unused(self, unsigned int slot) except? 0
    cdef object _slot(self, unsigned long thread)
    cpdef object wait(self, Call call, double deadline)
    cpdef object wait_on(self, Call call, double deadline)
    cdef object _execute_here(self, Request request)
    cdef int _hand_over(self) except -1
    cdef object _park(self, Call call, double deadline)
    cdef int _wake(self, Call call) except -1
    cdef object _wake_next(self)
    cpdef bint give_up(self, Call call) except -1

    cdef Request _handle(self, Call mine)
    cdef bint _item(self) except -1
    cdef object _take_items(self, unsigned int number)
    cdef object _answer(self, int kind)
    cdef int _special_answer(self, int kind, int flags, Call call, object value) except -1
    cpdef object settle(self, Call call, object value, bint failed)
    cpdef object receive_what_came(self, unsigned long long most=*)

    cpdef bint serve(self, bint lingers) except -1
    cpdef object resume(self, object producer)
    cpdef object fail(self, object error)
