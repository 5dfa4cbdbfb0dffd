# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""`Channel`: one descriptor's view of a connection through shared memory, with the data methods of a socket.

They have the same arguments, results and exceptions, so that a socket can bind them straight onto itself.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, ECONNRESET
from libc.stdint cimport uint64_t
from libc.string cimport memcpy
from posix.unistd cimport usleep

from ._buffers cimport Gather
from ._channel_bytes cimport ChannelBytes, MOVING_US, PEEK, TRUNCATE, WAIT_ALL
from ._core cimport deadline_after, forget_lock
from ._ends cimport End, Segment
from .looking cimport fs_is_contended
from .stream cimport (
    FS_SIDE_ACCEPTED, FS_SIDE_CONNECTED, FS_WRITABLE, fs_bridge_fork, fs_bridge_start, fs_doorbell_prepare,
    fs_end_closing, fs_end_has_stale_token, fs_end_is_over, fs_end_is_watched, fs_end_open_on, fs_end_other_importer,
    fs_end_release, fs_end_set_lazy, fs_end_set_receive_buffer, fs_end_set_send_buffer, fs_end_set_urgent_inline,
    fs_end_show_importer, fs_end_shutdown, fs_end_take_error, fs_end_unread, fs_end_wake, fs_end_was_reset,
    fs_end_watch, fs_limits, fs_promised, fs_statistics, fs_wake_leaving, fs_wake_leaving_done,
)
from .system cimport atomic_fetch_add, atomic_store

import errno as _errno
import posix as _os

cdef enum:
    IOV_MAX = 1024
    MOST_MOVING_US = 1000000

ACCEPTED = FS_SIDE_ACCEPTED
CONNECTED = FS_SIDE_CONNECTED


