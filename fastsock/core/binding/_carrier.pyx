# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""The bytes of a connection for other compiled modules: plain memory, no exception where a socket would raise one for
having to wait. TCP or a ring carries them: whoever calls need not know.

A Channel stands in for a Carrier where a connection left TCP when it was opened.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EBADF, EBUSY, EINTR, ETIMEDOUT
from libc.stdint cimport uint64_t

from ._channel cimport Channel
from ._stream cimport (
    Stream, begin_deadline, carry_wait, carry_wait_awake, descriptor_of, fail, put_in, raise_errno, share_lock,
    take_out, timeout_of,
)
from ._table cimport note_importer
from .looking cimport fs_is_contended
from .stream cimport (
    FS_AT_ONCE, FS_NO_SIGNAL, FS_PATIENT, FS_READABLE, FS_UNPOLLED, FS_WRITABLE, fs_end_free, fs_end_has_data,
    fs_end_is_elsewhere, fs_end_look_once,
)
from .switch cimport (
    FS_KERNELS_END, FS_MAY_SLEEP, FS_WILL_WAIT, fs_carry_hold, fs_carry_is_attached, fs_carry_is_by_ring,
    fs_carry_look, fs_carry_settle, fs_connection, fs_importer_other, fs_importer_own, fs_importer_show, fs_table_find,
)
from .system cimport atomic_look, fs_now_ns, fs_pause, fs_ticks, fs_ticks_per_us, iovec

from ._calls import SocketCalls

cdef enum:
    SPINS_PER_TURN = 8  # looks at the rings between two looks at the clock


@cython.final
@cython.no_gc
cdef class Carrier:
    """What carries the bytes of a socket. The socket may be closed at any time: then calls raise OSError, EBADF."""

    def __init__(self):
        raise TypeError("carrier_of() makes it")

    def __dealloc__(self):
        if self.end != NULL:
            fs_end_free(self.end)

    def fileno(self):
        """The socket's number, for whoever calls settle() before it sleeps there; -1 once closed."""
        return descriptor_of(self.sock)

    def settle(self):
        """Before a sleep on the number: whether there is something to read. Else the number tells when there is."""
        return carrier_settle(self)

    def await_room(self, double seconds):
        """Until there is room for more bytes, or the seconds are over, or the other end has left."""
        cdef Stream stream
        begin(self, &stream)
        if not look(&stream, FS_WRITABLE):
            passed(&stream, FS_WRITABLE, after(seconds), False)

    def settimeout(self, seconds, /):
        """The socket's: for whoever receives by its methods."""
        self.sock.settimeout(seconds)

    # ---- where this process takes buffers without a copy (registered/) ----

    def show_importer(self, uint64_t importer, closed):
        """Tells the other end where buffers for this one go, if there is memory to do so. closed() is called once this
        process has closed the connection."""
        cdef Stream stream
        begin(self, &stream)
        if fs_importer_show(stream.connection, stream.descriptor, importer) == 0:
            note_importer(stream.connection, closed)

    def shown_importer(self):
        """What this end has shown last; 0: nothing."""
        cdef int descriptor = descriptor_of(self.sock)
        cdef fs_connection *connection = fs_table_find(descriptor)
        return 0 if connection == NULL else fs_importer_own(connection, descriptor)

    def other_importer(self):
        """Where buffers for the other end go, as it says; 0: nowhere."""
        cdef int descriptor = descriptor_of(self.sock)
        cdef fs_connection *connection = fs_table_find(descriptor)
        return 0 if connection == NULL else fs_importer_other(connection, descriptor)

    # What a Channel must be told for loops that poll its number. Here settle() is enough.

    def is_watched(self):
        """False."""
        return False

    def set_lazy(self, bint lazy):
        """Nothing."""


cdef object NATIVE_CALL = SocketCalls.__dict__["recv_into"]


def carrier_of(sock):
    """What carries the bytes of a connected socket, or None: then only its own methods do, as those of TLS."""
    cdef Carrier carrier
    channel = getattr(sock, "_fast_channel", None)
    if type(channel) is Channel:
        return channel
    if not isinstance(sock, SocketCalls) or getattr(type(sock), "recv_into", None) is not NATIVE_CALL:
        return None
    if fs_table_find(descriptor_of(sock)) == NULL:
        return None
    carrier = Carrier.__new__(Carrier)
    carrier.sock = sock
    return carrier


cdef bint is_carrier(object candidate) noexcept:
    return type(candidate) is Carrier or type(candidate) is Channel


# ---- one call of a carrier ----

cdef inline int begin(Carrier self, Stream *stream) except -1:
    stream.descriptor = descriptor_of(self.sock)
    stream.connection = fs_table_find(stream.descriptor)
    if stream.connection == NULL:
        raise_errno(EBADF)
    stream.timeout = -1
    stream.deadline = 0
    return 0


