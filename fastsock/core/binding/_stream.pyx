# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""One call on a TCP stream that may have memory, as `_socket` makes it on any stream: with timeouts, signals and errors.

A call on TCP releases the interpreter's lock as `_socket` does. With a ring it keeps the lock for a short try and a short
look, never for a wait.

What is needed of the socket is read where its object has it: a method of `_socket` that is called for the descriptor and
the timeout makes a byte there and back through a ring a half slower.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from libc.errno cimport EAGAIN, EINTR, EPROTO, ETIMEDOUT, errno as last_error
from libc.stdint cimport UINT64_MAX
from libc.string cimport memcpy
from posix.fcntl cimport F_GETFL, O_NONBLOCK, fcntl as get_flags

from ._core cimport FIRST_SLEEP_NS, note_lock_wait, offer_lock
from .looking cimport fs_is_contended, fs_is_time_to_offer, fs_lock_wait, fs_lock_wait_begins
from .stream cimport FS_IN_VAIN, FS_NO_SIGNAL, FS_PATIENT, FS_PEEK, FS_READABLE, FS_WRITABLE
from .switch cimport (
    FS_KERNELS_END, FS_WILL_WAIT, fs_beside_pass, fs_carry_doze, fs_carry_look, fs_carry_receive_begins,
    fs_carry_receive_ended, fs_carry_sends_by_tcp, fs_carry_unread, fs_carry_wait_awake, fs_carry_wait_behind,
    fs_carry_wait_briefly, fs_carry_wait_long, fs_leave_release,
)
from .system cimport atomic_int, fs_now_ns, fs_ticks, iovec

import _socket

from ._core import ProtocolViolation

cdef enum:
    SMALL = 4096  # up to here bytes are received first, and made an object of when they are counted

cdef extern from *:
    """
    #include <errno.h>
    #include <poll.h>
    #include <structmember.h>
    #include <sys/socket.h>
    #include <sys/time.h>

    static int set_errno(int number)
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

    /* 0; -ETIMEDOUT, -EINTR ... */
    static int fs_poll_until(int descriptor, int what, uint64_t deadline)
    {
        struct pollfd asked = {descriptor, what == FS_READABLE ? POLLIN : POLLOUT, 0};
        uint64_t now = deadline == UINT64_MAX ? 0 : fs_now_ns();
        uint64_t left = deadline > now ? (deadline - now + 999999) / 1000000 : 0;
        int count = poll(&asked, 1, deadline == UINT64_MAX ? -1 : left > INT_MAX ? INT_MAX : (int)left);
        return count > 0 ? 0 : count < 0 ? -errno : -ETIMEDOUT;
    }
    """
    int set_errno(int number) except -1
    object shortened(PyObject *bytes, Py_ssize_t length)
    int64_t kernel_limit(int descriptor, int receiving) nogil
    int fs_poll_until(int descriptor, int what, uint64_t deadline) nogil

cdef extern from "<sys/socket.h>" nogil:
    ssize_t kernel_recv "recv" (int descriptor, void *target, size_t length, int flags)

cdef extern from "Python.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
    PyObject *new_bytes "PyBytes_FromStringAndSize" (const char *data, Py_ssize_t length) except NULL
    char *bytes_at "PyBytes_AS_STRING" (PyObject *bytes) noexcept
    void Py_DECREF(PyObject *object)

cdef object plain_detach = _socket.socket.detach, plain_name = _socket.socket.getpeername
cdef object plain_fileno = _socket.socket.fileno, plain_timeout = _socket.socket.gettimeout


# ---- what the standard object has ----

cdef Py_ssize_t offset_of(object member):
    return (<PyMemberDescrObject *>member).d_member.offset


places.family = offset_of(_socket.socket.family)
places.kind = offset_of(_socket.socket.type)
places.proto = offset_of(_socket.socket.proto)
# These two are no members that Python shows. They stand around those that are, which is looked at below.
places.descriptor = places.family - <Py_ssize_t>sizeof(int)
places.timeout = places.proto + <Py_ssize_t>sizeof(int) + <Py_ssize_t>sizeof(void *)  # behind a pointer
places.are_known = False


cdef int ask_descriptor(object sock) except? -1:
    return plain_fileno(sock)


cdef int64_t ask_timeout(object sock) except? -1:
    timeout = plain_timeout(sock)
    return -1 if timeout is None else <int64_t>(<double>timeout * 1e9)


cdef bint is_as_known() except -1:
    cdef int64_t seen
    sock = _socket.socket()
    try:
        if number_in(sock, places.descriptor) != plain_fileno(sock) or places.timeout % sizeof(int64_t):
            return False
        for timeout, low, high in ((1.25, 1250000000, 1250000000), (0, 0, 0), (None, -(1 << 62), -1)):
            sock.settimeout(timeout)
            seen = (<int64_t *>(<char *><void *>sock + places.timeout))[0]
            if not low <= seen <= high:
                return False
    finally:
        sock.close()
    return True


places.are_known = is_as_known()


# ---- errors, arguments ----

cdef int raise_errno(int number) except -1:
    return set_errno(number)


