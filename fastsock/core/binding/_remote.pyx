# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Connections between hosts: their meeting over RDMA, and the memory through which a socket uses them."""
cimport cython
from libc.stdint cimport uint32_t, uint64_t

from ._channel cimport Channel
from ._core cimport checked
from ._ends cimport Segment
from .remote cimport (
    FS_SPAN_BROKEN, FS_SPAN_OPEN, FS_SPAN_WAITING, FS_SPAN_WITHDRAWN, fs_agent_begin, fs_agent_leave, fs_agent_lend,
    fs_meeting_claim, fs_meeting_listen, fs_meeting_listener, fs_meeting_offer, fs_meeting_rendezvous, fs_meeting_resume,
    fs_meeting_unlisten, fs_meeting_usable, fs_meeting_withdraw, fs_rsocket_claim, fs_rsocket_listen, fs_rsocket_listener,
    fs_rsocket_offer, fs_rsocket_unlisten, fs_rsocket_usable, fs_span, fs_span_await, fs_span_drop, fs_span_has_resumed,
    fs_verbs_has_device,
)
from .sockets cimport fs_put_address
from .stream cimport FS_SIDE_CONNECTED, fs_segment_hold
from .system cimport AF_INET6_NUMBER, AF_INET_NUMBER, fs_now_ns, sockaddr, sockaddr_storage

import posix as _os

SPAN_WAITING, SPAN_OPEN = FS_SPAN_WAITING, FS_SPAN_OPEN
SPAN_WITHDRAWN, SPAN_BROKEN = FS_SPAN_WITHDRAWN, FS_SPAN_BROKEN


def rdma_usable():
    """0, or the errno that says why this process cannot use RDMA: ENODEV, ENOSYS (built without it), ENOENT, EPERM."""
    cdef int error
    with nogil:  # another thread may be at opening the library
        error = fs_meeting_usable()
    return -error


def rsockets_usable():
    """The same of rsockets. Besides ELIBBAD: librdmacm is too old."""
    cdef int error
    with nogil:
        error = fs_rsocket_usable()
    return -error


def rdma_resume(bint resumes):
    """Whether connections made from now on go on over TCP where the device fails. Both ends must say so."""
    fs_meeting_resume(resumes)


def rdma_rendezvous(bint offers):
    """Whether the other end's device reads this end's large data, on connections made from now on. Else this end's writes it."""
    fs_meeting_rendezvous(offers)


def has_rdma_device():
    """Whether the kernel knows an RDMA device now. Opens no library."""
    return fs_verbs_has_device() != 0


def rdma_leave(double seconds):
    """The process is about to end: waits until every other end knows all that was sent, and the end. Returns how many do not."""
    cdef uint64_t patience = <uint64_t>(seconds * 1e9)
    cdef unsigned left
    with nogil:
        left = fs_agent_leave(patience)
    return left


@cython.final
cdef class Span:
    """A connection between two hosts, that a socket may take. Made by one of the functions below."""
    cdef fs_span *span
    cdef object path

    def wait(self, double seconds):
        """Waits until the other end has accepted, so long at most. Returns SPAN_..."""
        cdef uint64_t deadline = fs_now_ns() + <uint64_t>(seconds * 1e9)
        cdef uint32_t state
        with nogil:
            state = fs_span_await(self.span, deadline)
        return state

    def withdraw(self, double seconds):
        """Goes back to TCP, unless the other end has accepted. Returns the state that both ends agree on."""
        cdef uint64_t patience = <uint64_t>(seconds * 1e9)
        cdef uint32_t state
        with nogil:
            state = fs_meeting_withdraw(self.span, patience)
        return state

    def open(self, int doorbell, int other, int tcp, *, double spin_us, peer):
        """The channel of an open span, at `doorbell`. Called once.

        `other` is the other end of the doorbell. `tcp` tells of the other process's end. Both are taken over, unless
        this raises OSError.
        """
        cdef Segment segment = Segment.__new__(Segment)
        cdef Channel channel
        cdef int error
        segment.segment = fs_segment_hold(self.span.segment)
        channel = Channel(segment, doorbell, FS_SIDE_CONNECTED, spin_us=spin_us, peer=peer)
        channel.path = self.path
        channel.span = self
        channel.shared.end.abrupt = 1  # the span goes by the hang-up
        with nogil:  # the agent may be at work
            error = fs_agent_begin(self.span, other, tcp)
        checked(error)
        fs_agent_lend(self.span, channel.shared.end)
        return channel

    def resumed(self):
        """Whether the connection goes on over TCP, because the device failed."""
        return fs_span_has_resumed(self.span) != 0

    def counts(self):
        """frames_sent, frames_heard; written, taken: bytes that this end's device wrote and read there without a copy."""
        return {
            "frames_sent": self.span.counts.frames_sent,
            "frames_heard": self.span.counts.frames_heard,
            "written": self.span.counts.written,
            "taken": self.span.counts.taken,
        }

    def __dealloc__(self):
        if self.span != NULL:
            fs_span_drop(self.span)


