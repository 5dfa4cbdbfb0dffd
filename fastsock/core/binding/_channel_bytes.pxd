from libc.stdint cimport uint64_t
from ._ends cimport End
from .system cimport atomic_int, fs_parts


# Of MSG_*; the numbers are Linux's.
cdef enum:
    OUT_OF_BAND = 0x01
    PEEK = 0x02
    DONT_WAIT = 0x40
    WAIT_ALL = 0x100
    NO_SIGNAL = 0x4000
    TRUNCATE = 0x20
    ERROR_QUEUE = 0x2000
    FAST_OPEN = 0x20000000


cdef enum:
    MOVING_US = 50


cdef class ChannelBytes:
    cdef End shared
    cdef int descriptor
    cdef double timeout
    cdef double receive_limit, send_limit  # seconds, 0 for none: SO_RCVTIMEO and SO_SNDTIMEO
    cdef int users
    cdef bint closing
    cdef bint resetting
    cdef bint left  # the other end was told
    cdef bint lost  # the descriptor is somebody else's to close
    cdef bint woke  # those who wait are told to leave
    cdef bint moving
    cdef int left_behind  # the descriptor, while it moves
    cdef object successor  # a weak reference to the socket whose descriptor carries the bytes now
    cdef atomic_int leaving
    cdef readonly object peer
    cdef object path  # its name, for messages
    cdef object span  # of a path between hosts
    cdef object __weakref__

    cdef int alive(self) except -1
    cdef int fail(self, ssize_t error) except -1
    cdef bint waits(self, int flags) noexcept
    cdef int wait(self, int what, uint64_t deadline, bint again) except -1
    cdef int leave(self) except -1
    cdef int be_fair(self) except -1
    cdef int close_now(self) except -1

    # Once a bridge has taken its place: the socket that goes on for it, None where there is none.
    cdef bint is_moving(self) noexcept
    cdef object moved_to(self)
    cdef Py_ssize_t receive_there(self, sock, char *target, Py_ssize_t length, int flags, Py_ssize_t done) except -1
    cdef Py_ssize_t send_there(self, sock, fs_parts *parts, int flags, bint everything) except -1

    # What there is room for, or what is there, without a wait. Bytes, or a negative errno.
    cdef ssize_t send_some(self, fs_parts *parts, int flags, int how=*)
    cdef ssize_t receive_some(self, char *target, Py_ssize_t length, int flags, bint look_for_end)

    # With the socket's waits.
    cdef uint64_t deadline(self, double limit) noexcept
    cdef int timed_out(self) except -1
    cdef bint ends_with_part(self, int what, uint64_t deadline, bint again, Py_ssize_t done) except -1
    cdef int check_out_of_band(self, int flags) except -1
    cdef Py_ssize_t send_bytes(self, const char *data, Py_ssize_t length, int flags, bint everything) except -1
    cdef Py_ssize_t send_parts(self, fs_parts *parts, int flags, bint everything) except -1
    cdef Py_ssize_t receive_bytes(self, char *target, Py_ssize_t length, int flags, uint64_t deadline=*) except -1
    cdef Py_ssize_t discard_bytes(self, Py_ssize_t length, int flags) except -1
    cdef int await_no_error(self) except -1

    # For other compiled modules: plain memory, no exception where a socket would raise one for having to wait. What comes is
    # 0 at the end of the stream.

    # Sends what there is room for, waiting for no room: the bytes that went, which are taken off. patient: the caller waits
    # for room by itself, nobody polls for it, and a receiver that is at work may copy in the meantime, for milliseconds.
    cdef Py_ssize_t send_now(self, fs_parts *parts, bint patient) except -1
    # Receives what is there, or -1.
    cdef Py_ssize_t receive_now(self, char *target, Py_ssize_t length) except -2
    # The same, after waiting until the deadline in nanoseconds of monotonic(); 0 waits as SO_RCVTIMEO says.
    cdef Py_ssize_t receive_within(self, char *target, Py_ssize_t length, uint64_t deadline) except -2
    # As sendmsg(): bytes that went, which are taken off; 0 where there was no room within `seconds`.
    cdef ssize_t put(self, fs_parts *parts, double seconds) except -1
    # As recv_into(): bytes that came, 0 at their end; -EAGAIN where none came within `seconds`.
    cdef ssize_t take(self, char *target, Py_ssize_t length, double seconds) except -1
    # Makes the doorbell exact before a sleep there; whether there is something to read.
    cdef int settle_doorbell(self) except -1
