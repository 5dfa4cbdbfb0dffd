# cython: language_level=3, freethreading_compatible=True
"""The lock of a connection's parts: compiled code takes a free one without a call of Python."""


cdef class Lock:
    """As that of _thread. A signal handler may run, and raise, while a thread waits for it."""

    def __init__(self):
        self._lock = new_lock()

    def __dealloc__(self):
        free_lock(self._lock)

    cpdef bint acquire(self, bint waits=True) except -1:
        """Whether this thread has it now."""
        return take(self._lock, waits)

    cpdef object release(self):
        """Any thread may let it go."""
        let_go(self._lock)

    cpdef bint locked(self) noexcept:
        """Whether somebody has it."""
        return is_taken(self._lock)

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, *_):
        self.release()
