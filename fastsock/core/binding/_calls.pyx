# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The data calls of a socket whose TCP stream may have memory, as `_socket` has them for any socket.

`SocketCalls` is a base of the socket class, before the standard one. A call looks its descriptor up in the core's table.
A TCP stream that is there goes by the core, which knows whether TCP or a ring carries the next byte. For any other
socket, UDP or UNIX, listening or not connected, the call is `_socket`'s own.

Arguments, results, errors, timeouts and signals are `_socket`'s (PEP 475). A call on TCP releases the interpreter's lock
as `_socket` does. With a ring it keeps the lock for a short try and a short look, never for a wait.

Methods are the interpreter's own kind (binding=False), see _core.pyx. The class has no fields, so that it stands beside
`_socket.socket` among the bases of one class. What it needs of that object is read where the object has it: a method of
`_socket` that is called for the descriptor and the timeout makes a byte there and back through a ring a half slower.
"""
cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.long cimport PyLong_AsLong, PyLong_AsLongAndOverflow, PyLong_AsSsize_t
from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject
from libc.errno cimport EAGAIN, EBUSY, EINTR, EPROTO, ETIMEDOUT, errno as last_error
from libc.limits cimport INT_MAX, INT_MIN
from libc.stdint cimport int64_t, uint32_t, uint64_t, UINT32_MAX, UINT64_MAX
from libc.string cimport memcpy
from posix.types cimport off_t
from posix.fcntl cimport F_GETFL, O_NONBLOCK, fcntl as get_flags

from fastsock.core.binding._core cimport (
    Gather, c_end, c_receive, c_send, c_settle, carry_hold, carry_look, carry_receive, carry_receive_begins,
    carry_receive_ended, carry_send, carry_send_begins, carry_send_ended, carry_settle, carry_unread, carry_wait, carry_wait_behind,
    carry_wait_awake, channel_await, channel_receive, channel_send_parts, connection_generation, connection_unwatch,
    connection_watch, desk_other, desk_own, desk_show, doors_entered, doors_pass, doors_share, end_drop, is_channel, is_contended, leave_descriptor, leave_release,
    leave_shutdown, leave_whole_number, note_block, now_ns, option_get, option_set, options_bound, share_lock, table_adopts, table_chunks, table_duplicate, table_enter, table_knows,
    table_lose, table_next,
)
from fastsock.core.binding.stream cimport (
    FS_AT_ONCE, FS_NO_SIGNAL, FS_PATIENT, FS_PEEK, FS_READABLE, FS_UNPOLLED, FS_WRITABLE, fs_end,
)
from fastsock.core.binding.switch cimport (
    FS_LOOKS, FS_MAY_SLEEP, FS_ROLE_ACCEPTED, FS_ROLE_CONNECTED, FS_WILL_WAIT,
    FS_KERNELS_END, fs_carry_is_attached, fs_carry_is_by_ring, fs_carry_sends_by_tcp, fs_connection, fs_desk_closes, fs_record, fs_table_chunk, fs_table_find_in,
)
from fastsock.core.binding.system cimport atomic_fetch_add, atomic_int, fs_parts, iovec

import _socket
import errno as _errno
import os as _os
import sys as _sys

from fastsock.core.binding._core import ProtocolViolation

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

# The table is the core's; each call looks there.
cdef fs_table_chunk *table = table_chunks()


cdef inline fs_connection *table_find(int descriptor) noexcept:
    return fs_table_find_in(table, descriptor)


cdef enum:
    LONG_COPY = 32 * 1024      # from here a ring's copy is made without the interpreter's lock
    SMALL = 4096               # up to here bytes are received first, and made an object of when they are counted

cdef extern from *:
    """
    #include <structmember.h>
    #include <frameobject.h>
    #include <errno.h>
    #include <sys/socket.h>
    #include <sys/time.h>

    /* Errors name no lines of this file, as those of `_socket` name none of its own: with a frame for each function on
     * the way a call without a wait that finds nothing takes twice as long. */
    #define PyFrame_New(thread, code, globals, locals) NULL

    static int raise_errno(int number)
    {
        errno = number;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }

    static PyObject *shortened(PyObject *bytes, Py_ssize_t length) /* takes `bytes` over */
    {
        return _PyBytes_Resize(&bytes, length) < 0 ? NULL : bytes;
    }

    /* SO_RCVTIMEO or SO_SNDTIMEO in nanoseconds, 0: none */
    static int64_t kernel_limit(int descriptor, int receiving)
    {
        struct timeval limit = {0, 0};
        socklen_t size = sizeof(limit);
        if (getsockopt(descriptor, SOL_SOCKET, receiving ? SO_RCVTIMEO : SO_SNDTIMEO, &limit, &size) != 0) return 0;
        return (int64_t)limit.tv_sec * 1000000000 + (int64_t)limit.tv_usec * 1000;
    }
    """
    int raise_errno(int number) except -1
    object shortened(PyObject *bytes, Py_ssize_t length)
    int64_t kernel_limit(int descriptor, int receiving) nogil

cdef extern from "<sys/socket.h>" nogil:
    ssize_t kernel_recv "recv" (int descriptor, void *target, size_t length, int flags)

cdef extern from "<sys/sendfile.h>" nogil:
    ssize_t kernel_sendfile "sendfile" (int out, int into, off_t *offset, size_t count)

cdef extern from "Python.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
    PyObject *new_bytes "PyBytes_FromStringAndSize" (const char *data, Py_ssize_t length) except NULL
    char *bytes_at "PyBytes_AS_STRING" (PyObject *bytes) noexcept
    void Py_DECREF(PyObject *object)
    bint PyLong_Check(object candidate) noexcept

cdef object plain_class = _socket.socket
cdef object plain_connect = _socket.socket.connect, plain_connect_ex = _socket.socket.connect_ex
cdef object close_number = _socket.close, plain_close = _socket.socket.close, plain_detach = _socket.socket.detach
cdef object plain_del = _socket.socket.__del__, plain_shutdown = _socket.socket.shutdown
cdef object plain_fileno = _socket.socket.fileno, plain_timeout = _socket.socket.gettimeout
cdef object plain_name = _socket.socket.getpeername
cdef object plain_setsockopt = _socket.socket.setsockopt, plain_getsockopt = _socket.socket.getsockopt
cdef object plain_recv = _socket.socket.recv, plain_recv_into = _socket.socket.recv_into
cdef object plain_recvfrom = _socket.socket.recvfrom, plain_recvfrom_into = _socket.socket.recvfrom_into
cdef object plain_recvmsg = _socket.socket.recvmsg, plain_recvmsg_into = _socket.socket.recvmsg_into
cdef object plain_send = _socket.socket.send, plain_sendall = _socket.socket.sendall
cdef object plain_sendto = _socket.socket.sendto, plain_sendmsg = _socket.socket.sendmsg


# ---- what the standard object has ----

cdef Py_ssize_t offset_of(object member):
    return (<PyMemberDescrObject *>member).d_member.offset


cdef Py_ssize_t family_at = offset_of(_socket.socket.family)
cdef Py_ssize_t kind_at = offset_of(_socket.socket.type)
cdef Py_ssize_t proto_at = offset_of(_socket.socket.proto)
# These two are no members that Python shows. They stand around those that are, which is looked at below.
cdef Py_ssize_t descriptor_at = family_at - sizeof(int)
cdef Py_ssize_t timeout_at = proto_at + sizeof(int) + sizeof(void *)  # behind a pointer; nanoseconds, negative: none
cdef bint layout_is_known = False


cdef inline int number_in(object sock, Py_ssize_t offset) noexcept:
    return (<int *>(<char *><void *>sock + offset))[0]


cdef inline int descriptor_of(object sock) except? -1:
    return number_in(sock, descriptor_at) if layout_is_known else plain_fileno(sock)


cdef inline int64_t timeout_of(object sock) except? -1:
    if layout_is_known:
        return (<int64_t *>(<char *><void *>sock + timeout_at))[0]
    timeout = plain_timeout(sock)
    return -1 if timeout is None else <int64_t>(<double>timeout * 1e9)


cdef bint is_as_known() except -1:
    cdef int64_t seen
    sock = _socket.socket()
    try:
        if number_in(sock, descriptor_at) != plain_fileno(sock) or timeout_at % sizeof(int64_t):
            return False
        for timeout, low, high in ((1.25, 1250000000, 1250000000), (0, 0, 0), (None, -(1 << 62), -1)):
            sock.settimeout(timeout)
            seen = (<int64_t *>(<char *><void *>sock + timeout_at))[0]
            if not low <= seen <= high:
                return False
    finally:
        sock.close()
    return True


layout_is_known = is_as_known()


cdef inline bint is_tcp_stream(object sock) noexcept:
    return number_in(sock, family_at) in (2, 10) and number_in(sock, kind_at) & 0xF == 1 and number_in(sock, proto_at) in (0, 6)


# ---- arguments, as `_socket` reads them ----

cdef inline int as_int(object value) except? -1:
    cdef long number = PyLong_AsLong(value)
    if number > INT_MAX:
        raise OverflowError("signed integer is greater than maximum")
    if number < INT_MIN:
        raise OverflowError("signed integer is less than minimum")
    return <int>number


cdef inline Py_ssize_t as_size(object value) except? -1:
    return PyLong_AsSsize_t(value) if PyLong_Check(value) else PyLong_AsSsize_t(PyNumber_Index(value))


cdef Py_ssize_t as_room(Py_ssize_t wanted, Py_ssize_t there, str name) except -1:
    if wanted < 0:
        raise ValueError(f"negative buffersize in {name}")
    if wanted > there:
        raise ValueError("buffer too small for requested bytes" if name == "recv_into" else
                         "nbytes is greater than the length of the buffer")
    return wanted or there


cdef list as_list(object buffers, str name):
    try:
        return list(buffers)
    except TypeError:
        raise TypeError(f"{name}() argument 1 must be an iterable") from None


cdef int take_writable(object buffer, Py_buffer *view, str name) except -1:
    try:
        PyObject_GetBuffer(buffer, view, PyBUF_WRITABLE)
    except (BufferError, TypeError):
        if name == "recvmsg_into":
            raise TypeError("recvmsg_into() argument 1 must be an iterable of single-segment read-write buffers") from None
        raise TypeError(f"{name}() argument 1 must be read-write bytes-like object, not {type(buffer).__name__}") from None
    return 0


# ---- a stream, for one call ----

cdef struct Stream:
    fs_connection *connection
    int descriptor
    int64_t timeout       # nanoseconds, negative: none
    uint64_t deadline     # 0: not known yet
    fs_record *within     # of carry_send_begins() or carry_receive_begins()


cdef inline bint find(object sock, Stream *stream, int flags) except -1:
    """Whether the core has the socket's stream, for a receive with these flags. The queue of errors is the kernel's."""
    if flags & ERROR_QUEUE:
        return False
    stream.descriptor = descriptor_of(sock)
    stream.connection = table_find(stream.descriptor)
    if stream.connection == NULL:
        return False
    stream.timeout = timeout_of(sock)
    stream.deadline = 0
    return True


cdef int fail(Stream *stream, ssize_t error) except -1:
    if error == -EPROTO:
        peer = _socket.socket(fileno=stream.descriptor)
        try:
            name = plain_name(peer)
        except OSError:
            name = "a peer that has left"
        finally:
            plain_detach(peer)
        raise ProtocolViolation(EPROTO, f"shm path to {name}: the other end wrote impossible values into the shared memory"
                                " or bytes past it onto TCP; close this connection")
    return raise_errno(<int>-error)


cdef inline bint waits(const Stream *stream, int flags) noexcept:
    """A timeout is kept by poll() before the call, so that MSG_DONTWAIT means nothing to it."""
    return stream.timeout > 0 or stream.timeout < 0 and not flags & DONT_WAIT


cdef int timed_out(Stream *stream) except -1:
    if stream.timeout < 0:
        return raise_errno(EAGAIN)  # so SO_RCVTIMEO and SO_SNDTIMEO end a call
    raise TimeoutError("timed out")


cdef int begin_deadline(Stream *stream, int what) noexcept:
    cdef int64_t limit = stream.timeout
    if limit < 0:
        limit = kernel_limit(stream.descriptor, what == FS_READABLE)
    stream.deadline = now_ns() + <uint64_t>limit if limit > 0 else UINT64_MAX
    return 0


cdef bint wait(Stream *stream, int what, bint looked, bint again, bint has_part) except -1:
    """Until it is worth trying again. False: the call's time is over, and it tells of the part that it has.

    looked: for a moment with the interpreter's lock, in vain. again: the last wait of this call was followed by nothing.
    What looks ready may be a lie of the other end, told for ever: then the deadline holds each time.
    What bounds the call is asked of the kernel only when it sleeps.
    """
    cdef int result
    cdef bint attached = fs_carry_is_attached(stream.connection)
    if attached and not again:
        if not looked and carry_look(stream.connection, stream.descriptor, what):
            return True
        if carry_wait_awake(stream.connection, stream.descriptor, what):
            return True
    if attached and stream.timeout < 0 and get_flags(stream.descriptor, F_GETFL) & O_NONBLOCK:
        result = -ETIMEDOUT  # it was set behind the socket's back
    else:
        if stream.deadline == 0:
            begin_deadline(stream, what)
        result = carry_wait(stream.connection, stream.descriptor, what, stream.deadline, not again)
    if result == 0:
        return True
    if result != -ETIMEDOUT:
        fail(stream, result)
    if not has_part:
        timed_out(stream)
    return False


# ---- sending ----

cdef ssize_t send_once(Stream *stream, fs_parts *parts, int flags):
    """Takes off the parts what goes."""
    cdef int how = FS_NO_SIGNAL if flags & NO_SIGNAL else 0
    if waits(stream, flags):
        how |= FS_PATIENT if stream.timeout > 0 else FS_PATIENT | FS_MAY_SLEEP
    return put_in(stream, parts, how, flags)


cdef inline ssize_t put_in(Stream *stream, fs_parts *parts, int how, int flags):
    cdef ssize_t result
    if fs_carry_is_attached(stream.connection):
        if <Py_ssize_t>parts.left < LONG_COPY:
            result = carry_send(stream.connection, stream.descriptor, parts, how & ~FS_MAY_SLEEP | FS_AT_ONCE, flags)
            if result != -EBUSY:
                return result
        note_block(parts.left)
    with nogil:
        result = carry_send(stream.connection, stream.descriptor, parts, how, flags)
    return result


cdef Py_ssize_t send_parts(Stream *stream, fs_parts *parts, int flags, bint everything) except -1:
    """What send() does, and sendall() where everything is asked for."""
    cdef Py_ssize_t done = 0
    cdef ssize_t result
    cdef bint again = False
    while True:
        if stream.timeout > 0 and fs_carry_sends_by_tcp(stream.connection):
            wait(stream, FS_WRITABLE, False, False, False)  # writable means a third of the kernel's buffer
        result = send_once(stream, parts, flags)
        if result >= 0:
            done += result
            if parts.left == 0:
                return done
            # a ring takes less at once than the kernel's blocking send
            if not everything and not (stream.timeout < 0 and waits(stream, flags)
                                       and fs_carry_is_attached(stream.connection)):
                return done
            PyErr_CheckSignals()
            again = False
            if everything and stream.timeout > 0:
                if stream.deadline == 0:
                    begin_deadline(stream, FS_WRITABLE)
                elif now_ns() >= stream.deadline:
                    timed_out(stream)
            continue
        if result == -EINTR:
            PyErr_CheckSignals()
            continue
        if result == -EAGAIN and waits(stream, flags):
            if not wait(stream, FS_WRITABLE, False, again, done > 0 and not everything):
                return done
            again = True
            continue
        if done > 0 and not everything:
            return done  # the error comes again
        fail(stream, -EAGAIN if result == FS_KERNELS_END else result)


cdef Py_ssize_t send_bytes(Stream *stream, object data, int flags, bint everything) except -1:
    cdef Py_buffer view
    cdef iovec part
    cdef fs_parts parts
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        part.iov_base, part.iov_len = view.buf, view.len
        parts.next, parts.count, parts.left = &part, 1, view.len
        return send_parts(stream, &parts, flags, everything)
    finally:
        PyBuffer_Release(&view)


# ---- receiving ----

cdef ssize_t receive_once(Stream *stream, char *target, Py_ssize_t length, int flags, bint looks):
    """looks: for a moment with the interpreter's lock, where nothing is there and a ring carries the bytes."""
    cdef int how = FS_PEEK if flags & PEEK else 0
    if waits(stream, flags):
        how |= FS_WILL_WAIT if stream.timeout > 0 else FS_WILL_WAIT | FS_MAY_SLEEP
        if looks:
            how |= FS_LOOKS
    return take_out(stream, target, length, how, flags)


