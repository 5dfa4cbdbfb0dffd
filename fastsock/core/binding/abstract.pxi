# Names in the abstract namespace, where two ends of a connection find each other.


def abstract_knock(bytes name not None):
    """Whether a datagram socket is bound to the abstract name. It is told that somebody asked. Raises OSError."""
    return checked(fs_abstract_knock(name, len(name))) != 0


def abstract_listen(bytes name not None):
    """The descriptor of a stream listener at the abstract name. Raises OSError."""
    return checked(fs_abstract_listen(name, len(name)))


def abstract_pair(bytes name not None):
    """The descriptors of two connected streams, the first of which has the abstract name. Raises OSError."""
    cdef int pair[2]
    checked(fs_abstract_pair(name, len(name), pair))
    return pair[0], pair[1]


def abstract_accept(int listener):
    """The descriptor of a connection that waits there. Raises OSError: BlockingIOError for none."""
    return checked(fs_abstract_accept(listener))


def abstract_reach(bytes name not None):
    """The descriptor of a stream connected to the listener at the abstract name; -1 for no listener. Raises OSError."""
    cdef int stream = fs_abstract_reach(name, len(name))
    return -1 if stream == -ECONNREFUSED else checked(stream)


def abstract_pass(int stream, int descriptor):
    """Passes the descriptor over a connected UNIX stream. Raises OSError."""
    checked(fs_abstract_pass(stream, descriptor))


def abstract_passed(int stream):
    """A duplicate of the descriptor that abstract_pass() passed: the stream keeps its own until it is closed.

    Raises OSError: BlockingIOError for nothing yet, ConnectionResetError where the other end hung up.
    """
    return checked(fs_abstract_passed(stream))


def abstract_is_own_user(unsigned int user):
    """Whether that user, as the kernel tells it, is surely this process's own: nobody without a number here is."""
    return fs_is_own_user(user) != 0


def abstract_peer(int stream):
    """Process and user at the other end of a connected UNIX stream. Raises OSError."""
    cdef int process = 0
    cdef unsigned int user = 0
    checked(fs_abstract_peer(stream, &process, &user))
    return process, user


cdef int abstract_told(int descriptor, unsigned long inode, bint keep) noexcept:
    return fs_abstract_told(descriptor, inode, keep)


cpdef unsigned int forks() noexcept:
    """How often this process, or one that it is a fork of, forked."""
    return fs_abstract_forks()


def linger(int descriptor):
    """Before the last close of a connected UNIX stream that nobody else holds: what the other end sends first is taken.

    Its writing half is shut now, and the rest goes on until something comes in, the other end closes, or a minute has
    passed. Raises OSError: then nothing goes on.
    """
    checked(fs_linger(descriptor))
