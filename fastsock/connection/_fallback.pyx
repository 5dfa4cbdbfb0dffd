# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Connections that stay on TCP: the socket class's own calls for them, without a Python frame.

Each call here serves the plain case as the class's own call does, and leaves every other case to that call.

Data that other threads may change is read and written within a critical section of its object: the interpreter's lock,
where there is one. So a slot of a socket is never looked into without a reference to the object in it.
"""
cimport cython
from cpython.object cimport PyObject, PyTypeObject, PyObject_TypeCheck
from cpython.ref cimport Py_XDECREF
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdint cimport uint64_t
from libc.string cimport memcpy
from posix.stat cimport S_IFMT, S_IFSOCK, fstat, struct_stat
from posix.unistd cimport getpid

from fastsock.core.binding._core cimport abstract_told, forks, now_ns
from fastsock.core.binding.system cimport atomic_int, atomic_store

import _socket
import errno as _errno
import sys as _sys

from fastsock import config
from fastsock.connection import registry
from fastsock.core import Channel
from fastsock.meeting import history
from fastsock.transport import Reason

include "_slots.pxi"

cdef extern from "Python.h":
    object PyLong_FromVoidPtr(void *)
    ctypedef struct Class "PyTypeObject":
        object (*tp_new)(PyTypeObject *, PyObject *, PyObject *)
        int (*tp_init)(object, PyObject *, PyObject *) except -1

cdef object plain_class = _socket.socket
cdef object plain_connect = _socket.socket.connect
cdef object plain_close = _socket.socket.close
cdef object plain_recv = _socket.socket.recv
cdef object plain_recv_into = _socket.socket.recv_into
cdef object plain_send = _socket.socket.send
cdef object plain_sendall = _socket.socket.sendall
cdef object plain_timeout = _socket.socket.gettimeout
cdef object plain_name = _socket.socket.getsockname
cdef object plain_option = _socket.socket.getsockopt
cdef object TCP = _socket.IPPROTO_TCP, TCP_INFO = _socket.TCP_INFO
cdef object default_timeout = _socket.getdefaulttimeout
cdef object AF_INET = _socket.AF_INET, SOCK_STREAM = _socket.SOCK_STREAM
cdef tuple NO_ARGUMENTS = ()
cdef object counting = object()         # held to count

cdef enum:
    TCP_INFO_COUNTS = 120    # where the kernel's record has tcpi_bytes_acked and tcpi_bytes_received
    TCP_INFO_BYTES = 136     # and so much of it is asked for
    MOST_STAYS = 4096
    UNKNOWN = 1 << 30        # offers
    MOST_MISSES = 256    # so many accepted connections without an offer, and none is expected any more


# ---- what the class is, and what its own calls are: bind_class() ----

cdef object fast_class = None
cdef object own_init, own_connect, own_close, own_real_close, plain_accept
cdef object plain_del = _socket.socket.__del__
cdef object is_finalizing = _sys.is_finalizing
cdef object own_recv, own_recv_into, own_send, own_sendall
cdef Py_ssize_t connection_at, channel_at, references_at, closed_at
cdef dict open_connections = registry._open, totals = registry._totals
cdef object closed_connections = registry._closed, lost = registry._lost
cdef object counts_of = registry.counts_of, kernel_counts = registry.kernel_counts
cdef object no_offer = Reason.NO_OFFER
cdef uint64_t worth = history.SHORT_BYTES  # that earn a meeting back
cdef dict settings_of = vars(config.in_force)  # where the settings in force are
cdef dict stays = {}
# The settings that `stays` was learned with, and the reason if they allow nothing but TCP. They are in a dictionary,
# because that may be read while another thread replaces them.
cdef dict learned_with = {"settings": None, "reason": None}
cdef atomic_int statistics_wanted = 0


@cython.final
cdef class Stay:
    """Says that connections to a destination stay on TCP: how many of them, or until when."""
    cdef object reason
    cdef long left          # -1: any number
    cdef uint64_t until, pause, last
    cdef bint doubtful      # one that carries much ends it

    @cython.critical_section
    cdef bint holds(self) noexcept:
        cdef uint64_t now
        if self.left == 0:
            return False
        if self.until != 0:
            now = now_ns()
            if now >= self.until:
                return False
            if self.pause != 0:
                self.until = now + self.pause
                self.last = now
        if self.left > 0:
            self.left -= 1
        return True

    @cython.critical_section
    cdef void end(self) noexcept:
        self.left = 0

    @cython.critical_section
    cdef double began(self) noexcept:
        """The time, in monotonic seconds, of the last one."""
        return <double>self.last / 1e9


@cython.final
@cython.no_gc
cdef class Stayed:
    """As registry.Connection, for a connection that stays on TCP."""
    transport = "tcp"
    is_tcp = True
    channel = None
    kept = None
    port = None
    opener = None
    options = None
    holders = ()
    peer_pid = None
    reset = False
    began = 0.0

    cdef readonly object role, reason, local, peer
    cdef readonly int family, proto, pid
    cdef public object owner, final
    cdef public str detail  # of `reason`: what the server was doing
    cdef object told        # what the kernel said when it was closed
    cdef Stay because       # where the next ones may be told from what it carried, or None

    def sockets(self):
        return []

    @cython.critical_section
    cdef object what_was_told(self):
        return self.told

    @cython.critical_section
    cdef int tell(self, object told) except -1:
        self.told = told
        return 0

    @cython.critical_section
    cdef object leave_owner(self):
        """Takes `owner` away and returns it. Of several threads that close, only one gets it."""
        owner = self.owner
        self.owner = None
        return owner

    @cython.critical_section
    cdef Stay doubted(self):
        """Takes `because` away and returns it."""
        cdef Stay because = self.because
        self.because = None
        return because

    def counts(self):
        told = self.what_was_told()
        if told is not None:
            return counts_of(told)
        if self.final is not None:
            return self.final
        reference = self.owner
        owner = reference() if reference is not None else None
        return {} if owner is None else kernel_counts(owner)


@cython.final
cdef class Held:
    """An attribute that a meeting under way decides, in a slot of the socket. A read takes part in the meeting."""
    cdef Py_ssize_t offset
    cdef PyTypeObject *kind

    def __init__(self, member):
        self.offset = offset_of(member)
        self.kind = <PyTypeObject *>member.__objclass__

    def __get__(self, sock, owner):
        if sock is None:
            return None
        self.check(sock)
        value = held_in(sock, self.offset)
        if value is nothing:
            if sock._fast_pending is None:
                return None
            sock._fast_decide()
            value = held_in(sock, self.offset)
        return None if value is nothing else value

    def __set__(self, sock, value):
        self.check(sock)
        put(sock, self.offset, value)

    def known(self, sock):
        """Whether the attribute is set."""
        self.check(sock)
        return not is_empty(sock, self.offset)

    def forget(self, sock):
        """Makes the attribute pending again."""
        self.check(sock)
        Py_XDECREF(exchange(sock, self.offset, NULL))

    cdef int check(self, sock) except -1:
        if not PyObject_TypeCheck(sock, self.kind):
            raise TypeError("not a fast socket")
        return 0


cdef inline bint is_ours(object sock) noexcept:
    return PyObject_TypeCheck(sock, <PyTypeObject *>fast_class)


cdef inline bint settings_are_known():
    settings = learned_with["settings"]
    return settings is not None and settings_of.get("current") is settings


def begin(settings, reason):
    """Forgets what belongs to earlier settings. reason: why every connection stays on TCP, or None."""
    learned_with["settings"] = None
    stays.clear()
    atomic_store(&statistics_wanted, settings.stats is not None)
    learned_with["reason"] = reason
    learned_with["settings"] = None if settings.trace else settings  # traced: the class's own calls tell


def note(sock, role, reason, local, peer):
    """Notes that the connection of `sock` stays on TCP."""
    if not is_ours(sock):
        raise TypeError("not a fast socket")
    note_stay(sock, role, reason, local, peer, None)


cdef int note_stay(object sock, object role, object reason, object local, object peer, Stay because) except -1:
    cdef Stayed stayed = Stayed.__new__(Stayed)
    stayed.role = role
    stayed.reason = reason
    stayed.detail = ""
    stayed.family = number(sock, family_at)
    stayed.proto = number(sock, proto_at)
    stayed.local = local
    stayed.peer = peer
    stayed.pid = getpid()
    stayed.because = because
    stayed.owner = PyWeakref_NewRef(sock, lost)
    open_connections[PyLong_FromVoidPtr(<void *>stayed.owner)] = stayed
    with cython.critical_section(counting):
        totals["tcp"] = totals.get("tcp", 0) + 1
    put(sock, channel_at, None)
    put(sock, connection_at, stayed)
    return 0


# ---- connecting ----

def remember(address, reason, long left, double seconds, bint renewed):
    """Lets the next `left` connections to that address stay on TCP, if they begin within that many seconds.

    left -1: any number of them. seconds 0: whenever they begin. renewed: the time begins anew with each of them, and a
    connection that carries much ends it.
    """
    cdef Stay stay = Stay.__new__(Stay)
    if type(address) is not tuple:
        return
    if len(stays) >= MOST_STAYS:
        stays.clear()
    stay.reason = reason
    stay.left = left
    stay.doubtful = renewed
    if seconds > 0:
        stay.last = now_ns()
        stay.until = stay.last + <uint64_t>(seconds * 1e9)
        stay.pause = <uint64_t>(seconds * 1e9) if renewed else 0
    stays[address] = stay


def last(address):
    """The time (monotonic seconds) of the last connection there that remember() kept on TCP. Forgets the address."""
    cdef Stay stay
    try:
        stay = stays.pop(address, None)
    except TypeError:  # nothing that a dictionary could hold
        return 0.0
    return 0.0 if stay is None else stay.began()


cdef Stay reason_to_stay(object sock, object address):
    """The reason why this connection will stay on TCP, if that is known already, else None."""
    cdef Stay stay
    if type(address) is not tuple or not is_empty(sock, connection_at) or not settings_are_known():
        return None
    if not is_tcp_stream(sock) or sock._fast_pending is not None:
        return None
    reason = learned_with["reason"]
    if reason is not None:
        stay = Stay.__new__(Stay)
        stay.reason = reason
        return stay
    try:
        stay = stays.get(address)
    except TypeError:
        return None
    return None if stay is None or not stay.holds() else stay


@cython.binding(True)
def connect(self, address, /):
    cdef Stay stay, doubtful
    if not is_ours(self):
        return plain_connect(self, address)
    stay = reason_to_stay(self, address)
    if stay is None:
        return own_connect(self, address)
    doubtful = stay if stay.doubtful else None
    reason = stay.reason
    try:
        plain_connect(self, address)
    except BlockingIOError as error:
        if error.errno == _errno.EINPROGRESS:
            note_stay(self, "connect", reason, None, address, doubtful)
        raise
    except BaseException:
        last(address)  # forgets it: another server may listen there next
        raise
    note_stay(self, "connect", reason, None, address, doubtful)


# ---- accepting ----

@cython.final
cdef class Listening:
    """A listener's record of the connections that it will accept: whether one of them may have made an offer.

    presences: (descriptor, inode) of each name that connecting ends tell of their offers, or None if not all of these
    names are held here. at_most: how many such messages a name holds. local: the accepted ends' own address, if all
    have the same one. reason: the reason why all of them stay on TCP, or None. first: whether the listener had no
    presence before.
    """
    cdef object local, reason, settings
    cdef list presences
    cdef long pending, misses, at_most
    cdef unsigned int forks

    def __init__(self, presences, long at_most, local, reason, bint first):
        self.presences = presences
        self.pending = 0 if first else UNKNOWN
        self.at_most = at_most
        self.local = local
        self.reason = reason
        self.settings = learned_with["settings"]
        self.forks = forks()

    @cython.critical_section
    def found(self):
        """Notes that an accepted connection had an offer."""
        self.misses = 0
        if self.pending > 0:
            self.pending -= 1

    @cython.critical_section
    def holds_names(self):
        """Whether all names that hear of offers are held here, and their descriptors are still the same files."""
        cdef struct_stat status
        if self.presences is None:
            return False
        for descriptor, inode in self.presences:
            if fstat(descriptor, &status) != 0 or status.st_ino != inode or status.st_mode & S_IFMT != S_IFSOCK:
                return False
        return True

    @cython.critical_section
    def missed(self):
        """Notes that an accepted connection had no offer. One may have been withdrawn."""
        self.misses += 1
        if self.misses >= MOST_MISSES:
            self.misses = self.pending = 0

    @cython.critical_section
    cdef bint expects(self) except -1:
        """Whether a connection that was accepted by now may have an offer."""
        cdef int told
        cdef bint shared
        if self.presences is None or self.pending > 0:
            return True
        shared = self.forks != forks()  # others must be told of it too
        for descriptor, inode in self.presences:
            told = abstract_told(descriptor, inode, shared)
            if told < 0 or (shared and told > 0):
                self.presences = None
                return True
            # A full queue may have refused further messages: offers are expected until MOST_MISSES have none.
            self.pending += told if told <= self.at_most else UNKNOWN
        return self.pending > 0


cdef bint accepted_stays(object listener, object sock, object address) except -1:
    """Notes a connection that surely stays on TCP. Returns False if it may leave."""
    cdef Listening listening
    waiting = listener._fast_listening
    if type(waiting) is not Listening or not settings_are_known():
        return False
    listening = waiting
    if listening.settings is not learned_with["settings"]:
        return False
    local = listening.local if listening.local is not None else plain_name(sock)
    reason = listening.reason
    if reason is None:
        if address[0] != local[0] or listening.expects():
            return False
        reason = no_offer
    note_stay(sock, "accept", reason, local, address, None)
    return True


cdef int make(object sock, object family, object kind, object proto, object descriptor) except -1:
    """As the standard class's __init__()."""
    cdef tuple arguments = (family, kind, proto, descriptor)
    (<Class *>plain_class).tp_init(sock, <PyObject *>arguments, NULL)
    put(sock, references_at, 0)
    put(sock, closed_at, False)
    return 0