cdef inline uint64_t after(double seconds) noexcept:
    return fs_now_ns() + <uint64_t>(seconds * 1e9) if seconds > 0 else 0


cdef ssize_t put_some(Stream *stream, fs_parts *parts, int how, int flags) except? -1:
    """Takes off the parts what goes without waiting. -EAGAIN: nothing."""
    cdef ssize_t result = put_in(stream, parts, how, flags)
    while result == -EINTR:
        PyErr_CheckSignals()
        result = put_in(stream, parts, how, flags)
    if result < 0 and result != -EAGAIN:
        fail(stream, result)
    return result


cdef ssize_t take_some(Stream *stream, char *target, Py_ssize_t length, int how) except? -1:
    """Receives without waiting, unless FS_MAY_SLEEP. -EAGAIN: nothing."""
    cdef ssize_t result = take_out(stream, target, length, how, 0)
    while result == -EINTR:
        PyErr_CheckSignals()
        result = take_out(stream, target, length, how, 0)
    if result < 0 and result != -EAGAIN and result != FS_KERNELS_END:
        fail(stream, result)
    return result


cdef inline bint look(Stream *stream, int what) noexcept:
    """For a moment, with the interpreter's lock: what comes is mostly still on its way."""
    return fs_carry_is_attached(stream.connection) and fs_carry_look(stream.connection, stream.descriptor, what)


cdef bint passed(Stream *stream, int what, uint64_t deadline, bint dozes) except -1:
    """Waits until it is worth trying again: False. True: the time is over. dozes: as of carry_wait()."""
    cdef int result = carry_wait(stream.connection, stream.descriptor, what, deadline, dozes)
    if result < 0 and result != -ETIMEDOUT:
        fail(stream, result)
    return result < 0


cdef inline ssize_t take_soon(Stream *stream, char *target, Py_ssize_t length, int how) except? -1:
    """As take_some(), after a look."""
    look(stream, FS_READABLE)
    return take_some(stream, target, length, how)


cdef ssize_t take_until(Stream *stream, char *target, Py_ssize_t length, uint64_t deadline) except? -1:
    """Receives, after waiting until then. -EAGAIN: nothing came."""
    cdef ssize_t result = -EAGAIN
    while result == -EAGAIN and not passed(stream, FS_READABLE, deadline, False):
        result = take_some(stream, target, length, FS_WILL_WAIT)
    return result


cdef ssize_t take_as_socket(Stream *stream, char *target, Py_ssize_t length) except? -1:
    """Receives, after waiting as long as the kernel would. -EAGAIN: nothing came."""
    cdef ssize_t result
    cdef bint again = False
    PyErr_CheckSignals()  # one that came since the program's last line would not end the kernel's sleep
    result = take_soon(stream, target, length, FS_WILL_WAIT | FS_MAY_SLEEP)
    while result == -EAGAIN:
        if again or not carry_wait_awake(stream.connection, stream.descriptor, FS_READABLE):
            if stream.deadline == 0:
                begin_deadline(stream, FS_READABLE)
            if passed(stream, FS_READABLE, stream.deadline, not again):
                break
        again = True
        result = take_some(stream, target, length, FS_WILL_WAIT | FS_MAY_SLEEP)
    return -EAGAIN if result == FS_KERNELS_END else result


# ---- for streams that wait by themselves ----

cdef Py_ssize_t carrier_send(object carrier, const char *data, Py_ssize_t length, int how) except -1:
    cdef iovec part
    cdef fs_parts parts
    part.iov_base, part.iov_len = <void *>data, length
    parts.next, parts.count, parts.left = &part, 1, length
    return carrier_send_parts(carrier, &parts, how)


cdef Py_ssize_t carrier_send_parts(object carrier, fs_parts *parts, int how) except -1:
    cdef Stream stream
    cdef int flags = 0 if how == CARRIER_POLLED else FS_UNPOLLED
    if type(carrier) is not Carrier:
        return (<Channel>carrier).send_now(parts, how == CARRIER_PATIENT)
    begin(<Carrier>carrier, &stream)
    if how == CARRIER_PATIENT:
        flags |= FS_PATIENT
    return max(put_some(&stream, parts, flags, 0), 0)


cdef Py_ssize_t carrier_receive(object carrier, char *target, Py_ssize_t length) except -2:
    cdef Stream stream
    if type(carrier) is not Carrier:
        return (<Channel>carrier).receive_now(target, length)
    begin(<Carrier>carrier, &stream)
    if fs_is_contended():
        share_lock()
    return max(take_some(&stream, target, length, 0), -1)


