# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""The binding of the native core: where Python objects end.

A `Channel` is one descriptor's view of an established shared-memory connection: it has the data methods of a socket,
with the same arguments, results and exceptions, so that a socket can bind them straight onto itself.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from posix.fcntl cimport F_GETFL, O_NONBLOCK, fcntl as get_flags
from libc.errno cimport EAGAIN, EBADF, ECONNREFUSED, ECONNRESET, EINTR, EPROTO, ESTALE, ETIMEDOUT
from libc.stdint cimport uint32_t, uint64_t, UINT64_MAX
from libc.string cimport memcpy
from posix.unistd cimport close as close_descriptor, usleep

from .core cimport *
from .team cimport *

import errno as _errno
import os as _os

# Of MSG_*; the numbers are Linux's.
cdef enum:
    IOV_MAX = 1024
    OUT_OF_BAND = 0x01
    PEEK = 0x02
    DONT_WAIT = 0x40
    WAIT_ALL = 0x100
    NO_SIGNAL = 0x4000

cdef Py_ssize_t LONG_COPY = 32 * 1024   # from here the interpreter's lock is given up for the copy
cdef double CONTENDED_US = 1000.0       # getting the interpreter's lock back took this long: another thread computes
cdef double PATIENT_LOOK_US = 20.0      # and giving it up again is worth so much waiting
cdef double FAIR_SHARE = 0.08           # of the time that thread just had, so that it loses less than a tenth
cdef unsigned int OFFER_US = 60

cdef uint64_t look_ticks = 0
cdef uint64_t hold_until = 0            # while contended: no longer than this without offering the lock
cdef bint contended = False
cdef size_t expected_blocks = 0         # bytes: the C library knows that such blocks come and go

ACCEPTED = FS_SIDE_ACCEPTED
CONNECTED = FS_SIDE_CONNECTED


class ProtocolViolation(ConnectionAbortedError):
    """The other end wrote something impossible into the shared memory; the connection is unusable."""


def configure(*, double look_us):
    """Sets how long, in microseconds, a receiver looks at the ring before it gives up the interpreter's lock."""
    global look_ticks
    look_ticks = <uint64_t>(look_us * fs_ticks_per_us())


def create_segment(uint32_t ring_bytes):
    """Returns the descriptor of a new sealed memory segment; raises OSError (ENOMEM, EMFILE, EINVAL)."""
    cdef int memory = fs_segment_create(ring_bytes)
    if memory < 0:
        raise OSError(-memory, _os.strerror(-memory))
    return memory


def segment_bytes(uint32_t ring_bytes):
    """The memory that a segment takes with rings of that size, 0 where there is no such size."""
    return fs_segment_bytes(ring_bytes)


def format_system_v(int id, uint32_t ring_bytes, uint64_t token):
    """Makes fresh System V memory of segment_bytes(ring_bytes) a segment with that token; raises OSError."""
    checked(fs_sysv_format(id, ring_bytes, token))


def cache_line_round_trip_us():
    """Round trip of one cache line between two cores in microseconds, or None where there is one core only."""
    cdef double result
    with nogil:
        result = fs_cache_line_round_trip_us()
    return result if result >= 0 else None


def direct_copy_error():
    """The errno with which a process of this user is refused to read this one's memory, or 0. Starts a short-lived child."""
    return -fs_direct_probe()


