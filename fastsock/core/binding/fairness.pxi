# The interpreter's lock: how long it is kept while looking, and for a thread that computes given up more often.
# Where there is none, a look keeps nobody waiting but who would stop all threads, for as short a time.
import sys as _sys

cdef extern from "Python.h":
    ctypedef struct PyInterpreterState:
        pass
    PyInterpreterState *PyInterpreterState_Get() noexcept nogil
    PyThreadState *PyInterpreterState_ThreadHead(PyInterpreterState *interpreter) noexcept nogil
    PyThreadState *PyThreadState_Next(PyThreadState *state) noexcept nogil

cdef Py_ssize_t LONG_COPY = 32 * 1024   # from here the interpreter's lock is given up for the copy
cdef unsigned int OFFER_US = 60

cdef object lock_is_there = getattr(_sys, "_is_gil_enabled", None)  # since Python 3.13; a module can bring it back


cdef int is_only_thread() noexcept nogil:
    """With the interpreter's lock, which the list of threads changes under. Without one the list is not looked at."""
    return not FREE_THREADED and PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) == NULL


def configure(*, double look_us):
    """Sets how long, in microseconds, a receiver looks at the ring before it gives up the interpreter's lock."""
    fs_look_configure(look_us, is_only_thread)


def looked():
    """Seconds that looks have kept the interpreter's lock in this process: those in vain, and beside a thread that computes
    all of them."""
    return <double>fs_looked() / fs_ticks_per_us() / 1e6


cdef inline int note_lock_wait(const fs_lock_wait *wait) except -1:
    """Getting the interpreter's lock back took long: a thread that computes gets nine tenths of the time from now on."""
    cdef uint64_t took = fs_lock_wait_ends(wait)
    if took != 0 and (lock_is_there is None or lock_is_there()):
        fs_lock_is_contended(took)
    return 0


cdef int offer_lock() except -1:
    """Lets another Python thread run, and learns from how long that took whether there still is one."""
    cdef fs_lock_wait wait
    with nogil:
        usleep(OFFER_US)  # released and taken back at once, a lock never reaches a thread that must first wake up
        fs_lock_wait_begins(&wait)
    fs_lock_is_free()
    note_lock_wait(&wait)
    return 0