@cython.binding(True)
def accept(self):
    if not is_ours(self):
        return plain_accept(self)
    if self._fast_is_unsigned:
        self._fast_sign()
    descriptor, address = self._accept()
    sock = (<Class *>fast_class).tp_new(<PyTypeObject *>fast_class, <PyObject *>NO_ARGUMENTS, NULL)
    make(sock, number(self, family_at), number(self, kind_at), number(self, proto_at), descriptor)
    if default_timeout() is None and plain_timeout(self):
        sock.setblocking(True)
    if address and is_tcp_stream(sock) and not accepted_stays(self, sock, address):
        sock._fast_meet_connecting_end(self, address)
    return sock, address


# ---- making and closing ----

@cython.binding(True)
def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
    if fileno is not None or not is_ours(self):
        own_init(self, family, type, proto, fileno)
        return
    make(self, AF_INET if family == -1 else family, SOCK_STREAM if type == -1 else type, 0 if proto == -1 else proto, None)


cdef object kernel_tells(object sock):
    """The kernel's record of a TCP connection, or None."""
    try:
        return plain_option(sock, TCP, TCP_INFO, <int>TCP_INFO_BYTES)
    except OSError:
        return None


cdef uint64_t carried(bytes told):
    cdef uint64_t counts[2]
    if told is None or len(told) < TCP_INFO_BYTES:
        return 0
    memcpy(counts, <const char *>told + TCP_INFO_COUNTS, sizeof(counts))
    return counts[0] + counts[1]