cdef inline ssize_t take_out(Stream *stream, char *target, Py_ssize_t length, int how, int flags):
    cdef ssize_t result
    if fs_carry_is_attached(stream.connection):
        if length < LONG_COPY:
            result = carry_receive(stream.connection, stream.descriptor, target, length, how & ~FS_MAY_SLEEP | FS_AT_ONCE, flags)
            if result != -EBUSY:
                return result
        note_block(length)
    with nogil:  # a look asks the interpreter who else runs
        result = carry_receive(stream.connection, stream.descriptor, target, length, how & ~FS_LOOKS, flags)
    return result


cdef Py_ssize_t receive(Stream *stream, char *target, Py_ssize_t length, int flags) except -1:
    cdef Py_ssize_t done = 0
    cdef ssize_t result
    cdef bint again = False, looked
    if fs_carry_is_attached(stream.connection):
        if is_contended():
            share_lock()
    elif flags & WAIT_ALL and stream.timeout < 0 and carry_receive_begins(stream.connection, stream.descriptor, True, &stream.within) == 0:
        return receive_all(stream, target, length, flags)
    elif stream.timeout > 0:
        wait(stream, FS_READABLE, False, False, False)  # an answer is mostly still to come
    while True:
        looked = fs_carry_is_attached(stream.connection) and length - done < LONG_COPY
        result = receive_once(stream, target + done, length - done, flags, not again)
        if result > 0:
            done += result
            if flags & PEEK and done < length and flags & WAIT_ALL and stream.timeout < 0 and waits(stream, flags):
                if not wait_behind(stream):
                    flags &= ~WAIT_ALL  # what there is now is all that comes
                done = 0
                continue
            if done >= length or flags & PEEK or not flags & WAIT_ALL or stream.timeout >= 0 or flags & DONT_WAIT:
                return done
            PyErr_CheckSignals()
            again = False
        elif result == 0:
            return done
        elif result == -EINTR:
            PyErr_CheckSignals()
        elif result == -EAGAIN and waits(stream, flags):
            if not wait(stream, FS_READABLE, looked, again, done > 0):
                return done
            again = True
        elif done > 0:
            return done  # the error comes again
        else:
            fail(stream, -EAGAIN if result == FS_KERNELS_END else result)


