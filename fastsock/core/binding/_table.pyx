# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Connections by their numbers: how they come into the core's table, what is asked of it, and how they leave it."""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EBADF, EINTR, EINVAL, errno as last_error
from libc.limits cimport INT_MAX
from libc.stdint cimport uint32_t, UINT32_MAX
from posix.types cimport off_t

from ._buffers cimport Gather
from ._stream cimport (
    IOV_MAX, Stream, descriptor_of, go_back, is_tcp_stream, raise_errno, receive_new, send_bytes, send_parts,
)
from ._watching cimport forget_early, heed_early
from .switch cimport (
    FS_ROLE_ACCEPTED, FS_ROLE_CONNECTED, fs_beside_entered, fs_beside_pass, fs_beside_share, fs_carry_send_begins,
    fs_carry_send_ended, fs_closed_note, fs_connection_generation, fs_identity_adopt, fs_identity_check,
    fs_importer_closes, fs_importer_show, fs_leave_descriptor, fs_leave_number, fs_leave_release, fs_table_duplicate,
    fs_table_enter, fs_table_find, fs_table_lose, fs_table_next,
)
from .system cimport atomic_fetch_add, atomic_int

import os as _os

cdef extern from "<sys/sendfile.h>" nogil:
    ssize_t kernel_sendfile "sendfile" (int out, int into, off_t *offset, size_t count)

cdef extern from "Python.h":
    bint PyLong_Check(object candidate) noexcept


# ---- a connection comes into it ----

cdef int enter(object sock, int role, object address) except -1:
    cdef int descriptor = descriptor_of(sock)
    if doors:
        if fs_table_find(descriptor) != NULL:
            greet(descriptor, role, address)
    elif is_tcp_stream(sock) and (role == FS_ROLE_ACCEPTED or fs_table_find(descriptor) == NULL):
        prepare()
        # where there is no place for it, it is a plain socket
        if fs_table_enter(descriptor, role) == 0:
            atomic_fetch_add(&entries, 1)
            heed_early(descriptor, role)
            if role == FS_ROLE_CONNECTED and 0 <= descriptor < MOST_NUMBERS and made_at[descriptor] not in (0, forks):
                give_away(descriptor)
            if ruling is not None:
                ruling(descriptor, address)
    return 0


doors = False


def share_doors(bint wanted):
    """Whether the preloaded library serves C code on the sockets of the class. wanted: else it stands aside."""
    global doors
    doors = fs_beside_share(wanted)
    if doors and obeying is not None:
        follow_settings()  # they hold for what comes in by the doors, too
    return doors


def has_doors():
    """Whether it does."""
    return doors


cdef int greet(int descriptor, int role, object address) except -1:
    """A door has let it in, by the settings that were in force then."""
    if role == FS_ROLE_ACCEPTED and not is_up_to_date():
        follow_settings()
        fs_table_enter(descriptor, role)
    prepare()
    if ruling is not None:
        ruling(descriptor, address)
    return 0


cdef bint is_up_to_date() except -1:
    return obeying is None or settings_of.get("current") is followed


cdef int prepare() except -1:
    global beginning
    if not is_up_to_date():
        follow_settings()
    if beginning is not None:
        hook, beginning = beginning, None
        hook()
    return 0


cdef object ruling = None


def rule_by(hook):
    """Calls hook(descriptor, address) for each stream that comes into the table, with connect()'s address. None: no hook."""
    global ruling
    ruling = hook


cdef object beginning = None
cdef object NOTHING = object()
cdef dict settings_of = {}  # where the settings in force are
cdef object followed = NOTHING, obeying = None


cdef int follow_settings() except -1:
    global followed
    obeying()  # which reads them, where nobody has yet
    followed = settings_of.get("current")
    return 0


def follow(dict where, hook):
    """Calls hook() when a connection comes into the table and where["current"] are others than before."""
    global settings_of, obeying
    obeying, settings_of = hook, where


cdef int before_connect() except -1:
    if doors and not is_up_to_date():
        follow_settings()
    return 0


