# One call on a TCP stream that may have memory. Errors are a socket's.
from libc.errno cimport EBUSY
from libc.stdint cimport int64_t, uint64_t
from ._core cimport LONG_COPY, note_block
from .stream cimport FS_AT_ONCE
from .switch cimport (
    FS_MAY_SLEEP, FS_LOOKS, fs_carry_is_attached, fs_carry_receive, fs_carry_send, fs_connection, fs_record, fs_table_find,
)
from .system cimport fs_parts

cdef extern from *:
    """
    #include <frameobject.h>

    /* Errors name no lines of these files, as those of `_socket` name none of its own: with a frame for each function on
     * the way a call without a wait that finds nothing takes twice as long. */
    #define PyFrame_New(thread, code, globals, locals) NULL
    """

# Of MSG_*; the numbers are Linux's.
cdef enum:
    IOV_MAX = 1024
    PEEK = 0x02
    TRUNCATE = 0x20
    DONT_WAIT = 0x40
    WAIT_ALL = 0x100
    ERROR_QUEUE = 0x2000
    NO_SIGNAL = 0x4000
    CLOSE_ON_EXEC = 0x40000000

# ---- what the standard object has ----

# Where that is, in bytes from the object.
cdef struct Places:
    Py_ssize_t family, kind, proto
    Py_ssize_t descriptor, timeout  # as far as `are_known`
    bint are_known

cdef Places places
cdef int ask_descriptor(object sock) except? -1
cdef int64_t ask_timeout(object sock) except? -1


cdef inline int number_in(object sock, Py_ssize_t offset) noexcept:
    return (<int *>(<char *><void *>sock + offset))[0]


cdef inline int descriptor_of(object sock) except? -1:
    return number_in(sock, places.descriptor) if places.are_known else ask_descriptor(sock)


# In nanoseconds; negative: none.
cdef inline int64_t timeout_of(object sock) except? -1:
    if places.are_known:
        return (<int64_t *>(<char *><void *>sock + places.timeout))[0]
    return ask_timeout(sock)


cdef inline bint is_tcp_stream(object sock) noexcept:
    return (number_in(sock, places.family) in (2, 10) and number_in(sock, places.kind) & 0xF == 1
            and number_in(sock, places.proto) in (0, 6))


# ---- a stream, for one call ----

cdef struct Stream:
    fs_connection *connection
    int descriptor
    int64_t timeout       # nanoseconds, negative: none
    uint64_t deadline     # 0: not known yet
    fs_record *within     # of fs_carry_send_begins() or fs_carry_receive_begins()


cdef int raise_errno(int number) except -1
cdef int fail(Stream *stream, ssize_t error) except -1


# Whether the core has the socket's stream, for a receive with these flags. The queue of errors is the kernel's.
cdef inline bint find(object sock, Stream *stream, int flags) except -1:
    if flags & ERROR_QUEUE:
        return False
    stream.descriptor = descriptor_of(sock)
    stream.connection = fs_table_find(stream.descriptor)
    if stream.connection == NULL:
        return False
    stream.timeout = timeout_of(sock)
    stream.deadline = 0
    return True


# ---- once, without a wait: bytes, or a negative errno ----

# Takes off the parts what goes.
cdef inline ssize_t put_in(Stream *stream, fs_parts *parts, int how, int flags) noexcept:
    cdef ssize_t result
    if fs_carry_is_attached(stream.connection):
        if <Py_ssize_t>parts.left < LONG_COPY:
            result = fs_carry_send(stream.connection, stream.descriptor, parts, how & ~FS_MAY_SLEEP | FS_AT_ONCE, flags)
            if result != -EBUSY:
                return result
        note_block(parts.left)
    with nogil:
        result = fs_carry_send(stream.connection, stream.descriptor, parts, how, flags)
    return result


cdef inline ssize_t take_out(Stream *stream, char *target, Py_ssize_t length, int how, int flags) noexcept:
    cdef ssize_t result
    if fs_carry_is_attached(stream.connection):
        if length < LONG_COPY:
            result = fs_carry_receive(stream.connection, stream.descriptor, target, length,
                                      how & ~FS_MAY_SLEEP | FS_AT_ONCE, flags)
            if result != -EBUSY:
                return result
        note_block(length)
    with nogil:  # a look asks the interpreter who else runs
        result = fs_carry_receive(stream.connection, stream.descriptor, target, length, how & ~FS_LOOKS, flags)
    return result


# ---- waiting ----

# Sets the deadline of a call that waits for readable or writable, by the socket's timeout or the kernel's.
cdef int begin_deadline(Stream *stream, int what) noexcept
# Whether it is worth trying again, after a moment without the interpreter's lock. If nothing comes of that try,
# carry_wait() is called.
cdef bint carry_wait_awake(fs_connection *connection, int descriptor, int what) except -1
# Until it is worth trying again: 0, or -ETIMEDOUT, or another negative errno. dozes: carry_wait_awake() has just said no, so
# it does not begin by spinning.
cdef int carry_wait(fs_connection *connection, int descriptor, int what, uint64_t deadline, bint dozes) except -1
cdef int share_lock() except -1

# ---- with the socket's waits ----

# What send() does, and sendall() where everything is asked for.
cdef Py_ssize_t send_bytes(Stream *stream, object data, int flags, bint everything) except -1
# The same of a gather, from which what goes is taken off.
cdef Py_ssize_t send_parts(Stream *stream, fs_parts *parts, int flags, bint everything) except -1
cdef object receive_new(Stream *stream, Py_ssize_t size, int flags)
# name: of the method, for messages.
cdef Py_ssize_t receive_into(Stream *stream, object buffer, Py_ssize_t size, int flags, str name) except -1
cdef int take_writable(object buffer, Py_buffer *view, str name) except -1

# The stream goes over TCP from now on, for good.
cdef int go_back(Stream *stream) except -1
