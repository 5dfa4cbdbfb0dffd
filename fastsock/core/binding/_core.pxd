# The ground of the other modules of this folder: errors, time, the interpreter's lock.
from libc.stdint cimport uint64_t, UINT64_MAX
from .looking cimport fs_lock_wait, fs_lock_wait_ends
from .system cimport fs_now_ns


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define FREE_THREADED 1
    /* In a forked child: a lock that was handed to a thread which is not here would never be free again. */
    static inline void forget_lock(PyObject *object) { object->ob_mutex = (PyMutex){0}; }
    #else
    #define FREE_THREADED 0
    static inline void forget_lock(PyObject *object) { (void)object; }
    #endif
    """
    bint FREE_THREADED
    void forget_lock(object)


cdef enum:
    LONG_COPY = 32 * 1024  # from here the interpreter's lock is given up for the copy
    FIRST_SLEEP_NS = 50000000  # behind it signals are heard, and the next one lasts


cdef uint64_t now_ns() noexcept  # as monotonic()
cdef object checked(int result)  # what a call of the core gave. Raises OSError for a negative errno.
cdef void note_block(size_t length) noexcept  # blocks of so many bytes come and go: as fs_expect_blocks()


cdef inline uint64_t deadline_after(double timeout):
    return UINT64_MAX if timeout < 0 else fs_now_ns() + <uint64_t>(timeout * 1e9)


cdef int lock_took(uint64_t took) except -1


cdef inline int note_lock_wait(const fs_lock_wait *wait) except -1:
    """Getting the interpreter's lock back took long: a thread that computes gets nine tenths of the time from now on."""
    cdef uint64_t took = fs_lock_wait_ends(wait)
    return lock_took(took) if took != 0 else 0


cdef int offer_lock() except -1