cdef atomic_int entries = 0


def entered():
    """How many connections came into the table in this process."""
    return atomic_fetch_add(&entries, 0) + fs_beside_entered()


def before_next(hook):
    """Calls hook() before the table gets its next connection."""
    global beginning
    beginning = hook


def accepted(sock):
    """The kernel has accepted the stream of `sock`."""
    enter(sock, FS_ROLE_ACCEPTED, None)


def connected(sock, address):
    """The kernel has connected the stream of `sock` to that address, or is about to."""
    enter(sock, FS_ROLE_CONNECTED, address)


cpdef int is_new(int descriptor) except -1:
    """The kernel has made a file of that number: what the table has of it was closed without a word, and who asked for the
    number before asked for another file's."""
    if fs_table_find(descriptor) != NULL:
        fs_table_lose(descriptor)
    forget_early(descriptor)
    if 0 <= descriptor < MOST_NUMBERS:
        made_at[descriptor] = forks
    return 0


# Between socket() and connect() a forked child got the number too, or a duplicate was made. What comes and goes by that
# nobody would see.
cdef enum:
    MOST_NUMBERS = 1 << 16

cdef uint32_t forks = 1
cdef uint32_t made_at[MOST_NUMBERS]  # `forks` as the number's socket was made; 0: other code made it


def _note_fork():
    global forks
    forks += 1


_os.register_at_fork(before=_note_fork)


cdef int is_shared(int descriptor) except -1:
    """Another number has the same socket."""
    if 0 <= descriptor < MOST_NUMBERS and fs_table_find(descriptor) == NULL:
        made_at[descriptor] = UINT32_MAX
    return 0


cdef int give_away(int descriptor) except -1:
    cdef fs_connection *connection = fs_table_find(descriptor)
    if connection != NULL:
        with nogil:
            fs_leave_release(connection, descriptor)
    return 0


cdef int is_adopted(int descriptor) except -1:
    """A socket object takes the number over. C code may have closed it unseen, and another file has it by now; or C code
    has made it, as a duplicate."""
    fs_identity_adopt(descriptor)
    if 0 <= descriptor < MOST_NUMBERS and made_at[descriptor] != UINT32_MAX:  # which this module has duplicated
        made_at[descriptor] = 0
    forget_early(descriptor)
    return 0


def begins(sock, fileno):
    """The object has a number: of a file that the kernel has made, where `fileno` is None; else that one."""
    if fileno is None:
        is_new(descriptor_of(sock))
    else:
        is_adopted(descriptor_of(sock))


def is_tcp(sock):
    """Whether it is a TCP stream."""
    return is_tcp_stream(sock)


def is_known(int descriptor):
    """Whether the table has the stream of that number."""
    return fs_table_find(descriptor) != NULL


def duplicated(int descriptor, int number):
    """`number` is a duplicate of the descriptor."""
    is_shared(descriptor)
    is_shared(number)
    fs_identity_check(descriptor)  # a duplicate of another file is none of the connection
    fs_table_duplicate(descriptor, number)


def forget(int descriptor):
    """Before the number is closed, or means another file."""
    leave_number(descriptor)