@cython.final
cdef class Segment:
    """The mapping of a segment's memory, which can serve one connection after the other of the same two processes.

    Raises OSError, or ProtocolViolation when `memory`, a descriptor that is not taken over, holds no sound segment.
    """
    cdef fs_segment *segment

    def __init__(self, int memory):
        cdef int error = 0
        self.segment = fs_segment_map(memory, &error)
        if self.segment == NULL:
            if error == -EPROTO:
                raise ProtocolViolation(_errno.EPROTO, "shm path: the memory offered is not a fastsock segment")
            raise OSError(-error, _os.strerror(-error))

    @staticmethod
    def of_system_v(int id, uint64_t token):
        """The segment in System V memory that has this number and token. Raises as the class does."""
        cdef Segment self = Segment.__new__(Segment)
        cdef int error = 0
        self.segment = fs_sysv_attach(id, token, &error)
        if self.segment == NULL:
            if error == -EPROTO or error == -ESTALE:
                raise ProtocolViolation(_errno.EPROTO, f"System V memory {id} is not the segment of this pair of ranks: "
                                        "both must be in one IPC namespace")
            raise OSError(-error, _os.strerror(-error))
        return self

    def renew(self):
        """Makes it as new if both ends have returned it; whether they had."""
        return fs_segment_renew(self.segment) != 0

    def reserve(self, uint64_t ticket):
        """Makes it as new, for the connection that `ticket` stands for, if both ends have returned it; whether they had."""
        return fs_segment_reserve(self.segment, ticket) != 0

    def withdraw(self, uint64_t ticket):
        """Ends a reservation; whether the other end had not claimed it."""
        return fs_segment_withdraw(self.segment, ticket) != 0

    def claim(self, uint64_t ticket):
        """Takes it, if the other end reserved it for that connection; whether it had."""
        return fs_segment_claim(self.segment, ticket) != 0

    def disclaim(self, uint64_t ticket):
        """Undoes claim(), before anything used the segment."""
        fs_segment_disclaim(self.segment, ticket)

    def is_claimed(self, uint64_t ticket):
        """Whether the other end claimed the reservation."""
        return fs_segment_is_claimed(self.segment, ticket) != 0

    def __dealloc__(self):
        if self.segment != NULL:
            fs_segment_drop(self.segment)


cdef object checked(int result):
    if result < 0:
        raise OSError(-result, _os.strerror(-result))
    return result


def abstract_knock(bytes name not None):
    """Whether a datagram socket is bound to the abstract name, which is told. Raises OSError."""
    return checked(fs_abstract_knock(name, len(name))) != 0


def abstract_listen(bytes name not None):
    """The descriptor of a stream listener at the abstract name. Raises OSError."""
    return checked(fs_abstract_listen(name, len(name)))


def abstract_accept(int listener):
    """The descriptor of a connection that waits there. Raises OSError: BlockingIOError for none."""
    return checked(fs_abstract_accept(listener))


def abstract_reach(bytes name not None):
    """The descriptor of a stream connected to the listener at the abstract name; -1 for no listener. Raises OSError."""
    cdef int stream = fs_abstract_reach(name, len(name))
    return -1 if stream == -ECONNREFUSED else checked(stream)


def abstract_peer(int stream):
    """Process and user at the other end of a connected UNIX stream. Raises OSError."""
    cdef int process = 0
    cdef unsigned int user = 0
    checked(fs_abstract_peer(stream, &process, &user))
    return process, user


@cython.final
cdef class _Shared:
    """One end of a connection; the channels of a socket and its duplicates share it."""
    cdef fs_end *end
    cdef int open_channels

    def __dealloc__(self):
        if self.end != NULL:
            fs_end_free(self.end)


cdef inline uint64_t deadline_after(double timeout):
    return UINT64_MAX if timeout < 0 else fs_now_ns() + <uint64_t>(timeout * 1e9)


cdef inline void note_lock_wait(uint64_t before, uint64_t after) noexcept:
    """Getting the interpreter's lock back took long: a thread that computes gets nine tenths of the time from now on."""
    global contended, hold_until
    if <double>(after - before) > CONTENDED_US * fs_ticks_per_us():
        contended = True
        hold_until = after + <uint64_t>(FAIR_SHARE * <double>(after - before))


cdef inline void note_block(size_t length) noexcept:
    global expected_blocks
    if length > expected_blocks:
        expected_blocks = fs_expect_blocks(length)


cdef int offer_lock() except -1:
    """Lets another Python thread run, and learns from how long that took whether there still is one."""
    global contended
    cdef uint64_t before, after
    with nogil:
        usleep(OFFER_US)  # released and taken back at once, a lock never reaches a thread that must first wake up
        before = fs_ticks()
    after = fs_ticks()
    contended = False
    note_lock_wait(before, after)
    return 0


