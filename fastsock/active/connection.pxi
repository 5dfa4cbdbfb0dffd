# Frames that have come, and their handlers.

cdef struct Asked:  # a request that is under way; its objects stand in `kept`
    int kind, handler, count
    int64_t words[FS_AM_WORDS]


@cython.final
cdef class Connection(Arriving):
    """One entry of a translation table, or the other end of one.

    asks: whether this end sends the requests. shorts, longs: credits. most_here, most_there: bytes of the longest bulk
    that each end takes.
    """
    cdef public int index
    cdef Asked *asked
    cdef list kept  # of each request under way: its data, and where a get's bytes go

    def __cinit__(self):
        self.index = -1

    def __init__(self, sock, endpoint, bint asks, uint32_t shorts, uint32_t longs, uint64_t most_here, uint64_t most_there,
                 peer):
        cdef int result = fs_am_open(&self.am, FS_AM_ASKS if asks else FS_AM_ANSWERS, shorts, longs, most_here)
        if result < 0:
            raise MemoryError() if result == -12 else ValueError("credits must be from 1 to 1024")
        self.asked = <Asked *>calloc(shorts + longs, sizeof(Asked))
        if self.asked == NULL:
            raise MemoryError()
        self.kept = [None] * (2 * (shorts + longs))
        self.endpoint = endpoint
        self.peer = peer
        self.most_there = most_there
        self.queue = deque()
        self.carry(sock)

    def __dealloc__(self):
        fs_am_close(&self.am)
        free(self.asked)

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

    # ---- requests under way ----

    cdef int remember(self, uint32_t number, int kind, int handler, const int64_t *words, int count, data,
                      into) except -1:
        cdef Py_ssize_t index = fs_am_index(number)
        cdef Asked *asked = self.asked + index
        asked.kind, asked.handler, asked.count = kind, handler, count
        memcpy(asked.words, words, count * sizeof(words[0]))
        if data is not None:
            self.kept[2 * index] = data
        if into is not None:
            self.kept[2 * index + 1] = into
        return 0

    cdef int forget(self, uint32_t number) except -1:
        cdef Py_ssize_t index = fs_am_index(number)
        if self.asked[index].kind != FS_AM_REQUEST or self.kept[2 * index] is not None:
            self.kept[2 * index] = self.kept[2 * index + 1] = None
        self.asked[index].kind = 0
        return 0

    cdef tuple recall(self, uint32_t number):
        """Kind, handler, words, data, into; and forgets it."""
        cdef Py_ssize_t index = fs_am_index(number)
        cdef Asked *asked = self.asked + index
        words = tuple([asked.words[i] for i in range(asked.count)])
        known = (asked.kind, asked.handler, words, self.kept[2 * index], self.kept[2 * index + 1])
        self.forget(number)
        return known

    # ---- in ----

    cdef bint has_input(self) noexcept:
        """Something was received and not taken, or can be received, as far as is known without a system call."""
        return self.lost is None and (self.am.filled != self.am.from_ or self.has_data())

    cdef int look(self, double wait, bint surely) except -1:
        """Takes what has come and runs handlers: how many. surely: receive even where nothing is known to be there."""
        cdef int handled = 0
        if self.am.filled != self.am.from_ or self.in_bulk:
            handled = self.take()
        if handled:
            surely, wait = False, 0
        if self.done_count and not handled:  # a wait may follow
            self.put_dones()
        if self.queued:
            self.flush()
        while self.lost is None and handled < ROUND:
            if not surely and not self.has_data():
                break
            if self.fill(wait) <= 0:
                break
            handled += self.take()
            if self.in_bulk:
                continue
            wait = 0
            if handled:  # more is taken only if it is there: of a stream as much as a round may
                surely = False
        if self.done_count and self.lost is None and not self.has_data():
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
            if self.am.filled == self.am.from_:
                break
            result = fs_am_take(&self.am, &frame)
            if result == 0:
                break
            if result < 0:
                self.lose(BadFrame(f"{self.peer}: {self.am.wrong.decode()}; the connection is closed"))
                break
            if fs_am_has_bulk(frame.kind):
                self.bulk = frame
                self.bulk.body = self.bulk_body  # its bytes may come where its head was received
                memcpy(self.bulk_body, frame.body, frame.words * FS_AM_WORD)
                # a reply's slot is free: the next request may have it before the bulk is whole
                self.place_bulk(self.recall(frame.number) if frame.kind > FS_AM_GET else None)
            else:
                self.handle(&frame)
                handled += 1
        return handled

    cdef int end_bulk(self) except -1:
        cdef fs_am_frame frame = self.bulk
        cdef tuple known = self.bulk_known
        array = self.take_array()
        self.in_bulk = False
        self.bulk_known = None
        if self.bulk_reason == 0:
            return self.deliver(&frame, array, known, (<Requests>self.endpoint).handler_of(frame.handler))
        if frame.kind <= FS_AM_GET:
            return self.turn_away(frame.number, self.bulk_reason)
        return self.report(known, self.bulk_reason)

    cdef int turn_away(self, uint32_t number, int reason) except -1:
        cdef unsigned char head[FS_AM_HEAD]
        self.answer(number)
        return self.transmit(head, fs_am_put(head, FS_AM_RETURNED, reason, number, NULL, 0, 0, 0))

    cdef int handle(self, fs_am_frame *frame) except -1:
        """A frame that is no bulk."""
        if frame.kind == FS_AM_GET:
            return self.give(frame)
        if frame.kind == FS_AM_RETURNED:
            return self.report(self.recall(frame.number), frame.handler)
        handler = (<Requests>self.endpoint).handler_of(frame.handler)
        if frame.kind == FS_AM_REPLY and handler is None:
            return self.report(self.recall(frame.number), FS_AM_NO_HANDLER)
        if frame.kind > FS_AM_GET:
            self.forget(frame.number)
            if frame.kind == FS_AM_DONE:
                return 0
        return self.deliver(frame, None if frame.length == 0 else
                            PyBytes_FromStringAndSize(<const char *>frame.payload, frame.length), None, handler)

    cdef int deliver(self, const fs_am_frame *frame, data, tuple known, handler) except -1:
        """Runs the handler, where there is one. known: the request, of a reply in bulk."""
        cdef Token token
        cdef uint32_t number = frame.number
        if handler is None:
            if frame.kind < FS_AM_GET:
                return self.turn_away(number, FS_AM_NO_HANDLER)
            return self.report(known, FS_AM_NO_HANDLER)
        token = Token.__new__(Token)
        token.connection = self
        token.kept = data
        token.frame_kind = frame.kind
        token.offset, token.length = frame.offset, frame.length
        token.number = number
        if frame.kind > FS_AM_GET:
            token.state = TOKEN_REPLY
            return run(handler, token, frame, IN_REPLY)
        try:
            run(handler, token, frame, IN_REQUEST)
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

    cdef int give(self, const fs_am_frame *frame) except -1:
        """Answers a get out of the segment, without a handler."""
        cdef Requests endpoint = <Requests>self.endpoint
        cdef int64_t words[FS_AM_WORDS]
        cdef Py_buffer view
        cdef uint32_t number = frame.number
        if not endpoint.holds(frame.offset, frame.length):
            return self.turn_away(number, FS_AM_OUTSIDE)
        self.answer(number)
        part = endpoint.part(frame.offset, frame.length)
        fs_am_words(frame, words)
        PyObject_GetBuffer(part, &view, PyBUF_SIMPLE)
        try:
            self.put_bulk(FS_AM_BULK_REPLY, frame.handler, number, words, frame.words, part, &view, 0, False, None)
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int report(self, tuple known, int reason) except -1:
        """A request comes back. The error handler hears of it when all that has come is taken: it may send."""
        self.endpoint.bundle.returned.append((self, known, reason))
        return 0

    # ---- the end ----

    def bury(self):
        """Closes it, and gives the requests that were not answered. Called once, outside of all others."""
        cdef Py_ssize_t index
        cdef list left = []
        self.finish_sending()
        for index in range(len(self.kept) // 2):
            if self.asked[index].kind:
                left.append(self.recall(<uint32_t>index))
        if self.in_bulk and self.bulk_known is not None:
            left.append(self.bulk_known)
        self.in_bulk = False
        self.take_array()
        self.let_go()
        fs_am_close(&self.am)
        return left


def returned(Connection connection, tuple known, int reason):
    """The message for an error handler."""
    kind, handler, words, data, _ = known
    return Returned(reason, reason_text(reason), connection.index, handler, words, data, connection.peer)


cdef int run(handler, Token token, const fs_am_frame *frame, int how) except -1:
    """Calls it with the token and the words. Their ints are made from the frame at once."""
    global am_handling
    cdef PyObject *arguments[FS_AM_WORDS + 2]  # the first is the callee's to use
    cdef PyObject *made[FS_AM_WORDS]
    cdef PyObject *result
    cdef int new = make_ints(frame, arguments + 2, made)
    arguments[1] = <PyObject *>token
    am_handling = how
    result = call(<PyObject *>handler, arguments + 1, (frame.words + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)
    am_handling = 0
    drop_ints(made, new)
    if result == NULL:
        return -1  # with the exception that is set
    drop(result)
    return 0