cdef Py_ssize_t carrier_await(object carrier, char *target, Py_ssize_t length, double deadline) except -2:
    cdef Stream stream
    cdef ssize_t result = -EAGAIN
    if type(carrier) is not Carrier:
        return (<Channel>carrier).receive_within(target, length, <uint64_t>(deadline * 1e9))
    begin(<Carrier>carrier, &stream)
    if fs_is_contended():
        share_lock()
    if timeout_of((<Carrier>carrier).sock) == 0:
        return max(take_some(&stream, target, length, 0), -1)
    if deadline <= 0:
        return max(take_as_socket(&stream, target, length), -1)
    if fs_carry_is_attached(stream.connection):  # else the kernel is asked behind the wait
        result = take_soon(&stream, target, length, FS_WILL_WAIT)
    if result == -EAGAIN:
        result = take_until(&stream, target, length, <uint64_t>(deadline * 1e9))
    return max(result, -1)


# ---- for those that look at many connections by turns ----

cdef ssize_t carrier_put(object carrier, fs_parts *parts, double seconds) except -1:
    cdef Stream stream
    cdef ssize_t result
    cdef uint64_t deadline
    if type(carrier) is not Carrier:
        return (<Channel>carrier).put(parts, seconds)
    begin(<Carrier>carrier, &stream)
    result = put_some(&stream, parts, FS_NO_SIGNAL | (FS_PATIENT if seconds > 0 else 0), 0)
    if result != -EAGAIN or seconds == 0:
        return max(result, 0)
    deadline = after(seconds)
    if look(&stream, FS_WRITABLE):
        result = put_some(&stream, parts, FS_NO_SIGNAL | FS_PATIENT, 0)
    while result == -EAGAIN and not passed(&stream, FS_WRITABLE, deadline, False):
        result = put_some(&stream, parts, FS_NO_SIGNAL | FS_PATIENT, 0)
    return max(result, 0)


cdef ssize_t carrier_take(object carrier, void *target, Py_ssize_t length, double seconds) except -1:
    cdef Stream stream
    cdef ssize_t result
    if type(carrier) is not Carrier:
        return (<Channel>carrier).take(<char *>target, length, seconds)
    begin(<Carrier>carrier, &stream)
    if fs_is_contended():
        share_lock()
    if seconds == 0:
        return take_some(&stream, <char *>target, length, 0)
    result = take_soon(&stream, <char *>target, length, FS_WILL_WAIT)
    return result if result != -EAGAIN else take_until(&stream, <char *>target, length, after(seconds))


cdef bint carrier_settle(object carrier) except -1:
    cdef Stream stream
    cdef int result
    if type(carrier) is not Carrier:
        with cython.critical_section(carrier):
            return (<Channel>carrier).settle_doorbell() != 0
    begin(<Carrier>carrier, &stream)
    result = fs_carry_settle(stream.connection, stream.descriptor, FS_AT_ONCE)
    if result == -EBUSY:
        with nogil:
            result = fs_carry_settle(stream.connection, stream.descriptor, 0)
    return result != 0  # also where another thread is at work there: look again


cdef bint carrier_ring(object carrier, fs_end **end, fs_record **record) except -1:
    cdef Carrier self
    if type(carrier) is not Carrier:
        record[0] = NULL
        end[0] = (<Channel?>carrier).shared.end
        return True
    self = <Carrier>carrier
    if self.end == NULL and not hold_end(self):
        return False
    end[0], record[0] = self.end, self.record
    return fs_carry_is_by_ring(self.record, self.end)


cdef bint hold_end(Carrier self) except -1:
    cdef Stream stream
    cdef fs_record *record = NULL
    begin(self, &stream)
    if not fs_carry_is_attached(stream.connection):
        return False
    with cython.critical_section(self):
        if self.end == NULL:
            self.end = fs_carry_hold(stream.connection, stream.descriptor, &record)
            self.record = record
    return self.end != NULL


cdef int c_spin(fs_end **ends, fs_record **records, Py_ssize_t count, double microseconds, const atomic_int *news) noexcept:
    cdef uint64_t start = fs_ticks(), limit = <uint64_t>(microseconds * fs_ticks_per_us())
    cdef Py_ssize_t i
    cdef int turn, elsewhere = 0
    with nogil:
        for i in range(count):
            elsewhere |= fs_end_is_elsewhere(ends[i])
        if not elsewhere:
            return 0
        while True:
            for turn in range(SPINS_PER_TURN):
                for i in range(count):
                    if fs_end_has_data(ends[i]):
                        return 1
                if atomic_look(news):
                    return 0
                fs_pause()
            for i in range(count):
                fs_end_look_once(ends[i])
                if records[i] != NULL and not fs_carry_is_by_ring(records[i], ends[i]):
                    return 0
            if fs_ticks() - start > limit:
                return 0
