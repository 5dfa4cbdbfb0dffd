# What a bundle does with its connections: polls, waits, and buries them.

cdef class Progress:
    """What a bundle does with its connections. `Bundle` is the rest of it.

    bell: a descriptor that can be read when another thread has something for this bundle. brought: connections that
    others have made to it.
    """
    cdef public list connections, lost, returned, brought
    cdef public int bell
    cdef bint inside
    cdef LeaderLock leader_lock  # of a shared bundle

    def share(self):
        """Several threads may use it at once from now on."""
        self.leader_lock = LeaderLock()

    def hold(self):
        """No other thread of a shared bundle does anything with it until release()."""
        if self.leader_lock is not None:
            self.leader_lock.take()

    def release(self):
        """Whoever waits looks at the connections anew."""
        if self.leader_lock is not None:
            if self.leader_lock.leading:
                self.leader_lock.has_run(self.bell)
            self.leader_lock.leave()

    def poll(self, timeout=0.0):
        """Takes what has come and runs the handlers; how many. timeout: seconds to wait for something, None for ever.
        In a shared bundle the wait ends too when another thread has run handlers: then it is 0.

        Raises what a handler raises, and what comes back where the endpoint has no error handler."""
        cdef double left = -1 if timeout is None else timeout
        if am_handling:
            raise HandlerRule("a handler must not poll: it would run inside of itself")
        if self.leader_lock is not None:
            return self.poll_by_turns(left)
        if self.inside:
            raise NotReady("another thread polls this bundle: give each thread a bundle of its own, or make it shared")
        self.inside = True
        try:
            return self.poll_alone(left)
        except BaseException:
            self.settle_up()
            raise
        finally:
            self.inside = False

    cdef int poll_alone(self, double left) except -1:
        cdef double deadline = 0
        cdef int handled = 0
        if left == 0 or len(self.connections) != 1:  # one alone is looked at where it is waited for
            handled = self.look_at_all(left == 0)
        if self.lost or self.returned:
            handled += self.report()
        if handled or left == 0:
            return handled
        if left > 0:
            deadline = originals.monotonic() + left
        while True:
            handled = self.wait_once(left)
            if self.lost or self.returned:
                handled += self.report()
            if handled:
                return handled
            if left >= 0:
                left = deadline - originals.monotonic()
                if left <= 0:
                    return 0

    cdef int poll_by_turns(self, double left) except -1:
        cdef LeaderLock leader_lock = self.leader_lock
        cdef double deadline = 0
        cdef int handled = 0
        cdef unsigned long me = PyThread_get_thread_ident()
        leader_lock.take()
        try:
            # What another thread ran behind this one's back, since its last poll(), is what it may be about to wait for.
            before = leader_lock.seen.get(me, 0)
            handled = self.look_at_all(left == 0)
            if left > 0:
                deadline = originals.monotonic() + left
            while True:
                if self.lost or self.returned:
                    handled += self.report()
                if handled or left == 0 or leader_lock.ran != before:
                    return handled
                if left > 0:
                    left = deadline - originals.monotonic()
                    if left <= 0:
                        return 0
                if leader_lock.leading:
                    leader_lock.follow(left)
                else:
                    leader_lock.leading = True
                    try:
                        handled = self.wait_for_any(left)
                    finally:
                        leader_lock.leading = False
        except BaseException:
            self.settle_up()
            leader_lock.has_run(self.bell)
            raise
        finally:
            if handled:
                leader_lock.has_run(self.bell)
            leader_lock.seen[me] = leader_lock.ran
            leader_lock.pass_on()
            leader_lock.leave()

    cdef int settle_up(self) except -1:
        """A handler has failed: the answers to those before it go all the same."""
        cdef Connection connection
        for connection in self.connections:
            if connection.done_count:
                connection.put_dones()
        return 0

    cdef int look_at_all(self, bint surely) except -1:
        """One round: each connection that has something has its turn. surely: descriptors are asked too."""
        cdef Connection connection
        cdef int handled = 0
        cdef bint asks
        if surely and self.brought:
            self.heard()
        for connection in self.connections:
            asks = surely and connection.lost is None and connection.by_kernel()
            if connection.has_input() or connection.queued or connection.done_count or asks:
                handled += connection.look(0, asks)
        return handled

    cdef int wait_once(self, double left) except -1:
        """Waits, at most `left` seconds, for ever if negative; how many handlers ran."""
        cdef Connection connection
        cdef int handled
        if len(self.connections) == 1:
            connection = <Connection>self.connections[0]
            if connection.lost is None and not connection.queued and not connection.by_kernel():
                handled = connection.look(LOOK if left < 0 or left > LOOK else left, True)
                if handled or connection.lost is not None or self.returned:
                    return handled
        return self.wait_for_any(left)

    cdef int wait_for_any(self, double left) except -1:
        """As wait_once(). Looks at all rings by turns, then sleeps on all descriptors."""
        cdef pollfd few[MOST_POLLED]
        cdef fs_end *few_ends[MOST_POLLED]
        cdef pollfd *list_ = few
        cdef fs_record *few_records[MOST_POLLED]
        cdef fs_end **ends = few_ends
        cdef fs_record **records = few_records
        cdef list connections = list(self.connections)  # who waits elsewhere keeps their memory
        cdef list carriers = []
        cdef Py_ssize_t count = len(connections)
        if count + 1 > MOST_POLLED:
            list_ = <pollfd *>malloc((count + 1) * sizeof(pollfd))
            ends = <fs_end **>malloc(count * sizeof(ends[0]))
            records = <fs_record **>malloc(count * sizeof(records[0]))
        try:
            if list_ == NULL or ends == NULL or records == NULL:
                raise MemoryError()
            if self.spin(connections, carriers, ends, records):
                return self.look_at_all(False)
            return self.sleep(connections, list_, left)
        finally:
            if list_ != few:
                free(list_)
            if ends != few_ends:
                free(ends)
            if records != few_records:
                free(records)

    cdef bint spin(self, list connections, list carriers, fs_end **ends, fs_record **records) except -1:
        """Whether a ring has something, or another thread has something to tell."""
        cdef atomic_int none
        cdef Connection connection
        cdef Py_ssize_t count = 0
        cdef int depth = 0, found
        for connection in connections:
            if connection.lost is None and not connection.by_kernel():
                carriers.append(connection.carrier)
                ends[count], records[count] = connection.end, connection.record
                count += 1
        if count == 0:
            return False
        if self.leader_lock is None:
            atomic_store(&none, 0)
            return c_spin(ends, records, count, SPIN_US, &none)
        depth = self.leader_lock.let_go()
        try:
            found = c_spin(ends, records, count, SPIN_US, &self.leader_lock.news)
        finally:
            self.leader_lock.restore(depth)
        return found

    cdef int sleep(self, list connections, pollfd *list_, double left) except -1:
        """Until any descriptor tells something; then looks there."""
        cdef Connection connection
        cdef Py_ssize_t count = len(connections), i
        cdef int handled = 0
        cdef double most = left
        for i in range(count):
            connection = <Connection>connections[i]
            list_[i].fd = -1
            list_[i].events = POLLIN | POLLRDHUP
            list_[i].revents = 0
            if connection.lost is not None:
                continue
            list_[i].fd = connection.watched()
            if connection.queued:
                if connection.shows_room():
                    list_[i].events |= POLLOUT
                elif most < 0 or most > 1e-3:
                    most = 1e-3  # room in a ring is no event of its doorbell
            if connection.ready or connection.has_input():
                most = 0
        self.ask_kernel(list_, count, most)
        for i in range(count):
            connection = <Connection>connections[i]
            if (<Requests>connection.endpoint).in_bundle() is not self:
                continue  # another thread has moved it to another bundle
            if connection.lost is None and (list_[i].revents or connection.ready or connection.has_input()
                                            or connection.queued):
                handled += connection.look(0, True)
        return handled

    cdef int ask_kernel(self, pollfd *list_, Py_ssize_t count, double left) except -1:
        """The descriptors of the list, and the bell behind them."""
        cdef int milliseconds = -1 if left < 0 else <int>min(left * 1e3 + 0.999, 1e9), result, depth = 0
        list_[count].fd = self.bell
        list_[count].events = POLLIN
        list_[count].revents = 0
        if self.leader_lock is not None:
            depth = self.leader_lock.let_go()
        try:
            with nogil:
                result = poll(list_, count + 1, milliseconds)
        finally:
            if self.leader_lock is not None:
                self.leader_lock.restore(depth)
        if result < 0:
            PyErr_CheckSignals()
        if list_[count].revents:
            if self.leader_lock is not None:
                atomic_store(&self.leader_lock.news, 0)
            self.heard()
        return result

    def relieve(self, Connection stuck):
        """While a bulk of `stuck` cannot go: takes what comes, so that two ends that send to each other both go on."""
        cdef pollfd one
        cdef int handled = self.look_at_all(True)
        if handled and self.leader_lock is not None:
            self.leader_lock.has_run(self.bell)
        if handled or self.lost or self.returned or stuck.carrier is not None:  # that waits for room by itself
            return
        one.fd = stuck.descriptor
        one.events = POLLOUT | POLLIN
        with nogil:
            poll(&one, 1, 1)
        PyErr_CheckSignals()

    cdef int report(self) except -1:
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
        cdef double deadline = 0 if timeout is None else originals.monotonic() + timeout
        cdef double left = -1
        cdef int found
        if am_handling:
            raise HandlerRule("a handler must not wait: nothing can come meanwhile")
        self.hold()
        try:
            while True:
                if timeout is not None:
                    left = max(deadline - originals.monotonic(), 0.0)
                found = self.ready(events, left)
                if found or left == 0:
                    return found
        finally:
            if self.leader_lock is not None:
                self.leader_lock.leave()

    cdef int ready(self, int events, double left) except -1:
        """Those of the events that are so, after at most some milliseconds."""
        cdef pollfd few[MOST_POLLED]
        cdef Connection connection
        cdef int found = 0
        cdef Py_ssize_t count = 0
        for connection in self.connections:
            if connection.queued:
                connection.flush()
            if connection.lost is None and count < MOST_POLLED - 1:
                few[count].fd = connection.watched()
                few[count].events = POLLIN | POLLRDHUP
                few[count].revents = 0
                count += 1
            if connection.ready or connection.has_input() or connection.lost is not None:
                found |= NOT_EMPTY
            if connection.am.side == FS_AM_ASKS and connection.am.credits[FS_AM_SHORT]:
                found |= CAN_SEND
        if self.lost or self.returned:
            found |= NOT_EMPTY
        if found & events:
            return found & events
        self.ask_kernel(few, count, 20e-3 if left < 0 else min(left, 20e-3))
        while count > 0:
            count -= 1
            if few[count].revents:
                found |= NOT_EMPTY
        return found & events
