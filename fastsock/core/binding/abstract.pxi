# Names in the abstract namespace, where two ends of a connection find each other.


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


def abstract_is_own_user(unsigned int user):
    """Whether that user, as the kernel tells it, is surely this process's own: nobody without a number here is."""
    return fs_is_own_user(user) != 0


def abstract_peer(int stream):
    """Process and user at the other end of a connected UNIX stream. Raises OSError."""
    cdef int process = 0
    cdef unsigned int user = 0
    checked(fs_abstract_peer(stream, &process, &user))
    return process, user
