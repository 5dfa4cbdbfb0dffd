# The C types of _connection.py, with which Cython compiles it.
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport uint16_t, uint32_t

from fastsock.rmi._memory cimport load_u16, load_u32, store_16, store_32
from fastsock.rmi._packing cimport Packer
from fastsock.rmi._unpacking cimport Unpacker

# The numbers are those of frames.py.
cdef enum:
    CALL = 1
    ONEWAY = 2
    RESULT = 3
    ERROR = 4
    CANCEL = 5
    GOODBYE = 11
    BATCH = 12

cdef enum:
    DEADLINE = 1
    BEHALF = 2
    KEYWORDS = 4
    FREE = 16

cdef enum:
    HEADER_BYTES = 16
    LENGTH_BYTES = 8
    RECEIVE_BYTES = 16384  # what is read at once; a larger part would be copied twice
    COUNT_MASK = 0xFFFFFF
    THREAD_SHIFT = 24


cdef inline void put_header(Packer packer, Py_ssize_t length, int kind, int flags, Py_ssize_t segments,
                            unsigned int number, unsigned int object_number, unsigned int method) noexcept:
    cdef unsigned char *data = packer.data
    store_32(data, 0, length)
    data[4] = <unsigned char>kind
    data[5] = <unsigned char>flags
    store_16(data, 6, <int>segments)
    store_32(data, 8, number)
    store_16(data, 12, <int>object_number)
    store_16(data, 14, <int>method)


cdef inline uint16_t word_16(bytearray memory, Py_ssize_t at) noexcept:
    return load_u16(<unsigned char *>PyByteArray_AS_STRING(memory), at)


cdef inline uint32_t word_32(bytearray memory, Py_ssize_t at) noexcept:
    return load_u32(<unsigned char *>PyByteArray_AS_STRING(memory), at)


cdef class Call:
    cdef public unsigned int number
    cdef public bint done, failed, awaited
    cdef public object method, value, wake, inbox, on_done


cdef class Request:
    cdef public object connection, exported, arguments, keywords, behind, task
    cdef public int kind, flags
    cdef public unsigned int number, behalf, method
    cdef public double deadline
    cdef public bint cancelled


cdef class Target:
    cdef public str name
    cdef public Connection connection
    cdef public unsigned int object_number
    cdef public double timeout
    cdef public object home
    cdef object __weakref__


cdef class Method:
    cdef public Target target
    cdef public str name
    cdef public unsigned int number
    cdef public int flags


cdef class Connection:
    cdef public object on_blocked, sock, session, peer, lost, receiving, sending
    cdef public dict calls, exports
    cdef public bint closing, hurried
    cdef public Py_ssize_t limit
    cdef public unsigned long long activity, frames_sent, bytes_sent, bytes_received
    cdef public long forks
    cdef Packer _packer
    cdef Unpacker _unpacker
    cdef object _order, _channel, _receive, _send
    cdef dict _running, _parked, _threads
    cdef list _unsent
    cdef unsigned int _count
    cdef bint _counted_all
    cdef bytearray _memory
    cdef object _view
    cdef Py_ssize_t _start, _end
    cdef int _stage
    cdef Py_ssize_t _length
    cdef int _kind, _flags
    cdef unsigned int _segment_count, _number, _object, _method
    cdef object _large, _segments, _buffers
    cdef Py_ssize_t _filled
    cdef unsigned int _segment

    cpdef object call(self, Method method, object arguments, object keywords, double deadline)
    @cython.locals(call=Call, request=Request, slot=object, count=cython.uint, number=cython.uint, behalf=cython.uint,
                   left=double, packer=Packer)
    cpdef Call start(self, int kind, Method method, object arguments, object keywords, double deadline, int flags)
    @cython.locals(number=cython.uint)
    cdef unsigned int _unused(self, unsigned int slot) except? 0
    cdef object _slot(self, object thread)
    cpdef object wait(self, Call call, double deadline)
    @cython.locals(request=Request)
    cpdef object wait_on(self, Call call, double deadline)
    cdef object _hand_over(self)
    cdef object _park(self, Call call, double deadline)
    cdef object _wake(self, Call call)
    @cython.locals(call=Call)
    cdef object _wake_next(self)
    cpdef object give_up(self, Call call)

    @cython.locals(packer=Packer)
    cpdef Py_ssize_t send_plain(self, int kind, int flags, unsigned int number, unsigned int object_number,
                                unsigned int method, object values) except -1
    cdef object _abandon(self)
    @cython.locals(length=Py_ssize_t, count=Py_ssize_t, sent=Py_ssize_t)
    cdef Py_ssize_t _send_frame(self, int kind, int flags, unsigned int number, unsigned int object_number,
                                unsigned int method) except -1
    @cython.locals(total=Py_ssize_t)
    cdef Py_ssize_t _send_with_segments(self, object body, object segments, int kind, int flags, unsigned int number,
                                        unsigned int object_number, unsigned int method) except -1
    @cython.locals(pending=list, sent=Py_ssize_t)
    cdef object _push(self, object parts)
    cpdef bint send_unsent(self) except? False
    @cython.locals(received=cython.ulonglong)
    cdef object _await_room(self)

    @cython.locals(at=Py_ssize_t, memory=bytearray)
    cdef object _read_frame(self, double deadline)
    @cython.locals(rest=Py_ssize_t)
    cdef object _fill(self, double deadline)
    @cython.locals(got=Py_ssize_t)
    cdef Py_ssize_t _receive_into(self, object view, double deadline) except -1
    @cython.locals(left=double)
    cdef Py_ssize_t _receive_until(self, object view, double deadline) except -1
    @cython.locals(have=Py_ssize_t)
    cdef object _read_large(self, double deadline)
    @cython.locals(at=Py_ssize_t, size=Py_ssize_t, have=Py_ssize_t)
    cdef object _read_segments(self, double deadline)
    @cython.locals(rest=Py_ssize_t)
    cdef object _take(self, Py_ssize_t at, Py_ssize_t have)
    cdef object _body(self)
    cdef Unpacker _begin(self)
    cdef object _taken(self)

    cpdef object receive_what_came(self)
    @cython.locals(request=Request, call=Call)
    cdef object _handle(self, Call mine)
    @cython.locals(flags=int, call=Call, unpacker=Unpacker)
    cdef object _answer(self, int kind)
    cdef object _special_answer(self, int kind, int flags, Call call, object value)
    cpdef object settle(self, Call call, object value, bint failed)
    @cython.locals(flags=int, number=cython.uint, request=Request, unpacker=Unpacker)
    cdef object _request(self)
    @cython.locals(size=Py_ssize_t)
    cpdef Py_ssize_t frame_bytes(self) except -1
    cpdef bint has_more(self)

    @cython.locals(request=Request)
    cpdef bint serve(self, bint lingers) except? False
    @cython.locals(key=cython.uint, first=Request)
    cdef bint claim(self, Request request) except? False
    cpdef object run_claimed(self, Request request)
    @cython.locals(key=cython.uint, following=Request)
    cdef object _following(self, Request request)
    @cython.locals(key=cython.uint, first=Request, each=Request)
    cpdef object cancel(self, unsigned int number)
    cpdef object run_later(self, object request)
    cdef object _run_inbox_later(self, Call call)
    cpdef object execute(self, Request request)
    @cython.locals(packer=Packer)
    cpdef object answer(self, Request request, object value)
    @cython.locals(call=Call)
    cpdef object fail(self, object error)