cdef bint wait_behind(Stream *stream) except -1:
    """Between two peeks of a call that waits for all. False: no more comes, or the call's time is over."""
    cdef int result
    if stream.deadline == 0:
        begin_deadline(stream, FS_READABLE)
    with nogil:
        result = carry_wait_behind(stream.connection, stream.descriptor)
    PyErr_CheckSignals()
    if result < 0 and result != -EINTR:
        fail(stream, result)
    return result <= 0 and now_ns() < stream.deadline


cdef Py_ssize_t receive_all(Stream *stream, char *target, Py_ssize_t length, int flags) except -1:
    """MSG_WAITALL by the kernel's own call, after carry_receive_begins()."""
    cdef ssize_t got
    cdef int before
    while True:
        with nogil:
            before = doors_pass(stream.descriptor)
            got = kernel_recv(stream.descriptor, target, length, flags)
            if got < 0:
                got = -last_error
            doors_pass(before)
        got = carry_receive_ended(stream.connection, stream.descriptor, True, stream.within, got, flags & PEEK)
        if got != -EINTR:
            break
        PyErr_CheckSignals()
        if carry_receive_begins(stream.connection, stream.descriptor, True, &stream.within) != 0:
            return receive(stream, target, length, flags)
    if got < 0:
        fail(stream, got)
    return got


