# Many channels at once, and the calls of the standard selectors that watch them.

cdef enum:
    MOST_LOOKED_AT = 32  # rings that a selector looks at itself; the kernel tells it of the others, as of any file
    READ = 1             # selectors.EVENT_READ
    WRITE = 2
    KERNEL_EVERY = 16    # other descriptors must be heard even while the rings are busy,
    KERNEL_OFTEN = 4     # and sooner where some of them are fast connections
    PROBE_EVERY = 16
    MOST_SETTLED = 3     # times in one select that all descriptors told only of tokens that came too late
    LOOK_EVERY_NS = 1000000   # so long may the death of a peer hide behind a doorbell that was left rung

cdef double POOR_SUCCESS = 0.3


@cython.final
@cython.no_gc
cdef class Watched:
    """A fast connection that a selector watches for reading."""
    cdef Channel channel
    cdef uint64_t told      # the selector's turn that last found something to read there
    cdef bint is_looked_at  # its ring is; else its doorbell is exact


cdef list ready_among(list looked, double spin_us, fs_yielding *past):
    """Those that have something to read; waits for one a moment, without the GIL.

    For those whose other end runs on another core it spins, up to `spin_us`; for others it hands the core over, unless
    `past`, what was learned of doing so, is NULL.
    """
    cdef fs_end *ends[MOST_LOOKED_AT]
    cdef Watched watched
    cdef fs_end *end
    cdef int count = 0, near = 0, yielded = 0, found = 0, i
    cdef uint64_t start, limit
    cdef list ready = []
    for watched in looked:
        if watched.channel.is_open():
            end = watched.channel.shared.end
            if not fs_end_has_data(end):
                fs_end_look_once(end)
            if fs_end_has_data(end):
                ready.append(watched)
            elif not fs_end_is_elsewhere(end):
                near += 1
            elif count < MOST_LOOKED_AT and spin_us > 0:
                ends[count] = end
                count += 1
    if ready:
        return ready
    if near > 0 and past != NULL:
        with nogil:
            yielded = fs_yield_try(past, &start)
        if yielded:
            ready = having_data(looked)
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
    return having_data(looked) if found else ready


cdef list having_data(list looked):
    cdef Watched watched
    cdef list found = []
    for watched in looked:
        if watched.channel.is_open() and fs_end_has_data(watched.channel.shared.end):
            found.append(watched)
    return found


cdef bint settle_all(list looked) except -1:
    """Makes every doorbell exact before the kernel is asked; whether some channel has something to read."""
    cdef Watched watched
    cdef Channel channel
    cdef bint some = False
    for watched in looked:
        channel = watched.channel
        with cython.critical_section(channel):  # closed meanwhile, the number would be another file's
            if channel.descriptor >= 0 and channel.shared.end != NULL and channel.settle_doorbell():
                some = True
    return some