@cython.final
cdef class Channel:
    """A connected shared-memory stream as seen through one descriptor.

    doorbell is a connected UNIX stream socket's descriptor (taken over by close()), side ACCEPTED or CONNECTED, peer a
    text for messages.  Raises OSError.
    """
    cdef _Shared shared
    cdef int descriptor
    cdef double timeout
    cdef double receive_limit, send_limit  # seconds, 0 for none: SO_RCVTIMEO and SO_SNDTIMEO
    cdef int users
    cdef bint closing
    cdef bint resetting
    cdef atomic_int leaving
    cdef public object peer
    cdef object __weakref__

    def __init__(self, Segment segment not None, int doorbell, int side, *, double spin_us=50.0,
                 size_t direct_min=0, int peer_pid=0, peer=""):
        cdef fs_limits limits
        cdef int error = 0
        limits.spin_us = spin_us
        limits.direct_min = direct_min
        limits.peer = peer_pid
        self.descriptor = -1
        self.timeout = -1
        self.peer = peer
        self.shared = _Shared()
        self.shared.end = fs_end_open_on(segment.segment, side, &limits, &error)
        if self.shared.end == NULL:
            raise OSError(-error, _os.strerror(-error))
        error = fs_doorbell_prepare(doorbell)
        if error < 0:
            raise OSError(-error, _os.strerror(-error))
        self.descriptor = doorbell
        self.shared.open_channels = 1

    def rebind(self, int doorbell):
        """The doorbell has moved to this descriptor number."""
        self.descriptor = doorbell

    def duplicate(self, int doorbell):
        """A second channel over the same connection, through a duplicate of the doorbell."""
        cdef Channel other = Channel.__new__(Channel)
        self.alive()
        other.shared = self.shared
        self.shared.open_channels += 1
        other.descriptor = doorbell
        other.timeout = self.timeout
        other.receive_limit = self.receive_limit
        other.send_limit = self.send_limit
        other.peer = self.peer
        return other

    # ---- waiting and errors ----

    cdef int alive(self) except -1:
        if self.descriptor < 0 or self.closing or self.shared.end == NULL:
            raise OSError(_errno.EBADF, "Bad file descriptor")
        return 0

    cdef int fail(self, ssize_t error) except -1:
        cdef int number = <int>-error
        if number == EPROTO:
            raise ProtocolViolation(
                number, f"shm path to {self.peer}: the other end wrote impossible values into the shared memory or"
                " bytes onto the raw descriptor; close this connection")
        raise OSError(number, _os.strerror(number))

    cdef bint waits(self, int flags) noexcept:
        return self.timeout != 0 and not flags & DONT_WAIT

    cdef int wait(self, int what, uint64_t deadline) except -1:
        """Until it is worth trying again.  The interpreter's lock is kept for a short look, never for a wait."""
        cdef fs_end *end = self.shared.end
        cdef int result
        cdef uint64_t before, ticks
        self.alive()  # somebody may have closed it during a copy without the interpreter's lock
        if fs_end_may_spin(end, what) and not (contended and fs_ticks() > hold_until):
            ticks = <uint64_t>(PATIENT_LOOK_US * fs_ticks_per_us()) if contended else look_ticks
            if fs_end_look(end, what, ticks):
                return 0
        if self.timeout < 0 and get_flags(self.descriptor, F_GETFL) & O_NONBLOCK:  # set behind the socket's back
            self.fail(-EAGAIN)
        self.users += 1
        try:
            with nogil:
                result = fs_end_wait_briefly(end, what, deadline, &self.leaving)
                before = fs_ticks()
            note_lock_wait(before, fs_ticks())
            if result == FS_IN_VAIN:
                PyErr_CheckSignals()  # one that came while we spun would not end the long sleep
                with nogil:
                    result = fs_end_wait_long(end, self.descriptor, what, deadline, &self.leaving)
                    before = fs_ticks()
                note_lock_wait(before, fs_ticks())
        finally:
            self.leave()
        PyErr_CheckSignals()  # every time: the other end might feign readiness for ever
        if result == -EINTR:
            return 0
        if result == -ETIMEDOUT:
            if self.timeout < 0:
                self.fail(-EAGAIN)  # as SO_RCVTIMEO and SO_SNDTIMEO end a call
            raise TimeoutError("timed out")
        if result < 0:
            self.fail(result)
        return 0

    cdef int leave(self) except -1:
        self.users -= 1
        if self.closing and self.users == 0:
            self.close_now()
        return 0

    cdef uint64_t deadline(self, double limit) noexcept:
        """That of the socket's timeout, or of SO_RCVTIMEO and SO_SNDTIMEO where it blocks for ever."""
        return deadline_after(limit if self.timeout < 0 and limit > 0 else self.timeout)

    cdef inline int be_fair(self) except -1:
        if contended and fs_ticks() > hold_until:
            self.users += 1
            try:
                offer_lock()
            finally:
                self.leave()
        return 0

    cdef ssize_t send_some(self, const char *data, Py_ssize_t length, int flags):
        cdef ssize_t result
        cdef int how = FS_NO_SIGNAL if flags & NO_SIGNAL else 0
        if self.waits(flags):
            how |= FS_PATIENT
        if length < LONG_COPY:
            return fs_end_send(self.shared.end, self.descriptor, data, length, how)
        note_block(length)
        self.users += 1
        with nogil:
            result = fs_end_send(self.shared.end, self.descriptor, data, length, how)
        self.leave()
        return result

    cdef ssize_t receive_some(self, char *target, Py_ssize_t length, int flags, bint look_for_end):
        cdef ssize_t result
        cdef int peek = flags & PEEK
        if length < LONG_COPY:
            return fs_end_receive(self.shared.end, self.descriptor, target, length, peek, look_for_end)
        note_block(length)
        self.users += 1
        with nogil:
            result = fs_end_receive(self.shared.end, self.descriptor, target, length, peek, look_for_end)
        self.leave()
        return result

    cdef int check_out_of_band(self, int flags) except -1:
        """Urgent bytes travel in the stream, which is right only for a receiver that wants them there."""
        if flags & OUT_OF_BAND and not fs_end_urgent_inline(self.shared.end):
            raise OSError(_errno.EOPNOTSUPP, f"shm path to {self.peer}: out-of-band data (MSG_OOB) needs SO_OOBINLINE at"
                          " the other end; exclude this connection by a rule or FASTSOCK_TRANSPORTS")
        return 0

    cdef Py_ssize_t send_bytes(self, const char *data, Py_ssize_t length, int flags, bint everything) except -1:
        """What send() does, and sendall() where everything is asked for."""
        cdef Py_ssize_t done = 0
        cdef ssize_t result
        cdef uint64_t deadline = 0
        self.alive()
        self.check_out_of_band(flags)
        # a blocking send returns when all is handed over; one with a timeout after the first part
        if self.timeout < 0 and self.waits(flags):
            everything = True
        while True:
            result = self.send_some(data + done, length - done, flags)
            if result >= 0:
                done += result
                if done >= length or not everything:
                    return done
                continue
            if result != -EAGAIN or not self.waits(flags):
                if done and result != -EAGAIN and self.timeout < 0:
                    return done
                self.fail(result)
            if deadline == 0:
                deadline = self.deadline(self.send_limit)
            self.wait(FS_WRITABLE, deadline)
            self.alive()

    cdef Py_ssize_t receive_bytes(self, char *target, Py_ssize_t length, int flags) except -1:
        cdef Py_ssize_t done = 0
        cdef ssize_t result
        cdef uint64_t deadline = 0
        cdef bint look = not self.waits(flags)
        self.alive()
        if flags & OUT_OF_BAND:
            raise OSError(_errno.EINVAL, _os.strerror(_errno.EINVAL))
        if contended:
            self.be_fair()
        while True:
            result = self.receive_some(target + done, length - done, flags, look)
            if result > 0:
                done += result
                if done >= length or flags & PEEK or not flags & WAIT_ALL or self.timeout >= 0:
                    return done
                continue
            if result == 0 or done and not self.waits(flags):
                return done
            if result != -EAGAIN or not self.waits(flags):
                self.fail(result)
            if deadline == 0:
                deadline = self.deadline(self.receive_limit)
            self.wait(FS_READABLE, deadline)
            self.alive()
            look = True

    # ---- the socket's data methods ----

    def send(self, data, int flags=0, /):
        """As socket.send()."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            return self.send_bytes(<const char *>view.buf, view.len, flags, False)
        finally:
            PyBuffer_Release(&view)

    def sendall(self, data, int flags=0, /):
        """As socket.sendall()."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.send_bytes(<const char *>view.buf, view.len, flags, True)
        finally:
            PyBuffer_Release(&view)

    def recv_into(self, buffer, Py_ssize_t nbytes=0, int flags=0):
        """As socket.recv_into()."""
        cdef Py_buffer view
        try:
            PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
        except BufferError:
            raise TypeError("recv_into() argument 1 must be read-write bytes-like object, not "
                            f"{type(buffer).__name__}") from None
        try:
            if nbytes < 0:
                raise ValueError("negative buffersize in recv_into")
            if nbytes == 0:
                nbytes = view.len
            if nbytes > view.len:
                raise ValueError("buffer too small for requested bytes")
            if nbytes == 0:
                return 0
            return self.receive_bytes(<char *>view.buf, nbytes, flags)
        finally:
            PyBuffer_Release(&view)

    def recv(self, Py_ssize_t bufsize, int flags=0, /):
        """As socket.recv()."""
        cdef Py_ssize_t size = bufsize, got
        cdef ssize_t unread
        if bufsize < 0:
            raise ValueError("negative buffersize in recv")
        self.alive()
        if bufsize == 0:
            return b""
        if contended:
            self.be_fair()
        if not flags & WAIT_ALL:
            # wait before allocating: what is there is mostly far less than what the caller would take
            unread = fs_end_unread(self.shared.end, self.descriptor)
            if 0 < unread < size:
                size = min(size, unread + <Py_ssize_t>fs_promised(self.shared.end))
            elif unread <= 0:
                return self.receive_small_first(bufsize, flags)
        data = PyBytes_FromStringAndSize(NULL, size)
        got = self.receive_bytes(PyBytes_AS_STRING(data), size, flags)
        return data if got == size else data[:got]

    cdef receive_small_first(self, Py_ssize_t bufsize, int flags):
        """Nothing is there yet: receives up to what a small block holds, then looks how much more there is."""
        cdef char first[4096]
        cdef Py_ssize_t got = self.receive_bytes(first, min(bufsize, <Py_ssize_t>sizeof(first)), flags)
        cdef Py_ssize_t kept = 0 if flags & PEEK else got, size  # a peek sees the same bytes again
        cdef ssize_t unread, more
        if got < <Py_ssize_t>sizeof(first) or bufsize == got or self.descriptor < 0 or self.closing:
            return PyBytes_FromStringAndSize(first, got)
        unread = fs_end_unread(self.shared.end, self.descriptor)
        size = kept + min(bufsize - kept, unread if unread > 0 else 0)
        if size <= got:
            return PyBytes_FromStringAndSize(first, got)
        data = PyBytes_FromStringAndSize(NULL, size)
        more = self.receive_some(PyBytes_AS_STRING(data) + kept, size - kept, flags, False)
        if more <= 0:  # another reader was faster: what came first is the answer, an error the next call's
            if more == -ECONNRESET:
                self.shared.end.pending_error = ECONNRESET
            return PyBytes_FromStringAndSize(first, got)
        memcpy(PyBytes_AS_STRING(data), first, kept)
        return data if kept + more == size else data[:kept + more]

    def sendmsg(self, buffers, int flags=0):
        """Sends the buffers one after the other; bytes sent. As socket.sendmsg() without ancillary data."""
        cdef Py_ssize_t done = 0, length
        cdef Py_buffer view
        if len(buffers) > IOV_MAX:
            raise OSError(_errno.EMSGSIZE, _os.strerror(_errno.EMSGSIZE))
        views = [memoryview(buffer) for buffer in buffers]  # before the first byte goes: all of them can be sent
        for buffer in views:
            PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
            try:
                length = view.len
                sent = self.send_bytes(<const char *>view.buf, length, flags, False)
            except OSError:
                if done and self.shared.end.gone:  # all of them are one send, which TCP takes before it knows
                    return sum([each.nbytes for each in views])
                if done:
                    return done
                raise
            finally:
                PyBuffer_Release(&view)
            done += sent
            if sent < length:
                break
        return done

    def unread(self):
        """Bytes that can be received without waiting."""
        self.alive()
        cdef ssize_t result = fs_end_unread(self.shared.end, self.descriptor)
        if result < 0:
            self.fail(result)
        return result

    def settimeout(self, timeout, /):
        """Seconds, None for ever, 0 for non-blocking."""
        self.timeout = -1.0 if timeout is None else timeout

    def set_kernel_timeouts(self, double receive, double send):
        """As SO_RCVTIMEO and SO_SNDTIMEO, in seconds, 0 for none; they end a blocking call by EAGAIN."""
        self.receive_limit = receive
        self.send_limit = send

    def is_non_blocking(self):
        return self.timeout == 0

    def shutdown(self, int how, /):
        """As socket.shutdown()."""
        cdef int result
        self.alive()
        result = fs_end_shutdown(self.shared.end, self.descriptor, how)
        if result < 0:
            self.fail(result)

    def set_urgent_inline(self, bint on):
        """As SO_OOBINLINE."""
        self.alive()
        fs_end_set_urgent_inline(self.shared.end, on)

    def was_reset(self):
        """Whether the other end reset the connection, or closed it with bytes of ours unread."""
        self.alive()
        return fs_end_was_reset(self.shared.end, self.descriptor) != 0

    def take_error(self):
        """What SO_ERROR answers: an errno told once, or 0."""
        self.alive()
        return fs_end_take_error(self.shared.end, self.descriptor)

    # ---- the descriptor ----

    def fileno(self):
        """The doorbell's number, or -1 once closed."""
        return self.descriptor

    def knock(self):
        """Sends a token without data, as the answer that ends a meeting."""
        self.alive()
        fs_end_knock(self.shared.end, self.descriptor)

    def watch(self):
        """The descriptor is given to somebody who may poll it: from now on it shows readiness exactly."""
        self.alive()
        fs_end_watch(self.shared.end, self.descriptor)

    def settle(self):
        """Makes the doorbell exact before a loop of ours blocks on it; whether there is something to read."""
        return fs_end_settle(self.shared.end, self.descriptor) != 0

    def is_stale(self):
        """Whether its doorbell, if it shows something to read, shows only what a lazy reader has left."""
        return self.shared.end != NULL and fs_end_has_stale_token(self.shared.end) != 0

    def set_lazy(self, bint lazy):
        """While lazy a drained ring may leave the doorbell readable: the loop that watches it calls settle()."""
        if self.shared.end != NULL:
            fs_end_set_lazy(self.shared.end, lazy)

    def release(self):
        """Lets the descriptor itself carry the bytes from now on; False when unread ones are in the way."""
        cdef int result
        self.alive()
        result = fs_end_release(self.shared.end, self.descriptor)
        if result < 0 and result != -EAGAIN:
            self.fail(result)
        return result == 0

    def bridge(self, int inner, bint survives=False):
        """Starts a pump between this connection and the descriptor `inner`; takes over both.

        The pump is a pair of threads, or where it must survive this process a process of its own.
        """
        cdef int result
        self.alive()
        if survives:
            result = fs_bridge_fork(self.shared.end, self.descriptor, inner)
        else:
            result = fs_bridge_start(self.shared.end, self.descriptor, inner)
        if result < 0:
            self.fail(result)
        self.descriptor = -1

    @property
    def released(self):
        """Whether both directions go over the descriptor itself."""
        return self.shared.end != NULL and self.shared.end.raw_in and self.shared.end.raw_out

    def statistics(self):
        """Counts since the start: bytes_sent, bytes_received, bytes_direct (of both, those that the receiver copied out
        of the sender's memory), waits (sleeps), wakes (of the other end), spins."""
        if self.shared.end == NULL:
            return None
        cdef fs_statistics *s = &self.shared.end.statistics
        return {"bytes_sent": s.bytes_sent, "bytes_received": s.bytes_received,
                "bytes_direct": s.bytes_direct, "waits": s.waits, "wakes": s.wakes, "spins": s.spins}

    def close(self, bint reset=False):
        """Closes the descriptor; calls of other threads that wait on it end with EBADF."""
        if self.descriptor < 0 or self.closing:
            return
        self.closing = True
        (&self.leaving)[0] = 1
        self.resetting = reset
        if self.users == 0:
            self.close_now()
            return
        fs_end_wake(self.shared.end)
        fs_wake_leaving()

    cdef int close_now(self) except -1:
        cdef int descriptor = self.descriptor
        if descriptor < 0:
            return 0
        self.descriptor = -1
        self.shared.open_channels -= 1
        if self.shared.open_channels > 0:  # a duplicate goes on
            close_descriptor(descriptor)
        else:
            fs_end_closing(self.shared.end, descriptor, self.resetting)
            close_descriptor(descriptor)
            fs_end_closed(self.shared.end)
        fs_wake_leaving_done()
        return 0

    def __dealloc__(self):
        # never closed: the socket's own finalizer closed the descriptor
        if self.descriptor >= 0 and self.shared is not None and self.shared.end != NULL:
            self.shared.open_channels -= 1
            if self.shared.open_channels == 0:
                fs_end_closed(self.shared.end)


