# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Connections of two processes that met before: from connect() and accept() to close(), without a Python frame.

Each call here serves the plain case: the connecting end reserved memory, the accepting end claims it, and a blocking
socket of the fast class itself uses it. Every other case is left to the class's own call, from where it stands. Both
work on the same objects, so either may go on where the other stopped.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from cpython.weakref cimport PyWeakref_NewRef
from libc.errno cimport EAGAIN, EINPROGRESS, EINTR, ETIMEDOUT, errno
from libc.stdint cimport uint64_t
from posix.fcntl cimport FD_CLOEXEC, F_GETFD, O_CLOEXEC, fcntl
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
from posix.unistd cimport close

from fastsock.core.binding._core cimport now_ns

import _socket

from fastsock import chain, config, core
from fastsock.connection import pending, registry, tcp_options
from fastsock.meeting import custody, history, names, ports, waiting
from fastsock.meeting import offer as offering
from fastsock.meeting.joined import is_welcome
from fastsock.system.genuine import genuine
from fastsock.transport import Reason, Refused

include "_slots.pxi"

cdef extern from *:
    """
    #include <poll.h>
    #include <sys/socket.h>
    #include <unistd.h>
    """
    ctypedef unsigned int socklen_t
    int dup3(int, int, int) nogil
    struct sockaddr:
        pass
    int accept4(int, sockaddr *, socklen_t *, int) nogil
    int getsockopt(int, int, int, void *, socklen_t *) nogil
    int setsockopt(int, int, int, const void *, socklen_t) nogil
    int getpeername(int, sockaddr *, socklen_t *) nogil
    struct pollfd:
        int fd
        short events, revents
    int poll(pollfd *, unsigned long, int) nogil
    struct ucred:
        int pid
        unsigned int uid
    enum: POLLIN, POLLRDHUP, SOCK_CLOEXEC, SOCK_NONBLOCK, SOL_SOCKET, SO_PEERCRED, SO_LINGER

cdef enum:
    MOST_KNOWN = 4096
    SPIN_NS = 40000


cdef object plain_class = _socket.socket
cdef object plain_timeout = plain_class.gettimeout
cdef object plain_set_timeout = plain_class.settimeout
cdef object plain_detach = plain_class.detach
cdef object plain_number = plain_class.fileno
cdef object plain_name = plain_class.getsockname
cdef object Channel = core.Channel, Connection = registry.Connection, Offer = offering.Offer
cdef object HeldPort = ports.HeldPort, Pending = pending.Pending
cdef object is_own_user = core.abstract_is_own_user, knock = core.abstract_knock, reach = core.abstract_reach
cdef object take_port = core.take_port, ticket_of = names.ticket
cdef object opened = registry.opened, closing = registry.closing
cdef object JOINED = Reason.JOINED
cdef tuple LINGER = (_socket.SOL_SOCKET, _socket.SO_LINGER)
cdef long enough_short = history.ENOUGH_SHORT
cdef uint64_t claim_slice = waiting.CLAIM_SLICE_MS * 1000000  # nanoseconds
cdef dict in_a_row = history._in_a_row, lapses = history._lapses._entries, undecided = custody._undecided
cdef dict settings_of = vars(config.in_force)  # where the settings in force are
cdef dict destinations = {}, places = {}

# ---- what the class is, and what its own calls are: bind_class() ----

cdef object fast_class = None
cdef object own_connect, own_take_part, own_meet, own_real_close, attach, detach
cdef dict own_data_calls = {}
cdef Py_ssize_t connection_at, channel_at


cdef inline bint is_plain_one(object sock) noexcept:
    """Whether it is of the fast class itself: no TLS socket, and nothing that overrides a call."""
    return type(sock) is fast_class


# ---- moving, at both ends ----

cdef int bind(object sock, object channel) except -1:
    connection = held_in(sock, connection_at)
    cdef dict own = sock.__dict__
    kind = type(sock)
    put(sock, channel_at, channel)
    if connection is not nothing and connection is not None:
        connection.holders = [*connection.holders, PyWeakref_NewRef(sock, None)]
        if connection.channel is None:
            connection.channel = channel
    for name, call in own_data_calls.items():
        if getattr(kind, name) is call:  # a subclass that overrides it is asked first
            own[name] = getattr(channel, name)
    attach(plain_number(sock), sock, channel)
    return 0


