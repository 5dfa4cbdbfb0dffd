# Many channels at once, for the selectors that watch them.

cdef enum:
    MOST_SPUN_ON = 64


@cython.final
cdef class Patience:
    """What one selector learned of handing its core to the other ends."""
    cdef fs_yielding past


def ready_among(list channels, double spin_us, Patience patience=None):
    """The channels that have something to read, as a list; waits for one a moment, without the GIL.

    For those whose other end runs on another core it spins, up to `spin_us` and on no more than 64; for others it
    hands the core over, if `patience` is given.
    """
    cdef fs_end *ends[MOST_SPUN_ON]
    cdef Channel channel
    cdef int count = 0, near = 0, yielded = 0, found = 0, i
    cdef uint64_t start, limit
    cdef list ready = []
    for channel in channels:
        if channel.is_open():
            if not fs_end_has_data(channel.shared.end):
                fs_end_look_once(channel.shared.end)
            if fs_end_has_data(channel.shared.end):
                ready.append(channel)
            elif not fs_end_is_elsewhere(channel.shared.end):
                near += 1
            elif count < MOST_SPUN_ON and spin_us > 0:
                ends[count] = channel.shared.end
                count += 1
    if ready:
        return ready
    if near > 0 and patience is not None:
        with nogil:
            yielded = fs_yield_try(&patience.past, &start)
        if yielded:
            ready = having_data(channels)
            fs_yield_learn(&patience.past, start, len(ready) != 0, near)
            if ready:
                return ready
    if count == 0:
        return ready
    limit = <uint64_t>(spin_us * fs_ticks_per_us())
    with nogil:
        start = fs_ticks()
        while not found and fs_ticks() - start < limit:
            for i in range(count):
                fs_end_look_once(ends[i])
                if fs_end_has_data(ends[i]):
                    found = 1
                    break
            fs_pause()
    return having_data(channels) if found else ready


cdef list having_data(list channels):
    cdef Channel channel
    cdef list found = []
    for channel in channels:
        if channel.is_open() and fs_end_has_data(channel.shared.end):
            found.append(channel)
    return found


def settle_all(list channels):
    """Makes every doorbell exact before the kernel is asked; whether some channel has something to read."""
    cdef Channel channel
    cdef bint some = False
    for channel in channels:
        with cython.critical_section(channel):  # closed meanwhile, the number would be another file's
            if channel.descriptor >= 0 and channel.shared.end != NULL and channel.settle_doorbell():
                some = True
    return some