cdef object receive_new(Stream *stream, Py_ssize_t size, int flags):
    """Receives into new bytes."""
    cdef Py_ssize_t room = size, got
    cdef ssize_t unread
    cdef PyObject *data
    if size == 0:
        return b""
    if fs_carry_is_attached(stream.connection) and not flags & (WAIT_ALL | TRUNCATE):
        if size <= SMALL:
            return receive_small_first(stream, size, flags)
        # what is there is mostly far less than what the caller would take
        unread = carry_unread(stream.connection, stream.descriptor)
        if unread <= 0:
            return receive_small_first(stream, size, flags)
        room = min(size, <Py_ssize_t>unread)
    data = new_bytes(NULL, room)
    try:
        got = receive(stream, bytes_at(data), room, flags)
    except:
        Py_DECREF(data)
        raise
    return shortened(data, got)


cdef object receive_small_first(Stream *stream, Py_ssize_t size, int flags):
    """Little is wanted, or nothing there yet: receives up to what a small block holds, then looks how much more there is."""
    cdef char first[SMALL]
    cdef Py_ssize_t got = receive(stream, first, min(size, <Py_ssize_t>sizeof(first)), flags)
    cdef Py_ssize_t kept = 0 if flags & PEEK else got, room  # a peek sees the same bytes again
    cdef ssize_t more
    if got < <Py_ssize_t>sizeof(first) or size == got:
        return PyBytes_FromStringAndSize(first, got)
    room = kept + min(size - kept, <Py_ssize_t>max(carry_unread(stream.connection, stream.descriptor), 0))
    if room <= got:
        return PyBytes_FromStringAndSize(first, got)
    data = PyBytes_FromStringAndSize(NULL, room)
    more = receive_once(stream, PyBytes_AS_STRING(data) + kept, room - kept, flags | DONT_WAIT, False)
    if more <= 0:  # another reader was faster; an error comes again
        return PyBytes_FromStringAndSize(first, got)
    memcpy(PyBytes_AS_STRING(data), first, kept)
    return data if kept + more == room else data[:kept + more]


