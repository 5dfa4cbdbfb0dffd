# Pollers of programs whose connections may have memory, for `_polling.pyx`.

cdef bint polling_is_due() noexcept nogil:
    return fs_polling_is_due()


cdef void poller_begin(fs_poller *poller) noexcept nogil:
    poller[0] = FS_POLLER_NEW


cdef void poller_note(fs_poller *poller, int descriptor) noexcept nogil:
    fs_poller_note(poller, descriptor)


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