cdef bint close_staying(object sock) except -1:
    """Closes a socket that was never anything but a plain one. Returns False if it may have been more."""
    cdef Stayed stayed
    cdef Stay because
    if sock._fast_pending is not None or sock._fast_presence is not None:
        return False
    connection = held_in(sock, connection_at)
    if connection is not nothing:
        if type(connection) is not Stayed or not settings_are_known():
            return False
        stayed = <Stayed>connection
        because = stayed.doubted()
        owner = stayed.leave_owner()
        if owner is not None:
            if statistics_wanted or because is not None:
                told = kernel_tells(sock)
                if because is not None and carried(told) >= worth:
                    because.end()
                if statistics_wanted:
                    stayed.tell(told)
            if open_connections.pop(PyLong_FromVoidPtr(<void *>owner), None) is not None:
                closed_connections.append(stayed)
    plain_close(sock)
    return True


@cython.binding(True)
def _real_close(self, _ss=_socket.socket):
    if _ss is not plain_class or not is_ours(self) or not close_staying(self):
        own_real_close(self, _ss)


@cython.binding(True)
def close(self):
    if type(self) is not fast_class:
        own_close(self)
        return
    put(self, closed_at, True)
    if self._io_refs <= 0 and not close_staying(self):
        own_real_close(self)


