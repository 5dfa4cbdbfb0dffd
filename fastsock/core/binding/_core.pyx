# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The binding of the native core: where Python objects end.

A `Channel` is one descriptor's view of an established shared-memory connection: it has the data methods of a socket,
with the same arguments, results and exceptions, so that a socket can bind them straight onto itself.

Nothing here relies on the interpreter's lock. What several threads may use is one of three: the C core's, which locks
for itself; an atomic word; or read and written within a critical section of the object that has it.

A collection of garbage clears the objects of a dead circle before their ends. So a class whose `__dealloc__` touches
attributes says @cython.no_gc_clear. A Python function is called in `__del__` only, which comes before anything is cleared.

Methods are the interpreter's own kind (binding=False): a bound one belongs to its object alone. Of Cython's kind all
objects of a class share one, and its count of references, which each call changes, moves from core to core.
"""
cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EAGAIN, EBADF, EBUSY, ECONNREFUSED, ECONNRESET, EINTR, EPROTO, ESTALE, ETIMEDOUT, errno as last_error
from libc.stdint cimport uint32_t, uint64_t, UINT64_MAX
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from posix.unistd cimport usleep

from .engine cimport *
from .looking cimport *
from .registered cimport *
from .remote cimport *
from .sockets cimport *
from .stream cimport *
from .switch cimport *
from .system cimport *
from .team cimport *

import errno as _errno
import posix as _os  # what test tools replace in os is genuine there
from collections import deque


class ProtocolViolation(ConnectionAbortedError):
    """The other end wrote something impossible into the shared memory; the connection is unusable."""


def cache_line_round_trip_us():
    """Round trip of one cache line between two cores in microseconds, or None where there is one core only."""
    cdef double result
    with nogil:
        result = fs_cache_line_round_trip_us()
    return result if result >= 0 else None


def direct_copy_error():
    """The errno with which a process of this user is refused to read this one's memory, or 0. Starts a short-lived child."""
    return -fs_cma_probe()


def replace_watched(int source, int number, bint inheritable):
    """As os.dup2, and every epoll of this process that watches `number` watches it still. Raises OSError."""
    cdef int result
    with nogil:
        result = fs_replace_watched(source, number, 0 if inheritable else O_CLOEXEC)
    checked(result)


cdef uint64_t now_ns() noexcept:
    return fs_now_ns()


def monotonic():
    """Seconds on the clock that time.monotonic() shows: no test tool moves this one."""
    return <double>fs_now_ns() / 1e9


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define FREE_THREADED 1
    /* In a forked child: a lock that was handed to a thread which is not here would never be free again. */
    static void forget_lock(PyObject *object) { object->ob_mutex = (PyMutex){0}; }
    #else
    #define FREE_THREADED 0
    static void forget_lock(PyObject *object) { (void)object; }
    #endif
    """
    bint FREE_THREADED
    void forget_lock(object)


cdef object checked(int result):
    if result < 0:
        raise OSError(-result, _os.strerror(-result))
    return result


cdef inline uint64_t deadline_after(double timeout):
    return UINT64_MAX if timeout < 0 else fs_now_ns() + <uint64_t>(timeout * 1e9)


include "descriptors.pxi"
include "segment.pxi"
include "abstract.pxi"
include "parent.pxi"
include "fairness.pxi"
include "gather.pxi"
include "channel.pxi"
include "carrying.pxi"
include "carriers.pxi"
include "pollers.pxi"
include "remote.pxi"
include "engine.pxi"
include "schedule.pxi"
include "team.pxi"
include "registered.pxi"
include "lending.pxi"