def name_of(int descriptor):
    """What tells the connection of that number from all others that the process has or had, or None."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    return None if connection == NULL else (<size_t>connection, fs_connection_generation(connection))


def release(int descriptor):
    """Other code reads and writes the number next: TCP carries all bytes from now on. Raises OSError."""
    cdef Stream stream
    stream.descriptor = descriptor
    stream.connection = fs_table_find(descriptor)
    if stream.connection != NULL:
        go_back(&stream)


def descriptors():
    """The numbers in the table."""
    cdef int descriptor = fs_table_next(0)
    found = []
    while descriptor >= 0:
        found.append(descriptor)
        descriptor = fs_table_next(descriptor + 1)
    return found


# ---- and leaves it ----

# By the address of the connection: what is called once this process has closed it.
cdef dict importers = {}
_os.register_at_fork(after_in_child=importers.clear)  # they are the parent's


cdef int note_importer(fs_connection *connection, closed) except -1:
    importers[<size_t>connection] = closed
    return 0


cdef object leaving = None


def before_leaving(hook):
    """Calls hook(descriptor) before a stream leaves the table. None: no hook."""
    global leaving
    leaving = hook


cdef int leave_number(int descriptor) except -1:
    cdef fs_connection *connection = NULL
    closed = None
    if leaving is not None and fs_table_find(descriptor) != NULL:
        leaving(descriptor)
    if importers:
        connection = fs_table_find(descriptor)
        if connection != NULL and fs_importer_closes(connection):
            closed = importers.pop(<size_t>connection, None)
            if closed is not None:
                fs_importer_show(connection, descriptor, 0)
    if doors:  # C code of another thread may begin a send, which must not go past the memory
        with nogil:
            fs_closed_note(descriptor)
            fs_leave_number(descriptor)
    else:
        fs_closed_note(descriptor)
        fs_leave_descriptor(descriptor)
    if closed is not None:
        closed()
    return 0


# ---- data calls by number ----

@cython.final
@cython.freelist(8)
cdef class Numbered:
    """The data calls of a number in the table, for what takes a number in place of a socket."""
    cdef int descriptor

    def __init__(self, int descriptor):
        self.descriptor = descriptor

    cdef int find(self, Stream *stream) except -1:
        stream.descriptor = self.descriptor
        stream.connection = fs_table_find(self.descriptor)
        if stream.connection == NULL:
            raise_errno(EBADF)
        stream.timeout = -1
        stream.deadline = 0
        return 0

    def recv(self, Py_ssize_t size, int flags=0, /):
        """As os.read(), with flags."""
        cdef Stream stream
        self.find(&stream)
        return receive_new(&stream, size, flags)

    def send(self, data, int flags=0, /):
        """As os.write(), with flags."""
        cdef Stream stream
        self.find(&stream)
        return send_bytes(&stream, data, flags, False)

    def send_file(self, int file, object offset, Py_ssize_t count):
        """As os.sendfile(). None where a ring carries the bytes, so that the caller has to copy them."""
        cdef Stream stream
        cdef off_t position = 0
        cdef ssize_t sent
        cdef int before
        if offset is not None:
            position = offset
        self.find(&stream)
        while True:
            if fs_carry_send_begins(stream.connection, stream.descriptor, False, &stream.within) != 0:
                return None
            with nogil:
                before = fs_beside_pass(stream.descriptor)
                sent = kernel_sendfile(stream.descriptor, file, NULL if offset is None else &position, count)
                if sent < 0:
                    sent = -last_error
                fs_beside_pass(before)
            fs_carry_send_ended(stream.connection, stream.descriptor, stream.within, sent)
            if sent != -EINTR:
                break
            PyErr_CheckSignals()
        if sent < 0:
            raise_errno(<int>-sent)
        return sent

    def sendmsg(self, buffers, int flags=0):
        """As os.writev(), with flags."""
        cdef Stream stream
        cdef Gather gather
        self.find(&stream)
        if len(buffers) > IOV_MAX:
            raise_errno(EINVAL)
        gather = Gather.__new__(Gather)
        gather.take(buffers)
        return send_parts(&stream, &gather.parts, flags, False)


@cython.final
cdef class Finder:
    cdef dict known

    def find(self, descriptor, /):
        """The data calls of that number, or None. Raises TypeError where it is nothing that a dictionary could hold."""
        cdef int number
        found = self.known.get(descriptor)
        if found is not None or not PyLong_Check(descriptor):
            return found
        number = descriptor if 0 <= descriptor <= INT_MAX else -1
        if fs_table_find(number) == NULL:
            return None
        return Numbered(number) if fs_identity_check(number) else None


def finder(dict known):
    """A call that finds the data calls of a number: those in `known`, then those of the table."""
    cdef Finder made = Finder.__new__(Finder)
    made.known = known
    return made.find