cdef Py_ssize_t receive_into(Stream *stream, object buffer, Py_ssize_t size, int flags, str name) except -1:
    cdef Py_buffer view
    take_writable(buffer, &view, name)
    try:
        size = as_room(size, view.len, name)
        return 0 if size == 0 else receive(stream, <char *>view.buf, size, flags)
    finally:
        PyBuffer_Release(&view)


cdef int go_back(Stream *stream) except -1:
    """The stream goes over TCP from now on, for good."""
    cdef int result
    with nogil:
        result = leave_release(stream.connection, stream.descriptor)
    if result < 0:
        fail(stream, result)
    return 0


cdef long TCP_LEVEL = _socket.IPPROTO_TCP, SOCKET_LEVEL = _socket.SOL_SOCKET
cdef long NO_DELAY = _socket.TCP_NODELAY, CORK = _socket.TCP_CORK, LOW_WATER = _socket.SO_RCVLOWAT
cdef long SEND_BUFFER = _socket.SO_SNDBUF, RECEIVE_BUFFER = _socket.SO_RCVBUF, LAST_ERROR = _socket.SO_ERROR


cdef long option_number(object value) except? -2:
    """-1: it names no option."""
    cdef int overflow = 0
    cdef long number = PyLong_AsLongAndOverflow(value, &overflow) if PyLong_Check(value) else -1
    return -1 if overflow else number


cdef bint is_kept(object level, object option) except -1:
    """Whether another value may hold underneath while memory is attached."""
    cdef long at = option_number(level), which = option_number(option)
    return at == TCP_LEVEL and which in (NO_DELAY, CORK) or at == SOCKET_LEVEL and which == LOW_WATER


cdef bint is_error(object level, object option) except -1:
    """Whether it is the option by which the kernel tells an error once, which it may have told a token's send."""
    return option_number(level) == SOCKET_LEVEL and option_number(option) == LAST_ERROR


cdef bint is_buffer(object level, object option) except -1:
    return option_number(level) == SOCKET_LEVEL and option_number(option) in (SEND_BUFFER, RECEIVE_BUFFER)


cdef object elsewhere = None


def also_serve(calls):
    """The data calls of sockets that have left TCP, as functions of that module. They have `_fast_connection`."""
    global elsewhere
    elsewhere = calls


cdef inline object other(object sock, str name, object plain):
    """The call of a socket whose stream the core does not have."""
    if elsewhere is None:
        return plain
    connection = getattr(sock, "_fast_connection", None)
    return plain if connection is None or connection.is_tcp else getattr(elsewhere, name)


