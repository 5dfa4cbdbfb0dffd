# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""How bytes go through a channel: tries, waits, deadlines, and what happens when a bridge takes its place meanwhile."""
cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EAGAIN, EBADF, EBUSY, EINTR, EPROTO, ETIMEDOUT
from posix.fcntl cimport F_GETFL, O_NONBLOCK, fcntl as get_flags
from posix.unistd cimport close as close_descriptor, usleep

from ._core cimport FIRST_SLEEP_NS, LONG_COPY, deadline_after, note_block, note_lock_wait, offer_lock
from .looking cimport fs_is_contended, fs_is_time_to_offer, fs_lock_wait, fs_lock_wait_begins
from .stream cimport (
    FS_AT_ONCE, FS_IN_VAIN, FS_NO_SIGNAL, FS_PATIENT, FS_PEEK, FS_READABLE, FS_UNPOLLED, FS_WRITABLE, fs_end,
    fs_end_closed, fs_end_closing, fs_end_look, fs_end_receive, fs_end_send_parts, fs_end_settle, fs_end_urgent_inline,
    fs_end_wait_briefly, fs_end_wait_long, fs_wake_leaving_done,
)
from .system cimport atomic_fetch_sub, fs_now_ns, fs_parts_of, fs_ticks, iovec

import errno as _errno
import posix as _os

from ._core import ProtocolViolation

cdef enum:
    MOST_DISCARDED = 1 << 18


cdef object one_view(const fs_parts *parts):
    """What is left of them: of several a copy."""
    cdef Py_ssize_t i
    if parts.left == 0:
        return b""
    if parts.count == 1:
        return PyMemoryView_FromMemory(<char *>parts.next.iov_base, parts.left, PyBUF_READ)
    return b"".join([PyMemoryView_FromMemory(<char *>parts.next[i].iov_base, parts.next[i].iov_len, PyBUF_READ)
                     for i in range(parts.count)])


@cython.no_gc_clear  # its end needs `shared`
cdef class ChannelBytes:
    """Each method holds the channel against other threads, but for the time that it waits or copies much: what the
    interpreter's lock does, where there is one.
    """

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
        cdef uint64_t until = min(deadline, fs_now_ns() + FIRST_SLEEP_NS)
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
            while result == FS_IN_VAIN:  # as in carry_wait()
                PyErr_CheckSignals()
                with nogil:
                    result = fs_end_wait_long(end, self.descriptor, what, until, &self.leaving)
                    fs_lock_wait_begins(&lock)
                note_lock_wait(&lock)
                if result == -ETIMEDOUT and until < deadline:
                    result = FS_IN_VAIN
                    until = deadline
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

    cdef bint is_moving(self) noexcept:
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

    # ---- a try, and a call with all its waits ----

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

    cdef int be_fair(self) except -1:
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
        cdef bint again = False, returns_count = not everything
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
                    if returns_count:
                        return done
                    self.timed_out()
                continue
            if result != -EAGAIN or not self.waits(flags):
                if done and returns_count and result != -EAGAIN and self.timeout < 0:
                    return done
                self.fail(result)
            if deadline == 0:
                deadline = self.deadline(self.send_limit)
            if self.ends_with_part(FS_WRITABLE, deadline, again, done if returns_count else 0):
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

    cdef int close_now(self) except -1:
        cdef int descriptor = self.descriptor
        if descriptor < 0:
            return 0
        self.descriptor = -1
        cdef bint last = atomic_fetch_sub(&self.shared.open_channels, 1) == 1  # else a duplicate goes on
        if last:
            self.shared.hide_importer()
        if last and not self.left:
            with nogil:
                fs_end_closing(self.shared.end, descriptor, self.resetting)
        if not self.lost:
            close_descriptor(descriptor)
        if last:
            fs_end_closed(self.shared.end)
            self.shared.report_closed()
        if self.woke:
            fs_wake_leaving_done()
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

    # As sendmsg() and recv_into() with a time of their own.

    @cython.critical_section
    cdef ssize_t put(self, fs_parts *parts, double seconds) except -1:
        cdef ssize_t result = -EBADF
        cdef double before
        if self.descriptor >= 0 and not self.closing:
            result = self.send_some(parts, NO_SIGNAL if seconds > 0 else NO_SIGNAL | DONT_WAIT)
            if result >= 0:
                return result
            if result == -EAGAIN and seconds == 0:
                return 0
        before, self.timeout = self.timeout, seconds
        try:
            return self.send_parts(parts, NO_SIGNAL, False)
        except (BlockingIOError, TimeoutError):
            return 0
        finally:
            self.timeout = before

    @cython.critical_section
    cdef ssize_t take(self, char *target, Py_ssize_t length, double seconds) except -1:
        cdef ssize_t result
        cdef double before
        if self.descriptor >= 0 and not self.closing and (seconds == 0 or not fs_is_contended()):
            result = self.receive_some(target, length, DONT_WAIT, seconds == 0)
            if result == -EAGAIN and seconds > 0:  # an answer mostly comes within a short look
                if fs_end_look(self.shared.end, FS_READABLE):
                    result = self.receive_some(target, length, DONT_WAIT, False)
            if result >= 0 or result == -EAGAIN and seconds == 0:
                return result
        before, self.timeout = self.timeout, seconds
        try:
            return self.receive_bytes(target, length, 0)
        except (BlockingIOError, TimeoutError):
            return -EAGAIN
        finally:
            self.timeout = before

    def __dealloc__(self):
        # never closed: the socket's own finalizer closed the descriptor
        if self.descriptor >= 0 and self.shared is not None and self.shared.end != NULL:
            if atomic_fetch_sub(&self.shared.open_channels, 1) == 1:
                self.shared.hide_importer()  # and tells of the close when the last channel has gone
                fs_end_closed(self.shared.end)
