# Where a bulk that is coming in belongs.

cdef struct Memory:  # a buffer that __dealloc__ lets go of: it would not know what a collector had cleared before
    Py_buffer view
    bint is_held


cdef class Arriving(Outgoing):
    """One bulk at a time comes in, behind its head."""
    cdef bint in_bulk
    cdef fs_am_frame bulk
    cdef unsigned char bulk_body[FS_AM_WORDS * FS_AM_WORD]
    cdef tuple bulk_known     # of a reply: the request
    cdef int bulk_reason      # not 0: its bytes are dropped, and it goes back
    cdef char *bulk_target    # of the next byte
    cdef object bulk_array    # None in a segment
    cdef Memory bulk_memory   # of bulk_array

    def __dealloc__(self):
        if self.bulk_memory.is_held:
            PyBuffer_Release(&self.bulk_memory.view)

    cdef int place_bulk(self, tuple known) except -1:
        """Chooses the memory for self.bulk."""
        cdef Requests endpoint = <Requests>self.endpoint
        cdef int kind = self.bulk.kind
        self.bulk_known = known
        self.bulk_reason = 0
        self.bulk_target = NULL
        self.in_bulk = True
        if kind == FS_AM_PUT or kind == FS_AM_PUT_REPLY:
            if endpoint.holds(self.bulk.offset, self.bulk.length):
                self.bulk_target = <char *>endpoint.segment_held.view.buf + self.bulk.offset
            else:
                self.bulk_reason = FS_AM_OUTSIDE
            return 0
        array = None if known is None else known[4]
        if array is None:
            try:
                array = endpoint.arrivals.take(self.bulk.length)
            except MemoryError:
                self.bulk_reason = FS_AM_TOO_LONG
                return 0
        elif memoryview(array).nbytes != self.bulk.length:
            self.lose(BadFrame(f"{self.peer}: a get of {memoryview(array).nbytes} bytes was answered by"
                               f" {self.bulk.length}; the connection is closed"))
            return 0
        PyObject_GetBuffer(array, &self.bulk_memory.view, PyBUF_WRITABLE)
        self.bulk_memory.is_held = True
        self.bulk_array = array
        self.bulk_target = <char *>self.bulk_memory.view.buf
        return 0

    cdef int spill(self) except -1:
        """What of it was received with its head, or with what came before."""
        cdef size_t got = fs_am_spill(&self.am, self.bulk_target, self.am.bulk_left)
        if self.bulk_target != NULL:
            self.bulk_target += got
        return 0

    cdef Py_ssize_t fill(self, double wait) except -2:
        """Receives once, to where it belongs. As receive()."""
        cdef unsigned char *space
        cdef size_t length = 0
        cdef Py_ssize_t got
        if self.in_bulk and self.bulk_target != NULL and self.am.bulk_left and self.am.filled == self.am.from_:
            got = self.receive(self.bulk_target, self.am.bulk_left, wait)
            if got > 0:
                self.bulk_target += got
                fs_am_spilled(&self.am, got)
            return got
        space = fs_am_space(&self.am, &length)
        got = self.receive(space, length, wait)
        if got > 0:
            fs_am_received(&self.am, got)
        return got

    cdef object take_array(self):
        """What the bulk arrived in, if not in the segment."""
        array = self.bulk_array
        self.bulk_array = None
        if self.bulk_memory.is_held:
            self.bulk_memory.is_held = False
            PyBuffer_Release(&self.bulk_memory.view)
        return array
