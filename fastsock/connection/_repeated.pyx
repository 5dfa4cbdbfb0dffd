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
from libc.errno cimport EAGAIN, EINPROGRESS, EMFILE, ENFILE, EINTR, ETIMEDOUT, errno
from libc.stdint cimport uint64_t
from posix.fcntl cimport FD_CLOEXEC, F_GETFD, O_CLOEXEC, fcntl
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
from libc.stdio cimport snprintf
from posix.unistd cimport close, getpid

from fastsock.core.binding._core cimport Hidden, now_ns

import _socket
import binascii
import sys as _sys

from fastsock import chain, config, core
from fastsock.connection import fallback, pending, registry, tcp_options
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
    int shutdown(int, int) nogil
    struct ucred:
        int pid
        unsigned int uid
    enum: SHUT_RDWR, POLLIN, POLLRDHUP, SOCK_CLOEXEC, SOCK_NONBLOCK, SOL_SOCKET, SO_PEERCRED, SO_LINGER, SO_SNDBUFFORCE

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
cdef object HeldPort = ports.HeldPort, waiting_ones = pending._waiting, pack = names.packed
cdef object plain_close = plain_class.close, is_finalizing = _sys.is_finalizing, crc32 = binascii.crc32
cdef object listen_at = core.abstract_listen, pair_at = core.abstract_pair
cdef object pass_on = core.abstract_pass, passed = core.abstract_passed
cdef object hold = ports._hold, held_ports = ports._held, patience = waiting._patience, who_accepts = history.who_accepts
cdef object joined_there = history.joined, unique = names.unique, make_lock = genuine.RLock
cdef object CLOSED_UNUSED = Reason.CLOSED_BEFORE_MEETING, NO_OFFER = Reason.NO_OFFER, note_stay = fallback.note
cdef object is_own_user = core.abstract_is_own_user, knock = core.abstract_knock, reach = core.abstract_reach
cdef object take_port = core.take_port
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
    cdef bytes exact, anywhere, key
    cdef bint is_stream

    def __cinit__(self, settings, where, paths, peer, bytes exact, bytes anywhere):
        self.key = names.packed(where[0]).encode()
        self.is_stream = paths[0].is_stream and settings.peers == "same-user"
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


cdef bytes name_of(const char *kind, bytes source, int source_port, bytes target, int target_port):
    """As names.connection_name()."""
    cdef char text[108]
    cdef int length = snprintf(text + 1, sizeof(text) - 1, b"fastsock/1/%s/%s/%d/%s/%d", kind, <const char *>source,
                               source_port, <const char *>target, target_port)
    text[0] = 0
    return text[:length + 1]


cdef inline uint64_t ticket_of(bytes name, int port):
    """As names.ticket()."""
    return <uint64_t>crc32(name) << 16 | port


