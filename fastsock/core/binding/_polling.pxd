# What every poller's wait is made of.
from .switch cimport FS_POLLED_MOST, fs_poller

# Of EPOLL* and POLL*; the numbers are Linux's, and the same for both.
cdef enum:
    EVERYTHING = 0x07       # IN, PRI, OUT: what is registered where nothing is said
    READABLE = 0x41         # IN, RDNORM
    WRITABLE = 0x304        # OUT, WRNORM, WRBAND
    ONE_SHOT = 0x40000000
    EDGES = 0x80000000

cdef extern from *:
    """
    /* A class of C's own, with the name of another one, whose module the interpreter takes from the name. */
    static inline void name_class(PyObject *kind, const char *name)
    {
        if (!PyType_HasFeature((PyTypeObject *)kind, Py_TPFLAGS_HEAPTYPE)) ((PyTypeObject *)kind)->tp_name = name;
    }
    """
    void name_class(object kind, const char *name) noexcept


cdef struct Ready:
    int count
    int numbers[FS_POLLED_MOST]


cdef int number_of(object file) except -1
# A poller of fastsock is given the number.
cdef int explain_watch(int number) except -1
# In seconds. Negative: for ever, or nearly so.
cdef double in_seconds(object timeout, double unit) except? -2
# Those whose rings have something. Waits for one a moment, if the caller waits at all: `seconds`, negative for ever.
# Before he asks the kernel the others are settled. With the lock of the poller's owner; it is let go meanwhile.
# learned: the poller that knows whether such a wait pays.
cdef int look(fs_poller *poller, fs_poller *learned, Ready *ready, double seconds) noexcept
# What is unread there has a token from now on, or the other end is asked for one.
cdef void show(int number) noexcept nogil
# Whether the kernel tells the number as readable, and there is nothing.
cdef bint is_stale(fs_poller *poller, int number) except -1
# What the rings have and what the kernel tells, each number once.
cdef list together(list found, list reported)
# The same as `poller`, a standard epoll object, where the numbers of `masks` are registered as they say.
cdef object adopted_epoll(object poller, dict masks)
