# Pollers of programs whose connections may have memory, for `_polling.pyx`.

cdef bint polling_is_due() noexcept nogil:
    return fs_polling_is_due()


cdef void poller_begin(fs_poller *poller) noexcept nogil:
    poller[0] = FS_POLLER_NEW


cdef int poller_note(fs_poller *poller, int descriptor) noexcept nogil:
    return fs_poller_note(poller, descriptor)


cdef void poller_drop(fs_poller *poller, int descriptor) noexcept nogil:
    fs_poller_drop(poller, descriptor)


cdef int poller_look(fs_poller *poller, int *ready) noexcept nogil:
    return fs_poller_look(poller, ready)


cdef int poller_settle(fs_poller *poller, int *ready) noexcept nogil:
    return fs_poller_settle(poller, ready)


cdef int poller_await(fs_poller *poller, const fs_polled *among, int count, uint64_t limit_ns) noexcept nogil:
    return fs_poller_await(poller, among, count, limit_ns)


cdef int polling_is_stale(int descriptor, int flags) noexcept nogil:
    return fs_polling_is_stale(descriptor, flags)


cdef void polling_told_edge(int descriptor) noexcept nogil:
    fs_polling_told_edge(descriptor)


cdef void polling_show(int descriptor) noexcept nogil:
    """What is unread there has a token from now on, or the other end is asked for one."""
    cdef fs_connection *connection = fs_table_find(descriptor)
    if connection != NULL:
        fs_carry_show(connection, descriptor)


# ---- what a poller keeps in mind of the numbers that it watches ----

cdef int seats_take(fs_seats *seats, int descriptor, bint may_have_bit) noexcept nogil:
    return fs_seats_take(seats, descriptor, FS_HEARS_ANY if may_have_bit else FS_HEARS_TOKENS)


cdef void seats_leave(fs_seats *seats, int descriptor) noexcept nogil:
    fs_seats_leave(seats, descriptor)


cdef void seats_end(fs_seats *seats) noexcept nogil:
    fs_seats_end(seats)


cdef int seats_flags(const fs_seats *seats, int descriptor) noexcept nogil:
    return fs_seats_flags(seats, descriptor)


cdef int seats_told(fs_seats *seats, int descriptor) noexcept nogil:
    return fs_seats_told(seats, descriptor)


cdef int seats_make_loop(fs_seats *seats) noexcept nogil:
    return fs_seats_make_loop(seats)


cdef void seats_drop_loop(fs_seats *seats) noexcept nogil:
    fs_seats_drop_loop(seats)


cdef int seats_next(const fs_seats *seats, int descriptor) noexcept nogil:
    return fs_seats_next(seats, descriptor)


cdef int seats_moved(fs_seats *seats) noexcept nogil:
    return fs_seats_moved(seats)


cdef int seats_look(fs_seats *seats, int *numbers, int flags) noexcept nogil:
    return fs_seats_look(seats, numbers, FS_POLLED_MOST, flags)


cdef int seats_sleep(fs_seats *seats, int *numbers, int flags, fs_loop **asleep) noexcept nogil:
    return fs_seats_sleep(seats, numbers, FS_POLLED_MOST, flags, asleep)


cdef void seats_awake(fs_seats *seats, fs_loop *asleep, int rung) noexcept nogil:
    fs_seats_awake(seats, asleep, rung)


cdef void seats_ask(fs_seats *seats, int change) noexcept nogil:
    fs_seats_ask(seats, change)


cdef void seats_pass_on(fs_seats *seats) noexcept nogil:
    fs_seats_pass_on(seats)
