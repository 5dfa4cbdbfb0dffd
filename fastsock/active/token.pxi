# What handlers get beside the words, and what a bulk that goes by itself leaves in the program's hands.

cdef int may_send() except -1:
    """Called within a handler: it may not."""
    if am_handling == IN_REQUEST:
        raise HandlerRule(
            "a request handler may reply once and do nothing else here: a request would wait for credit that comes back"
            " only when this thread takes what has come, and it is inside a handler (deadlock). Note what is to be sent,"
            " and send it after poll()")
    raise HandlerRule(
        "a reply handler may send nothing: whoever waits for room in order to answer an answer may wait for ever"
        " (deadlock). Note what is to be sent, and send it after poll()")


@cython.final
@cython.freelist(16)
cdef class Token:
    """What a handler gets beside the words: who sent the message, its data, and for a request the one reply.

    data: None; bytes of a medium message; a uint8 array of a bulk; a memoryview of the segment where the bulk was put.
    """
    cdef readonly object connection
    cdef object kept          # bytes, or the array
    cdef uint64_t offset, length  # in the segment
    cdef uint32_t number
    cdef int state
    cdef int frame_kind

    @property
    def data(self):
        """What came with the words."""
        if self.kept is None and (self.frame_kind == FS_AM_PUT or self.frame_kind == FS_AM_PUT_REPLY):
            self.kept = (<Requests>(<Connection>self.connection).endpoint).part(self.offset, self.length)
        return self.kept

    @property
    def endpoint(self):
        """The endpoint of this process."""
        return (<Connection>self.connection).endpoint

    @property
    def peer(self):
        """Where the message came from, for people."""
        return (<Connection>self.connection).peer

    cdef int use(self) except -1:
        if self.state == TOKEN_OPEN:
            return 0
        if self.state == TOKEN_USED:
            raise HandlerRule("a request handler may reply once, and this one has: send more words, or data, in one reply")
        if self.state == TOKEN_REPLY:
            raise HandlerRule("a reply handler may send nothing: a reply that is answered could wait for ever (deadlock)")
        raise HandlerRule("the handler of this request has returned, so the asking end was told that there is no reply")

    def reply_bulk(self, Py_ssize_t handler, data, *words, offset=None):
        """As reply(), with data of any size: into the asking endpoint's segment at `offset`, or into a fresh array.

        Only a request in bulk has the credit that this takes. What cannot go at once is copied."""
        cdef Connection connection = <Connection>self.connection
        cdef int64_t numbers[FS_AM_WORDS]
        cdef Py_buffer view
        cdef uint64_t place = 0 if offset is None else offset
        cdef int count
        self.use()
        if self.frame_kind == FS_AM_REQUEST:
            raise HandlerRule("a short request has no credit for a bulk: ask with request_bulk(), its data may be empty")
        count = take_words(items_of(words), PyTuple_GET_SIZE(words), numbers)
        connection.check_handler(handler)
        connection.open_bulk(data, &view)
        try:
            connection.answer(self.number)
            self.state = TOKEN_USED
            connection.put_bulk(FS_AM_BULK_REPLY if offset is None else FS_AM_PUT_REPLY, handler, self.number, numbers,
                                count, data, &view, place, False, None)
        finally:
            PyBuffer_Release(&view)

    def __repr__(self):
        return f"<active message from {self.peer}>"


cdef object reply(Token self, PyObject **given, Py_ssize_t count, PyObject *names):
    cdef Connection connection = <Connection>self.connection
    cdef fs_am_short frame
    cdef PyObject *found[2]
    cdef Py_ssize_t handler
    count = read_arguments("reply", ("handler",), given, count, names, found)
    handler = <object>found[0]
    data = None if found[1] == NULL else <object>found[1]
    self.use()
    count = take_words(given + 1, count, frame.words)
    connection.check_handler(handler)
    data = checked_data(data)
    connection.answer(self.number)
    self.state = TOKEN_USED
    connection.put_short(&frame, FS_AM_REPLY, handler, self.number, <int>count, data)
    return None


cdef PyMethodDef reply_method
add_method(Token, &reply_method, "reply", <PyCFunction>reply, b"""\
reply($self, handler, *words, data=None)
--

Answers the request: runs the handler of that number at the end that asked, with up to 16 words (64 bit) and
up to 8192 bytes of data. Never waits. Raises HandlerRule for a second reply.""")


cdef object checked_data(data):
    """Of a message without a bulk."""
    if data is None:
        return None
    if type(data) is not bytes:
        data = bytes(memoryview(data))
    if len(<bytes>data) > FS_AM_MEDIUM:
        raise ValueError(f"a message without a bulk has at most {FS_AM_MEDIUM} bytes of data, not {len(data)}")
    return data


@cython.final
cdef class Transfer:
    """A bulk that goes by itself while the bundle is polled. Its data must not change until `sent`."""
    cdef readonly bint sent
    cdef readonly object failure
    cdef object data
    cdef object endpoint  # which may move to another bundle

    def wait(self, timeout=None):
        """Polls until the data may change again. Raises LostPeer, TimeoutError."""
        cdef double deadline = 0 if timeout is None else originals.monotonic() + timeout
        while not self.sent:
            if self.failure is not None:
                raise self.failure
            if timeout is not None and originals.monotonic() >= deadline:
                raise TimeoutError("the bulk is not sent yet")
            self.endpoint.bundle.poll(None if timeout is None else max(deadline - originals.monotonic(), 0.0))