cdef Py_ssize_t as_room(Py_ssize_t wanted, Py_ssize_t there, str name) except -1:
    if wanted < 0:
        raise ValueError(f"negative buffersize in {name}")
    if wanted > there:
        raise ValueError("buffer too small for requested bytes" if name == "recv_into" else
                         "nbytes is greater than the length of the buffer")
    return wanted or there


cdef int take_writable(object buffer, Py_buffer *view, str name) except -1:
    try:
        PyObject_GetBuffer(buffer, view, PyBUF_WRITABLE)
    except (BufferError, TypeError):
        if name == "recvmsg_into":
            raise TypeError("recvmsg_into() argument 1 must be an iterable of single-segment read-write buffers") from None
        raise TypeError(f"{name}() argument 1 must be read-write bytes-like object, not {type(buffer).__name__}") from None
    return 0


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


cdef bint waits(const Stream *stream, int flags) noexcept:
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
    stream.deadline = fs_now_ns() + <uint64_t>limit if limit > 0 else UINT64_MAX
    return 0


# ---- waiting ----

cdef atomic_int never_leaving = 0  # who waits here is not told of a close, as TCP does not tell of one


cdef bint carry_wait_awake(fs_connection *connection, int descriptor, int what) except -1:
    cdef bint answered
    cdef fs_lock_wait lock
    if not fs_carry_is_attached(connection):
        return False
    with nogil:
        answered = fs_carry_wait_awake(connection, descriptor, what)
        fs_lock_wait_begins(&lock)
    note_lock_wait(&lock)
    return answered


cdef int carry_wait(fs_connection *connection, int descriptor, int what, uint64_t deadline, bint dozes) except -1:
    cdef int result = FS_IN_VAIN
    cdef uint64_t until = min(deadline, fs_now_ns() + FIRST_SLEEP_NS)
    cdef fs_lock_wait lock
    if fs_carry_is_attached(connection):
        with nogil:
            if dozes:
                result = fs_carry_doze(connection, descriptor, what, deadline, &never_leaving)
            else:
                result = fs_carry_wait_briefly(connection, descriptor, what, deadline, &never_leaving)
            fs_lock_wait_begins(&lock)
        note_lock_wait(&lock)
    PyErr_CheckSignals()  # one that came before the long sleep would not end it
    while result == FS_IN_VAIN:
        with nogil:
            if fs_carry_is_attached(connection):
                result = fs_carry_wait_long(connection, descriptor, what, until, &never_leaving)
            else:  # memory that comes meanwhile shows on the descriptor
                result = fs_poll_until(descriptor, what, until)
            fs_lock_wait_begins(&lock)
        note_lock_wait(&lock)
        PyErr_CheckSignals()
        if result == -ETIMEDOUT and until < deadline:  # nor would one between that look and the sleep: so the first is short
            result = FS_IN_VAIN
            until = deadline
    return 0 if result == -EINTR else result


cdef int share_lock() except -1:
    """Where another thread computes, and has waited for the interpreter's lock long enough, it gets it."""
    if fs_is_time_to_offer(fs_ticks()):
        offer_lock()
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
        if not looked and fs_carry_look(stream.connection, stream.descriptor, what):
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


cdef Py_ssize_t send_parts(Stream *stream, fs_parts *parts, int flags, bint everything) except -1:
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
                elif fs_now_ns() >= stream.deadline:
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


cdef Py_ssize_t receive(Stream *stream, char *target, Py_ssize_t length, int flags) except -1:
    cdef Py_ssize_t done = 0
    cdef ssize_t result
    cdef bint again = False, looked
    if fs_carry_is_attached(stream.connection):
        if fs_is_contended():
            share_lock()
    elif flags & WAIT_ALL and stream.timeout < 0 and fs_carry_receive_begins(stream.connection, stream.descriptor, True, &stream.within) == 0:
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
        result = fs_carry_wait_behind(stream.connection, stream.descriptor)
    PyErr_CheckSignals()
    if result < 0 and result != -EINTR:
        fail(stream, result)
    return result <= 0 and fs_now_ns() < stream.deadline


cdef Py_ssize_t receive_all(Stream *stream, char *target, Py_ssize_t length, int flags) except -1:
    """MSG_WAITALL by the kernel's own call, after fs_carry_receive_begins()."""
    cdef ssize_t got
    cdef int before
    while True:
        with nogil:
            before = fs_beside_pass(stream.descriptor)
            got = kernel_recv(stream.descriptor, target, length, flags)
            if got < 0:
                got = -last_error
            fs_beside_pass(before)
        got = fs_carry_receive_ended(stream.connection, stream.descriptor, True, stream.within, got, flags & PEEK)
        if got != -EINTR:
            break
        PyErr_CheckSignals()
        if fs_carry_receive_begins(stream.connection, stream.descriptor, True, &stream.within) != 0:
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
        unread = fs_carry_unread(stream.connection, stream.descriptor)
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
    room = kept + min(size - kept, <Py_ssize_t>max(fs_carry_unread(stream.connection, stream.descriptor), 0))
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
    cdef int result
    with nogil:
        result = fs_leave_release(stream.connection, stream.descriptor)
    if result < 0:
        fail(stream, result)
    return 0
