# The bytes of a connection.

cdef class Link:
    """On shared memory the bytes pass a native channel; elsewhere the descriptor itself carries them.

    sock: connected, and used by this object alone.
    """
    cdef readonly object endpoint, sock, peer, path, lost
    cdef object channel
    cdef fs_end *end  # NULL without a channel
    cdef int descriptor

    def __cinit__(self):
        self.descriptor = -1

    cdef int carry(self, sock) except -1:
        self.sock = sock
        self.path = sock.transport
        deliver_at_exit(sock)
        self.channel = sock._fast_channel
        if self.channel is None:
            self.descriptor = sock.fileno()
            sock.setblocking(False)
        else:
            self.end = c_end(self.channel)
        return 0

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
        if self.end == NULL:
            result = fs_parts_send(self.descriptor, parts, parts.left, NOW)
            if result >= 0:
                fs_parts_advance(parts, result)
                return result
            if last_error == EAGAIN or last_error == EINTR or last_error == ENOBUFS:
                return 0
            self.lose(OSError(last_error, genuine.strerror(last_error)))
            return -1
        try:
            return c_send(self.channel, parts, PATIENCE if patient else 0)
        except OSError as error:
            self.lose(error)
            return -1

    cdef Py_ssize_t receive(self, void *target, Py_ssize_t length, double wait) except -2:
        """Bytes that came, 0: none yet, -1: the connection is lost. wait: seconds, on a channel alone."""
        cdef ssize_t result
        if self.end == NULL:
            result = recv(self.descriptor, target, length, MSG_DONTWAIT)
            if result < 0 and (last_error == EAGAIN or last_error == EINTR):
                return 0
            if result < 0:
                self.lose(OSError(last_error, genuine.strerror(last_error)))
                return -1
        else:
            try:
                result = c_receive(self.channel, target, length, wait)
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
        """The descriptor to sleep on. A channel's tells of all that comes from now on."""
        if self.end == NULL:
            return self.descriptor
        self.descriptor = self.channel.fileno()
        if self.descriptor >= 0:
            c_settle(self.channel)
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
        self.channel = None
        deliver(self.sock)
        self.sock.close()
        return 0