cdef class SocketCalls:
    """The data calls of a socket. A class has it as a base before `socket.socket`."""

    def __cinit__(self):
        raise TypeError("SocketCalls is a base for classes of sockets")

    # ---- from connect() to close() ----

    def connect(self, address, /):
        """As socket.connect()."""
        if doors and not is_up_to_date():
            follow_settings()
        try:
            plain_connect(self, address)
        except BlockingIOError:
            enter(self, FS_ROLE_CONNECTED, address)
            raise
        enter(self, FS_ROLE_CONNECTED, address)

    def connect_ex(self, address, /):
        """As socket.connect_ex()."""
        if doors and not is_up_to_date():
            follow_settings()
        result = plain_connect_ex(self, address)
        if result == 0 or result == _errno.EINPROGRESS:
            enter(self, FS_ROLE_CONNECTED, address)
        return result

    def _real_close(self, _ss=_socket.socket):
        cdef int descriptor = descriptor_of(self)
        if table_find(descriptor) != NULL:
            plain_detach(self)  # first: what another thread begins now must not go past the memory
            leave_number(descriptor)
            close_number(descriptor)
        if _ss is plain_class:
            plain_close(self)
        else:
            _ss.close(self)

    def __del__(self):
        cdef int descriptor
        if type(self) is SocketCalls:  # which was refused
            return
        descriptor = descriptor_of(self)
        if descriptor >= 0:  # what is closed has nothing more to do
            leave_number(descriptor)
            plain_del(self)

    def fileno(self):
        """As socket.fileno(). Whoever asks may poll the number, or use it by C code."""
        cdef int descriptor = descriptor_of(self)
        if doors:
            return descriptor
        if table_find(descriptor) != NULL:
            ask_for(descriptor, True)
        elif descriptor >= 0 and is_tcp_stream(self):
            ask_for(descriptor, False)
        return descriptor

    def shutdown(self, how, /):
        """As socket.shutdown()."""
        cdef Stream stream
        cdef int half = as_int(how), result
        if not find(self, &stream, 0):
            plain_shutdown(self, how)
            return
        with nogil:
            result = leave_shutdown(stream.connection, stream.descriptor, half)
        if result < 0:
            fail(&stream, result)

    def setsockopt(self, level, option, *value):
        """As socket.setsockopt()."""
        cdef Stream stream
        cdef int done
        if is_kept(level, option) and len(value) == 1 and type(value[0]) in (int, bool) and find(self, &stream, 0):
            if option == LOW_WATER and as_int(value[0]) > 1 and fs_carry_is_attached(stream.connection):
                with nogil:  # TCP alone waits for so many; where unread bytes are in the way, nobody does
                    leave_release(stream.connection, stream.descriptor)
            done = option_set(stream.connection, stream.descriptor, level, option, as_int(value[0]))
            if done < 0:
                fail(&stream, done)
            if done:
                return
        plain_setsockopt(self, level, option, *value)
        if is_buffer(level, option) and find(self, &stream, 0):
            with nogil:
                options_bound(stream.connection, stream.descriptor)

    def getsockopt(self, level, option, *length):
        """As socket.getsockopt()."""
        cdef Stream stream
        cdef int value = 0, done
        if (is_kept(level, option) or is_error(level, option)) and not length and find(self, &stream, 0):
            done = option_get(stream.connection, stream.descriptor, level, option, &value)
            if done < 0:
                fail(&stream, done)
            if done:
                return value
        return plain_getsockopt(self, level, option, *length)

    # ---- sending ----

    def send(self, data, flags=0, /):
        """As socket.send()."""
        cdef Stream stream
        cdef int number = as_int(flags)
        if not find(self, &stream, 0):
            return other(self, "send", plain_send)(self, data, flags)
        return send_bytes(&stream, data, number, False)

    def sendall(self, data, flags=0, /):
        """As socket.sendall()."""
        cdef Stream stream
        cdef int number = as_int(flags)
        if not find(self, &stream, 0):
            other(self, "sendall", plain_sendall)(self, data, flags)
            return
        send_bytes(&stream, data, number, True)

    def sendto(self, data, *rest):
        """As socket.sendto()."""
        cdef Stream stream
        cdef int number = as_int(rest[0]) if len(rest) == 2 else 0
        if not 1 <= len(rest) <= 2 or not find(self, &stream, 0):
            return other(self, "sendto", plain_sendto)(self, data, *rest)
        return send_bytes(&stream, data, number, False)  # a connected TCP stream ignores the address

    def sendmsg(self, buffers, ancdata=(), flags=0, address=None, /):
        """As socket.sendmsg()."""
        cdef Stream stream
        cdef Gather gather
        cdef int number = as_int(flags)
        if not find(self, &stream, 0):
            return other(self, "sendmsg", plain_sendmsg)(self, buffers, ancdata, flags, address)
        buffers = as_list(buffers, "sendmsg")
        if ancdata or address is not None:
            if carry_send_begins(stream.connection, stream.descriptor, False, &stream.within) == 0:
                return send_as_it_is(self, &stream, buffers, ancdata, flags, address)
            # a TCP stream ignores them if they are well-formed, else it refuses them
            check_arguments(plain_sendmsg, ([], ancdata, number | NO_SIGNAL, address))
        if len(buffers) > IOV_MAX:
            raise_errno(_errno.EMSGSIZE)
        gather = Gather.__new__(Gather)
        gather.take(buffers)
        return send_parts(&stream, &gather.parts, number, False)

    # ---- receiving ----

    def recv(self, bufsize, flags=0, /):
        """As socket.recv()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(bufsize)
        cdef int number = as_int(flags)
        if size < 0:
            raise ValueError("negative buffersize in recv")
        if not find(self, &stream, number):
            return other(self, "recv", plain_recv)(self, bufsize, flags)
        return receive_new(&stream, size, number)

    def recv_into(self, buffer, nbytes=0, flags=0):
        """As socket.recv_into()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(nbytes)
        cdef int number = as_int(flags)
        if not find(self, &stream, number):
            return other(self, "recv_into", plain_recv_into)(self, buffer, nbytes, flags)
        return receive_into(&stream, buffer, size, number, "recv_into")

    def recvfrom(self, bufsize, flags=0, /):
        """As socket.recvfrom()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(bufsize)
        cdef int number = as_int(flags)
        if size < 0:
            raise ValueError("negative buffersize in recvfrom")
        if not find(self, &stream, number):
            return other(self, "recvfrom", plain_recvfrom)(self, bufsize, flags)
        return receive_new(&stream, size, number), None

    def recvfrom_into(self, buffer, nbytes=0, flags=0):
        """As socket.recvfrom_into()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(nbytes)
        cdef int number = as_int(flags)
        if not find(self, &stream, number):
            return other(self, "recvfrom_into", plain_recvfrom_into)(self, buffer, nbytes, flags)
        return receive_into(&stream, buffer, size, number, "recvfrom_into"), None

    def recvmsg(self, bufsize, ancbufsize=0, flags=0, /):
        """As socket.recvmsg()."""
        cdef Stream stream
        cdef Py_ssize_t size = as_size(bufsize)
        cdef int number = as_int(flags)
        if size < 0:
            raise ValueError("negative buffer size in recvmsg()")
        if not find(self, &stream, number):
            return other(self, "recvmsg", plain_recvmsg)(self, bufsize, ancbufsize, flags)
        if as_size(ancbufsize) != 0:
            if carry_receive_begins(stream.connection, stream.descriptor, number & WAIT_ALL, &stream.within) == 0:
                told = receive_as_it_is(self, &stream, bufsize, ancbufsize, flags)
                if told is not None:
                    return told
            check_arguments(plain_recvmsg, (0, ancbufsize, number))
        return receive_new(&stream, size, number), [], number & CLOSE_ON_EXEC, None

    def recvmsg_into(self, buffers, ancbufsize=0, flags=0, /):
        """As socket.recvmsg_into()."""
        cdef Stream stream
        cdef Py_ssize_t taken = 0, count
        cdef int number = as_int(flags)
        if not find(self, &stream, number):
            return other(self, "recvmsg_into", plain_recvmsg_into)(self, buffers, ancbufsize, flags)
        buffers = as_list(buffers, "recvmsg_into")
        if as_size(ancbufsize) != 0 or not buffers:
            check_arguments(plain_recvmsg_into, (buffers, ancbufsize, number))
        if len(buffers) == 1:
            return receive_into(&stream, buffers[0], 0, number, "recvmsg_into"), [], number & CLOSE_ON_EXEC, None
        views = [writable(buffer) for buffer in buffers]
        # One receive, whose bytes are spread over the buffers: a second receive would wait.
        data = memoryview(receive_new(&stream, sum([len(view) for view in views]), number))
        for view in views:
            count = min(<Py_ssize_t>len(view), <Py_ssize_t>len(data) - taken)
            view[:count] = data[taken:taken + count]
            taken += count
        return taken, [], number & CLOSE_ON_EXEC, None