cdef int move(object sock, object role, object path, object channel, int doorbell, object pid, object local,
              object peer, object kept, object held) except -1:
    """Re-points the descriptor at the doorbell. TCP ends by a reset, so that nothing is left in TIME_WAIT."""
    cdef int descriptor = plain_number(sock), flags = 0, error = 0
    cdef int[2] reset = [1, 0]
    cdef bint connects = role == "connect", resets = connects and kept is None
    options, timeout = sock._fast_options, plain_timeout(sock)
    connection = Connection(role, path.name, JOINED, number(sock, family_at), number(sock, proto_at), local, peer)
    connection.peer_pid = pid
    if kept is not None:
        connection.kept = kept
    if options is not None:
        connection.options = options
    if connects:
        connection.began = genuine.monotonic()
    with nogil:
        if resets and setsockopt(descriptor, SOL_SOCKET, SO_LINGER, reset, sizeof(reset)) != 0:
            error = errno
        if error == 0:
            flags = fcntl(descriptor, F_GETFD)
            if flags < 0 or dup3(doorbell, descriptor, O_CLOEXEC if flags & FD_CLOEXEC else 0) < 0:
                error = errno
        if error == 0:
            close(doorbell)
    if error != 0:
        raise OSError(error, genuine.strerror(error))
    if held is not None:
        connection.port = HeldPort(held, [descriptor])
    plain_set_timeout(sock, timeout)
    put(sock, connection_at, connection)
    if channel is not None:
        channel.rebind(descriptor)
        channel.settimeout(timeout)
        bind(sock, channel)
    if options:
        tcp_options.apply(sock, channel, options, options)
    opened(connection, sock)
    if config.settings().trace:
        chain.log.info("%s %s -> %s", role, peer, path.name)
    return 0


@cython.binding(True)
def _fast_move(self, role, joined, local, peer, kept=None, held=None):
    move(self, role, joined.path, joined.channel, joined.doorbell, joined.pid, local, peer, kept, held)


@cython.binding(True)
def _fast_bind(self, channel):
    bind(self, channel)


# ---- the connecting end ----

@cython.final
cdef class Destination:
    """What holds for every connection to a listener on the loopback network, as long as the settings do."""
    cdef object settings, where, paths, peer
    cdef bytes exact, anywhere

    def __cinit__(self, settings, where, paths, peer, bytes exact, bytes anywhere):
        self.settings = settings
        self.where = where
        self.paths = paths
        self.peer = peer
        self.exact = exact
        self.anywhere = anywhere


cdef int learn(object sock, object address) except -1:
    """Keeps what the class's own connect() found out for a meeting with reserved memory."""
    waiting_one = sock._fast_pending
    if waiting_one is None or not is_plain_one(sock) or number(sock, family_at) != 2:
        return 0
    offer = waiting_one.offer
    if type(offer) is not Offer or not offer.is_reserved or len(address) != 2 or offer._where != address:
        return 0
    if not address[0].startswith("127.") or waiting_one.local[0] != "127.0.0.1":
        return 0
    if len(destinations) >= MOST_KNOWN:
        destinations.clear()
    exact, anywhere = names.presence_names(address[0], address[1])
    destinations[address] = Destination(config.settings(), address, offer.paths, waiting_one.peer, exact, anywhere)
    return 0


cdef Destination known(object sock, object address):
    """The record of a destination that this connection may reach as the ones before, else None."""
    cdef Destination destination
    if not is_plain_one(sock) or type(address) is not tuple or not destinations:
        return None
    try:
        destination = destinations.get(address)
    except TypeError:  # nothing that a dictionary could hold
        return None
    if destination is None or destination.settings is not settings_of.get("current"):
        return None
    if number(sock, family_at) != 2 or not is_tcp_stream(sock) or not is_empty(sock, connection_at):
        return None
    if sock._fast_pending is not None or sock._fast_watched or sock._fast_opened is not None:
        return None
    timeout = plain_timeout(sock)
    if timeout is not None and timeout <= 0:  # it goes ahead
        return None
    row = in_a_row.get(destination.where)
    if (row is not None and row[0] >= enough_short) or destination.where in lapses:
        return None
    return destination


cdef object offer_again(object sock, Destination destination):
    """As the class's own way to an offer, from the presence on. None: nothing has changed, but that it was asked for."""
    if destination.where in undecided:
        custody.learn(destination.where)
    if not knock(destination.exact) and not knock(destination.anywhere):
        return None
    bound = take_port(plain_number(sock))
    return Offer(bound, destination.where[0], destination.where[1], destination.paths, False, ports.hold(sock))


