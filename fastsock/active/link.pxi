# The bytes of a connection.

cdef class Link:
    """A native carrier has the bytes; without one the descriptor itself carries them.

    sock: connected, and used by this object alone.
    """
    cdef readonly object endpoint, sock, peer, path, lost
    cdef object carrier
    cdef fs_end *end        # whose ring has what comes next, as far as known; NULL: the kernel must be asked
    cdef fs_record *record  # of that connection, where the ring may be left; else NULL
    cdef int descriptor
    cdef bint ready         # as of watched()

    def __cinit__(self):
        self.descriptor = -1

    cdef int carry(self, sock) except -1:
        self.sock = sock
        self.path = sock.transport
        deliver_at_exit(sock)
        self.carrier = carrier_of(sock)
        if self.carrier is None:
            self.descriptor = sock.fileno()
            sock.setblocking(False)
        self.by_kernel()
        return 0

    cdef bint by_kernel(self) except -1:
        """Whether the kernel must be asked for what comes next. That may change in each call that sends or receives."""
        if self.end != NULL and (self.record == NULL or fs_carry_is_by_ring(self.record, self.end)):
            return False
        if self.carrier is None or not carrier_ring(self.carrier, &self.end, &self.record):
            self.end = NULL
        return self.end == NULL

    cdef bint shows_room(self) noexcept:
        """Whether its descriptor tells when more can be sent. That of a channel does not."""
        return self.end == NULL or self.record != NULL

    cdef Py_ssize_t send_some(self, const void *data, Py_ssize_t length, bint patient) except -2:
        """Bytes that have gone; -1: the connection is lost. patient: the receiver is given a moment."""
        cdef iovec part
        cdef fs_parts parts
        part.iov_base, part.iov_len = <void *>data, length
        parts = fs_parts_of(&part, 1)
        return self.send_parts(&parts, patient)

    cdef Py_ssize_t send_parts(self, fs_parts *parts, bint patient) except -2:
        """The same of a gather, from which they are taken off."""
        cdef ssize_t result
        if self.carrier is None:
            result = fs_parts_send(self.descriptor, parts, parts.left, NOW)
            if result >= 0:
                fs_parts_advance(parts, result)
                return result
            if last_error == EAGAIN or last_error == EINTR or last_error == ENOBUFS:
                return 0
            self.lose(OSError(last_error, originals.strerror(last_error)))
            return -1
        try:
            return carrier_put(self.carrier, parts, PATIENCE if patient else 0)
        except OSError as error:
            self.lose(error)
            return -1

    cdef Py_ssize_t receive(self, void *target, Py_ssize_t length, double wait) except -2:
        """Bytes that came, 0: none yet, -1: the connection is lost. wait: seconds, with a carrier alone."""
        cdef ssize_t result
        if self.carrier is None:
            result = recv(self.descriptor, target, length, MSG_DONTWAIT)
            if result < 0 and (last_error == EAGAIN or last_error == EINTR):
                return 0
            if result < 0:
                self.lose(OSError(last_error, originals.strerror(last_error)))
                return -1
        else:
            try:
                result = carrier_take(self.carrier, target, length, wait)
            except OSError as error:
                self.lose(error)
                return -1
            if result == -EAGAIN:
                return 0
        if result == 0:
            self.lose(None)
            return -1
        return result

    cdef bint has_data(self) noexcept:
        """As far as is known without a system call."""
        return self.end != NULL and fs_end_has_data(self.end)

    cdef int watched(self) except -1:
        """The descriptor to sleep on, which tells of all that comes from now on. Unless `ready`: then something is there."""
        self.ready = False
        if self.carrier is None:
            return self.descriptor
        self.descriptor = self.carrier.fileno()
        self.ready = self.descriptor >= 0 and carrier_settle(self.carrier)
        return self.descriptor

    cdef int lose(self, error) except -1:
        """The other end is gone, or says what it may not. What it did not answer comes back when the bundle is polled."""
        if self.lost is not None:
            return 0
        self.lost = error if isinstance(error, BadFrame) else LostPeer(
            f"{self.peer} over {self.path}: " + ("it closed the connection" if error is None else str(error)))
        self.endpoint.bundle.lost.append(self)
        return 0

    cdef int let_go(self) except -1:
        self.end = NULL
        self.descriptor = -1
        self.carrier = None
        deliver(self.sock)
        self.sock.close()
        return 0