@cython.binding(True)
def __del__(self):
    cdef PyObject *held = place(self, channel_at)[0] if is_ours(self) else NULL
    try:
        # with options set, that needs modules which the interpreter's end takes apart
        if held != NULL and type(<object>held) is Channel and (self._fast_options is None or not is_finalizing()):
            (<object>held).dropped(self._fast_resets())
    finally:
        plain_del(self)


# ---- using ----

cdef inline bint stays_on_tcp(object sock) noexcept:
    cdef bint does
    cdef PyObject *held
    if not is_ours(sock):  # made before the installation, or nothing that the call is for
        return True
    with cython.critical_section(sock):
        held = place(sock, connection_at)[0]
        does = held != NULL and type(<object>held) is Stayed
    return does


@cython.binding(True)
def recv(self, bufsize, flags=0, /):
    return (plain_recv if stays_on_tcp(self) else own_recv)(self, bufsize, flags)


@cython.binding(True)
def recv_into(self, buffer, nbytes=0, flags=0):
    return (plain_recv_into if stays_on_tcp(self) else own_recv_into)(self, buffer, nbytes, flags)


@cython.binding(True)
def send(self, data, flags=0, /):
    return (plain_send if stays_on_tcp(self) else own_send)(self, data, flags)


@cython.binding(True)
def sendall(self, data, flags=0, /):
    return (plain_sendall if stays_on_tcp(self) else own_sendall)(self, data, flags)


