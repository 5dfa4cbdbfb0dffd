# TCP connections that gain memory, for other compiled modules: the C library's calls are in this module only.

cdef extern from *:
    """
    #include <poll.h>

    /* 0; -ETIMEDOUT, -EINTR ... */
    static int fs_poll_until(int descriptor, int what, uint64_t deadline)
    {
        struct pollfd asked = {descriptor, what == FS_READABLE ? POLLIN : POLLOUT, 0};
        uint64_t now = deadline == UINT64_MAX ? 0 : fs_now_ns();
        uint64_t left = deadline > now ? (deadline - now + 999999) / 1000000 : 0;
        int count = poll(&asked, 1, deadline == UINT64_MAX ? -1 : left > INT_MAX ? INT_MAX : (int)left);
        return count > 0 ? 0 : count < 0 ? -errno : -ETIMEDOUT;
    }
    """
    int fs_poll_until(int descriptor, int what, uint64_t deadline) nogil

cdef extern from *:
    """
    static uint32_t fs_connection_generation(const struct fs_connection *connection)
    {
        return atomic_load(&connection->generation);
    }
    """
    uint32_t fs_connection_generation(const fs_connection *connection) nogil

cdef atomic_int never_leaving = 0  # who waits here is not told of a close, as TCP does not tell of one


cdef fs_connection *table_find(int descriptor) noexcept nogil:
    return fs_table_find(descriptor)


cdef fs_table_chunk *table_chunks() noexcept nogil:
    return fs_table_chunks


cdef int table_enter(int descriptor, int role) noexcept nogil:
    return fs_table_enter(descriptor, role)


cdef int table_duplicate(int descriptor, int number) noexcept nogil:
    fs_identity_check(descriptor)  # a duplicate of another file is none of the connection
    return fs_table_duplicate(descriptor, number)


cdef int table_next(int descriptor) noexcept nogil:
    return fs_table_next(descriptor)


cdef ssize_t carry_send(fs_connection *connection, int descriptor, fs_parts *parts, int flags, int kernel_flags) noexcept nogil:
    return fs_carry_send(connection, descriptor, parts, flags, kernel_flags)


cdef ssize_t carry_receive(fs_connection *connection, int descriptor, void *target, size_t length, int flags,
                           int kernel_flags) noexcept nogil:
    return fs_carry_receive(connection, descriptor, target, length, flags, kernel_flags)


cdef ssize_t carry_unread(fs_connection *connection, int descriptor) noexcept nogil:
    return fs_carry_unread(connection, descriptor)


cdef int carry_settle(fs_connection *connection, int descriptor, int flags) noexcept nogil:
    return fs_carry_settle(connection, descriptor, flags)


cdef int carry_look(fs_connection *connection, int descriptor, int what) noexcept nogil:
    return fs_carry_look(connection, descriptor, what)


cdef fs_end *carry_hold(fs_connection *connection, int descriptor, fs_record **record) noexcept nogil:
    return fs_carry_hold(connection, descriptor, record)


cdef void end_drop(fs_end *end) noexcept nogil:
    fs_end_free(end)


cdef int desk_show(fs_connection *connection, int descriptor, uint64_t desk) noexcept nogil:
    return fs_desk_show(connection, descriptor, desk)


cdef uint64_t desk_own(fs_connection *connection, int descriptor) noexcept nogil:
    return fs_desk_own(connection, descriptor)


cdef uint64_t desk_other(fs_connection *connection, int descriptor) noexcept nogil:
    return fs_desk_other(connection, descriptor)


cdef int carry_send_begins(fs_connection *connection, int descriptor, int pinned, fs_record **within) noexcept nogil:
    return fs_carry_send_begins(connection, descriptor, pinned, within)


cdef void carry_send_ended(fs_connection *connection, int descriptor, fs_record *within, ssize_t moved) noexcept nogil:
    fs_carry_send_ended(connection, descriptor, within, moved)


cdef int carry_receive_begins(fs_connection *connection, int descriptor, int lasts, fs_record **within) noexcept nogil:
    return fs_carry_receive_begins(connection, descriptor, lasts, within)


cdef ssize_t carry_receive_ended(fs_connection *connection, int descriptor, int lasts, fs_record *within, ssize_t moved,
                                 int peeked) noexcept nogil:
    return fs_carry_receive_ended(connection, descriptor, lasts, within, moved, peeked)


cdef int carry_wait_behind(fs_connection *connection, int descriptor) noexcept nogil:
    return fs_carry_wait_behind(connection, descriptor)


cdef int option_set(fs_connection *connection, int descriptor, int level, int option, int value) noexcept nogil:
    return fs_option_set(connection, descriptor, level, option, value)


