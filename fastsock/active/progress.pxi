# What a bundle does with its connections: polls, waits, and buries them.

cdef class Progress:
    """What a bundle does with its connections. `Bundle` is the rest of it.

    bell: a descriptor that can be read when another thread has something for this bundle.
    """
    cdef public list connections, lost, returned
    cdef public int bell
    cdef bint inside

    def poll(self, timeout=0.0):
        """Takes what has come and runs the handlers; how many. timeout: seconds to wait for something, None for ever.

        Raises what a handler raises, and what comes back where the endpoint has no error handler."""
        cdef double left = -1 if timeout is None else timeout
        cdef double deadline = 0
        cdef int handled
        if am_handling:
            raise HandlerRule("a handler must not poll: it would run inside of itself")
        if self.inside:
            raise NotReady("another thread polls this bundle: give each thread a bundle of its own")
        self.inside = True
        try:
            handled = 0
            if left == 0 or len(self.connections) != 1:  # one alone is looked at where it is waited for
                handled = self.look_at_all(left == 0)
            if self.lost or self.returned:
                handled += self.tell()
            if handled or left == 0:
                return handled
            if left > 0:
                deadline = genuine.monotonic() + left
            while True:
                handled = self.wait_once(left)
                if self.lost or self.returned:
                    handled += self.tell()
                if handled:
                    return handled
                if left >= 0:
                    left = deadline - genuine.monotonic()
                    if left <= 0:
                        return 0
        except BaseException:
            self.settle_up()
            raise
        finally:
            self.inside = False

    cdef int settle_up(self) except -1:
        """A handler has failed: the answers to those before it go all the same."""
        cdef Connection connection
        for connection in self.connections:
            if connection.done_count:
                connection.put_dones()
        return 0

    cdef int look_at_all(self, bint surely) except -1:
        cdef Connection connection
        cdef int handled = 0
        for connection in self.connections:
            if connection.lost is None:
                handled += connection.look(0, surely and connection.channel is None)
        return handled

    cdef int wait_once(self, double left) except -1:
        """Waits, at most `left` seconds, none if negative; how many handlers ran."""
        cdef Connection connection
        cdef int handled, i
        if len(self.connections) == 1:
            connection = <Connection>self.connections[0]
            if connection.channel is not None and connection.lost is None and not connection.queue:
                handled = connection.look(LOOK if left < 0 or left > LOOK else left, True)
                if handled or connection.lost is not None or self.returned:
                    return handled
        else:
            for i in range(200):
                handled = self.look_at_all(False)
                if handled or self.lost or self.returned:
                    return handled
        if left >= 0:
            left = max(left - LOOK, 0)
        return self.sleep(left)

    cdef int sleep(self, double left) except -1:
        """Until any descriptor tells something; then looks there."""
        cdef pollfd few[MOST_POLLED]
        cdef pollfd *list_ = few
        cdef Connection connection
        cdef Py_ssize_t count = len(self.connections), i
        cdef int result, handled = 0, milliseconds
        cdef list connections = list(self.connections)
        if count + 1 > MOST_POLLED:
            list_ = <pollfd *>malloc((count + 1) * sizeof(pollfd))
            if list_ == NULL:
                raise MemoryError()
        try:
            milliseconds = -1 if left < 0 else <int>min(left * 1e3 + 0.999, 1e9)
            for i in range(count):
                connection = <Connection>connections[i]
                list_[i].fd = -1
                list_[i].events = POLLIN | POLLRDHUP
                list_[i].revents = 0
                if connection.lost is not None:
                    continue
                if connection.queue:
                    list_[i].events |= POLLOUT
                    if connection.channel is not None and (milliseconds < 0 or milliseconds > 1):
                        milliseconds = 1  # room in a ring is no event of its doorbell
                        list_[i].events &= ~POLLOUT
                if connection.channel is not None:
                    # not the socket's fileno(): that would have each message ring the doorbell from then on
                    connection.descriptor = connection.channel.fileno()
                    if connection.channel.settle():
                        milliseconds = 0
                        list_[i].revents = POLLIN
                list_[i].fd = connection.descriptor
            list_[count].fd = self.bell
            list_[count].events = POLLIN
            list_[count].revents = 0
            with nogil:
                result = poll(list_, count + 1, milliseconds)
            if result < 0:
                PyErr_CheckSignals()
            if list_[count].revents:
                self.heard()
            for i in range(count):
                connection = <Connection>connections[i]
                if connection.lost is None and (list_[i].revents or connection.has_input() or connection.queue):
                    handled += connection.look(0, True)
        finally:
            if list_ != few:
                free(list_)
        return handled

    def relieve(self, Connection stuck):
        """While a bulk of `stuck` cannot go: takes what comes, so that two ends that send to each other both go on."""
        cdef pollfd one
        cdef int handled = self.look_at_all(True)
        if handled or self.lost or self.returned or stuck.channel is not None:
            return
        one.fd = stuck.descriptor
        one.events = POLLOUT | POLLIN
        with nogil:
            poll(&one, 1, 1)
        PyErr_CheckSignals()

    cdef int tell(self) except -1:
        """What has come back, and what has ended: the error handlers, which may send and poll."""
        cdef int handled = 0
        self.inside = False
        while self.returned:
            connection, known, reason = self.returned.pop(0)
            handled += 1
            connection.endpoint.came_back(returned(connection, known, reason))
        if self.lost:
            handled += self.bury_lost()
        self.inside = True
        return handled

    cdef int bury_lost(self) except -1:
        cdef int handled = 0
        cdef Connection connection
        while self.lost:
            connection = <Connection>self.lost.pop()
            self.dropped(connection)
            handled += 1
        return handled

    def wait(self, timeout=None, int events=NOT_EMPTY):
        """Waits, without running a handler, until a message has come (NOT_EMPTY) or a request can be sent (CAN_SEND).

        Returns those of the asked events that are so, 0 after `timeout` seconds."""
        cdef Connection connection
        cdef double deadline = 0 if timeout is None else genuine.monotonic() + timeout
        cdef int found, milliseconds
        cdef pollfd few[MOST_POLLED]
        cdef Py_ssize_t count
        if am_handling:
            raise HandlerRule("a handler must not wait: nothing can come meanwhile")
        while True:
            found = 0
            count = 0
            milliseconds = 20 if timeout is None else <int>min(max((deadline - genuine.monotonic()) * 1e3, 0), 20)
            for connection in self.connections:
                if connection.queue:
                    connection.flush()
                if connection.has_input() or connection.lost is not None:
                    found |= NOT_EMPTY
                if connection.am.side == FS_AM_ASKS and connection.am.credits[FS_AM_SHORT]:
                    found |= CAN_SEND
                if connection.lost is None and count < MOST_POLLED - 1:
                    if connection.channel is not None:
                        connection.descriptor = connection.channel.fileno()
                        if connection.channel.settle():
                            found |= NOT_EMPTY
                    few[count].fd = connection.descriptor
                    few[count].events = POLLIN | POLLRDHUP
                    few[count].revents = 0
                    count += 1
            if self.lost or self.returned:
                found |= NOT_EMPTY
            if found & events:
                return found & events
            few[count].fd = self.bell
            few[count].events = POLLIN
            few[count].revents = 0
            with nogil:
                poll(few, count + 1, milliseconds)
            PyErr_CheckSignals()
            if few[count].revents:
                self.heard()
            found = 0
            while count > 0:
                count -= 1
                if few[count].revents:
                    found = NOT_EMPTY
            if found & events:
                return found & events
            if timeout is not None and genuine.monotonic() >= deadline:
                return 0