@cython.final
cdef class Watch:
    """The fast connections that one selector watches for reading, and what it learned of looking at them.

    It looks at the rings of a few, those that had something to read of late. So its price does not grow with the number
    of connections.

    known: the channels of this process by their numbers. spin_us: a call that gives the most microseconds to spin.
    """
    cdef dict known, by_descriptor
    cdef list looked        # replaced, never changed: another thread may be looking at them
    cdef object spin_us
    cdef fs_yielding past   # what it learned of handing its core to the other ends
    cdef uint64_t settled_at, turn
    cdef double success
    cdef long writers
    cdef unsigned int skipped

    def __init__(self, dict known, spin_us):
        self.known = known
        self.by_descriptor = {}
        self.looked = []
        self.spin_us = spin_us
        self.success = 1.0

    @cython.critical_section
    cdef int change(self, before, key) except -1:
        """What a registration, its change or its end makes of the books: a key, or None on either side of it."""
        cdef int was = 0 if before is None else before.events
        cdef int now = 0 if key is None else key.events
        self.writers += (now & WRITE != 0) - (was & WRITE != 0)
        if was & READ and not now & READ:
            self.drop(before)
        elif now & READ and not was & READ:
            self.add(key)
        return 0

    cdef int add(self, key) except -1:
        cdef Watched watched
        if self.known:
            found = self.known.get(key.fd)
            # The descriptor of any other path is always exact, because the kernel speaks for it.
            if type(found) is Channel:
                watched = Watched.__new__(Watched)
                watched.channel = <Channel>found
                watched.told = self.turn
                self.by_descriptor[key.fd] = watched
                if len(self.looked) < MOST_LOOKED_AT:
                    self.look_at(watched)
        return 0

    cdef int drop(self, key) except -1:
        watched = self.by_descriptor.pop(key.fd, None) if self.by_descriptor else None
        if watched is not None and (<Watched>watched).is_looked_at:
            self.look_away(<Watched>watched)
        return 0

    cdef int look_at(self, Watched watched) except -1:
        watched.is_looked_at = True
        watched.channel.set_lazy(watched.channel.is_non_blocking())
        self.looked = self.looked + [watched]
        return 0

    cdef int look_away(self, Watched watched) except -1:
        cdef Watched other
        self.looked = [other for other in self.looked if other is not watched]
        watched.is_looked_at = False
        watched.channel.set_lazy(False)
        if watched.channel.fileno() >= 0:
            watched.channel.settle()
        return 0

    @cython.critical_section
    cdef list looked_at(self):
        """None if it watches no fast connection."""
        return self.looked if self.by_descriptor else None

    @cython.critical_section
    cdef list heard(self, list told):
        """What the kernel told: such connections may be worth a look from now on. Returns `told`."""
        cdef Watched watched
        cdef int events
        if not self.by_descriptor:
            return told
        for key, events in told:
            if events & READ:
                watched = self.by_descriptor.get(key.fd)
                if watched is not None:
                    if not watched.is_looked_at:
                        self.consider(watched)
                    watched.told = self.turn
        return told

    cdef int consider(self, Watched watched) except -1:
        """Looks at it, if that is no more than others that are looked at: the one that was silent longest gives way."""
        cdef Watched other, silent = None
        if len(self.looked) >= MOST_LOOKED_AT:
            for other in self.looked:
                if silent is None or other.told < silent.told:
                    silent = other
            if silent.told >= watched.told:
                return 0
            self.look_away(silent)
        return self.look_at(watched)

    cdef double budget(self, double spin, double timeout) noexcept:
        """How many microseconds to spin. It is 0 if spinning has mostly found nothing of late."""
        if timeout == 0:
            return 0.0
        if self.success < POOR_SUCCESS:
            self.skipped += 1
            if self.skipped % PROBE_EVERY:
                return 0.0
        return spin if timeout < 0 else min(spin, timeout * 1e6)

    cdef list without_stale(self, list told):
        """The events that the kernel found, except those of tokens that were left, or came behind what they told of."""
        cdef list kept = []
        cdef Watched watched
        cdef int events
        for key, events in told:
            watched = self.by_descriptor.get(key.fd) if events & READ else None
            if watched is not None and watched.channel.is_stale():
                if watched.is_looked_at or not watched.channel.settle():
                    events &= ~READ
            if events:
                kept.append((key, events))
        return kept

    cdef int settle_told(self, list told) except -1:
        cdef Watched watched
        for key, _ in told:
            watched = self.by_descriptor.get(key.fd)
            if watched is not None and watched.channel.fileno() >= 0:
                watched.channel.settle()
        return 0

    cdef list told_by_kernel(self, selector, original, object asked):
        """What the selector's own select() finds that is new."""
        cdef double timeout = -1.0 if asked is None else max(<double>asked, 0.0)
        cdef uint64_t until = fs_now_ns() + <uint64_t>(timeout * 1e9) if timeout > 0 else 0, now
        cdef list told, kept
        cdef int settled = 0
        while True:
            told = original(selector, asked)
            kept = self.without_stale(told) if self.by_descriptor else told
            if kept or not told or timeout == 0:
                return self.heard(kept)
            if settled >= MOST_SETTLED:  # an end that died while it rang left no token, but a hang-up
                return self.heard(told)
            self.settle_told(told)  # a token that stays would be told again at once
            settled += 1
            if timeout > 0:
                now = fs_now_ns()
                if now >= until:
                    return kept
                asked = <double>(until - now) / 1e9

    cdef list select(self, selector, list looked, original, object asked):
        """The selector's select(): `original` is what asks the kernel."""
        cdef double timeout = -1.0 if asked is None else max(<double>asked, 0.0)
        cdef double spin = self.spin_us()
        cdef double budget = self.budget(spin, timeout)
        cdef list ready, found
        cdef dict keys
        cdef Watched watched
        self.turn += 1
        ready = ready_among(looked, budget, &self.past if timeout != 0 and spin > 0 else NULL)
        if budget > 0:
            self.success += ((1.0 if ready else 0.0) - self.success) / 8
        if not ready:
            if timeout == 0 and fs_now_ns() - self.settled_at < LOOK_EVERY_NS:
                return self.told_by_kernel(selector, original, 0)
            if not settle_all(looked):
                self.settled_at = fs_now_ns()
                return self.told_by_kernel(selector, original, asked)
            ready = having_data(looked)
        keys = selector._fd_to_key
        found = []
        for watched in ready:
            watched.told = self.turn
            key = keys.get(watched.channel.descriptor)
            if key is not None and key.events & READ:
                found.append((key, READ))
        if not found:
            return self.told_by_kernel(selector, original, asked)
        if self.writers > 0 or self.turn % self.kernel_every() == 0:
            return together(found, self.told_by_kernel(selector, original, 0))
        return found

    cdef uint64_t kernel_every(self) noexcept:
        return KERNEL_EVERY if len(self.by_descriptor) == len(self.looked) else KERNEL_OFTEN