# ---- many channels at once, for the selectors that watch them ----

cdef enum:
    MOST_SPUN_ON = 64


@cython.final
cdef class Patience:
    """What one selector learned of handing its core to the other ends."""
    cdef fs_yielding past


def ready_among(list channels, double spin_us, Patience patience=None):
    """The channels that have something to read, as a list; waits for one a moment, without the GIL.

    For those whose other end runs on another core it spins, up to `spin_us` and on no more than 64; for others it
    hands the core over, if `patience` is given.
    """
    cdef fs_end *ends[MOST_SPUN_ON]
    cdef Channel channel
    cdef int count = 0, near = 0, yielded = 0, found = 0, i
    cdef uint64_t start, limit
    cdef list ready = []
    for channel in channels:
        if channel.descriptor >= 0 and channel.shared.end != NULL:
            if fs_end_has_data(channel.shared.end):
                ready.append(channel)
            elif not fs_end_is_elsewhere(channel.shared.end):
                near += 1
            elif count < MOST_SPUN_ON and spin_us > 0:
                ends[count] = channel.shared.end
                count += 1
    if ready:
        return ready
    if near > 0 and patience is not None:
        with nogil:
            yielded = fs_yield_try(&patience.past, &start)
        if yielded:
            ready = having_data(channels)
            fs_yield_learn(&patience.past, start, len(ready) != 0, near)
            if ready:
                return ready
    if count == 0:
        return ready
    limit = <uint64_t>(spin_us * fs_ticks_per_us())
    with nogil:
        start = fs_ticks()
        while not found and fs_ticks() - start < limit:
            for i in range(count):
                if fs_end_has_data(ends[i]):
                    found = 1
                    break
            fs_pause()
    return having_data(channels) if found else ready


cdef list having_data(list channels):
    cdef Channel channel
    cdef list found = []
    for channel in channels:
        if channel.descriptor >= 0 and channel.shared.end != NULL and fs_end_has_data(channel.shared.end):
            found.append(channel)
    return found


def settle_all(list channels):
    """Makes every doorbell exact before the kernel is asked; whether some channel has something to read."""
    cdef Channel channel
    cdef bint some = False
    for channel in channels:
        if channel.descriptor >= 0 and channel.shared.end != NULL and fs_end_settle(channel.shared.end, channel.descriptor):
            some = True
    return some


include "engine.pxi"
include "team.pxi"
include "staying.pxi"
