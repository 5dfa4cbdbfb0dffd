# The bytes of a channel for other compiled modules: plain memory, no exception where a socket would raise one for
# having to wait. `channel` is a Channel.

cdef enum:
    SPINS_PER_TURN = 8  # looks at the rings between two looks at the clock


cdef fs_end *c_end(object channel) except NULL:
    """It lives as long as the channel."""
    return (<Channel?>channel).shared.end


cdef ssize_t c_send(object channel_, fs_parts *parts, double seconds) except -1:
    """As sendmsg(): bytes that went, which are taken off; 0 where there was no room within `seconds`."""
    cdef Channel channel = <Channel>channel_
    cdef ssize_t result = -EBADF
    cdef double before
    with cython.critical_section(channel):
        if channel.descriptor >= 0 and not channel.closing:
            result = channel.send_some(parts, NO_SIGNAL if seconds > 0 else NO_SIGNAL | DONT_WAIT)
            if result >= 0:
                return result
            if result == -EAGAIN and seconds == 0:
                return 0
        before, channel.timeout = channel.timeout, seconds
        try:
            return channel.send_parts(parts, NO_SIGNAL, False)
        except (BlockingIOError, TimeoutError):
            return 0
        finally:
            channel.timeout = before


cdef ssize_t c_receive(object channel_, void *target, Py_ssize_t length, double seconds) except -1:
    """As recv_into(): bytes that came, 0 at their end; -EAGAIN where none came within `seconds`."""
    cdef Channel channel = <Channel>channel_
    cdef ssize_t result
    cdef double before
    with cython.critical_section(channel):
        if channel.descriptor >= 0 and not channel.closing and (seconds == 0 or not fs_is_contended()):
            result = channel.receive_some(<char *>target, length, DONT_WAIT, seconds == 0)
            if result == -EAGAIN and seconds > 0:  # an answer mostly comes within a short look
                if fs_end_look(channel.shared.end, FS_READABLE):
                    result = channel.receive_some(<char *>target, length, DONT_WAIT, False)
            if result >= 0 or result == -EAGAIN and seconds == 0:
                return result
        before, channel.timeout = channel.timeout, seconds
        try:
            return channel.receive_bytes(<char *>target, length, 0)
        except (BlockingIOError, TimeoutError):
            return -EAGAIN
        finally:
            channel.timeout = before


cdef int c_settle(object channel) except -1:
    """As settle()."""
    with cython.critical_section(channel):
        return (<Channel>channel).settle_doorbell()


cdef int c_spin(fs_end **ends, fs_record **records, Py_ssize_t count, double microseconds, const atomic_int *news) noexcept:
    """Looks at many rings by turns, without the interpreter's lock, until one of them has something to read: 1.

    records: of each that may go back to TCP; NULL: it cannot. It ends too when one does, and when `news`, which another
    thread may set, is not 0. Ends whose other end ran last on this core are not worth it: 0 at once where all are so.
    The caller keeps the ends."""
    cdef uint64_t start = fs_ticks(), limit = <uint64_t>(microseconds * fs_ticks_per_us())
    cdef Py_ssize_t i
    cdef int turn, elsewhere = 0
    with nogil:
        for i in range(count):
            elsewhere |= fs_end_is_elsewhere(ends[i])
        if not elsewhere:
            return 0
        while True:
            for turn in range(SPINS_PER_TURN):
                for i in range(count):
                    if fs_end_has_data(ends[i]):
                        return 1
                if atomic_look(news):
                    return 0
                fs_pause()
            for i in range(count):
                fs_end_look_once(ends[i])
                if records[i] != NULL and not fs_carry_is_by_ring(records[i], ends[i]):
                    return 0
            if fs_ticks() - start > limit:
                return 0
