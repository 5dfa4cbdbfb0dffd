# The interpreter's lock: how long it is kept while looking, and for a thread that computes given up more often.
# Where there is none, a look keeps nobody waiting but who would stop all threads, for as short a time.
import sys as _sys

cdef Py_ssize_t LONG_COPY = 32 * 1024   # from here the interpreter's lock is given up for the copy
cdef double CONTENDED_US = 1000.0       # getting the interpreter's lock back took this long: another thread computes
cdef double PATIENT_SHARE = 0.05       # of that time is worth looking before the lock is given up again
cdef double FAIR_SHARE = 0.08           # of the time that thread just had, so that it loses less than a tenth
cdef unsigned int OFFER_US = 60

cdef atomic_uint64 look_ticks = 0
cdef atomic_uint64 hold_until = 0       # while contended: no longer than this without offering the lock
cdef atomic_uint64 patient_ticks = 0    # while contended: of a look
cdef atomic_int contended = 0
cdef object lock_is_there = getattr(_sys, "_is_gil_enabled", None)  # since Python 3.13; a module can bring it back


def configure(*, double look_us):
    """Sets how long, in microseconds, a receiver looks at the ring before it gives up the interpreter's lock."""
    global look_ticks
    look_ticks = <uint64_t>(look_us * fs_ticks_per_us())


cdef inline int note_lock_wait(uint64_t before, uint64_t after) except -1:
    """Getting the interpreter's lock back took long: a thread that computes gets nine tenths of the time from now on."""
    if <double>(after - before) > CONTENDED_US * fs_ticks_per_us():
        note_long_wait(before, after)
    return 0


cdef int note_long_wait(uint64_t before, uint64_t after) except -1:
    global contended, hold_until, patient_ticks
    if lock_is_there is None or lock_is_there():
        hold_until = after + <uint64_t>(FAIR_SHARE * <double>(after - before))
        patient_ticks = <uint64_t>(PATIENT_SHARE * <double>(after - before))
        contended = 1
    return 0


cdef int offer_lock() except -1:
    """Lets another Python thread run, and learns from how long that took whether there still is one."""
    global contended
    cdef uint64_t before, after
    with nogil:
        usleep(OFFER_US)  # released and taken back at once, a lock never reaches a thread that must first wake up
        before = fs_ticks()
    after = fs_ticks()
    contended = 0
    note_lock_wait(before, after)
    return 0
