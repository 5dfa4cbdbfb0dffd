# cython: language_level=3, boundscheck=False, wraparound=False
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The path of each message: from a request to its frame, from a frame to its handler.

Frames, credits and turns are the core's (core/active). Here bytes go out and come in, and Python's objects begin. On
shared memory the bytes pass a native Channel, elsewhere the descriptor itself carries them.

A bundle and all that belongs to it is used by one thread at a time.
"""
cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.errno cimport EAGAIN, EALREADY, EINTR, ENOBUFS, errno as last_error
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from collections import deque

from ..system.genuine import genuine
from .errors import BadFrame, HandlerRule, LostPeer, NoEntry, NotReady, Returned, reason_text

cdef extern from "active/active.h" nogil:
    enum: FS_AM_HEADER, FS_AM_WORDS, FS_AM_MEDIUM, FS_AM_HEAD, FS_AM_ROOM, FS_AM_MOST_SLOTS
    enum: FS_AM_ASKS, FS_AM_ANSWERS, FS_AM_SHORT, FS_AM_LONG
    enum: FS_AM_REQUEST, FS_AM_BULK, FS_AM_PUT, FS_AM_GET, FS_AM_REPLY, FS_AM_BULK_REPLY, FS_AM_PUT_REPLY
    enum: FS_AM_DONE, FS_AM_RETURNED
    enum: FS_AM_NO_HANDLER, FS_AM_OUTSIDE, FS_AM_TOO_LONG, FS_AM_RAISED

    struct fs_am_frame:
        int kind
        int words
        int handler
        uint32_t number
        uint64_t length
        uint64_t offset
        const unsigned char *payload

    struct fs_am:
        int side
        uint32_t limits[2]
        uint32_t credits[2]
        size_t filled
        size_t from_ "from"
        uint64_t most_bulk
        uint64_t bulk_left
        unsigned char *room
        const char *wrong

    int fs_am_open(fs_am *am, int side, uint32_t shorts, uint32_t longs, uint64_t most_bulk)
    void fs_am_close(fs_am *am)
    uint32_t fs_am_ask(fs_am *am, int kind)
    int fs_am_answer(fs_am *am, uint32_t number)
    uint32_t fs_am_index(uint32_t number)
    uint32_t fs_am_under_way(const fs_am *am)
    size_t fs_am_put(unsigned char *out, int kind, int handler, uint32_t number, const int64_t *words, int count,
                     uint64_t length, uint64_t offset)
    int64_t fs_am_word(const fs_am_frame *frame, int index)
    unsigned char *fs_am_space(fs_am *am, size_t *length)
    void fs_am_received(fs_am *am, size_t length)
    int fs_am_take(fs_am *am, fs_am_frame *frame)
    int fs_am_has_bulk(int kind)
    size_t fs_am_spill(fs_am *am, void *target, size_t room)
    void fs_am_spilled(fs_am *am, uint64_t length)

cdef extern from * nogil:
    """
    #include <poll.h>
    #include <sys/socket.h>
    /* What this thread is doing for whom: a handler may not send as others may. */
    static _Thread_local int am_handling __attribute__((tls_model("initial-exec")));
    """
    int am_handling
    enum: POLLIN, POLLOUT, POLLRDHUP
    enum: MSG_DONTWAIT, MSG_NOSIGNAL
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *list, unsigned long count, int timeout)
    ssize_t send(int descriptor, const void *data, size_t length, int flags)
    ssize_t recv(int descriptor, void *target, size_t length, int flags)

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callable, PyObject **arguments, size_t count, PyObject *names)

cdef enum:
    IN_REQUEST = 1  # values of am_handling
    IN_REPLY = 2
    TOKEN_OPEN = 0  # states of a token
    TOKEN_USED = 1
    TOKEN_REPLY = 2
    TOKEN_OVER = 3
    NOW = MSG_DONTWAIT | MSG_NOSIGNAL
    ROUND = 64  # messages that one connection may bring before the others have their turn
    MOST_POLLED = 64
    MOST_DONE = 16
    SMALL = 512  # bytes: a copy is cheaper than a memoryview

MEDIUM = FS_AM_MEDIUM
MOST_WORDS = FS_AM_WORDS
MOST_CREDITS = FS_AM_MOST_SLOTS
NOT_EMPTY, CAN_SEND = 1, 2

cdef double LOOK = 2e-3       # seconds to wait in the ring of one connection, before a sleep that hears all
cdef double LAST = 1.0        # seconds that a close gives the replies that are still to go
cdef double PATIENCE = LOOK   # seconds for a receiver to take a part of a bulk, before this end looks what has come


include "token.pxi"


@cython.final
cdef class Connection:
    """One entry of a translation table, or the other end of one.

    sock: connected, and used by this object alone. asks: whether this end sends the requests. limits: shorts, longs, and
    the bytes of the longest bulk that each end takes: (here, there).
    """
    cdef fs_am am
    cdef readonly object endpoint, sock, peer, path, lost
    cdef public int index
    cdef object channel, receive_into, send_now, unread
    cdef object room  # a view of what the core receives into
    cdef int descriptor
    cdef double timeout_set
    cdef list asked
    cdef object queue          # (memory, Transfer or None): goes before anything else
    cdef Py_ssize_t queue_at   # bytes of the first that have gone
    cdef uint64_t most_there
    cdef unsigned char dones[MOST_DONE * FS_AM_HEADER]  # answers without a handler, that go together
    cdef int done_count
    # the bulk that is coming in
    cdef bint in_bulk
    cdef fs_am_frame bulk
    cdef tuple bulk_words, bulk_known
    cdef object bulk_array, bulk_reason
    cdef Py_buffer bulk_view
    cdef Py_ssize_t bulk_done

    def __cinit__(self):
        self.descriptor = -1
        self.index = -1

    def __init__(self, sock, endpoint, bint asks, uint32_t shorts, uint32_t longs, uint64_t most_here, uint64_t most_there,
                 peer):
        cdef int result = fs_am_open(&self.am, FS_AM_ASKS if asks else FS_AM_ANSWERS, shorts, longs, most_here)
        if result < 0:
            raise MemoryError() if result == -12 else ValueError("credits must be from 1 to 1024")
        self.endpoint = endpoint
        self.sock = sock
        self.peer = peer
        self.most_there = most_there
        self.path = sock.transport
        self.channel = sock._fast_channel
        self.queue = deque()
        self.asked = [None] * (shorts + longs)
        self.timeout_set = -2
        if self.channel is None:
            self.descriptor = sock.fileno()
            sock.setblocking(False)
        else:
            self.send_now = self.channel.send
            self.receive_into = self.channel.recv_into
            self.unread = self.channel.unread
            self.room = PyMemoryView_FromMemory(<char *>self.am.room, FS_AM_ROOM, PyBUF_WRITE)

    def __dealloc__(self):
        fs_am_close(&self.am)

    @property
    def credits(self):
        """Short and bulk requests that can be sent now."""
        return self.am.credits[FS_AM_SHORT], self.am.credits[FS_AM_LONG]

    @property
    def under_way(self):
        """Requests that are not answered."""
        return fs_am_under_way(&self.am)

    cdef uint64_t most_here(self) noexcept:
        return self.am.most_bulk

    def adopt(self, endpoint):
        """The endpoint that it belongs to."""
        self.endpoint = endpoint

    # ---- out ----

    cdef int check_handler(self, int handler) except -1:
        if not 0 <= handler < 65536:
            raise ValueError(f"a handler's number is from 0 to 65535, not {handler}")
        return 0

    cdef int check_bulk(self, data) except -1:
        cdef Py_ssize_t length = memoryview(data).nbytes
        if <uint64_t>length > self.most_there:
            raise ValueError(f"{self.peer} takes bulks of {self.most_there} bytes at most, not of {length}: its endpoint's"
                             " most_bulk, or its segment, says so")
        return 0

    cdef int answer(self, uint32_t number) except -1:
        if fs_am_answer(&self.am, number) < 0 and self.lost is None:
            raise HandlerRule("this request was answered already")
        return 0

    cdef int put_short(self, int kind, int handler, uint32_t number, const int64_t *words, int count, data) except -1:
        cdef unsigned char frame[FS_AM_HEAD + FS_AM_MEDIUM]
        cdef Py_buffer view
        cdef size_t size, length = 0
        if data is None:
            size = fs_am_put(frame, kind, handler, number, words, count, 0, 0)
        else:
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            length = view.len
            if length > FS_AM_MEDIUM:
                PyBuffer_Release(&view)
                raise ValueError(f"a message without a bulk has at most {FS_AM_MEDIUM} bytes of data, not {length}")
            size = fs_am_put(frame, kind, handler, number, words, count, length, 0)
            memcpy(frame + size, view.buf, length)
            PyBuffer_Release(&view)
        return self.transmit(frame, size + length)

    cdef int transmit(self, const unsigned char *data, size_t length) except -1:
        """Sends, or keeps for later. It never waits."""
        cdef Py_ssize_t done = 0
        if self.done_count:
            self.put_dones()
        if self.lost is not None:
            return 0
        if not self.queue:
            done = self.send_some(<const char *>data, length, False)
            if done < 0 or <size_t>done == length:
                return 0
        self.queue.append((PyBytes_FromStringAndSize(<const char *>data + done, length - done), None))
        return 0

    cdef int put_done(self, uint32_t number) except -1:
        """There is no reply. Such answers go together, soon: while more has come, up to half of the other end's credit."""
        cdef int most = min(self.am.limits[FS_AM_SHORT], self.am.limits[FS_AM_LONG] or MOST_DONE, 2 * MOST_DONE) // 2
        fs_am_put(self.dones + self.done_count * FS_AM_HEADER, FS_AM_DONE, 0, number, NULL, 0, 0, 0)
        self.done_count += 1
        if self.done_count >= most:
            self.put_dones()
        return 0

    cdef int put_dones(self) except -1:
        cdef int count = self.done_count
        self.done_count = 0
        return self.transmit(self.dones, count * FS_AM_HEADER)

    cdef Py_ssize_t send_some(self, const char *data, Py_ssize_t length, bint patient) except -2:
        """Bytes that have gone; -1: the connection is lost. patient: the receiver is given a moment."""
        cdef ssize_t result
        if self.channel is None:
            result = send(self.descriptor, data, length, NOW)
            if result >= 0:
                return result
            if last_error == EAGAIN or last_error == EINTR or last_error == ENOBUFS:
                return 0
            self.lose(OSError(last_error, genuine.strerror(last_error)))
            return -1
        try:
            if patient:
                self.set_timeout(PATIENCE)
                return self.send_now(PyMemoryView_FromMemory(<char *>data, length, PyBUF_READ), MSG_NOSIGNAL)
            if length < SMALL:
                return self.send_now(PyBytes_FromStringAndSize(data, length), NOW)
            return self.send_now(PyMemoryView_FromMemory(<char *>data, length, PyBUF_READ), NOW)
        except (BlockingIOError, TimeoutError):
            return 0
        except OSError as error:
            self.lose(error)
            return -1

    cdef int set_timeout(self, double timeout) except -1:
        if self.timeout_set != timeout:
            self.channel.settimeout(None if timeout < 0 else timeout)
            self.timeout_set = timeout
        return 0

    cdef int flush(self, bint patient=False) except -1:
        """Sends what is kept, as far as it goes now. 1: some of it went."""
        cdef Py_buffer view
        cdef Py_ssize_t done, left
        cdef int some = 0
        while self.queue and self.lost is None:
            memory, transfer = self.queue[0]
            PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE)
            try:
                left = view.len - self.queue_at
                done = 0 if left == 0 else self.send_some(<const char *>view.buf + self.queue_at, left, patient and left > FS_AM_ROOM)
            finally:
                PyBuffer_Release(&view)
            if done < 0:
                return 0
            some |= done > 0
            if done < left:
                self.queue_at += done
                return some
            self.queue_at = 0
            self.queue.popleft()
            if transfer is not None:
                (<Transfer>transfer).sent = True
        return some

    cdef int put_bulk(self, int kind, int handler, uint32_t number, const int64_t *words, int count, data,
                      uint64_t offset, bint wait, Transfer transfer) except -1:
        """A head and the bytes of `data`. wait: until they have gone. Else the caller leaves them alone, if `transfer` is
        given; else what cannot go now is copied."""
        cdef unsigned char head[FS_AM_HEAD]
        cdef Py_buffer view
        cdef size_t size
        cdef Py_ssize_t done = 0, part
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            size = fs_am_put(head, kind, handler, number, words, count, view.len, offset)
            self.transmit(head, size)
            while not self.queue and done < view.len and self.lost is None:
                part = self.send_some(<const char *>view.buf + done, view.len - done, view.len > FS_AM_ROOM)
                if part <= 0:
                    if part < 0 or not wait:
                        break
                    self.endpoint.bundle.relieve(self)
                else:
                    done += part
            if wait and done < view.len and self.lost is None:
                self.queue.append((memoryview(data).cast("B")[done:], None))
                done = view.len
                while self.queue and self.lost is None:
                    if not self.flush(True):
                        self.endpoint.bundle.relieve(self)
        finally:
            # whatever happens, what follows the head goes before anything else
            if done < view.len and self.lost is None:
                if transfer is not None:
                    self.queue.append((memoryview(data).cast("B")[done:], transfer))
                else:
                    self.queue.append((PyBytes_FromStringAndSize(<const char *>view.buf + done, view.len - done), None))
            elif transfer is not None:
                transfer.sent, transfer.failure = self.lost is None, self.lost
            PyBuffer_Release(&view)
        return 0

    # ---- in ----

    cdef ssize_t receive(self, void *target, size_t length, double wait) except -2:
        """Bytes that came, 0: none yet, -1: the connection is lost. wait: seconds, on a channel alone."""
        cdef ssize_t result
        if self.channel is None:
            result = recv(self.descriptor, target, length, MSG_DONTWAIT)
            if result > 0:
                return result
            if result < 0 and (last_error == EAGAIN or last_error == EINTR):
                return 0
            self.lose(None if result == 0 else OSError(last_error, genuine.strerror(last_error)))
            return -1
        view = self.room if target == <void *>self.am.room else PyMemoryView_FromMemory(<char *>target, length, PyBUF_WRITE)
        try:
            if wait > 0:
                self.set_timeout(wait)
                result = self.receive_into(view, length, 0)
            else:
                result = self.receive_into(view, length, MSG_DONTWAIT)
        except (BlockingIOError, TimeoutError):
            return 0
        except OSError as error:
            self.lose(error)
            return -1
        if result == 0:
            self.lose(None)
            return -1
        return result

    cdef ssize_t fill(self, double wait) except -2:
        """Receives once, to where it belongs."""
        cdef unsigned char *space
        cdef size_t length = 0
        cdef ssize_t got
        if self.in_bulk and self.am.bulk_left and self.am.filled == self.am.from_:
            if self.bulk_array is not None:
                got = self.receive(<char *>self.bulk_view.buf + self.bulk_done, self.am.bulk_left, wait)
                if got > 0:
                    self.bulk_done += got
                    fs_am_spilled(&self.am, got)
                return got
        space = fs_am_space(&self.am, &length)
        got = self.receive(space, length, wait)
        if got > 0:
            fs_am_received(&self.am, got)
        return got

    cdef bint has_input(self):
        """Something was received and not taken, or can be received, as far as is known without a system call."""
        if self.lost is not None:
            return False
        if self.am.filled != self.am.from_:
            return True
        return self.channel is not None and <Py_ssize_t>self.unread() > 0

    cdef int look(self, double wait, bint surely) except -1:
        """Takes what has come and runs handlers: how many. surely: receive even where nothing is known to be there."""
        cdef int handled = self.take()
        cdef ssize_t got
        if handled:
            surely, wait = False, 0
        if self.done_count and not handled:  # a wait may follow
            self.put_dones()
        if self.queue:
            self.flush()
        while self.lost is None and handled < ROUND:
            if not surely and (self.channel is None or <Py_ssize_t>self.unread() == 0):
                break
            got = self.fill(wait)
            if got <= 0:
                break
            handled += self.take()
            if handled and not self.in_bulk:
                break
            if not self.in_bulk:
                wait = 0
        if self.done_count and self.lost is None and (self.channel is None or <Py_ssize_t>self.unread() == 0):
            self.put_dones()
        return handled

    cdef int take(self) except -1:
        """Runs the handlers of the frames that are there."""
        cdef fs_am_frame frame
        cdef int handled = 0, result
        while self.lost is None:
            if self.in_bulk:
                if self.am.bulk_left:
                    self.spill()
                if self.am.bulk_left:
                    break
                self.end_bulk()
                handled += 1
                continue
            result = fs_am_take(&self.am, &frame)
            if result == 0:
                break
            if result < 0:
                self.lose(BadFrame(f"{self.peer}: {self.am.wrong.decode()}; the connection is closed"))
                break
            if fs_am_has_bulk(frame.kind):
                self.begin_bulk(&frame)
            else:
                self.handle(&frame, words_of(&frame), None if frame.length == 0 or frame.payload == NULL else
                            PyBytes_FromStringAndSize(<const char *>frame.payload, frame.length))
                handled += 1
        return handled

    cdef int spill(self) except -1:
        cdef size_t got
        if self.bulk_array is None:
            fs_am_spill(&self.am, NULL, <size_t>-1)
        else:
            got = fs_am_spill(&self.am, <char *>self.bulk_view.buf + self.bulk_done, self.am.bulk_left)
            self.bulk_done += got
        return 0

    cdef int begin_bulk(self, fs_am_frame *frame) except -1:
        """Chooses the memory. None: its bytes are dropped."""
        cdef tuple known = None
        if frame.kind > FS_AM_GET:  # its slot is free: the next request may have it before the bulk is whole
            known = self.asked[fs_am_index(frame.number)]
            self.asked[fs_am_index(frame.number)] = None
        self.bulk_known = known
        self.bulk = frame[0]
        self.bulk_words = words_of(frame)
        self.bulk_done = 0
        self.bulk_array = None
        self.bulk_reason = None
        self.in_bulk = True
        array = None
        if frame.kind == FS_AM_PUT or frame.kind == FS_AM_PUT_REPLY:
            array = self.endpoint.place(frame.offset, frame.length)
            if array is None:
                self.bulk_reason = FS_AM_OUTSIDE
        else:
            if frame.kind == FS_AM_BULK_REPLY:
                array = known[4]
                if array is not None and memoryview(array).nbytes != frame.length:
                    self.lose(BadFrame(f"{self.peer}: a get of {memoryview(array).nbytes} bytes was answered by"
                                       f" {frame.length}; the connection is closed"))
                    return 0
            if array is None:
                try:
                    array = self.endpoint.arrivals.take(frame.length)
                except MemoryError:
                    self.bulk_reason = FS_AM_TOO_LONG
        if array is not None:
            PyObject_GetBuffer(array, &self.bulk_view, PyBUF_WRITABLE)
            self.bulk_array = array
        return 0

    cdef int end_bulk(self) except -1:
        cdef fs_am_frame frame = self.bulk
        array, reason, words = self.bulk_array, self.bulk_reason, self.bulk_words
        self.in_bulk = False
        self.bulk_array = self.bulk_words = None
        if array is not None:
            PyBuffer_Release(&self.bulk_view)
        if reason is None:
            self.handle(&frame, words, array)
        elif frame.kind <= FS_AM_GET:
            self.turn_away(frame.number, reason)
        else:
            self.report(self.bulk_known, reason)
        return 0

    cdef int turn_away(self, uint32_t number, int reason) except -1:
        cdef unsigned char head[FS_AM_HEAD]
        self.answer(number)
        return self.transmit(head, fs_am_put(head, FS_AM_RETURNED, reason, number, NULL, 0, 0, 0))

    cdef int handle(self, fs_am_frame *frame, tuple words, data) except -1:
        """A frame is complete."""
        cdef unsigned char head[FS_AM_HEAD]
        cdef Token token
        cdef tuple known
        cdef int kind = frame.kind
        cdef uint32_t number = frame.number
        if kind == FS_AM_GET:
            return self.give(frame, words)
        handlers = <list>(<Requests>self.endpoint).handlers
        if fs_am_has_bulk(kind):
            known = self.bulk_known
        elif kind > FS_AM_GET:
            known = self.asked[fs_am_index(number)]
            self.asked[fs_am_index(number)] = None
            if kind == FS_AM_DONE:
                return 0
            if kind == FS_AM_RETURNED:
                return self.report(known, frame.handler)
        handler = handlers[frame.handler] if frame.handler < len(handlers) else None
        if handler is None:
            if kind < FS_AM_GET:
                return self.turn_away(number, FS_AM_NO_HANDLER)
            return self.report(known, FS_AM_NO_HANDLER)
        token = Token.__new__(Token)
        token.connection = self
        token.data = data
        token.number = number
        token.kind = kind
        if kind > FS_AM_GET:
            token.state = TOKEN_REPLY
            run(handler, token, words, IN_REPLY)
            return 0
        try:
            run(handler, token, words, IN_REQUEST)
        except BaseException:
            if token.state == TOKEN_OPEN:
                token.state = TOKEN_OVER
                self.turn_away(number, FS_AM_RAISED)
            raise
        if token.state == TOKEN_OPEN:
            token.state = TOKEN_OVER
            self.answer(number)
            self.put_done(number)
        return 0

    cdef int give(self, fs_am_frame *frame, tuple words) except -1:
        """Answers a get out of the segment, without a handler."""
        cdef int64_t numbers[FS_AM_WORDS]
        cdef uint32_t number = frame.number
        part = self.endpoint.place(frame.offset, frame.length)
        if part is None:
            return self.turn_away(number, FS_AM_OUTSIDE)
        self.answer(number)
        return self.put_bulk(FS_AM_BULK_REPLY, frame.handler, number, numbers, take_words(words, numbers), part, 0,
                             False, None)

    cdef int report(self, tuple known, int reason) except -1:
        """A request comes back. The error handler hears of it when all that has come is taken: it may send."""
        self.endpoint.bundle.returned.append((self, known, reason))
        return 0

    # ---- the end ----

    cdef int lose(self, error) except -1:
        """The other end is gone, or says what it may not. What it did not answer comes back when the bundle is polled."""
        if self.lost is not None:
            return 0
        self.lost = error if isinstance(error, BadFrame) else LostPeer(
            f"{self.peer} over {self.path}: " + ("it closed the connection" if error is None else str(error)))
        self.endpoint.bundle.lost.append(self)
        return 0

    def bury(self):
        """Closes it, and gives the requests that were not answered. Called once, outside of all others."""
        cdef double until = genuine.monotonic() + LAST
        if self.done_count:
            self.put_dones()
        while self.queue and self.lost is None and genuine.monotonic() < until:  # replies that did not go yet
            if not self.flush(True):
                genuine.sleep(1e-3)
        cdef list left = [known for known in self.asked if known is not None]
        if self.in_bulk and self.bulk_known is not None:
            left.append(self.bulk_known)
        self.asked = [None] * len(self.asked)
        if self.lost is None:
            self.lost = LostPeer(f"{self.peer}: this end closed the connection")
        if self.bulk_array is not None:
            self.bulk_array = None
            PyBuffer_Release(&self.bulk_view)
        for _, transfer in self.queue:
            if transfer is not None:
                (<Transfer>transfer).failure = self.lost
        self.queue.clear()
        self.descriptor = -1
        self.sock.close()
        self.channel = self.send_now = self.receive_into = self.unread = self.room = None
        fs_am_close(&self.am)
        return left


cdef tuple words_of(const fs_am_frame *frame):
    cdef Py_ssize_t i
    cdef tuple words
    cdef object word
    if frame.words == 0:
        return ()
    words = PyTuple_New(frame.words)
    for i in range(frame.words):
        word = fs_am_word(frame, <int>i)
        Py_INCREF(word)
        PyTuple_SET_ITEM(words, i, word)
    return words


def returned(Connection connection, tuple known, int reason):
    """The message for an error handler."""
    kind, handler, words, data, _ = known
    return Returned(reason, reason_text(reason), connection.index, handler, words, data, connection.peer)


cdef int run(handler, Token token, tuple words, int how) except -1:
    global am_handling
    cdef PyObject *arguments[FS_AM_WORDS + 1]
    cdef Py_ssize_t i, count = PyTuple_GET_SIZE(words)
    arguments[0] = <PyObject *>token
    for i in range(count):
        arguments[i + 1] = <PyObject *>PyTuple_GET_ITEM(words, i)
    am_handling = how
    try:
        PyObject_Vectorcall(handler, arguments, count + 1, NULL)
    finally:
        am_handling = 0
    return 0


include "requests.pxi"
include "progress.pxi"
