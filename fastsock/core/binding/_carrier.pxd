# What other compiled modules may use of sockets: the bytes of a connection past Python.
#
# `carrier` is what carrier_of() gave for a socket. What comes is 0 at the end of the stream. Errors are a socket's.
cimport cython
from .stream cimport fs_end
from .switch cimport fs_record
from .system cimport atomic_int, fs_parts


@cython.final
cdef class Carrier:
    cdef readonly object sock
    cdef fs_end *end        # held, once somebody has asked for it; else NULL
    cdef fs_record *record  # of the same connection
    cdef object __weakref__


cdef bint is_carrier(object candidate) noexcept
# How a send treats an end that takes nothing now. POLLED: the caller polls the number for room. UNPOLLED: it waits by
# itself, as by await_room(). PATIENT: so, and a receiver that is at work may copy in the meantime, for milliseconds.
cdef enum:
    CARRIER_POLLED, CARRIER_UNPOLLED, CARRIER_PATIENT
# Sends what there is room for, waiting for no room: the bytes that went.
cdef Py_ssize_t carrier_send(object carrier, const char *data, Py_ssize_t length, int how) except -1
# The same of a gather, from which what goes is taken off.
cdef Py_ssize_t carrier_send_parts(object carrier, fs_parts *parts, int how) except -1
# Receives what is there, or -1.
cdef Py_ssize_t carrier_receive(object carrier, char *target, Py_ssize_t length) except -2
# The same, after waiting until the deadline in seconds of monotonic(); 0 waits as SO_RCVTIMEO says.
cdef Py_ssize_t carrier_await(object carrier, char *target, Py_ssize_t length, double deadline) except -2

# As sendmsg(): bytes that went, which are taken off; 0 where there was no room within `seconds`.
cdef ssize_t carrier_put(object carrier, fs_parts *parts, double seconds) except -1
# As recv_into(): bytes that came, 0 at their end; -EAGAIN where none came within `seconds`.
cdef ssize_t carrier_take(object carrier, void *target, Py_ssize_t length, double seconds) except -1
# Before a sleep on its number: whether there is something to read already.
cdef bint carrier_settle(object carrier) except -1
# The ring that carries what comes next, for c_spin(). False: TCP may carry it, so the kernel must be asked.
# It lives as long as the carrier.
cdef bint carrier_ring(object carrier, fs_end **end, fs_record **record) except -1

# Looks at many rings by turns, without the interpreter's lock, until one of them has something to read: 1.
# records: of each that may go back to TCP; NULL: it cannot. It ends too when one does, and when `news`, which another
# thread may set, is not 0. Ends whose other end ran last on this core are not worth it: 0 at once where all are so.
# The caller keeps the ends.
cdef int c_spin(fs_end **ends, fs_record **records, Py_ssize_t count, double microseconds, const atomic_int *news) noexcept
