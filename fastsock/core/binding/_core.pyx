# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The ground of the other modules of this folder: errors, time, the interpreter's lock.

Nothing in this folder relies on the interpreter's lock. What several threads may use is one of three: the C core's, which
locks for itself; an atomic word; or read and written within a critical section of the object that has it.

A collection of garbage clears the objects of a dead circle before their ends. So a class whose `__dealloc__` touches
attributes says @cython.no_gc_clear. A Python function is called in `__del__` only, which comes before anything is cleared.

Methods are the interpreter's own kind (binding=False): a bound one belongs to its object alone. Of Cython's kind all
objects of a class share one, and its count of references, which each call changes, moves from core to core.
"""
from posix.unistd cimport usleep

from .looking cimport (
    fs_lock_is_contended, fs_lock_is_free, fs_lock_wait_begins, fs_look_configure, fs_looked,
)
from .stream cimport fs_cma_probe
from .system cimport atomic_size, fs_cache_line_round_trip_us, fs_expect_blocks, fs_ticks_per_us

import posix as _os  # test tools replace functions of os, and leave these
import sys as _sys


class ProtocolViolation(ConnectionAbortedError):
    """The other end wrote something impossible into the shared memory; the connection is unusable."""


cdef object checked(int result):
    if result < 0:
        raise OSError(-result, _os.strerror(-result))
    return result


# ---- the machine ----

cdef uint64_t now_ns() noexcept:
    return fs_now_ns()


def monotonic():
    """Seconds on the clock that time.monotonic() shows: no test tool moves this one."""
    return <double>fs_now_ns() / 1e9


def cache_line_round_trip_us():
    """Round trip of one cache line between two cores in microseconds, or None where there is one core only."""
    cdef double result
    with nogil:
        result = fs_cache_line_round_trip_us()
    return result if result >= 0 else None


def direct_copy_error():
    """The errno with which a process of this user is refused to read this one's memory, or 0. Starts a short-lived child."""
    return -fs_cma_probe()


cdef atomic_size expected_blocks = 0    # bytes: the C library knows that such blocks come and go


cdef void note_block(size_t length) noexcept:
    global expected_blocks
    if length > expected_blocks:
        expected_blocks = fs_expect_blocks(length)


def expect_blocks(size_t length):
    """Tells the C library that blocks of so many bytes come and go: it keeps the memory of one for the next."""
    note_block(length)


# ---- the interpreter's lock ----
#
# How long it is kept while looking, and for a thread that computes given up more often. Where there is none, a look keeps
# nobody waiting but who would stop all threads, for as short a time.

cdef extern from "Python.h":
    ctypedef struct PyInterpreterState:
        pass
    ctypedef struct PyThreadState:
        pass
    PyInterpreterState *PyInterpreterState_Get() noexcept nogil
    PyThreadState *PyInterpreterState_ThreadHead(PyInterpreterState *interpreter) noexcept nogil
    PyThreadState *PyThreadState_Next(PyThreadState *state) noexcept nogil

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


cdef int lock_took(uint64_t took) except -1:
    if lock_is_there is None or lock_is_there():
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
