# Many channels at once, and the calls of the standard selectors that watch them.

cdef enum:
    MOST_SPUN_ON = 64
    READ = 1            # selectors.EVENT_READ
    WRITE = 2
    KERNEL_EVERY = 16   # other descriptors must be heard even while the rings are busy
    PROBE_EVERY = 16
    LOOK_EVERY_NS = 1000000   # so long may the death of a peer hide behind a doorbell that was left rung

cdef double POOR_SUCCESS = 0.3


cdef list ready_among(list channels, double spin_us, fs_yielding *past):
    """The channels that have something to read; waits for one a moment, without the GIL.

    For those whose other end runs on another core it spins, up to `spin_us` and on no more than 64; for others it
    hands the core over, unless `past`, what was learned of doing so, is NULL.
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
    if near > 0 and past != NULL:
        with nogil:
            yielded = fs_yield_try(past, &start)
        if yielded:
            ready = having_data(channels)
            fs_yield_learn(past, start, len(ready) != 0, near)
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


cdef bint settle_all(list channels) except -1:
    """Makes every doorbell exact before the kernel is asked; whether some channel has something to read."""
    cdef Channel channel
    cdef bint some = False
    for channel in channels:
        with cython.critical_section(channel):  # closed meanwhile, the number would be another file's
            if channel.descriptor >= 0 and channel.shared.end != NULL and channel.settle_doorbell():
                some = True
    return some


@cython.final
cdef class Watch:
    """The fast connections that one selector watches for reading, and what it learned of looking at them.

    known: the channels of this process by their numbers. spin_us: a call that gives the most microseconds to spin.
    """
    cdef dict known, by_descriptor
    cdef list channels      # replaced, never changed: another thread may be looking at them
    cdef object spin_us
    cdef fs_yielding past   # what it learned of handing its core to the other ends
    cdef uint64_t settled_at
    cdef double success
    cdef long writers
    cdef unsigned int turn, skipped

    def __init__(self, dict known, spin_us):
        self.known = known
        self.by_descriptor = {}
        self.channels = []
        self.spin_us = spin_us
        self.success = 1.0

    @cython.critical_section
    cdef int add(self, key) except -1:
        cdef int events = key.events
        cdef Channel channel
        if events & WRITE:
            self.writers += 1
        if events & READ and self.known:
            found = self.known.get(key.fd)
            # The descriptor of any other path is always exact, because the kernel speaks for it.
            if type(found) is Channel:
                channel = <Channel>found
                self.by_descriptor[key.fd] = channel
                self.channels = list(self.by_descriptor.values())
                channel.set_lazy(channel.is_non_blocking())
        return 0

    @cython.critical_section
    cdef int drop(self, key) except -1:
        cdef Channel channel
        if key.events & WRITE:
            self.writers -= 1
        if not self.by_descriptor:
            return 0
        channel = self.by_descriptor.pop(key.fd, None)
        if channel is not None:
            self.channels = list(self.by_descriptor.values())
            channel.set_lazy(False)
            if channel.fileno() >= 0:
                channel.settle()
        return 0

    @cython.critical_section
    cdef list watched(self):
        return self.channels

    cdef double budget(self, double spin, double timeout) noexcept:
        """How many microseconds to spin. It is 0 if spinning has mostly found nothing of late."""
        if timeout == 0:
            return 0.0
        if self.success < POOR_SUCCESS:
            self.skipped += 1
            if self.skipped % PROBE_EVERY:
                return 0.0
        return spin if timeout < 0 else min(spin, timeout * 1e6)

    cdef list without_stale(self, list found):
        """The events that the kernel found, except those of doorbells that were left rung."""
        cdef list kept = []
        cdef int events
        for key, events in found:
            channel = self.by_descriptor.get(key.fd)
            if channel is not None and events & READ and (<Channel>channel).is_stale():
                events &= ~READ
            if events:
                kept.append((key, events))
        return kept

    cdef list select(self, selector, list channels, original, object asked):
        """The selector's select(): `original` is what asks the kernel."""
        cdef double timeout = -1.0 if asked is None else max(<double>asked, 0.0)
        cdef double spin = self.spin_us()
        cdef double budget = self.budget(spin, timeout)
        cdef list ready, found
        cdef dict keys
        cdef Channel channel
        self.turn += 1
        ready = ready_among(channels, budget, &self.past if timeout != 0 and spin > 0 else NULL)
        if budget > 0:
            self.success += ((1.0 if ready else 0.0) - self.success) / 8
        if not ready:
            if timeout == 0 and fs_now_ns() - self.settled_at < LOOK_EVERY_NS:
                return self.without_stale(original(selector, asked))
            if not settle_all(channels):
                self.settled_at = fs_now_ns()
                return original(selector, asked)
            ready = having_data(channels)
        keys = selector._fd_to_key
        found = []
        for channel in ready:
            key = keys.get(channel.descriptor)
            if key is not None and key.events & READ:
                found.append((key, READ))
        if self.writers > 0 or not found or self.turn % KERNEL_EVERY == 0:
            return together(found, original(selector, 0 if found else asked))
        return found


cdef list together(list found, list told):
    """What the rings have and what the kernel told, each key once."""
    cdef dict events_of
    cdef int events
    if not found:
        return told
    events_of = {key.fd: (key, events) for key, events in found}  # a key need not be hashable
    for key, events in told:
        before = events_of.get(key.fd)
        events_of[key.fd] = (key, events if before is None else events | <int>before[1])
    return list(events_of.values())


cdef Watch watch_of(selector, dict known, spin_us):
    cdef dict own = selector.__dict__
    watch = own.get("_fast_watch")
    if watch is None:
        watch = own.setdefault("_fast_watch", Watch(known, spin_us))
    return <Watch>watch


def selector_calls(kind, dict known, spin_us):
    """The calls of a standard selector's class that keep a Watch, by their names.

    known: the channels of this process by their numbers. spin_us: a call that gives the most microseconds to spin.
    """
    own_register, own_unregister, own_modify, own_select = kind.register, kind.unregister, kind.modify, kind.select
    # the base class's modify() goes through register() and unregister(), which keep the books already
    cdef bint calls_others = own_modify.__qualname__.startswith("_BaseSelectorImpl")

    @cython.binding(True)
    def register(self, fileobj, events, data=None):
        key = own_register(self, fileobj, events, data)
        watch_of(self, known, spin_us).add(key)
        return key

    @cython.binding(True)
    def unregister(self, fileobj):
        key = own_unregister(self, fileobj)
        watch_of(self, known, spin_us).drop(key)
        return key

    @cython.binding(True)
    def modify(self, fileobj, events, data=None):
        cdef Watch watch
        if calls_others:
            return own_modify(self, fileobj, events, data)
        before = self._fd_to_key.get(self._fileobj_lookup(fileobj))
        key = own_modify(self, fileobj, events, data)
        if before is not None and before.events != key.events:
            watch = watch_of(self, known, spin_us)
            watch.drop(before)
            watch.add(key)
        return key

    @cython.binding(True)
    def select(self, timeout=None):
        watch = (<dict>self.__dict__).get("_fast_watch")
        if watch is None:
            return own_select(self, timeout)
        channels = (<Watch>watch).watched()
        if not channels:
            return own_select(self, timeout)
        return (<Watch>watch).select(self, channels, own_select, timeout)

    calls = {"register": register, "unregister": unregister, "modify": modify, "select": select}
    for name, call in calls.items():
        original = getattr(kind, name)
        call.__qualname__, call.__doc__, call.__module__ = original.__qualname__, original.__doc__, original.__module__
    return calls