cdef Span span_of(fs_span *span, path):
    cdef Span self = Span.__new__(Span)
    self.span = span
    self.path = path
    return self


ctypedef fs_span *(*offering)(const sockaddr *, const sockaddr *, uint64_t, int *) noexcept nogil
ctypedef fs_span *(*claiming)(const sockaddr *) noexcept nogil


cdef int put_address(sockaddr_storage *where, object address) except -1:
    cdef bytes ip = address[0].partition("%")[0].encode()
    cdef int family = AF_INET6_NUMBER if b":" in ip else AF_INET_NUMBER
    if fs_put_address(where, family, ip, address[1]) != 0:
        raise ValueError(f"{address!r} is no address")
    return 0


cdef Span offered_by(offering offer, source, target, double seconds, path):
    cdef sockaddr_storage one, other
    cdef uint64_t patience = <uint64_t>(seconds * 1e9)
    cdef int error = 0
    cdef fs_span *span
    put_address(&one, source)
    put_address(&other, target)
    with nogil:
        span = offer(<sockaddr *>&one, <sockaddr *>&other, patience, &error)
    if span == NULL:
        raise OSError(-error, _os.strerror(-error))
    return span_of(span, path)


cdef object claimed_by(claiming claim, source, path):
    cdef sockaddr_storage one
    cdef fs_span *span
    put_address(&one, source)
    with nogil:
        span = claim(<sockaddr *>&one)
    return None if span == NULL else span_of(span, path)


def rdma_offer(source, target, double seconds):
    """Meets a listener at `target`, for the connection that will come from `source`. Returns a Span.

    Both are (address, port). Raises OSError: ENODEV no device leads there, ECONNREFUSED nobody listens there with RDMA,
    ETIMEDOUT, ENOMEM (also for a limit of locked memory), EPROTO another version.
    """
    return offered_by(fs_meeting_offer, source, target, seconds, "rdma")


def rdma_claim(source):
    """The Span that the connecting end offered for the connection that came from `source`, or None."""
    return claimed_by(fs_meeting_claim, source, "rdma")


def rsockets_offer(source, target, double seconds):
    """As rdma_offer(), by rsockets."""
    return offered_by(fs_rsocket_offer, source, target, seconds, "rsockets")


def rsockets_claim(source):
    """As rdma_claim(), by rsockets."""
    return claimed_by(fs_rsocket_claim, source, "rsockets")


ctypedef void *(*listening)(const sockaddr *, int *) noexcept nogil
ctypedef void (*unlistening)(void *) noexcept nogil


@cython.final
cdef class RemoteListener:
    """Listens at an (address, port) beside TCP. Made by rdma_listen() or rsockets_listen()."""
    cdef void *listener
    cdef unlistening unlisten

    def close(self):
        cdef void *listener = self.listener
        self.listener = NULL
        if listener != NULL:
            with nogil:
                self.unlisten(listener)

    def __dealloc__(self):
        if self.listener != NULL:
            with nogil:
                self.unlisten(self.listener)


cdef RemoteListener listening_by(listening listen, unlistening unlisten, at):
    cdef RemoteListener self = RemoteListener.__new__(RemoteListener)
    cdef sockaddr_storage where
    cdef int error = 0
    put_address(&where, at)
    self.unlisten = unlisten
    with nogil:
        self.listener = listen(<sockaddr *>&where, &error)
    if self.listener == NULL:
        raise OSError(-error, _os.strerror(-error))
    return self


cdef void *listen_by_rdma(const sockaddr *at, int *error) noexcept nogil:
    return fs_meeting_listen(at, error)


cdef void unlisten_by_rdma(void *listener) noexcept nogil:
    fs_meeting_unlisten(<fs_meeting_listener *>listener)


cdef void *listen_by_rsockets(const sockaddr *at, int *error) noexcept nogil:
    return fs_rsocket_listen(at, error)


cdef void unlisten_by_rsockets(void *listener) noexcept nogil:
    fs_rsocket_unlisten(<fs_rsocket_listener *>listener)


def rdma_listen(at):
    """Listens with RDMA at an (address, port). Raises OSError: EADDRINUSE, ENODEV."""
    return listening_by(listen_by_rdma, unlisten_by_rdma, at)


def rsockets_listen(at):
    """As rdma_listen(), by rsockets."""
    return listening_by(listen_by_rsockets, unlisten_by_rsockets, at)