cdef int begin(object sock, object offer, Destination destination) except -1:
    """Begins the meeting once TCP is connected. The first use takes part in it. Returns 0 where nothing has begun."""
    cdef socklen_t length = 0
    cdef int descriptor = plain_number(sock)
    if getpeername(descriptor, <sockaddr *>&length, &length) != 0:  # it was reset already
        return 0
    local = plain_name(sock)
    offer.sent()
    waiting_one = Pending(sock, offer, local, destination.peer)
    Py_XDECREF(exchange(sock, connection_at, NULL))
    Py_XDECREF(exchange(sock, channel_at, NULL))
    sock._fast_pending = waiting_one
    return 1


@cython.binding(True)
def _fast_connect(self, primitive, address):
    cdef Destination destination = known(self, address)
    offer = None
    if destination is not None:
        try:
            offer = offer_again(self, destination)
        except (OSError, Refused):
            pass  # the class's own call finds out what there is to tell
    if offer is None:
        result = own_connect(self, primitive, address)
        if result == 0:
            learn(self, address)
        return result
    try:
        try:
            result = primitive(self, address) or 0
        except BlockingIOError as error:
            result = error.errno or EINPROGRESS
        if result != 0 or not offer.is_reserved or begin(self, offer, destination) == 0:
            if result == 0 or result == EINPROGRESS:
                self._fast_finish_connect(offer, result != 0, address)
    finally:
        if self._fast_pending is None:
            offer.withdraw()
    return result


