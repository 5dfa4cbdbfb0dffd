# Connections that their listener has not accepted yet.

CUSTODY_PENDING, CUSTODY_HANDED = FS_CUSTODY_PENDING, FS_CUSTODY_HANDED
CUSTODY_JOINED, CUSTODY_RELAYED, CUSTODY_ENDED = FS_CUSTODY_JOINED, FS_CUSTODY_RELAYED, FS_CUSTODY_ENDED


cdef int put_address(sockaddr_storage *where, object address) except -1:
    cdef bytes ip = address[0].partition("%")[0].encode()
    cdef int family = AF_INET6_NUMBER if b":" in ip else AF_INET_NUMBER
    if fs_put_address(where, family, ip, address[1]) != 0:
        raise ValueError(f"{address!r} is no address")
    return 0


def accepted(connecting, listening):
    """Two answers about a TCP connection within this host: whether its listener has accepted it, None where the kernel
    does not say; and whether it has the sign."""
    cdef sockaddr_storage one, other
    put_address(&one, connecting)
    put_address(&other, listening)
    cdef fs_acceptance found = fs_accepted(<sockaddr *>&one, <sockaddr *>&other)
    return None if found.state < 0 else found.state != 0, found.is_signed != 0


def sign(int descriptor, bint has_sign):
    """Leaves the sign at a listener that accept() of it connects back; or at one connection, that this one does.

    Raises OSError, also where this kernel has no place for it.
    """
    checked(fs_accepted_sign(descriptor, has_sign))


@cython.final
cdef class Custody:
    """The accepting side of a connection, kept by a thread of this process until somebody connects back for it.

    channel is the connecting end's; the descriptors, all taken over, are the other end of its doorbell, its memory,
    TCP's and that of a listener at the name to connect back to.  hello: what whoever does so is told; any_user: whoever
    that is; patience: seconds for one who accepted, and neither does nor speaks nor reads.  Raises OSError, then nothing
    is taken over.
    """
    cdef _Shared shared

    def __init__(self, Channel channel not None, int doorbell, int memory, int stream, int listener, *, connecting,
                 listening, bytes hello not None, bint any_user=False, double patience=0.01):
        cdef fs_custody_terms terms
        put_address(&terms.connecting, connecting)
        put_address(&terms.listening, listening)
        if <size_t>len(hello) > sizeof(terms.hello):
            raise ValueError("hello is too long")
        memcpy(terms.hello, <const char *>hello, len(hello))
        terms.hello_length = len(hello)
        terms.any_user = any_user
        terms.patience_ns = <uint64_t>(patience * 1e9)
        self.shared = channel.shared
        checked(fs_custody_begin(self.shared.end, doorbell, memory, stream, listener, &terms))

    def state(self):
        """CUSTODY_..., one who has data for us has joined."""
        # Data first: the thread notes what it handed over a moment after that, and a pump has its state before its data.
        cdef bint served = fs_end_was_served(self.shared.end)
        cdef int state
        with nogil:
            state = fs_custody_hear(self.shared.end.custody)
        return FS_CUSTODY_JOINED if served and state <= FS_CUSTODY_HANDED else state

    def joined_by(self):
        """The process that joined, or 0."""
        return fs_custody_joined_by(self.shared.end.custody)

    def is_accepted(self):
        """Whether somebody was seen to have accepted."""
        return fs_custody_is_accepted(self.shared.end.custody) != 0

    def lasted(self):
        """Seconds until it was known what becomes of the connection; until now where it is not."""
        return <double>fs_custody_lasted_ns(self.shared.end.custody) / 1e9

    def take_back(self, Channel channel not None):
        """Makes the channel's descriptor TCP's again, and gives custody up; False where it is too late for that."""
        cdef int flags, stream
        with cython.critical_section(channel):
            if channel.descriptor < 0 or channel.users > 0:
                return False
            flags = get_flags(channel.descriptor, F_GETFD)
            stream = fs_custody_take_back(self.shared.end.custody)
            if stream < 0:
                return False
            dup3(stream, channel.descriptor, 0 if not flags & FD_CLOEXEC else O_CLOEXEC)
            close_descriptor(stream)
            return True

    def take_port(self):
        """TCP's descriptor, kept for its port since the other end has joined; or -1. Who takes it closes it."""
        return fs_custody_take_port(self.shared.end.custody)

    def relay(self):
        """From now on the other end is on TCP for good, unless it connected back before."""
        fs_custody_relay(self.shared.end.custody)

    def fork(self):
        """A process of its own carries the bytes, and survives this one; False where nobody needs it."""
        cdef int result = fs_custody_fork(self.shared.end.custody)
        if result == -EBUSY:
            return False
        checked(result)
        return True


def rest_threads():
    """Before a fork: ends the native threads that have nothing in custody, and lets go of what lingers."""
    fs_custody_rest()
    fs_linger_rest()