cdef list together(list found, list told):
    """What the rings have and what the kernel told, each key once."""
    cdef dict events_of
    cdef int events
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


def watch_registered(selector, dict known, spin_us):
    """Takes what is registered already into the selector's Watch. Arguments as selector_calls()."""
    cdef Watch watch = watch_of(selector, known, spin_us)
    for key in list(selector.get_map().values()):
        watch.change(None, key)


def is_selector_call(call):
    """Whether selector_calls() made it."""
    return getattr(call, "__fastsock_looks__", False)


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
        watch_of(self, known, spin_us).change(None, key)
        return key

    @cython.binding(True)
    def unregister(self, fileobj):
        key = own_unregister(self, fileobj)
        watch_of(self, known, spin_us).change(key, None)
        return key

    @cython.binding(True)
    def modify(self, fileobj, events, data=None):
        if calls_others:
            return own_modify(self, fileobj, events, data)
        before = self._fd_to_key.get(self._fileobj_lookup(fileobj))
        key = own_modify(self, fileobj, events, data)
        if before is not None and before.events != key.events:
            watch_of(self, known, spin_us).change(before, key)
        return key

    @cython.binding(True)
    def select(self, timeout=None):
        watch = (<dict>self.__dict__).get("_fast_watch")
        if watch is None:
            return own_select(self, timeout)
        looked = (<Watch>watch).looked_at()
        if looked is None:
            return own_select(self, timeout)
        return (<Watch>watch).select(self, looked, own_select, timeout)

    calls = {"register": register, "unregister": unregister, "modify": modify, "select": select}
    for name, call in calls.items():
        original = getattr(kind, name)
        call.__qualname__, call.__doc__, call.__module__ = original.__qualname__, original.__doc__, original.__module__
        call.__fastsock_looks__ = True
    return calls
