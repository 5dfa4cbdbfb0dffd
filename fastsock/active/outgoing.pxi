# Frames that go, at once or when there is room.

cdef class Outgoing(Link):
    """What goes keeps its order: behind what must wait everything waits."""
    cdef fs_am am
    cdef uint64_t most_there  # bytes of the longest bulk that the other end takes
    cdef object queue         # (memory, Transfer or None): goes before anything else
    cdef Py_ssize_t queued    # of these
    cdef Py_ssize_t queue_at  # bytes of the first that have gone
    cdef unsigned char dones[MOST_DONE * FS_AM_HEADER]  # answers without a handler, that go together
    cdef int done_count

    cdef int check_handler(self, Py_ssize_t handler) except -1:
        if not 0 <= handler < 65536:
            raise ValueError(f"a handler's number is from 0 to 65535, not {handler}")
        return 0

    cdef int open_bulk(self, data, Py_buffer *view) except -1:
        """Its memory, which the caller lets go of."""
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
        if <uint64_t>view.len > self.most_there:
            length = view.len
            PyBuffer_Release(view)
            raise ValueError(f"{self.peer} takes bulks of {self.most_there} bytes at most, not of {length}: its endpoint's"
                             " most_bulk, or its segment, says so")
        return 0

    cdef int answer(self, uint32_t number) except -1:
        if fs_am_answer(&self.am, number) < 0 and self.lost is None:
            raise HandlerRule("this request was answered already")
        return 0

    cdef int put_short(self, fs_am_short *frame, int kind, int handler, uint32_t number, int count, data) except -1:
        """Its words are in the frame: they are not copied once more."""
        cdef unsigned char *out = <unsigned char *>frame
        cdef size_t length = 0 if data is None else len(<bytes>data)
        cdef size_t size = fs_am_put(out, kind, handler, number, frame.words, count, length, 0)
        if length:
            memcpy(out + size, PyBytes_AS_STRING(data), length)
        return self.transmit(out, size + length)

    cdef int transmit(self, const unsigned char *data, size_t length) except -1:
        """Sends, or keeps for later. It never waits."""
        cdef Py_ssize_t done = 0
        if self.done_count:
            self.put_dones()
        if self.lost is not None:
            return 0
        if not self.queued:
            done = self.send_some(data, length, False)
            if done < 0 or <size_t>done == length:
                return 0
        self.keep(PyBytes_FromStringAndSize(<const char *>data + done, length - done), None)
        return 0

    cdef Py_ssize_t transmit_both(self, const unsigned char *head, size_t size, const Py_buffer *view) except -1:
        """A head, and as much of what follows it as goes at once with it: that."""
        cdef iovec both[2]
        cdef fs_parts parts
        cdef size_t went
        # of what is long the receiver looks at the head while the rest is copied
        if self.queued or self.done_count or self.lost is not None or self.end != NULL and size + view.len > FS_TOGETHER:
            self.transmit(head, size)
            return 0
        both[0].iov_base, both[0].iov_len = <void *>head, size
        both[1].iov_base, both[1].iov_len = view.buf, view.len
        parts = fs_parts_of(both, 2)
        if self.send_parts(&parts, False) < 0:
            return 0
        went = size + view.len - parts.left
        if went >= size:
            return went - size
        self.keep(PyBytes_FromStringAndSize(<const char *>head + went, size - went), None)
        return 0

    cdef int keep(self, memory, transfer) except -1:
        self.queue.append((memory, transfer))
        self.queued += 1
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

    cdef int flush(self, bint patient=False) except -1:
        """Sends what is kept, as far as it goes now. 1: some of it went."""
        cdef Py_buffer view
        cdef Py_ssize_t done, left
        cdef int some = 0
        while self.queued and self.lost is None:
            memory, transfer = self.queue[0]
            PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE)
            try:
                left = view.len - self.queue_at
                done = 0 if left == 0 else self.send_some(<const char *>view.buf + self.queue_at, left,
                                                          patient and left > FS_AM_ROOM)
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
            self.queued -= 1
            if transfer is not None:
                (<Transfer>transfer).sent = True
        return some

    cdef int put_bulk(self, int kind, int handler, uint32_t number, const int64_t *words, int count, data,
                      const Py_buffer *view, uint64_t offset, bint wait, Transfer transfer) except -1:
        """A head and the bytes of `data`, which `view` shows. wait: until they have gone. Else the caller leaves them
        alone, if `transfer` is given; else what cannot go now is copied."""
        cdef unsigned char head[FS_AM_HEAD]
        cdef Py_ssize_t done = 0, part
        cdef size_t size = fs_am_put(head, kind, handler, number, words, count, view.len, offset)
        try:
            done = self.transmit_both(head, size, view)
            while not self.queued and done < view.len and self.lost is None:
                part = self.send_some(<const char *>view.buf + done, view.len - done, view.len > FS_AM_ROOM)
                if part > 0:
                    done += part
                elif part < 0 or not wait:
                    break
                else:
                    self.endpoint.bundle.relieve(self)
            if wait and done < view.len and self.lost is None:
                self.keep(memoryview(data).cast("B")[done:], None)
                done = view.len
                while self.queued and self.lost is None:
                    if not self.flush(True):
                        self.endpoint.bundle.relieve(self)
        finally:
            # whatever happens, what follows the head goes before anything else
            if done < view.len and self.lost is None:
                if transfer is not None:
                    self.keep(memoryview(data).cast("B")[done:], transfer)
                else:
                    self.keep(PyBytes_FromStringAndSize(<const char *>view.buf + done, view.len - done), None)
            elif transfer is not None:
                transfer.sent, transfer.failure = self.lost is None, self.lost
        return 0

    cdef int finish_sending(self) except -1:
        """This end closes: replies that did not go yet have a moment. Nothing goes after it."""
        cdef double until = originals.monotonic() + LAST
        if self.done_count:
            self.put_dones()
        while self.queued and self.lost is None and originals.monotonic() < until:
            if not self.flush(True):
                originals.sleep(1e-3)
        if self.lost is None:
            self.lost = LostPeer(f"{self.peer}: this end closed the connection")
        for _, transfer in self.queue:
            if transfer is not None:
                (<Transfer>transfer).failure = self.lost
        self.queue.clear()
        self.queued = 0
        return 0
