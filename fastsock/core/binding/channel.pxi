# One descriptor's view of a connection, with the data methods of a socket.
from posix.fcntl cimport F_GETFL, O_NONBLOCK, fcntl as get_flags
from posix.unistd cimport close as close_descriptor

# Of MSG_*; the numbers are Linux's.
cdef enum:
    IOV_MAX = 1024
    OUT_OF_BAND = 0x01
    PEEK = 0x02
    DONT_WAIT = 0x40
    WAIT_ALL = 0x100
    NO_SIGNAL = 0x4000
    TRUNCATE = 0x20
    ERROR_QUEUE = 0x2000
    FAST_OPEN = 0x20000000
    MOST_DISCARDED = 1 << 18
    MOVING_US = 50
    MOST_MOVING_US = 1000000

cdef atomic_size expected_blocks = 0    # bytes: the C library knows that such blocks come and go

ACCEPTED = FS_SIDE_ACCEPTED
CONNECTED = FS_SIDE_CONNECTED


@cython.final
cdef class _Shared:
    """One end of a connection; the channels of a socket and its duplicates share it."""
    cdef fs_end *end
    cdef atomic_int open_channels
    cdef object closed  # called once this process has closed its end
    cdef uint64_t desk  # where buffers for this end go, as it was shown; 0: nowhere
    cdef bint shown     # and is shown still

    def __del__(self):
        # Never closed. Now, and not at the end: a collection of garbage may clear `closed` itself before that.
        self.hide_desk()
        self.desk = 0
        self.tell_closed()

    def __dealloc__(self):
        if self.end != NULL:
            fs_end_free(self.end)

    cdef void hide_desk(self) noexcept:
        if self.shown:
            self.shown = False
            fs_end_show_desk(self.end, 0)

    cdef int tell_closed(self) except -1:
        closed, self.closed = self.closed, None
        if closed is not None:
            closed()
        return 0


cdef void note_block(size_t length) noexcept:
    global expected_blocks
    if length > expected_blocks:
        expected_blocks = fs_expect_blocks(length)


def expect_blocks(size_t length):
    """Tells the C library that blocks of so many bytes come and go: it keeps the memory of one for the next."""
    note_block(length)


