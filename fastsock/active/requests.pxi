# What an endpoint sends.

cdef class Requests:
    """What an endpoint sends. `Endpoint` is the rest of it."""
    cdef public list entries, handlers
    cdef public object arrivals
    cdef object bundle_now
    cdef object segment_memory
    cdef Memory segment_held

    def __dealloc__(self):
        if self.segment_held.is_held:
            PyBuffer_Release(&self.segment_held.view)

    @property
    def bundle(self):
        """The bundle that it belongs to. Another thread may move it at any time."""
        return self.in_bundle()

    @bundle.setter
    @cython.critical_section
    def bundle(self, bundle):
        self.bundle_now = bundle

    @cython.final
    @cython.critical_section
    cdef object in_bundle(self):
        return self.bundle_now

    def hold_segment(self, segment):
        """Its memory stays where it is from now on. Called once."""
        PyObject_GetBuffer(segment, &self.segment_held.view, PyBUF_WRITABLE if len(segment) else PyBUF_SIMPLE)
        self.segment_held.is_held = True
        self.segment_memory = segment

    cdef bint holds(self, uint64_t offset, uint64_t nbytes) noexcept:
        """Whether that part lies within the segment."""
        cdef uint64_t size = self.segment_held.view.len
        return nbytes <= size and offset <= size - nbytes

    cdef object part(self, uint64_t offset, uint64_t nbytes):
        return self.segment_memory[offset:offset + nbytes]

    cdef object handler_of(self, int number):
        """None: there is none."""
        return item_of(self.handlers, number) if number < PyList_GET_SIZE(self.handlers) else None

    cdef Connection entry(self, Py_ssize_t index):
        cdef Connection connection
        connection = <Connection>self.entries[index] if 0 <= index < len(self.entries) else None
        if connection is None:
            raise NoEntry(f"entry {index} of the translation table is not mapped: call map({index}, name)")
        if connection.lost is not None:
            raise connection.lost
        return connection

    cdef LeaderLock enter(self):
        """No other thread uses a shared bundle until leave() of what this returns; None where it is not shared."""
        cdef Progress bundle = <Progress>self.in_bundle()
        while bundle.leader_lock is not None:
            bundle.leader_lock.take()
            if self.in_bundle() is bundle:
                return bundle.leader_lock
            bundle.leader_lock.leave()  # the endpoint has moved meanwhile
            bundle = <Progress>self.in_bundle()
        return None

    cdef uint32_t credit(self, Connection connection, int kind) except 0:
        """The number of a new request, when there is credit for it."""
        cdef uint32_t number = fs_am_ask(&connection.am, kind)
        bundle = self.in_bundle()
        while number == 0:
            if connection.am.limits[FS_AM_SHORT if kind == FS_AM_REQUEST else FS_AM_LONG] == 0:
                raise NotReady(f"{connection.peer} grants no credit for bulks")
            bundle.poll(None)
            if bundle is not self.in_bundle():  # whose turn it is there this thread does not know
                raise NotReady("the endpoint has moved to another bundle: nothing was sent, ask again")
            if connection.lost is not None:
                raise connection.lost
            number = fs_am_ask(&connection.am, kind)
        return number

    cdef int ask(self, Py_ssize_t index, Py_ssize_t handler, PyObject **given, Py_ssize_t given_count, data) except -1:
        cdef fs_am_short frame
        cdef uint32_t number
        cdef int count = take_words(given, given_count, frame.words)
        cdef Connection connection
        if data is not None:
            data = checked_data(data)
        connection = self.entry(index)  # now: a word's __index__ may have ended it
        connection.check_handler(handler)
        number = self.credit(connection, FS_AM_REQUEST)
        connection.remember(number, FS_AM_REQUEST, handler, frame.words, count, data, None)
        return connection.put_short(&frame, FS_AM_REQUEST, handler, number, count, data)

    def request_bulk(self, Py_ssize_t index, Py_ssize_t handler, data, *words, offset=None):
        """As request(), with contiguous data of any size, up to what the other endpoint takes.

        offset: bytes from the start of the other endpoint's segment; None: it goes into a fresh array, or one of a pool.
        Returns when the data may change again."""
        self.ask_bulk(index, handler, data, words, offset, True, None)

    def begin_bulk(self, Py_ssize_t index, Py_ssize_t handler, data, *words, offset=None):
        """As request_bulk(), but returns at once (but for credit) a Transfer; the data must not change until it is sent."""
        cdef Transfer transfer = Transfer.__new__(Transfer)
        transfer.endpoint = self
        transfer.data = data
        self.ask_bulk(index, handler, data, words, offset, False, transfer)
        return transfer

    cdef int ask_bulk(self, Py_ssize_t index, Py_ssize_t handler, data, tuple words, offset, bint wait,
                      Transfer transfer) except -1:
        cdef int64_t numbers[FS_AM_WORDS]
        cdef Connection connection
        cdef Py_buffer view
        cdef uint32_t number
        cdef uint64_t place = 0 if offset is None else offset
        cdef int count, kind = FS_AM_BULK if offset is None else FS_AM_PUT
        cdef LeaderLock leader_lock
        if am_handling:
            may_send()
        leader_lock = self.enter()
        try:
            count = take_words(items_of(words), PyTuple_GET_SIZE(words), numbers)
            connection = self.entry(index)
            connection.check_handler(handler)
            connection.open_bulk(data, &view)
            try:
                number = self.credit(connection, kind)
                connection.remember(number, kind, handler, numbers, count, data, None)
                connection.put_bulk(kind, handler, number, numbers, count, data, &view, place, wait, transfer)
            finally:
                PyBuffer_Release(&view)
        finally:
            if leader_lock is not None:
                leader_lock.leave()
        return 0

    def get(self, Py_ssize_t index, Py_ssize_t handler, uint64_t offset, uint64_t nbytes, *words, into=None):
        """Reads `nbytes` at `offset` of the other endpoint's segment; then this endpoint's handler of that number runs
        with the words and the data. into: a writable contiguous buffer of `nbytes`; None: an array, as for bulks."""
        cdef LeaderLock leader_lock
        if am_handling:
            may_send()
        if into is not None:
            into = memoryview(into).cast("B")
            if into.nbytes != nbytes or into.readonly:
                raise ValueError(f"`into` must be writable and have {nbytes} bytes, not {into.nbytes}")
        leader_lock = self.enter()
        try:
            self.ask_get(index, handler, words, offset, nbytes, into)
        finally:
            if leader_lock is not None:
                leader_lock.leave()

    cdef int ask_get(self, Py_ssize_t index, Py_ssize_t handler, tuple words, uint64_t offset, uint64_t nbytes, into) except -1:
        cdef int64_t numbers[FS_AM_WORDS]
        cdef unsigned char head[FS_AM_HEAD]
        cdef uint32_t number
        cdef int count = take_words(items_of(words), PyTuple_GET_SIZE(words), numbers)
        cdef Connection connection = self.entry(index)
        connection.check_handler(handler)
        if nbytes > connection.most_here():
            raise ValueError(f"this endpoint takes bulks of {connection.most_here()} bytes at most: set most_bulk")
        number = self.credit(connection, FS_AM_GET)
        connection.remember(number, FS_AM_GET, handler, numbers, count, None, into)
        return connection.transmit(head, fs_am_put(head, FS_AM_GET, handler, number, numbers, count, nbytes, offset))


cdef object request(Requests self, PyObject **given, Py_ssize_t count, PyObject *names):
    cdef PyObject *found[3]
    cdef Py_ssize_t index, handler
    cdef LeaderLock leader_lock
    count = read_arguments("request", ("index", "handler"), given, count, names, found)
    index = <object>found[0]
    handler = <object>found[1]
    data = None if found[2] == NULL else <object>found[2]
    if am_handling:
        may_send()
    leader_lock = self.enter()
    if leader_lock is None:
        self.ask(index, handler, given + 2, count, data)
        return None
    try:
        self.ask(index, handler, given + 2, count, data)
    finally:
        leader_lock.leave()
    return None


cdef PyMethodDef request_method
add_method(Requests, &request_method, "request", <PyCFunction>request, b"""\
request($self, index, handler, *words, data=None)
--

Runs the handler of that number at the endpoint of entry `index`, with up to 16 words of 64 bits and up to 8192
bytes of data. Waits for credit, and polls meanwhile.

Raises NoEntry, LostPeer, HandlerRule within a handler, ValueError for what is too long, OverflowError.""")
