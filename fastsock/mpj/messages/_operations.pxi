# Part of _point_to_point: what the handles of requests and of matched messages refer to.

cdef class Repeated


cdef class Started(EngineRequest):
    """A message under way: the engine's request, and what a handle refers to, as operation_records.Transfer is."""

    persistent = False
    predefined = False
    constant = None
    constant_name = ""
    active = True

    def __cinit__(self):
        self.unpeeked = True

    @property
    def number(self):
        """An integer that stands for it, given on first request."""
        with cython.critical_section(self):
            if not self._number:
                self._number = numbered(self)
            return self._number

    def ready(self):
        if awaits_others(self):
            self.c_again()
        return fs_request_is_done(&self.request) != 0

    def waits_for(self):
        return [self]

    def wait(self, timeout=None):
        """Waits until it is complete, well or not."""
        cdef fs_request *one = &self.request
        if awaits_others(self):
            self.c_again()
        self.engine.c_wait_all(&one, 1)
        self.settle()
        self.collect()
        return True

    def look(self, status):
        if status is None:
            return
        code = 0 if self.request.error == FS_FINE else error_class(self.error)
        if self.request.cancelled:
            fill_status(status, ANY, ANY, 0, 0, True)
        elif self.request.kind == FS_SENDING:
            fill_status(status, ANY, ANY, 0, code)
        else:
            self.communicator.fill(status, self.envelope, code)

    def finish(self, status):
        if status is not None:
            self.look(status)
        if self.request.error != FS_FINE and not self.request.cancelled:
            raise self.communicator.failed(self.error)
        self.take()

    cdef int take(self) except -1:
        """It is complete, and went well: lets go of what it needed."""
        self.settle()
        self.collect()
        self.own(None)
        return 0

    @property
    def failed(self):
        return fs_request_is_done(&self.request) != 0 and self.request.error != FS_FINE

    def result(self):
        return None

    def free(self):
        pass


@cython.final
cdef class StartedAgain(Started):
    """A message of a request that may be started once more: this keeps the memory."""
    cdef Repeated repeated


@cython.final
cdef class StartedObject(Started):
    """An object that is to come."""
    cdef object value

    cdef int take(self) except -1:
        Started.take(self)
        with cython.critical_section(self):
            payload, self.payload_ = self.payload_, None
        if payload is not None and not self.request.cancelled:
            value = object_of(payload)
            with cython.critical_section(self):
                self.value = value
        return 0

    def result(self):
        with cython.critical_section(self):
            value, self.value = self.value, None
        return value


@cython.final
cdef class StartedCollective(Started):
    """A collective operation under way, which the engine brings further by itself."""

    def look(self, status):
        if status is not None:
            fill_status(status, ANY, ANY, 0, 0 if self.request.error == FS_FINE else error_class(self.error))

    def cancel(self):
        raise self.communicator.fail(ERR_REQUEST, "collective operations cannot be cancelled")


cdef Started new_started(Path path, Span *span, int kind):
    """With the memory that span_of() found; keeps it until the message is complete."""
    cdef Started started = Started.__new__(Started)
    started.communicator = path.record
    started.take_memory(path.engine, span.view.buf, span.view.len, <Py_buffer *>&span.view, kind)
    started.items = items_of(span)
    if started.items is not None:
        started.leave_gaps(layout_of(started.items), started.items.extent)
    return started


@cython.final
@cython.no_gc_clear  # a collector would not release the view, but only drop its owner
cdef class Repeated:
    """A message that can be started again and again: what a handle refers to, as operation_records.Persistent is."""

    cdef Path path
    cdef Py_buffer view
    cdef TypeRecord items  # where they have gaps
    cdef int peer, tag, kind, mode, _number
    cdef bint holds
    cdef Started current_
    cdef object __weakref__

    persistent = True
    predefined = False
    constant = None
    constant_name = ""

    def __dealloc__(self):
        if self.holds:
            PyBuffer_Release(&self.view)

    @property
    def number(self):
        """An integer that stands for it, given on first request."""
        with cython.critical_section(self):
            if not self._number:
                self._number = numbered(self)
            return self._number

    cdef Started current(self):
        with cython.critical_section(self):
            return self.current_

    cdef Started become(self, Started started):
        """What it was before."""
        with cython.critical_section(self):
            before, self.current_ = self.current_, started
        return before

    cdef int c_start(self) except -1:
        cdef StartedAgain started = StartedAgain.__new__(StartedAgain)
        started.communicator, started.repeated = self.path.record, self
        started.take_memory(self.path.engine, self.view.buf, self.view.len, NULL, self.kind)
        if self.items is not None:
            started.leave_gaps(layout_of(self.items), self.items.extent)
        with cython.critical_section(self):
            if self.current_ is not None:
                raise MPIException(ERR_REQUEST, "the request is active already: wait for it before starting it again")
            self.current_ = started
        try:
            if self.kind == FS_SENDING:
                self.path.engine.c_isend(started, self.peer, self.tag, self.path.context, self.mode)
            else:
                self.path.engine.c_irecv(started, self.peer, self.tag, self.path.context)
        except:
            self.become(None)
            raise
        return 0

    def start(self):
        """Starts it."""
        try:
            self.c_start()
        except MessageError as error:
            raise self.path.record.failed(error) from error

    @property
    def engine(self):
        current = self.current()
        return None if current is None else current.engine

    @property
    def active(self):
        return self.current() is not None

    @property
    def failed(self):
        current = self.current()
        return current is not None and current.failed

    @property
    def stranded(self):
        current = self.current()
        return current is not None and current.stranded

    def ready(self):
        current = self.current()
        return current is None or current.ready()

    def waits_for(self):
        current = self.current()
        return [] if current is None else [current]

    def wait(self):
        """Waits until it is complete, well or not."""
        current = self.current()
        if current is not None:
            current.wait()

    def look(self, status):
        current = self.current()
        if current is None:
            fill_empty(status)
        else:
            current.look(status)

    def finish(self, status):
        current = self.current()
        if current is None or not awaits_others(current):  # else it stays
            current = self.become(None)
        if current is None:
            fill_empty(status)
        else:
            current.finish(status)

    def result(self):
        return None

    def cancel(self):
        current = self.current()
        if current is not None:
            current.cancel()

    def free(self):
        pass


@cython.final
cdef class Matched:
    """A message that a probe has taken: the engine's, and the record of the communicator."""

    cdef readonly object communicator
    cdef readonly EngineMatched matched
    cdef int _number
    cdef object __weakref__

    predefined = False
    constant = None
    constant_name = ""

    def __init__(self, communicator, EngineMatched matched not None):
        self.communicator, self.matched = communicator, matched

    @property
    def number(self):
        """An integer that stands for it, given on first request."""
        with cython.critical_section(self):
            if not self._number:
                self._number = numbered(self)
            return self._number


# ---- their handles ----

find_slots(Handle)
cdef object request_class = None  # MPI's, which are written on what is here
cdef object prequest_class = None
cdef object message_class = None


cdef int find_classes() except -1:
    global request_class, prequest_class, message_class
    request_class, prequest_class = Handle.wrapper(Started), Handle.wrapper(Repeated)
    message_class = Handle.wrapper(Matched)
    return 0


cdef object handle_of(Started started):
    if request_class is None:
        find_classes()
    return new_handle(request_class, started)
