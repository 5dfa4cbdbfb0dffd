# The C types of _connection.py.
cimport cython
from cpython.object cimport PyObject

from fastsock.rmi._frames cimport BATCH, BEHALF, CALL, CANCEL, CHAIN, DEADLINE, ERROR, FREE, GOODBYE, HEADER_BYTES, ITEM, KEYWORDS, LASTING, ONEWAY, RESULT
from fastsock.rmi._flow cimport Inflow
from fastsock.rmi._locks cimport Lock, order
from fastsock.rmi._packing cimport Packer
from fastsock.rmi._records cimport Call, Request, _Process, context_of, get_ident, new_call
from fastsock.rmi._serving cimport THREAD_SHIFT, Servant, now
from fastsock.rmi._unpacking cimport Unpacker
from fastsock.rmi._vectorcall cimport accept_vectorcall, given_by_name, given_by_place

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

    @cython.locals(target=Target, connection=Connection, deadline=double)
    cdef object _call(self, object arguments, object keywords)


cdef inline object call_method(object method, PyObject **given, size_t flagged, PyObject *names):
    return (<Method>method)._call(given_by_place(given, flagged), given_by_name(given, flagged, names))


cdef inline void *vectorcall_of_method() noexcept:
    return <void *>call_method


cdef inline int accept_calls() except -1:
    cdef Method made = Method.__new__(Method)
    accept_vectorcall(made, <char *>&made._vectorcall - <char *><void *>made)
    return 0


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

    @cython.locals(call=Call)
    cpdef object call(self, Method method, object arguments, object keywords, double deadline, int flags=*)
    @cython.locals(call=Call)
    cpdef Call start(self, int kind, Method method, object arguments, object keywords, double deadline, int flags)
    cpdef object tell(self, Method method, object arguments, object keywords, double deadline)
    @cython.locals(request=Request, number=cython.uint, behalf=cython.uint, left=double, lasting=double,
                   packer=Packer)
    cdef int _send_call(self, int kind, Method method, object arguments, object keywords, double deadline, int flags,
                        Call call) except -1
    @cython.locals(thread=cython.ulong, slot=cython.uint)
    cdef unsigned int _next_number(self) except? 0
    @cython.locals(number=cython.uint)
    cdef unsigned int _unused(self, unsigned int slot) except? 0
    cdef object _slot(self, unsigned long thread)
    cpdef object wait(self, Call call, double deadline)
    @cython.locals(request=Request)
    cpdef object wait_on(self, Call call, double deadline)
    cdef object _execute_here(self, Request request)
    cdef int _hand_over(self) except -1
    @cython.locals(left=double)
    cdef object _park(self, Call call, double deadline)
    cdef int _wake(self, Call call) except -1
    @cython.locals(call=Call)
    cdef object _wake_next(self)
    cpdef bint give_up(self, Call call) except -1

    @cython.locals(kind=int, request=Request, call=Call)
    cdef Request _handle(self, Call mine)
    @cython.locals(number=cython.uint, size=Py_ssize_t, stream=Inflow, unpacker=Unpacker)
    cdef bint _item(self) except -1
    cdef object _take_items(self, unsigned int number)
    @cython.locals(flags=int, call=Call, unpacker=Unpacker)
    cdef object _answer(self, int kind)
    cdef int _special_answer(self, int kind, int flags, Call call, object value) except -1
    cpdef object settle(self, Call call, object value, bint failed)
    @cython.locals(begin=cython.ulonglong)
    cpdef object receive_what_came(self, unsigned long long most=*)

    @cython.locals(request=Request)
    cpdef bint serve(self, bint lingers) except -1
    cpdef object resume(self, object producer)
    @cython.locals(call=Call)
    cpdef object fail(self, object error)