@cython.final
@cython.no_gc_clear  # its end needs `shared`
cdef class Channel(ChannelBytes):
    """A connected shared-memory stream as seen through one descriptor.

    doorbell is a connected UNIX stream socket's descriptor (taken over by close()), side ACCEPTED or CONNECTED, peer a
    text for messages.  Raises OSError.
    """

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
        self.path = "shm"
        self.shared = End()
        self.shared.end = fs_end_open_on(segment.segment, side, &limits, &error)
        if self.shared.end == NULL:
            raise OSError(-error, _os.strerror(-error))
        error = fs_doorbell_prepare(doorbell)
        if error < 0:
            raise OSError(-error, _os.strerror(-error))
        self.descriptor = doorbell
        atomic_store(&self.shared.open_channels, 1)

    @cython.critical_section
    def rebind(self, int doorbell):
        """The doorbell has moved to this descriptor number."""
        self.descriptor = doorbell

    def forked(self):
        """In a forked child: the threads that used it are not there, so none of them will leave it any more."""
        forget_lock(self)
        self.users = 0
        if self.closing:
            self.close_now()

    @cython.critical_section
    def duplicate(self, int doorbell):
        """A second channel over the same connection, through a duplicate of the doorbell."""
        cdef Channel other = Channel.__new__(Channel)
        self.alive()
        other.shared = self.shared
        atomic_fetch_add(&self.shared.open_channels, 1)
        other.descriptor = doorbell
        other.timeout = self.timeout
        other.receive_limit = self.receive_limit
        other.send_limit = self.send_limit
        other.peer = self.peer
        other.path = self.path
        other.span = self.span
        return other

    # ---- a bridge takes its place while other threads are at work ----

    @cython.critical_section
    def begin_move(self):
        """Nobody is within a call of it from now on; those who come wait for end_move()."""
        cdef int waited = 0
        self.alive()
        self.left_behind = self.descriptor
        self.moving = True
        self.descriptor = -1
        atomic_store(&self.leaving, 1)
        fs_end_wake(self.shared.end)
        fs_wake_leaving()
        while self.users > 0 and waited < MOST_MOVING_US:  # one of them may be this thread's, below a signal handler
            with nogil:
                usleep(MOVING_US)
            waited += MOVING_US
        fs_wake_leaving_done()
        return self.left_behind

    @cython.critical_section
    def end_move(self, successor):
        """successor: a weak reference to the socket that goes on, or None: nothing has changed."""
        self.successor = successor
        if successor is None:
            self.descriptor = self.left_behind
        atomic_store(&self.leaving, 0)
        self.moving = False

    def await_room(self, double seconds):
        """Until there is room for more bytes, or the seconds are over, or the other end has left."""
        if self.is_moving():
            return
        try:
            self.wait(FS_WRITABLE, deadline_after(seconds), False)
        except TimeoutError:
            return
        except BlockingIOError:
            return

    # ---- the socket's data methods ----

    @cython.critical_section
    def send(self, data, int flags=0, /):
        """As socket.send()."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            return self.send_bytes(<const char *>view.buf, view.len, flags, False)
        finally:
            PyBuffer_Release(&view)

    @cython.critical_section
    def sendall(self, data, int flags=0, /):
        """As socket.sendall()."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.send_bytes(<const char *>view.buf, view.len, flags, True)
        finally:
            PyBuffer_Release(&view)

    @cython.critical_section
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

    @cython.critical_section
    def recv(self, Py_ssize_t bufsize, int flags=0, /):
        """As socket.recv()."""
        cdef Py_ssize_t size = bufsize, got
        cdef ssize_t unread
        if bufsize < 0:
            raise ValueError("negative buffersize in recv")
        if self.is_moving() and (sock := self.moved_to()) is not None:
            return sock.recv(bufsize, flags)
        self.alive()
        if bufsize == 0:
            return b""
        if flags & TRUNCATE:
            return bytes(self.receive_bytes(NULL, bufsize, flags))
        if fs_is_contended():
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

    cdef object receive_small_first(self, Py_ssize_t bufsize, int flags):
        """Nothing is there yet: receives up to what a small block holds, then looks how much more there is."""
        cdef char first[4096]
        cdef Py_ssize_t got = self.receive_bytes(first, min(bufsize, <Py_ssize_t>sizeof(first)), flags)
        cdef Py_ssize_t kept = 0 if flags & PEEK else got, size  # a peek sees the same bytes again
        cdef ssize_t unread, more
        if got < <Py_ssize_t>sizeof(first) or bufsize == got or self.descriptor < 0 or self.closing:
            return PyBytes_FromStringAndSize(first, got)
        unread = max(fs_end_unread(self.shared.end, self.descriptor), 0)
        if not flags & PEEK:
            unread += <ssize_t>fs_promised(self.shared.end)
        size = kept + min(bufsize - kept, unread)
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

    @cython.critical_section
    def sendmsg(self, buffers, int flags=0):
        """Sends the buffers one after the other, as one send; bytes sent. As socket.sendmsg() without ancillary data."""
        cdef Gather gather
        if len(buffers) > IOV_MAX:
            raise OSError(_errno.EMSGSIZE, _os.strerror(_errno.EMSGSIZE))
        gather = Gather.__new__(Gather)
        gather.take(buffers)
        return self.send_parts(&gather.parts, flags, False)

    @cython.critical_section
    def unread(self):
        """Bytes that can be received without waiting."""
        self.alive()
        cdef ssize_t result = fs_end_unread(self.shared.end, self.descriptor)
        if result < 0:
            self.fail(result)
        return result

    @cython.critical_section
    def settimeout(self, timeout, /):
        """Seconds, None for ever, 0 for non-blocking."""
        self.timeout = -1.0 if timeout is None else timeout

    @cython.critical_section
    def set_kernel_timeouts(self, double receive, double send):
        """As SO_RCVTIMEO and SO_SNDTIMEO, in seconds, 0 for none; they end a blocking call by EAGAIN."""
        self.receive_limit = receive
        self.send_limit = send

    @cython.critical_section
    def is_non_blocking(self):
        return self.timeout == 0

    @cython.critical_section
    def shutdown(self, int how, /):
        """As socket.shutdown()."""
        cdef int result
        self.alive()
        self.users += 1
        with nogil:
            result = fs_end_shutdown(self.shared.end, self.descriptor, how)
        self.leave()
        if result < 0:
            self.fail(result)

    @cython.critical_section
    def set_urgent_inline(self, bint on):
        """As SO_OOBINLINE."""
        self.alive()
        fs_end_set_urgent_inline(self.shared.end, on)

    @cython.critical_section
    def set_send_buffer(self, uint64_t size):
        """As SO_SNDBUF: a ring that is twice as large at least does not grow."""
        self.alive()
        fs_end_set_send_buffer(self.shared.end, size)

    @cython.critical_section
    def set_receive_buffer(self, uint64_t size):
        """As SO_RCVBUF: where the other end has set SO_SNDBUF, the two bound what is unread."""
        self.alive()
        fs_end_set_receive_buffer(self.shared.end, self.descriptor, size)

    @cython.critical_section
    def show_importer(self, uint64_t importer, closed):
        """Tells the other end where buffers for this one go. closed() is called once this process has closed its end."""
        self.alive()
        self.shared.closed = closed
        self.shared.importer = importer
        self.shared.shown = True
        fs_end_show_importer(self.shared.end, importer)

    def shown_importer(self):
        """The importer that was shown last; 0: none."""
        return self.shared.importer

    @cython.critical_section
    def other_importer(self):
        """Where buffers for the other end go, as it says; 0: nowhere."""
        return 0 if self.shared.end == NULL or self.descriptor < 0 else fs_end_other_importer(self.shared.end)

    @cython.critical_section
    def was_reset(self):
        """Whether the other end reset the connection, or closed it with bytes of this end unread."""
        self.alive()
        return fs_end_was_reset(self.shared.end, self.descriptor) != 0

    @cython.critical_section
    def is_over(self):
        """Whether the connection was reset, or both ends shut their writing halves."""
        self.alive()
        return fs_end_is_over(self.shared.end, self.descriptor) != 0

    @cython.critical_section
    def take_error(self):
        """What SO_ERROR answers: an errno told once, or 0."""
        self.alive()
        return fs_end_take_error(self.shared.end, self.descriptor)

    # ---- the descriptor ----

    @cython.critical_section
    def fileno(self):
        """The doorbell's number, or -1 once closed."""
        return self.descriptor

    @cython.critical_section
    def watch(self):
        """The descriptor is given to somebody who may poll it: from now on it shows readiness exactly."""
        self.alive()
        self.users += 1
        with nogil:
            fs_end_watch(self.shared.end, self.descriptor)
        self.leave()

    def is_watched(self):
        """Whether watch() was called."""
        return fs_end_is_watched(self.shared.end) != 0

    @cython.critical_section
    def settle(self):
        """Makes the doorbell exact before fastsock's own loop blocks on it; whether there is something to read."""
        return self.settle_doorbell() != 0

    def is_stale(self):
        """Whether its doorbell, if it shows something to read, shows only what a lazy reader has left."""
        return self.shared.end != NULL and fs_end_has_stale_token(self.shared.end) != 0

    @cython.critical_section
    def set_lazy(self, bint lazy):
        """While lazy a drained ring may leave the doorbell readable: the loop that watches it calls settle()."""
        if self.shared.end != NULL:
            fs_end_set_lazy(self.shared.end, lazy)

    @cython.critical_section
    def release(self):
        """Lets the descriptor itself carry the bytes from now on; False when unread ones are in the way."""
        cdef int result
        self.alive()
        self.users += 1
        with nogil:
            result = fs_end_release(self.shared.end, self.descriptor)
        self.leave()
        if result < 0 and result != -EAGAIN:
            self.fail(result)
        return result == 0

    @cython.critical_section
    def bridge(self, int doorbell, int inner, bint survives=False):
        """Starts a pump between this connection and the descriptor `inner`; takes over that and `doorbell`.

        Between begin_move() and end_move(). The pump is a pair of threads, or where it must survive this process a process of its own. Raises OSError where
        there is no memory, thread or process for it: then all is as it was.
        """
        cdef int result
        with nogil:
            if survives:
                result = fs_bridge_fork(self.shared.end, doorbell, inner)
            else:
                result = fs_bridge_start(self.shared.end, doorbell, inner)
        if result < 0:
            self.fail(result)

    @property
    def released(self):
        """Whether both directions go over the descriptor itself."""
        return self.shared.end != NULL and self.shared.end.raw_in and self.shared.end.raw_out

    def statistics(self):
        """Counts since the start: bytes_sent, bytes_received, bytes_direct (of both, those that went past the ring),
        bytes_written (what the sender copied of large blocks, perhaps in vain), waits (sleeps), wakes (of the other end),
        spins. And how the last large block came and went, large_received and large_sent: 0 none, 1 ring, 2 the receiver
        copied, 3 both ends did."""
        if self.shared.end == NULL:
            return None
        cdef fs_statistics *s = &self.shared.end.statistics
        return {"bytes_sent": s.bytes_sent, "bytes_received": s.bytes_received,
                "bytes_direct": s.bytes_direct, "bytes_written": s.bytes_written,
                "large_received": self.shared.end.large_in, "large_sent": self.shared.end.large_out,
                "waits": s.waits, "wakes": s.wakes, "spins": s.spins}

    def carried(self):
        """What the device has done for this end, where one joins it to another host: Span.counts(). Else None."""
        return None if self.span is None else self.span.counts()

    def resumed(self):
        """Whether the connection goes on over TCP, because what carried it broke."""
        return self.span is not None and self.span.resumed()

    @cython.critical_section
    def close(self, bint reset=False):
        """Closes the descriptor; calls of other threads that wait on it end with EBADF."""
        if self.descriptor < 0 or self.closing:
            return
        self.closing = True
        atomic_store(&self.leaving, 1)
        self.resetting = reset
        if self.users == 0:
            self.close_now()
            return
        self.woke = True
        fs_end_wake(self.shared.end)
        fs_wake_leaving()

    def closed_by_number(self, bint reset):
        """Somebody else closes the descriptor next: the other end sees a close."""
        self.dropped(reset)
        self.left = self.lost = True  # from now on the number may be anybody's
        self.close()

    @cython.critical_section
    def dropped(self, bint reset):
        """The socket goes without close(), and its finalizer closes the descriptor next: the other end sees a close."""
        if self.descriptor >= 0 and not self.closing and not self.left and atomic_fetch_add(&self.shared.open_channels, 0) == 1:
            self.left = True
            with nogil:
                fs_end_closing(self.shared.end, self.descriptor, reset)