cdef int wait_for(object hidden, int stream, uint64_t deadline) except -2:
    """Waits for the accepting end's doorbell, and returns its descriptor. -1: another call must find out why not."""
    cdef int listener = hidden.number, found, error
    cdef pollfd[2] watched
    cdef timespec clock
    cdef uint64_t now = 0, spun = now_ns() + SPIN_NS
    watched[0].fd, watched[0].events = listener, POLLIN
    watched[1].fd, watched[1].events = stream, POLLRDHUP
    while hidden.is_ours():
        with nogil:
            while True:
                found = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
                error = errno if found < 0 else 0
                clock_gettime(CLOCK_MONOTONIC, &clock)
                now = <uint64_t>clock.tv_sec * 1000000000 + clock.tv_nsec
                if error != EAGAIN or now >= spun:
                    break
            if error == EAGAIN:
                error = ETIMEDOUT
                if now < deadline:
                    watched[0].revents = watched[1].revents = 0
                    error = errno if poll(watched, 2, <int>((deadline - now) // 1000000) + 1) < 0 else 0
        if found >= 0:
            return found
        if error == EINTR:
            PyErr_CheckSignals()
        elif error != 0 or not watched[0].revents & POLLIN:
            return -1
    return -1


cdef object meet_claimer(object sock, object offer, object local):
    """Waits for the end that claims the reservation. Returns the channel. None: the class's own call must go on."""
    cdef ucred other
    cdef socklen_t length = sizeof(other)
    cdef uint64_t deadline
    cdef int doorbell = offer._doorbell
    reservation = offer._reservation
    if reservation is None or names.packed(local[0]) != offer._source:
        return None
    if doorbell < 0:
        if reservation.is_claimed():  # an end that claimed and does not come may have given its claim up
            deadline = now_ns() + claim_slice
        else:
            deadline = <uint64_t>(<double>offer._deadline * 1e9)
        doorbell = wait_for(offer._hidden, plain_number(sock), deadline)
        if doorbell < 0:
            return None
        offer._doorbell = doorbell
    if not reservation.is_claimed() or getsockopt(doorbell, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0:
        return None
    if other.pid != offer._pid or not (is_own_user(other.uid) or is_welcome(other.uid)):
        return None
    return offer.join_reserved()


@cython.binding(True)
def _fast_take_part(self, pending, may_go_ahead):
    offer = pending.offer
    channel = meet_claimer(self, offer, pending.local) if type(offer) is Offer and is_plain_one(self) else None
    if channel is None:
        own_take_part(self, pending, may_go_ahead)
        return
    pid, doorbell = offer._pid, offer.settled(offer._pid)
    move(self, "connect", offer._path, channel, doorbell, pid, pending.local, pending.peer, None, offer.held())


# ---- the accepting end ----

@cython.final
cdef class Place:
    """What holds for every connection from the same address to a listener, as long as the settings do."""
    cdef object settings, key, path

    def __cinit__(self, settings, key, path):
        self.settings = settings
        self.key = key
        self.path = path


cdef Place place_of(object local):
    cdef Place found = places.get(local)
    settings = config.settings()
    if found is None or found.settings is not settings:
        paths, _ = chain.candidates("listen", local[0], local[1])
        if len(places) >= MOST_KNOWN:
            places.clear()
        found = places[local] = Place(settings, names.packed(local[0]), paths[0] if paths else None)
    return found


cdef bint is_claimer(int doorbell, object claim) except -1:
    cdef ucred other
    cdef socklen_t length = sizeof(other)
    if getsockopt(doorbell, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0:
        return False
    return other.pid == claim.pid and (is_own_user(other.uid) or is_welcome(other.uid))


cdef bint holds_names(object listener, object listening) except -1:
    """Whether the names that hear of offers are held here. Forked processes that share a listener all hold them."""
    if listening is not None and listening.holds_names():
        return True
    presences = listener._fast_presence
    if not presences:
        return False
    for presence in presences:
        if not presence.is_held():
            return False
    return True


cdef bint meet(object sock, object listener, object address) except -1:
    """Meets a connecting end that reserved memory. Returns False if the class's own call must look for another offer."""
    cdef int doorbell = -1
    cdef Place place
    channel = None
    listening, local = listener._fast_listening, listener._fast_listens_at
    if not is_plain_one(sock) or listener._fast_opened is not None or listener._fast_hears:
        return False
    if not holds_names(listener, listening):
        return False
    if local is None:
        local = plain_name(sock)
    place = place_of(local)
    if place.path is None or address[0] != local[0]:
        return False
    name = names.connection_name("offer", (place.key, address[1]), (place.key, local[1]))
    claim = place.path.claim(ticket_of(name, address[1]))
    if claim is None:
        return False
    try:
        doorbell = reach(name)
        if doorbell >= 0 and is_claimer(doorbell, claim):
            channel = claim.join(doorbell, place.settings, f"{address[0]}:{address[1]}")
    except OSError:  # the class's own call finds out what there is to tell
        pass
    finally:
        if channel is None:
            claim.give_up()
            if doorbell >= 0:
                close(doorbell)
    if channel is None:
        return False
    if listener._fast_options:
        sock._fast_options = dict(listener._fast_options)
    if listening is not None:
        listening.found()
    move(sock, "accept", place.path, channel, doorbell, claim.pid, local, address, None, None)
    return True


@cython.binding(True)
def _fast_meet_connecting_end(self, listener, address):
    if not meet(self, listener, address):
        own_meet(self, listener, address)


# ---- closing, at both ends ----

cdef bint close_moved(object sock) except -1:
    """Closes a socket whose connection has moved, and is only its own. Returns False if there may be more to do."""
    cdef dict own
    if not is_plain_one(sock) or sock._fast_presence is not None or sock._fast_pending is not None:
        return False
    connection, channel = held_in(sock, connection_at), held_in(sock, channel_at)
    if type(connection) is not Connection or type(channel) is not Channel or len(connection.holders) != 1:
        return False
    closing(connection)
    if connection.began and config.settings().short_lived == "tcp":
        history.ended(connection.peer[:2], genuine.monotonic() - connection.began, connection.final or {})
    options = sock._fast_options
    reset = options is not None and LINGER in options and sock._fast_resets()
    plain_detach(sock)  # first: another thread that finds no channel must not call the kernel on a doorbell
    own = sock.__dict__
    for name in own_data_calls:
        own.pop(name, None)
    if type(held_in(sock, channel_at)) is Channel:
        put(sock, channel_at, None)
        detach(channel.fileno())
    channel.close(reset)
    port = connection.port
    if port is not None:
        port.look()
    return True


@cython.binding(True)
def _real_close(self, _ss=_socket.socket):
    if _ss is not plain_class or not close_moved(self):
        own_real_close(self, _ss)


def bind_class(fast, dict data_calls, note_number, forget_number):
    """Gives these calls to the class `fast`. They lead to its own calls in all other cases.

    data_calls: by name, those calls of the class in whose place a connected socket has its channel's.
    """
    global fast_class, own_connect, own_take_part, own_meet, own_real_close, own_data_calls, attach, detach
    global connection_at, channel_at
    own_connect, own_take_part = fast._fast_connect, fast._fast_take_part
    own_meet, own_real_close = fast._fast_meet_connecting_end, fast._real_close
    connection_at = offset_of(vars(fast)["_fast_held_connection"])
    channel_at = offset_of(vars(fast)["_fast_held_channel"])
    fast_class, own_data_calls, attach, detach = fast, data_calls, note_number, forget_number
    for call in (_fast_connect, _fast_take_part, _fast_meet_connecting_end, _fast_move, _fast_bind, _real_close):
        own = getattr(fast, call.__name__)
        call.__qualname__, call.__module__, call.__doc__ = f"socket.{call.__name__}", fast.__module__, own.__doc__
        share_function(call)
        setattr(fast, call.__name__, call)