cdef int option_get(fs_connection *connection, int descriptor, int level, int option, int *value) noexcept nogil:
    return fs_option_get(connection, descriptor, level, option, value)


cdef void options_bound(fs_connection *connection, int descriptor) noexcept nogil:
    fs_options_bound(connection, descriptor)


cdef int doors_share(int wanted) noexcept nogil:
    return fs_beside_share(wanted)


cdef int doors_pass(int descriptor) noexcept nogil:
    return fs_beside_pass(descriptor)


cdef uint32_t doors_entered() noexcept nogil:
    return fs_beside_entered()


def doors_tell(bint python):
    """Whether Python tells of all connections, and the preloaded library of none."""
    fs_beside_tells(python)


cdef void table_lose(int descriptor) noexcept nogil:
    fs_table_lose(descriptor)


cdef bint table_knows(int descriptor) noexcept nogil:
    return fs_identity_check(descriptor)


cdef bint table_adopts(int descriptor) noexcept nogil:
    return fs_identity_adopt(descriptor)


cdef void leave_descriptor(int descriptor) noexcept nogil:
    fs_closed_note(descriptor)
    fs_leave_descriptor(descriptor)


cdef void leave_whole_number(int descriptor) noexcept nogil:
    fs_closed_note(descriptor)
    fs_leave_number(descriptor)


cdef void leave_range(unsigned first, unsigned last) noexcept nogil:
    fs_leave_range(first, last)


cdef void leave_all() noexcept nogil:
    fs_leave_all()


cdef int leave_shutdown(fs_connection *connection, int descriptor, int how) noexcept nogil:
    return fs_leave_shutdown(connection, descriptor, how)


cdef int leave_release(fs_connection *connection, int descriptor) noexcept nogil:
    return fs_leave_release(connection, descriptor)


cdef void connection_watch(fs_connection *connection, int descriptor) noexcept nogil:
    fs_connection_watch(connection, descriptor)


cdef void connection_unwatch(fs_connection *connection, int descriptor) noexcept nogil:
    fs_connection_unwatch(connection, descriptor)


cdef uint32_t connection_generation(const fs_connection *connection) noexcept nogil:
    return fs_connection_generation(connection)


cdef bint carry_wait_awake(fs_connection *connection, int descriptor, int what) except -1:
    """Whether it is worth trying again, after a moment without the interpreter's lock. If nothing comes of that try,
    carry_wait() is called."""
    cdef bint answered
    cdef fs_lock_wait lock
    if not fs_carry_is_attached(connection):
        return False
    with nogil:
        answered = fs_carry_wait_awake(connection, descriptor, what)
        fs_lock_wait_begins(&lock)
    note_lock_wait(&lock)
    return answered


cdef int carry_wait(fs_connection *connection, int descriptor, int what, uint64_t deadline, bint dozes) except -1:
    """Until it is worth trying again: 0, or -ETIMEDOUT, or another negative errno.

    dozes: carry_wait_awake() has just said no, so it does not begin by spinning.
    """
    cdef int result = FS_IN_VAIN
    cdef fs_lock_wait lock
    if not fs_carry_is_attached(connection):  # memory that comes meanwhile shows on the descriptor
        with nogil:
            result = fs_poll_until(descriptor, what, deadline)
    else:
        with nogil:
            if dozes:
                result = fs_carry_doze(connection, descriptor, what, deadline, &never_leaving)
            else:
                result = fs_carry_wait_briefly(connection, descriptor, what, deadline, &never_leaving)
            fs_lock_wait_begins(&lock)
        note_lock_wait(&lock)
        PyErr_CheckSignals()  # one that came while we spun would not end the long sleep
    if result == FS_IN_VAIN:
        with nogil:
            result = fs_carry_wait_long(connection, descriptor, what, deadline, &never_leaving)
            fs_lock_wait_begins(&lock)
        note_lock_wait(&lock)
        PyErr_CheckSignals()
    if result == -EINTR:
        PyErr_CheckSignals()
        return 0
    return result


cdef int share_lock() except -1:
    """Where another thread computes, and has waited for the interpreter's lock long enough, it gets it."""
    if fs_is_time_to_offer(fs_ticks()):
        offer_lock()
    return 0


cdef bint is_contended() noexcept:
    return fs_is_contended()


def rest_answering():
    """Before a fork: ends the native thread that answers for a program that makes no call."""
    with nogil:
        fs_answering_rest()


def go_on_answering():
    """After the fork, in the parent: starts it again."""
    with nogil:
        fs_answering_go_on()


# ---- what is known of a connection, for reports ----