@cython.final
cdef class Begun:
    """As pending.Pending, and an Offer of which nothing is made until somebody but this module asks for it."""
    cdef Destination destination
    cdef readonly object local, peer
    cdef public object lock
    cdef public bint begun
    cdef readonly double began
    cdef object made, reservation, path, bound
    cdef bytes source
    cdef Hidden held, listener
    cdef int asker, pid
    cdef bint is_stream, is_shut, is_over
    cdef double deadline
    cdef object __weakref__

    def _dropped(self, _):
        if not is_finalizing():
            waiting_ones.pop(<size_t><void *>self, None)

    def over(self):
        """The connection stays or has moved."""
        waiting_ones.pop(<size_t><void *>self, None)

    @property
    def offer(self):
        """The Offer. From now on all that was set aside is its own."""
        if self.made is None:
            where = self.destination.where
            self.made = Offer.of(self.bound, where, self.destination.paths, self.held, self.listener,
                                 (self.reservation, self.path, self.pid), (self.is_stream, self.is_shut, self.asker),
                                 (self.began, self.deadline))
            self.asker = -1
            self.reservation = None
            self.is_over = True
        return self.made

    cdef bint is_native(self) noexcept:
        return self.made is None and not self.is_over

    cdef bint shut(self) except -1:
        """As Offer._shut()."""
        if self.asker < 0 and self.listener.is_same():
            if not self.is_shut:
                shutdown(self.listener.number, SHUT_RDWR)
                self.is_shut = True
            self.asker = accept4(self.listener.number, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
            if self.asker < 0:
                return errno != EMFILE and errno != ENFILE
        return self.asker < 0

    cdef int end(self, bint with_port) except -1:
        self.is_over = True
        self.listener.close()
        if self.asker >= 0:
            close(self.asker)
        self.asker = -1
        if with_port:
            self.held.close()
        return 0

    cdef bint take_back(self) except -1:
        """As Offer.withdraw()."""
        if self.is_stream:
            if not self.shut():
                return False
        elif self.reservation is not None and not self.reservation.withdraw():
            return False
        self.reservation = None
        self.end(True)
        return True

    def withdraw(self):
        """Ends the offer, unless the accepting end has taken it. Says whether it ended."""
        with self.lock:
            if self.made is not None:
                ended = self.made.withdraw()
            else:
                ended = self.is_over or self.take_back()
            if ended:
                self.over()
            return ended

    def __del__(self):
        if self.is_native() and not is_finalizing() and not self.take_back():
            self.end(True)


cdef Begun offer_again(object sock, Destination destination):
    """As the class's own way to an offer, from the presence on. None: nothing has changed, but that it was asked for."""
    cdef Begun begun
    cdef bytes name
    cdef int port
    if destination.where in undecided:
        custody.learn(destination.where)
    if not knock(destination.exact) and not knock(destination.anywhere):
        return None
    bound = take_port(plain_number(sock))
    source = pack(bound[0]).encode() if bound[0] != "0.0.0.0" else b"7f000001"
    port = bound[1]
    begun = Begun.__new__(Begun)
    begun.is_over = True
    begun.asker = -1
    begun.destination, begun.bound, begun.source = destination, bound, source
    begun.peer = destination.peer
    begun.is_stream = destination.is_stream
    name = name_of(b"stream" if begun.is_stream else b"offer", source, port, destination.key, destination.where[1])
    begun.held = ports.hold(sock) if held_ports else hold(sock)
    try:
        if not begun.is_stream:
            begun.pid = who_accepts(destination.where)
            if begun.pid:
                for path in destination.paths:
                    begun.reservation = path.reserve(begun.pid, ticket_of(name, port))
                    if begun.reservation is not None:
                        begun.path = path
                        break
        begun.listener = Hidden(listen_at(name))
    except BaseException:
        if begun.reservation is not None:
            begun.reservation.withdraw()
        begun.held.close()
        raise
    begun.is_over = False
    return begun


cdef int begin(object sock, Begun begun) except -1:
    """Begins the meeting once TCP is connected. The first use takes part in it. Returns 0 where nothing has begun."""
    cdef socklen_t length = 0
    cdef int descriptor = plain_number(sock)
    if getpeername(descriptor, <sockaddr *>&length, &length) != 0:  # it was reset already
        return 0
    begun.local = plain_name(sock)
    seconds = getattr(patience, "seconds", None)
    begun.began = <double>now_ns() / 1e9
    begun.deadline = begun.began + (begun.destination.settings.meeting_ms / 1e3 if seconds is None else seconds)
    begun.lock = make_lock()
    waiting_ones[<size_t><void *>begun] = PyWeakref_NewRef(sock, begun._dropped)
    Py_XDECREF(exchange(sock, connection_at, NULL))
    Py_XDECREF(exchange(sock, channel_at, NULL))
    sock._fast_pending = begun
    return 1


@cython.binding(True)
def _fast_connect(self, primitive, address):
    cdef Destination destination = known(self, address)
    cdef Begun begun = None
    if destination is not None:
        try:
            begun = offer_again(self, destination)
        except (OSError, Refused):
            pass  # the class's own call finds out what there is to tell
    if begun is None:
        result = own_connect(self, primitive, address)
        if result == 0:
            learn(self, address)
        return result
    try:
        try:
            result = primitive(self, address) or 0
        except BlockingIOError as error:
            result = error.errno or EINPROGRESS
        taken_over = begun.is_stream or begun.reservation is not None
        if result != 0 or not taken_over or begin(self, begun) == 0:
            if result == 0 or result == EINPROGRESS:
                self._fast_finish_connect(begun.offer, result != 0, address)
    finally:
        if self._fast_pending is None and begun.is_native():
            begun.take_back()
    return result


cdef int wait_for(Hidden hidden, int stream, uint64_t deadline) except -2:
    """Waits for the accepting end's doorbell, and returns its descriptor. -1: another call must find out why not."""
    cdef int listener = hidden.number, found, error
    cdef pollfd[2] watched
    cdef timespec clock
    cdef uint64_t now = 0, spun = now_ns() + SPIN_NS
    watched[0].fd, watched[0].events = listener, POLLIN
    watched[1].fd, watched[1].events = stream, POLLRDHUP
    while hidden.is_same():
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


cdef object meet_claimer(object sock, Begun begun, int *doorbell):
    """Waits for the end that claims the reservation. Returns the channel. None: the class's own call must go on."""
    cdef ucred other
    cdef socklen_t length = sizeof(other)
    cdef uint64_t deadline
    reservation = begun.reservation
    if begun.asker < 0:
        if reservation.is_claimed():  # an end that claimed and does not come may have given its claim up
            deadline = now_ns() + claim_slice
        else:
            deadline = <uint64_t>(<double>begun.deadline * 1e9)
        begun.asker = wait_for(begun.listener, plain_number(sock), deadline)
    if begun.asker < 0 or not reservation.is_claimed():
        return None
    if getsockopt(begun.asker, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0:
        return None
    if other.pid != begun.pid or not (is_own_user(other.uid) or is_welcome(other.uid)):
        return None
    where = begun.destination.where
    channel = reservation.join(begun.asker, config.settings(), f"{where[0]}:{where[1]}")
    doorbell[0] = begun.asker
    begun.asker = -1
    begun.reservation = None
    return channel


cdef int take_stream(object sock, Begun begun) except -2:
    """Waits for the end that passes a stream. Returns this end's side. -1: the class's own call must go on."""
    cdef ucred other
    cdef socklen_t length = sizeof(other)
    cdef uint64_t now, spun
    cdef int side = -1
    if begun.asker < 0:
        begun.asker = wait_for(begun.listener, plain_number(sock), <uint64_t>(<double>begun.deadline * 1e9))
    if begun.asker < 0 or getsockopt(begun.asker, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0:
        return -1
    if not (is_own_user(other.uid) or is_welcome(other.uid)):
        return -1
    spun = now_ns() + SPIN_NS
    while side < 0:
        try:
            side = passed(begun.asker)
        except BlockingIOError:
            if now_ns() >= spun:
                return -1
        except OSError:
            return -1
    begun.pid = other.pid
    return side


@cython.binding(True)
def _fast_take_part(self, pending, may_go_ahead):
    cdef Begun begun
    cdef int doorbell = -1
    if type(pending) is Begun and is_plain_one(self) and (<Begun>pending).is_native():
        begun = <Begun>pending
        if pack(begun.local[0]).encode() == begun.source:
            channel = None
            if begun.is_stream:
                doorbell = take_stream(self, begun)
            else:
                channel = meet_claimer(self, begun, &doorbell)
            if doorbell >= 0:
                begun.end(False)
                joined_there(begun.destination.where, begun.pid)
                path = begun.destination.paths[0] if begun.is_stream else begun.path
                move(self, "connect", path, channel, doorbell, begun.pid, begun.local, begun.peer, None, begun.held)
                return
    own_take_part(self, pending, may_go_ahead)


# ---- the accepting end ----

@cython.final
cdef class Place:
    """What holds for every connection from the same address to a listener, as long as the settings do."""
    cdef object settings, path
    cdef bytes key
    cdef int port
    cdef bint is_stream

    def __cinit__(self, settings, bytes key, int port, path):
        self.settings = settings
        self.key = key
        self.port = port
        self.path = path
        self.is_stream = path is not None and path.is_stream


cdef Place place_of(object local):
    cdef Place found = places.get(local)
    settings = config.settings()
    if found is None or found.settings is not settings:
        paths, _ = chain.candidates("listen", local[0], local[1])
        if len(places) >= MOST_KNOWN:
            places.clear()
        found = places[local] = Place(settings, names.packed(local[0]).encode(), local[1], paths[0] if paths else None)
    return found


cdef bytes OFFER = b"offer", STREAM = b"stream", CUSTODY = b"custody"
cdef tuple OFFER_FIRST = (OFFER, CUSTODY, STREAM), STREAM_FIRST = (STREAM, OFFER, CUSTODY)


cdef int peer_of(int stream) noexcept:
    cdef ucred other
    cdef socklen_t length = sizeof(other)
    return other.pid if getsockopt(stream, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 else 0


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


cdef int enlarge(int side, object path) except -1:
    """As the path's prepare(), where this process may have as large a buffer as it likes."""
    cdef int size = path.stream_bytes
    if setsockopt(side, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0:
        path.prepare(side)
    return 0


cdef int side_of_stream(int asker, bytes name, object path) except -2:
    """As answer._met_by_stream(). Returns this end's side, -1 where both ends stay on TCP. Closes `asker`."""
    cdef ucred other
    cdef socklen_t length = sizeof(other)
    cdef int side = -1, theirs = -1
    cdef bint has_moved = False
    try:
        if getsockopt(asker, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0:
            if is_own_user(other.uid) or is_welcome(other.uid):
                theirs, side = pair_at(unique(name))
                enlarge(theirs, path)
                enlarge(side, path)
                pass_on(asker, theirs)
                has_moved = True
    except OSError:  # the connecting end has gone, or no number is free
        pass
    finally:
        close(asker)
        if theirs >= 0:
            close(theirs)
        if side >= 0 and not has_moved:
            close(side)
    return side if has_moved else -1


cdef bint stay(object sock, object listener, object listening, object local, object address) except -1:
    if listener._fast_options:
        sock._fast_options = dict(listener._fast_options)
    if listening is not None:
        listening.missed()
    note_stay(sock, "accept", NO_OFFER, local, address)
    return True


cdef tuple NOBODY = (False, None)


cdef tuple meet(object sock, object listener, object address):
    """Meets a connecting end that needs no answer, or finds that there is none that may leave TCP.

    Returns whether that is done. If not, the class's own call must go on, with the kind of the name that was reached
    and the descriptor of the stream to it, or None.
    """
    cdef int doorbell = -1, pid = 0
    cdef Place place
    channel = claim = None
    listening, local = listener._fast_listening, listener._fast_listens_at
    if not is_plain_one(sock) or listener._fast_opened is not None or listener._fast_hears:
        return NOBODY
    if not holds_names(listener, listening):
        return NOBODY
    if local is None:
        local = plain_name(sock)
    place = place_of(local)
    if place.path is None or address[0] != local[0] or place.settings.trace:
        return NOBODY
    for kind in STREAM_FIRST if place.is_stream else OFFER_FIRST:
        name = name_of(kind, place.key, address[1], place.key, place.port)
        if kind is OFFER:
            claim = place.path.claim(ticket_of(name, address[1]))
        try:
            doorbell = reach(name)
            if claim is not None:
                if doorbell >= 0 and is_claimer(doorbell, claim):
                    channel = claim.join(doorbell, place.settings, f"{address[0]}:{address[1]}")
                    pid = claim.pid
                    break
                claim.give_up()
                claim = None
        except OSError:  # the class's own call finds out what there is to tell
            if claim is not None:
                claim.give_up()
            return NOBODY
        if doorbell >= 0:
            break
    else:
        return stay(sock, listener, listening, local, address), None
    if channel is None:
        if kind is not STREAM or not place.is_stream:
            return False, (kind.decode(), doorbell)
        pid = peer_of(doorbell)
        doorbell = side_of_stream(doorbell, name, place.path)
        if doorbell < 0:
            return stay(sock, listener, listening, local, address), None
    if listener._fast_options:
        sock._fast_options = dict(listener._fast_options)
    if listening is not None:
        listening.found()
    move(sock, "accept", place.path, channel, doorbell, pid, local, address, None, None)
    return True, None


@cython.binding(True)
def _fast_meet_connecting_end(self, listener, address):
    done, reached = meet(self, listener, address)
    if not done:
        own_meet(self, listener, address, reached)


# ---- closing, at both ends ----

cdef bint close_stream(object sock, object connection) except -1:
    """As close_moved(), of a connection whose bytes a stream of the kernel's carries."""
    if connection.is_tcp or connection.bridged or connection.opener is not None or connection.holders:
        return False
    closing(connection)
    if connection.began and config.settings().short_lived == "tcp":
        history.ended(connection.peer[:2], genuine.monotonic() - connection.began, connection.final or {})
    plain_close(sock)
    port = connection.port
    if port is not None:
        port.look()
    return True


cdef bint close_unused(object sock) except -1:
    """Closes a socket that was never used, where its meeting can still be called off."""
    cdef Begun begun
    waiting_one = sock._fast_pending
    if type(waiting_one) is not Begun or not is_plain_one(sock) or sock._fast_presence is not None:
        return False
    begun = <Begun>waiting_one
    if config.settings().trace or not begun.withdraw():
        return False
    sock._fast_pending = None
    note_stay(sock, "connect", CLOSED_UNUSED, begun.local, begun.peer)
    if config.settings().short_lived == "tcp":
        history.closed_unused(begun.peer[:2], genuine.monotonic() - begun.began)
    sock._real_close()  # now it is as one that was never anything but TCP's
    return True


cdef bint close_moved(object sock) except -1:
    """Closes a socket whose connection has moved, and is only its own. Returns False if there may be more to do."""
    cdef dict own
    if not is_plain_one(sock) or sock._fast_presence is not None or sock._fast_pending is not None:
        return False
    connection, channel = held_in(sock, connection_at), held_in(sock, channel_at)
    if type(connection) is not Connection:
        return False
    if channel is None or channel is nothing:
        return close_stream(sock, connection)
    if type(channel) is not Channel or len(connection.holders) != 1:
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
    if _ss is plain_class:
        if self._fast_pending is not None:
            if close_unused(self):
                return
            self._fast_decide()
        if close_moved(self):
            return
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