@cython.final
@cython.no_gc_clear  # its end needs `shared`
cdef class Channel:
    """A connected shared-memory stream as seen through one descriptor.

    doorbell is a connected UNIX stream socket's descriptor (taken over by close()), side ACCEPTED or CONNECTED, peer a
    text for messages.  Raises OSError.

    Each method holds the channel against other threads, but for the time that it waits or copies much: what the
    interpreter's lock does, where there is one.
    """
    cdef _Shared shared
    cdef int descriptor
    cdef double timeout
    cdef double receive_limit, send_limit  # seconds, 0 for none: SO_RCVTIMEO and SO_SNDTIMEO
    cdef int users
    cdef bint closing
    cdef bint resetting
    cdef bint left  # the other end was told
    cdef bint lost  # the descriptor is somebody else's to close
    cdef bint woke  # those who wait are told to leave
    cdef bint moving
    cdef int left_behind  # the descriptor, while it moves
    cdef object successor  # a weak reference to the socket whose descriptor carries the bytes now
    cdef atomic_int leaving
    cdef readonly object peer
    cdef object path  # its name, for messages
    cdef object span  # of a path between hosts
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
        self.path = "shm"
        self.shared = _Shared()
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

    # ---- waiting and errors ----

    @cython.critical_section
    cdef bint is_open(self) noexcept:
        return self.descriptor >= 0 and self.shared.end != NULL

    cdef int alive(self) except -1:
        if self.descriptor < 0 or self.closing or self.shared.end == NULL:
            raise OSError(_errno.EBADF, "Bad file descriptor")
        return 0

    cdef int fail(self, ssize_t error) except -1:
        cdef int number = <int>-error
        if number == EPROTO:
            raise ProtocolViolation(
                number, f"{self.path} path to {self.peer}: the other end wrote impossible values into the shared memory or"
                " bytes onto the raw descriptor; close this connection")
        raise OSError(number, _os.strerror(number))

    cdef bint waits(self, int flags) noexcept:
        return self.timeout != 0 and not flags & DONT_WAIT

    cdef int wait(self, int what, uint64_t deadline, bint again) except -1:
        """Until it is worth trying again.  The interpreter's lock is kept for a short look, never for a wait.

        again: the last wait of this call was followed by nothing.  What looks ready may be a lie of the other end, told
        for ever: then the lock is given up, signals are heard and the deadline holds each time.
        """
        cdef fs_end *end = self.shared.end
        cdef int result
        cdef fs_lock_wait lock
        if self.is_moving():
            return 0
        self.alive()  # somebody may have closed it during a copy without the interpreter's lock
        if not again and fs_end_look(end, what):
            return 0
        if self.timeout < 0 and get_flags(self.descriptor, F_GETFL) & O_NONBLOCK:  # set behind the socket's back
            self.fail(-EAGAIN)
        self.users += 1
        try:
            with nogil:
                result = fs_end_wait_briefly(end, what, deadline, &self.leaving)
                fs_lock_wait_begins(&lock)
            note_lock_wait(&lock)
            if result == FS_IN_VAIN:
                PyErr_CheckSignals()  # one that came while we spun would not end the long sleep
                with nogil:
                    result = fs_end_wait_long(end, self.descriptor, what, deadline, &self.leaving)
                    fs_lock_wait_begins(&lock)
                note_lock_wait(&lock)
        finally:
            self.leave()
        PyErr_CheckSignals()
        if result == -EINTR or self.is_moving():
            return 0
        # a futex's sleep hears nobody die: the first wait of a call that ends in time is followed by a look
        if result == -ETIMEDOUT and (again or what == FS_WRITABLE):
            self.timed_out()
        if result < 0 and result != -ETIMEDOUT:
            self.fail(result)
        return 0

    # ---- a bridge takes its place while other threads are at work ----

    cdef inline bint is_moving(self) noexcept:
        return self.descriptor < 0 and (self.moving or self.successor is not None)

    cdef object moved_to(self):
        """The socket that goes on for it, None where there is none."""
        while self.moving:
            with nogil:
                usleep(MOVING_US)
        return None if self.successor is None else self.successor()

    cdef Py_ssize_t receive_there(self, sock, char *target, Py_ssize_t length, int flags, Py_ssize_t done) except -1:
        try:
            return done + <Py_ssize_t>sock.recv_into(PyMemoryView_FromMemory(target, length, PyBUF_WRITE), length, flags)
        except OSError:
            if done:
                return done  # the error comes again
            raise

    cdef Py_ssize_t send_there(self, sock, fs_parts *parts, int flags, bint everything) except -1:
        cdef Py_ssize_t length = parts.left
        view = one_view(parts)
        if not everything and (self.timeout >= 0 or not self.waits(flags)):
            return sock.send(view, flags)
        sock.sendall(view, flags)
        return length

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

    cdef int timed_out(self) except -1:
        if self.timeout < 0:
            self.fail(-EAGAIN)  # as SO_RCVTIMEO and SO_SNDTIMEO end a call
        raise TimeoutError("timed out")

    cdef int leave(self) except -1:
        if self.users > 0:
            self.users -= 1
        if self.closing and self.users == 0:
            self.close_now()
        return 0

    cdef uint64_t deadline(self, double limit) noexcept:
        """That of the socket's timeout, or of SO_RCVTIMEO and SO_SNDTIMEO where it blocks for ever."""
        return deadline_after(limit if self.timeout < 0 and limit > 0 else self.timeout)

    cdef inline int be_fair(self) except -1:
        if fs_is_time_to_offer(fs_ticks()):
            self.users += 1
            try:
                offer_lock()
            finally:
                self.leave()
        return 0

    cdef ssize_t send_some(self, fs_parts *parts, int flags, int how=0):
        """Takes off the parts what goes."""
        cdef ssize_t result
        if flags & NO_SIGNAL:
            how |= FS_NO_SIGNAL
        if self.waits(flags):
            how |= FS_PATIENT
        if <Py_ssize_t>parts.left < LONG_COPY:
            result = fs_end_send_parts(self.shared.end, self.descriptor, parts, how | FS_AT_ONCE)
            if result != -EBUSY:
                return result
        note_block(parts.left)
        self.users += 1
        with nogil:
            result = fs_end_send_parts(self.shared.end, self.descriptor, parts, how)
        self.leave()
        return result

    cdef ssize_t receive_some(self, char *target, Py_ssize_t length, int flags, bint look_for_end):
        cdef ssize_t result
        cdef int how = FS_PEEK if flags & PEEK else 0
        if length < LONG_COPY:
            result = fs_end_receive(self.shared.end, self.descriptor, target, length, how | FS_AT_ONCE, look_for_end)
            if result != -EBUSY:
                return result
        note_block(length)
        self.users += 1
        with nogil:
            result = fs_end_receive(self.shared.end, self.descriptor, target, length, how, look_for_end)
        self.leave()
        return result

    cdef bint ends_with_part(self, int what, uint64_t deadline, bint again, Py_ssize_t done) except -1:
        """As wait().  True where the time of SO_RCVTIMEO or SO_SNDTIMEO is over after a part: the call tells how much."""
        if done == 0 or self.timeout >= 0:
            self.wait(what, deadline, again)
            return False
        try:
            self.wait(what, deadline, again)
        except BlockingIOError:
            return True
        return False

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

    cdef int check_out_of_band(self, int flags) except -1:
        """Urgent bytes travel in the stream. That is right only for a receiver that wants them there."""
        if flags & FAST_OPEN:
            raise OSError(_errno.EISCONN, _os.strerror(_errno.EISCONN))
        if flags & OUT_OF_BAND and not fs_end_urgent_inline(self.shared.end):
            raise OSError(_errno.EOPNOTSUPP, f"{self.path} path to {self.peer}: out-of-band data (MSG_OOB) needs SO_OOBINLINE at"
                          " the other end; exclude this connection by a rule or FASTSOCK_TRANSPORTS")
        return 0

    cdef Py_ssize_t send_bytes(self, const char *data, Py_ssize_t length, int flags, bint everything) except -1:
        """What send() does, and sendall() where everything is asked for."""
        cdef iovec part
        cdef fs_parts parts
        part.iov_base, part.iov_len = <void *>data, length
        parts = fs_parts_of(&part, 1)
        return self.send_parts(&parts, flags, everything)

    cdef Py_ssize_t send_parts(self, fs_parts *parts, int flags, bint everything) except -1:
        """The same of a gather, from which what goes is taken off."""
        cdef Py_ssize_t done = 0
        cdef ssize_t result
        cdef uint64_t deadline = 0
        cdef bint again = False, told_how_much = not everything
        if self.is_moving() and (sock := self.moved_to()) is not None:
            return self.send_there(sock, parts, flags, everything)
        self.alive()
        self.check_out_of_band(flags)
        # a blocking send returns when all is handed over; one with a timeout after the first part
        if self.timeout < 0 and self.waits(flags):
            everything = True
        while True:
            result = self.send_some(parts, flags)
            if result >= 0:
                done += result
                if parts.left == 0 or not everything:
                    return done
                again = False
                PyErr_CheckSignals()  # a receiver that keeps up would keep a long send from them
                if self.is_moving() and (sock := self.moved_to()) is not None:
                    return done + self.send_there(sock, parts, flags, everything)
                self.alive()
                if deadline == 0:
                    deadline = self.deadline(self.send_limit)
                elif fs_now_ns() >= deadline:
                    if told_how_much:
                        return done
                    self.timed_out()
                continue
            if result != -EAGAIN or not self.waits(flags):
                if done and told_how_much and result != -EAGAIN and self.timeout < 0:
                    return done
                self.fail(result)
            if deadline == 0:
                deadline = self.deadline(self.send_limit)
            if self.ends_with_part(FS_WRITABLE, deadline, again, done if told_how_much else 0):
                return done
            if self.is_moving() and (sock := self.moved_to()) is not None:
                return done + self.send_there(sock, parts, flags, everything)
            self.alive()
            again = True

    cdef Py_ssize_t receive_bytes(self, char *target, Py_ssize_t length, int flags, uint64_t deadline=0) except -1:
        """deadline: of fs_now_ns(), 0 for that of the socket; it ends the call as SO_RCVTIMEO does."""
        cdef Py_ssize_t done = 0
        cdef ssize_t result
        cdef bint look = not self.waits(flags), again = False
        if self.is_moving() and target != NULL and (sock := self.moved_to()) is not None:
            return self.receive_there(sock, target, length, flags, 0)
        self.alive()
        if flags & ERROR_QUEUE:
            self.await_no_error()
        if flags & OUT_OF_BAND:
            raise OSError(_errno.EINVAL, _os.strerror(_errno.EINVAL))
        if flags & TRUNCATE:
            return self.discard_bytes(length, flags & ~TRUNCATE)
        if fs_is_contended():
            self.be_fair()
        while True:
            result = self.receive_some(target + done, length - done, flags, look)
            if result > 0:
                done += result
                if done >= length or flags & PEEK or not flags & WAIT_ALL or self.timeout >= 0:
                    return done
                again = False
                continue
            if result == 0 or done and not self.waits(flags):
                return done
            if result != -EAGAIN or not self.waits(flags):
                self.fail(result)
            if deadline == 0:
                deadline = self.deadline(self.receive_limit)
            if self.ends_with_part(FS_READABLE, deadline, again, done):
                return done
            if self.is_moving() and (sock := self.moved_to()) is not None:
                return self.receive_there(sock, target + done, length - done, flags, done)
            self.alive()
            look = again = True

    cdef Py_ssize_t discard_bytes(self, Py_ssize_t length, int flags) except -1:
        """MSG_TRUNC: takes bytes as a receive would, and nobody gets them."""
        cdef Py_ssize_t most = min(length, <Py_ssize_t>MOST_DISCARDED), done = 0, got
        cdef char *scratch = <char *>PyMem_Malloc(most)
        if scratch == NULL:
            raise MemoryError()
        try:
            while done < length:
                # what one receive takes: it waits for the first bytes, or for all
                got = self.receive_bytes(scratch, min(most, length - done),
                                         flags | DONT_WAIT if done and not flags & WAIT_ALL else flags)
                done += got
                if got < most or flags & PEEK:
                    break
        except BlockingIOError:
            if done == 0:
                raise
        finally:
            PyMem_Free(scratch)
        return done

    cdef int await_no_error(self) except -1:
        """MSG_ERRQUEUE: TCP's queue of errors is empty, and a socket with a timeout waits for one."""
        cdef uint64_t deadline = deadline_after(self.timeout)
        while self.timeout > 0 and fs_now_ns() < deadline:
            with nogil:
                usleep(1000)
            PyErr_CheckSignals()
            self.alive()
        if self.timeout > 0:
            self.timed_out()
        self.fail(-EAGAIN)
        return 0

    # ---- for other compiled modules ----

    @cython.critical_section
    cdef Py_ssize_t send_now(self, fs_parts *parts, bint patient) except -1:
        cdef ssize_t result
        if self.is_moving() and (sock := self.moved_to()) is not None:
            try:
                return self.send_there(sock, parts, DONT_WAIT, False)
            except BlockingIOError:
                return 0
        self.alive()
        result = self.send_some(parts, 0 if patient else DONT_WAIT, FS_UNPOLLED if patient else 0)
        if result < 0 and result != -EAGAIN:
            self.fail(result)
        return max(result, 0)

    @cython.critical_section
    cdef Py_ssize_t receive_now(self, char *target, Py_ssize_t length) except -2:
        cdef ssize_t result
        if self.is_moving() and (sock := self.moved_to()) is not None:
            try:
                return self.receive_there(sock, target, length, DONT_WAIT, 0)
            except BlockingIOError:
                return -1
        self.alive()
        if fs_is_contended():
            self.be_fair()
        result = self.receive_some(target, length, DONT_WAIT, True)
        if result < 0 and result != -EAGAIN:
            self.fail(result)
        return max(result, -1)

    @cython.critical_section
    cdef Py_ssize_t receive_within(self, char *target, Py_ssize_t length, uint64_t deadline) except -2:
        try:
            return self.receive_bytes(target, length, 0, deadline)
        except BlockingIOError:
            return -1

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

    cdef receive_small_first(self, Py_ssize_t bufsize, int flags):
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
    def show_desk(self, uint64_t desk, closed):
        """Tells the other end where buffers for this one go. closed() is called once this process has closed its end."""
        self.alive()
        self.shared.closed = closed
        self.shared.desk = desk
        self.shared.shown = True
        fs_end_show_desk(self.shared.end, desk)

    def shown_desk(self):
        """The desk that was shown last; 0: none."""
        return self.shared.desk

    @cython.critical_section
    def other_desk(self):
        """Where buffers for the other end go, as it says; 0: nowhere."""
        return 0 if self.shared.end == NULL or self.descriptor < 0 else fs_end_other_desk(self.shared.end)

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

    cdef int settle_doorbell(self) except -1:
        """The lock of the interpreter is not kept for whoever is at work at this end."""
        cdef int result = fs_end_settle(self.shared.end, self.descriptor, FS_AT_ONCE)
        if result != -EBUSY:
            return result
        self.users += 1
        with nogil:
            result = fs_end_settle(self.shared.end, self.descriptor, 0)
        self.leave()
        return result

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

    cdef int close_now(self) except -1:
        cdef int descriptor = self.descriptor
        if descriptor < 0:
            return 0
        self.descriptor = -1
        cdef bint last = atomic_fetch_sub(&self.shared.open_channels, 1) == 1  # else a duplicate goes on
        if last:
            self.shared.hide_desk()
        if last and not self.left:
            with nogil:
                fs_end_closing(self.shared.end, descriptor, self.resetting)
        if not self.lost:
            close_descriptor(descriptor)
        if last:
            fs_end_closed(self.shared.end)
            self.shared.tell_closed()
        if self.woke:
            fs_wake_leaving_done()
        return 0

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

    def __dealloc__(self):
        # never closed: the socket's own finalizer closed the descriptor
        if self.descriptor >= 0 and self.shared is not None and self.shared.end != NULL:
            if atomic_fetch_sub(&self.shared.open_channels, 1) == 1:
                self.shared.hide_desk()  # and tells of the close when the last channel has gone
                fs_end_closed(self.shared.end)


cdef bint is_channel(object candidate) noexcept:
    return type(candidate) is Channel


cdef Py_ssize_t channel_send(object channel, const char *data, Py_ssize_t length, bint patient) except -1:
    cdef iovec part
    cdef fs_parts parts
    part.iov_base, part.iov_len = <void *>data, length
    parts = fs_parts_of(&part, 1)
    return (<Channel>channel).send_now(&parts, patient)


cdef Py_ssize_t channel_send_parts(object channel, fs_parts *parts, bint patient) except -1:
    return (<Channel>channel).send_now(parts, patient)


cdef Py_ssize_t channel_receive(object channel, char *target, Py_ssize_t length) except -2:
    return (<Channel>channel).receive_now(target, length)


cdef Py_ssize_t channel_await(object channel, char *target, Py_ssize_t length, double deadline) except -2:
    return (<Channel>channel).receive_within(target, length, <uint64_t>(deadline * 1e9))