cdef extern from *:
    """
    #include <arpa/inet.h>

    /* as the socket module shows it; NULL: an error is set */
    static PyObject *fs_shown_address(const union fs_closed_address *address)
    {
        char host[INET6_ADDRSTRLEN];
        if (address->any.sa_family == AF_INET && inet_ntop(AF_INET, &address->four.sin_addr, host, sizeof host))
            return Py_BuildValue("(si)", host, ntohs(address->four.sin_port));
        if (address->any.sa_family == AF_INET6 && inet_ntop(AF_INET6, &address->six.sin6_addr, host, sizeof host))
            return Py_BuildValue("(siII)", host, ntohs(address->six.sin6_port), ntohl(address->six.sin6_flowinfo),
                                 address->six.sin6_scope_id);
        Py_RETURN_NONE;
    }
    """
    object fs_shown_address(const fs_closed_address *address)

cdef tuple ROLES = ("received", "connect", "accept")


cdef dict shown(const fs_closed *seen):
    cdef const fs_carriers *carriers = &seen.carriers
    return {
        "role": ROLES[seen.role], "attached": carriers.state in (FS_ATTACHED, FS_OWNED), "offered": carriers.state == FS_OFFERED,
        "released": carriers.state == FS_RELEASED, "never": carriers.state == FS_TCP_ONLY,
        "ring_in": bool(carriers.in_ring), "ring_out": bool(carriers.out_ring), "since": carriers.since_ns / 1e9,
        "tcp_bytes_in": carriers.tcp_in, "tcp_bytes_out": carriers.tcp_out,
        "ring_bytes_in": carriers.ring_in, "ring_bytes_out": carriers.ring_out,
        "direct": carriers.direct, "written": carriers.written,
        "large_in": carriers.large_in, "large_out": carriers.large_out, "waits": carriers.waits, "wakes": carriers.wakes, "peer_pid": carriers.peer or None,
        "switches": carriers.switches, "spills": carriers.spills,
        "why": <int>seen.why, "calls": seen.threshold.calls, "lesson": <int>seen.threshold.lesson,
        "local": fs_shown_address(&seen.own), "peer": fs_shown_address(&seen.other),
    }


def connection_seen(int descriptor):
    """What the core knows of the number's stream, by name, or None."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    cdef fs_closed seen
    if connection == NULL:
        return None
    fs_closed_look(connection, descriptor, &seen)
    return shown(&seen)


def closed_connections():
    """The same of those that were closed last, the oldest first."""
    cdef fs_closed *seen = <fs_closed *>malloc(FS_CLOSED_KEPT * sizeof(fs_closed))
    cdef size_t i, count
    if seen == NULL:
        raise MemoryError
    try:
        count = fs_closed_list(seen)
        return [shown(&seen[i]) for i in range(count)]
    finally:
        free(seen)


def closed_attached():
    """How many were closed that had memory."""
    return fs_closed_attached()


def keep_closed(bint all_of_them):
    """Whether all connections are kept when they are closed, or those that have memory."""
    fs_closed_keep(all_of_them)


# ---- when the two ends look for each other ----

def set_candidates(*, bint never, bint learns, uint32_t calls, uint64_t length, uint32_t ring_bytes, bint any_user, bint hides,
                   double spin_us, size_t direct_min):
    """From how many calls, or bytes, of a direction on a connection looks for its other end. never: none does by itself.

    learns: that goes by the lives of the last connections, and by no fixed number. hides: no counts for `fastsock top`.
    """
    cdef fs_candidate_settings settings
    settings.never = never
    settings.learns = learns
    settings.calls = calls
    settings.bytes = length
    settings.ring_bytes = ring_bytes
    settings.peers = FS_PEERS_ANY if any_user else FS_PEERS_OWN
    settings.hides = hides
    settings.limits.spin_us = spin_us
    settings.limits.direct_min = direct_min
    settings.limits.peer = 0
    with nogil:
        fs_candidates_set(&settings)


def is_in_memory(int descriptor):
    """Whether both directions of the number's stream go through memory, and each reader reads there."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    return connection != NULL and bool(fs_owned_is_possible(connection, descriptor))


def keep_on_tcp(int descriptor):
    """The number's connection does not look for its other end by itself."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    if connection != NULL:
        fs_candidate_never(connection)


def attach_memory(int descriptor, double seconds):
    """Looks for the other end until then. Whether it was found. Signals are heard."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    cdef uint64_t deadline = deadline_after(seconds)
    cdef int result
    if connection == NULL:
        return False
    while True:
        with nogil:
            result = fs_candidate_attach(connection, descriptor, deadline)
        PyErr_CheckSignals()
        if result != -EINTR:
            return result == 0