def passing(str name):
    """A call that goes to the standard class for a connection that stays on TCP."""
    own, plain = getattr(fast_class, name), getattr(plain_class, name)

    @cython.binding(True)
    def call(self, *arguments):
        return (plain if stays_on_tcp(self) else own)(self, *arguments)

    call.__name__, call.__wrapped__ = name, own
    return call


PASSED = ("fileno", "settimeout", "setblocking", "shutdown", "setsockopt", "getsockopt", "getsockname", "getpeername")


def bind_class(fast, plain):
    """Gives these calls to the class `fast`. They lead to its own calls in all other cases."""
    global fast_class, own_init, own_connect, own_close, own_real_close, plain_accept
    global own_recv, own_recv_into, own_send, own_sendall
    global connection_at, channel_at, references_at, closed_at
    own_init, own_connect, plain_accept = fast.__init__, fast.connect, plain.accept
    own_close, own_real_close = fast.close, fast._real_close
    connection, channel = vars(fast)["_fast_held_connection"], vars(fast)["_fast_held_channel"]
    connection_at, channel_at = offset_of(connection), offset_of(channel)
    references_at, closed_at = offset_of(vars(plain)["_io_refs"]), offset_of(vars(plain)["_closed"])
    fast_class = fast
    fast._fast_connection, fast._fast_channel = Held(connection), Held(channel)
    own_recv, own_recv_into, own_send, own_sendall = fast.recv, fast.recv_into, fast.send, fast.sendall
    calls = [__init__, __del__, connect, accept, close, _real_close, recv, recv_into, send, sendall]
    for call in calls + [passing(name) for name in PASSED]:
        own = getattr(fast, call.__name__)
        call.__qualname__, call.__module__, call.__doc__ = f"socket.{call.__name__}", fast.__module__, own.__doc__
        share_function(call)
        setattr(fast, call.__name__, call)