include "carrier.pxi"
include "watching.pxi"


cdef object send_as_it_is(object sock, Stream *stream, list buffers, object ancdata, object flags, object address):
    """By `_socket`'s own call, after carry_send_begins()."""
    cdef ssize_t moved = -1
    cdef int before = doors_pass(stream.descriptor)
    try:
        moved = plain_sendmsg(sock, buffers, ancdata, flags, address)
    finally:
        doors_pass(before)
        carry_send_ended(stream.connection, stream.descriptor, stream.within, moved)
    return moved


cdef object receive_as_it_is(object sock, Stream *stream, object bufsize, object ancbufsize, object flags):
    """By `_socket`'s own call, after carry_receive_begins(). None: nothing came but tokens."""
    cdef ssize_t moved = -1, payload = -1
    cdef int number = as_int(flags)
    cdef bint peeked = number & PEEK != 0
    cdef int before = doors_pass(stream.descriptor)
    try:
        data, ancillary, kinds, address = plain_recvmsg(sock, bufsize, ancbufsize, flags)
        moved = len(data)
    finally:
        doors_pass(before)
        payload = carry_receive_ended(stream.connection, stream.descriptor, number & WAIT_ALL, stream.within, moved, peeked)
    if payload < 0:
        return None
    return data if payload == moved else data[:payload], ancillary, kinds, address


cdef object writable(object buffer):
    cdef Py_buffer view
    take_writable(buffer, &view, "recvmsg_into")
    PyBuffer_Release(&view)
    return memoryview(buffer).cast("B")


cdef int check_arguments(object call, tuple arguments) except -1:
    """Raises the error that `call` of the standard class raises for malformed arguments. Moves no byte."""
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        probe.setblocking(False)
        call(probe, *arguments)
    except OSError:
        pass  # well-formed: only the probe is not connected
    finally:
        probe.close()
    return 0


# ---- the table, for the class and for whoever knows a number ----

cdef int enter(object sock, int role, object address) except -1:
    """A stream that is connected, or about to be, to that address, where this end connects."""
    cdef int descriptor = descriptor_of(sock)
    if doors:
        if table_find(descriptor) != NULL:
            greet(descriptor, role, address)
    elif is_tcp_stream(sock) and (role == FS_ROLE_ACCEPTED or table_find(descriptor) == NULL):
        prepare()
        # where there is no place for it, it is a plain socket
        if table_enter(descriptor, role) == 0:
            atomic_fetch_add(&entries, 1)
            if early:
                heed_early(descriptor, role)
            if role == FS_ROLE_CONNECTED and 0 <= descriptor < MOST_NUMBERS and made_at[descriptor] not in (0, forks):
                give_away(descriptor)
            if ruling is not None:
                ruling(descriptor, address)
    return 0


# Where the preloaded library shares its table, its doors let connections in, those of the class among them.
cdef bint doors = False


def share_doors(bint wanted):
    """Whether the preloaded library serves C code on the sockets of the class. wanted: else it stands aside."""
    global doors
    doors = doors_share(wanted)
    if doors and obeying is not None:
        follow_settings()  # they hold for what comes in by the doors, too
    return doors


def has_doors():
    """Whether it does."""
    return doors


cdef int greet(int descriptor, int role, object address) except -1:
    """A door has let it in, by the settings that were in force then."""
    if role == FS_ROLE_ACCEPTED and not is_up_to_date():
        follow_settings()
        table_enter(descriptor, role)
    prepare()
    if ruling is not None:
        ruling(descriptor, address)
    return 0


cdef inline bint is_up_to_date() except -1:
    return obeying is None or settings_of.get("current") is followed


cdef inline int prepare() except -1:
    global beginning
    if not is_up_to_date():
        follow_settings()
    if beginning is not None:
        hook, beginning = beginning, None
        hook()
    return 0


cdef object ruling = None


def rule_by(hook):
    """Calls hook(descriptor, address) for each stream that comes into the table, with connect()'s address. None: no hook."""
    global ruling
    ruling = hook


cdef object beginning = None
cdef object NOTHING = object()
cdef dict settings_of = {}  # where the settings in force are
cdef object followed = NOTHING, obeying = None


cdef int follow_settings() except -1:
    global followed
    obeying()  # which reads them, where nobody has yet
    followed = settings_of.get("current")
    return 0


def follow(dict where, hook):
    """Calls hook() when a connection comes into the table and where["current"] are others than before."""
    global settings_of, obeying
    obeying, settings_of = hook, where
cdef atomic_int entries = 0


def entered():
    """How many connections came into the table in this process."""
    return atomic_fetch_add(&entries, 0) + doors_entered()


def before_next(hook):
    """Calls hook() before the table gets its next connection."""
    global beginning
    beginning = hook


def accepted(sock):
    """The kernel has accepted the stream of `sock`."""
    enter(sock, FS_ROLE_ACCEPTED, None)


def connected(sock, address):
    """The kernel has connected the stream of `sock` to that address, or is about to."""
    enter(sock, FS_ROLE_CONNECTED, address)


cpdef int is_new(int descriptor) except -1:
    """The kernel has made a file of that number: what the table has of it was closed without a word, and who asked for the
    number before asked for another file's."""
    if table_find(descriptor) != NULL:
        table_lose(descriptor)
    if early:
        early.pop(descriptor, None)
    if 0 <= descriptor < MOST_NUMBERS:
        made_at[descriptor] = forks
    return 0


