# Who may use a shared bundle now.

@cython.final
cdef class LeaderLock:
    """One thread at a time uses a shared bundle, from within handlers too. Who waits for messages lets go of it.

    Of those who wait one leads: it looks at the connections. The others follow: they wait for what it runs.
    """
    cdef object lock
    cdef unsigned long owner
    cdef int depth
    cdef bint leading
    cdef uint64_t ran   # counts the times that handlers ran
    cdef dict seen      # of these, by thread, those of which its last poll() can have told
    cdef list waiting   # a lock for each that follows
    cdef atomic_int news  # for who leads: another thread has run handlers, or changed the connections

    def __cinit__(self):
        self.lock = allocate_lock()
        self.waiting = []
        self.seen = {}

    cdef int take(self) except -1:
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.depth == 0 or self.owner != me:
            self.lock.acquire()
            self.owner = me
        self.depth += 1
        return 0

    cdef int leave(self) except -1:
        self.depth -= 1
        if self.depth == 0:
            self.owner = 0
            self.lock.release()
        return 0

    cdef int let_go(self) except -1:
        """As often as it was taken, which restore() wants to know."""
        cdef int depth = self.depth
        self.depth = 0
        self.owner = 0
        self.lock.release()
        return depth

    cdef int restore(self, int depth) except -1:
        self.lock.acquire()
        self.owner = PyThread_get_thread_ident()
        self.depth = depth
        return 0

    cdef int follow(self, double left) except -1:
        """Waits until another thread has run something, or nobody leads, or so many seconds; for ever if negative."""
        cdef int depth
        own = allocate_lock()
        own.acquire()
        self.waiting.append(own)
        depth = self.let_go()
        try:
            own.acquire(True, left if left >= 0 else -1)
        finally:
            self.restore(depth)
            if own in self.waiting:
                self.waiting.remove(own)
        return 0

    cdef int pass_on(self) except -1:
        """Somebody must lead while others wait."""
        if not self.leading and self.waiting:
            self.waiting.pop().release()
        return 0

    cdef int has_run(self, int bell) except -1:
        """Whoever waits may have waited for that."""
        self.ran += 1
        while self.waiting:
            self.waiting.pop().release()
        if self.leading:
            atomic_store(&self.news, 1)
            originals.eventfd_write(bell, 1)
        return 0