# Between socket() and connect() a forked child got the number too, or a duplicate was made. What comes and goes by that
# nobody would see.
cdef enum:
    MOST_NUMBERS = 1 << 16

cdef uint32_t forks = 1
cdef uint32_t made_at[MOST_NUMBERS]  # `forks` as the number's socket was made; 0: other code made it


def _note_fork():
    global forks
    forks += 1


_os.register_at_fork(before=_note_fork)


cdef int is_shared(int descriptor) except -1:
    """Another number has the same socket."""
    if 0 <= descriptor < MOST_NUMBERS and table_find(descriptor) == NULL:
        made_at[descriptor] = UINT32_MAX
    return 0


cdef int give_away(int descriptor) except -1:
    cdef fs_connection *connection = table_find(descriptor)
    if connection != NULL:
        with nogil:
            leave_release(connection, descriptor)
    return 0


cdef int is_adopted(int descriptor) except -1:
    """A socket object takes the number over. C code may have closed it unseen, and another file has it by now; or C code
    has made it, as a duplicate."""
    table_adopts(descriptor)
    if 0 <= descriptor < MOST_NUMBERS and made_at[descriptor] != UINT32_MAX:  # which this module has duplicated
        made_at[descriptor] = 0
    if early:
        early.pop(descriptor, None)
    return 0


def begins(sock, fileno):
    """The object has a number: of a file that the kernel has made, where `fileno` is None; else that one."""
    if fileno is None:
        is_new(descriptor_of(sock))
    else:
        is_adopted(descriptor_of(sock))


def is_tcp(sock):
    """Whether it is a TCP stream."""
    return is_tcp_stream(sock)


def is_known(int descriptor):
    """Whether the table has the stream of that number."""
    return table_find(descriptor) != NULL


def duplicated(int descriptor, int number):
    """`number` is a duplicate of the descriptor."""
    is_shared(descriptor)
    is_shared(number)
    table_duplicate(descriptor, number)


def forget(int descriptor):
    """Before the number is closed, or means another file."""
    leave_number(descriptor)


def name_of(int descriptor):
    """What tells the connection of that number from all others that the process has or had, or None."""
    cdef fs_connection *connection = table_find(descriptor)
    return None if connection == NULL else (<size_t>connection, connection_generation(connection))


def release(int descriptor):
    """Other code reads and writes the number next: TCP carries all bytes from now on. Raises OSError."""
    cdef Stream stream
    stream.descriptor = descriptor
    stream.connection = table_find(descriptor)
    if stream.connection != NULL:
        go_back(&stream)


def descriptors():
    """The numbers in the table."""
    cdef int descriptor = table_next(0)
    found = []
    while descriptor >= 0:
        found.append(descriptor)
        descriptor = table_next(descriptor + 1)
    return found


@cython.final
@cython.freelist(8)
cdef class Numbered:
    """The data calls of a number in the table, for what takes a number in place of a socket."""
    cdef int descriptor

    def __init__(self, int descriptor):
        self.descriptor = descriptor

    cdef int find(self, Stream *stream) except -1:
        stream.descriptor = self.descriptor
        stream.connection = table_find(self.descriptor)
        if stream.connection == NULL:
            raise_errno(_errno.EBADF)
        stream.timeout = -1
        stream.deadline = 0
        return 0

    def recv(self, Py_ssize_t size, int flags=0, /):
        """As os.read(), with flags."""
        cdef Stream stream
        self.find(&stream)
        return receive_new(&stream, size, flags)

    def send(self, data, int flags=0, /):
        """As os.write(), with flags."""
        cdef Stream stream
        self.find(&stream)
        return send_bytes(&stream, data, flags, False)

    def send_file(self, int file, object offset, Py_ssize_t count):
        """As os.sendfile(). None where a ring carries the bytes, so that the caller has to copy them."""
        cdef Stream stream
        cdef off_t position = 0
        cdef ssize_t sent
        cdef int before
        if offset is not None:
            position = offset
        self.find(&stream)
        while True:
            if carry_send_begins(stream.connection, stream.descriptor, False, &stream.within) != 0:
                return None
            with nogil:
                before = doors_pass(stream.descriptor)
                sent = kernel_sendfile(stream.descriptor, file, NULL if offset is None else &position, count)
                if sent < 0:
                    sent = -last_error
                doors_pass(before)
            carry_send_ended(stream.connection, stream.descriptor, stream.within, sent)
            if sent != -EINTR:
                break
            PyErr_CheckSignals()
        if sent < 0:
            raise_errno(<int>-sent)
        return sent

    def sendmsg(self, buffers, int flags=0):
        """As os.writev(), with flags."""
        cdef Stream stream
        cdef Gather gather
        self.find(&stream)
        if len(buffers) > IOV_MAX:
            raise_errno(_errno.EINVAL)
        gather = Gather.__new__(Gather)
        gather.take(buffers)
        return send_parts(&stream, &gather.parts, flags, False)


@cython.final
cdef class Finder:
    cdef dict known

    def find(self, descriptor, /):
        """The data calls of that number, or None. Raises TypeError where it is nothing that a dictionary could hold."""
        cdef int number
        found = self.known.get(descriptor)
        if found is not None or not PyLong_Check(descriptor):
            return found
        number = descriptor if 0 <= descriptor <= INT_MAX else -1
        if table_find(number) == NULL:
            return None
        return Numbered(number) if table_knows(number) else None


def finder(dict known):
    """A call that finds the data calls of a number: those in `known`, then those of the table."""
    cdef Finder made = Finder.__new__(Finder)
    made.known = known
    return made.find
