# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False
"""`select.epoll` for programs whose connections may have memory; and what every poller's wait is made of.

Each poller has the standard one within, which asks the kernel: so arguments, errors, signals, timeouts and forks are its own.
The kernel tells of a connection with memory as of any file, because what lies in a ring has a token on TCP
(`core/switch/polling.h`). What is added: before the kernel is asked, the rings of those that spoke of late are looked at,
for a moment. And what it tells because of a token that is left over is not told on.

An epoll object that the kernel has told of them often gets a loop (`core/switch/loop.h`). Then the other ends tell by a
bit in memory instead of a token, and by the loop's bell if it sleeps. The bell is registered in the standard object, and
what the kernel tells of it is not told on. There is no loop where the program has asked for the object's own number.

Until a connection of the process has memory each call is the standard one's and one look.
"""
cimport cython
from libc.errno cimport EBUSY, ESTALE
from libc.stdint cimport uint32_t, uint64_t, UINT64_MAX

from .stream cimport FS_AT_ONCE
from .switch cimport (
    FS_BUSY_NS, FS_HEARS_ANY, FS_HEARS_TOKENS, FS_MOST_BUSY, FS_MOST_STALE, FS_POLLER_NEW, fs_carry_show, fs_connection,
    fs_loop, fs_polled, fs_poller_await, fs_poller_drop, fs_poller_kernel_is_first, fs_poller_look, fs_poller_note,
    fs_poller_rest_is_due, fs_poller_settle, fs_polling_is_due, fs_polling_is_stale, fs_polling_reported_edge,
    fs_seats_ask, fs_seats_awake, fs_seats_drop_loop, fs_seats_end, fs_seats_flags, fs_seats_leave, fs_seats_look,
    fs_seats_make_loop, fs_seats_moved, fs_seats_next, fs_seats_pass_on, fs_seats_reported, fs_seats_sleep,
    fs_seats_take, fs_table_find,
)
from .system cimport fs_now_ns

import select as _select
from _thread import RLock
from os import register_at_fork

if not hasattr(_select, "epoll"):
    raise ImportError("select.epoll is gone")  # what to do says system/originals.py, which the package imports too

cdef object standard_epoll = _select.epoll
cdef object ADOPTED = object()

cdef enum:
    LONG = 1000000       # seconds

cdef double BUSY_S = FS_BUSY_NS * 1e-9

cdef extern from "Python.h":
    int PyObject_AsFileDescriptor(object file) except -1

cdef extern from *:
    """
    /* Of this thread: a poller of fastsock asks a file for its number. */
    static _Thread_local int is_asking;

    static void begin_asking(void) { is_asking++; }
    static void end_asking(void) { is_asking--; }
    static int asks(void) { return is_asking; }
    """
    void begin_asking() noexcept
    void end_asking() noexcept
    bint asks() noexcept


# ---- who asks for numbers ----

cdef dict unexplained = {}   # the layers above keep it (connection/watchers.py)
cdef object explain = None, for_good = None


def follow(dict numbers, explains, watches):
    """numbers: is empty where no number needs an explanation. explains(number): a poller of fastsock watches it.
    watches(number): somebody watches it whom no poller of fastsock sees, or it must be exact for him."""
    global unexplained, explain, for_good
    unexplained, explain, for_good = numbers, explains, watches


def is_asking():
    """Whether a poller of fastsock asks for the number at this moment, in this thread."""
    return asks()


cdef int explain_watch(int number) except -1:
    if unexplained:
        explain(number)
    return 0


cdef int number_of(object file) except -1:
    begin_asking()
    try:
        return PyObject_AsFileDescriptor(file)
    finally:
        end_asking()


# ---- what is registered ----

# The kernel's call and what is noted of it are one step: a thread that arms a number again takes no newer mask back.
cdef object registering = RLock()
register_at_fork(after_in_child=registering._at_fork_reinit)


# ---- what a wait is made of ----

cdef int look(fs_poller *poller, fs_poller *learned, Ready *ready, double seconds) noexcept:
    cdef fs_polled among[FS_POLLED_MOST]
    cdef int count, i, found
    cdef uint64_t limit = UINT64_MAX if seconds < 0 else <uint64_t>(seconds * 1e9)
    ready.count = fs_poller_look(poller, ready.numbers)
    if ready.count or not poller.count or seconds == 0:
        return 0
    count = poller.count
    for i in range(count):
        among[i] = poller.among[i]
    with nogil:
        found = fs_poller_await(learned, among, count, limit)
    if found:
        ready.count = fs_poller_look(poller, ready.numbers)
    if not ready.count:
        ready.count = fs_poller_settle(poller, ready.numbers)
    return 0


cdef void show(int number) noexcept nogil:
    cdef fs_connection *connection = fs_table_find(number)
    if connection != NULL:
        fs_carry_show(connection, number)


cdef bint is_stale(fs_poller *poller, int number) except -1:
    cdef int flags = fs_seats_flags(&poller.seats, number)
    cdef int result = fs_polling_is_stale(number, flags | FS_AT_ONCE)
    if result == -EBUSY:
        with nogil:
            result = fs_polling_is_stale(number, flags)
    if result == 0:
        fs_poller_note(poller, number)
    return result == 1


cdef double in_seconds(object timeout, double unit) except? -2:
    cdef double given = -1 if timeout is None else <double>timeout / unit
    return given if 0 <= given < LONG else -1


@cython.final
cdef class epoll:
    cdef object own, ask        # the standard object, and its poll()
    cdef dict masks             # what was registered, by numbers
    cdef fs_poller poller
    cdef long writers
    cdef bint is_shown

    def __cinit__(self, *args, **options):
        self.own = args[1] if len(args) == 2 and args[0] is ADOPTED else standard_epoll(*args, **options)
        self.ask = self.own.poll
        self.masks = {}
        self.poller = FS_POLLER_NEW
        if len(args) == 2 and args[0] is ADOPTED:
            self.poller.seats.never = True  # others may ask the kernel by its number

    def __dealloc__(self):
        fs_seats_end(&self.poller.seats)

    @classmethod
    def fromfd(cls, fd):
        """As select.epoll.fromfd()."""
        return epoll.__new__(epoll, ADOPTED, standard_epoll.fromfd(fd))

    @property
    def closed(self):
        """True if the epoll handler is closed"""
        return self.own.closed

    def close(self):
        """As select.epoll.close()."""
        self.own.close()
        self.forget_all()

    def fileno(self):
        """As select.epoll.fileno(). Whoever polls that number must see all as it is."""
        number = self.own.fileno()
        if not self.is_shown:
            self.is_shown = True
            self.drop_loop()
            for each in list(self.masks):
                for_good(each)
        return number

    def __enter__(self):
        self.own.__enter__()
        return self

    def __exit__(self, exc_type=None, exc_value=None, exc_tb=None):
        self.close()

    def register(self, fd, eventmask=EVERYTHING):
        """As select.epoll.register()."""
        cdef int number = number_of(fd)
        with registering:
            self.own.register(number, eventmask)
            self.note(number, eventmask)

    def modify(self, fd, eventmask):
        """As select.epoll.modify()."""
        cdef int number = number_of(fd)
        with registering:
            self.own.modify(number, eventmask)
            self.note(number, eventmask)

    def unregister(self, fd):
        """As select.epoll.unregister()."""
        cdef int number = number_of(fd)
        with registering:
            self.forget(number)
            self.own.unregister(number)

    def poll(self, timeout=None, maxevents=-1):
        """As select.epoll.poll()."""
        if not fs_polling_is_due():
            return self.ask(timeout, maxevents)
        return self.wait(timeout, maxevents)

    @cython.critical_section
    cdef int note(self, int number, object eventmask) except -1:
        cdef uint32_t mask = <uint32_t>(<uint64_t>eventmask), before = <uint32_t>self.masks.get(number, 0)
        self.masks[number] = mask
        self.writers += (mask & WRITABLE != 0) - (before & WRITABLE != 0)
        if number == self.poller.seats.bell:  # the program has closed what it did not know, and has the number now
            self.poller.seats.bell = 0
            self.drop_loop()
        if not mask & READABLE or mask & EDGES:
            fs_poller_drop(&self.poller, number)
            fs_seats_leave(&self.poller.seats, number)
        elif fs_seats_take(&self.poller.seats, number, FS_HEARS_TOKENS if mask & ONE_SHOT else FS_HEARS_ANY):
            with nogil:
                show(number)
        if mask & EDGES or self.is_shown:
            for_good(number)  # an edge for each arrival
        else:
            explain_watch(number)
        return 0

    @cython.critical_section
    cdef int forget(self, int number) except -1:
        if <uint32_t>self.masks.pop(number, 0) & WRITABLE:
            self.writers -= 1
        fs_poller_drop(&self.poller, number)
        fs_seats_leave(&self.poller.seats, number)
        return 0

    @cython.critical_section
    cdef int forget_all(self) except -1:
        self.masks.clear()
        self.writers = 0
        fs_seats_end(&self.poller.seats)
        self.poller.count = 0
        return 0

    # ---- the loop ----

    cdef int make_loop(self) except -1:
        cdef int bell = fs_seats_make_loop(&self.poller.seats)
        if bell < 0:
            return 0  # tokens do
        self.forget(bell)  # whatever that number was
        try:
            self.own.register(bell, 1)
        except (OSError, ValueError):
            fs_seats_drop_loop(&self.poller.seats)
        return 0

    @cython.critical_section
    cdef int drop_loop(self) except -1:
        """All hear by tokens from now on."""
        cdef int bell = self.poller.seats.bell
        if bell:
            try:
                self.own.unregister(bell)
            except (OSError, ValueError):
                pass  # the program has closed it
        fs_seats_drop_loop(&self.poller.seats)
        return self.show_all()

    cdef int show_all(self) except -1:
        cdef int number = fs_seats_next(&self.poller.seats, 0)
        while number >= 0:
            with nogil:
                show(number)
            number = fs_seats_next(&self.poller.seats, number + 1)
        return 0

    cdef int heard_of(self, int number) except -1:
        """The kernel has told that connection with memory as readable."""
        if fs_seats_reported(&self.poller.seats, number):
            self.make_loop()
            fs_seats_reported(&self.poller.seats, number)
        return 0

    cdef int before_sleep(self, Ready *ready, double seconds, fs_loop **asleep) except -1:
        """Those of the loop that have something; 0: it sleeps, if there is one. -EBUSY: it cannot."""
        cdef int count
        asleep[0] = NULL
        if seconds == 0:
            count = fs_seats_look(&self.poller.seats, ready.numbers, FS_POLLED_MOST, FS_AT_ONCE)
            ready.count = count if count > 0 else 0
            return ready.count
        count = fs_seats_sleep(&self.poller.seats, ready.numbers, FS_POLLED_MOST, FS_AT_ONCE, asleep)
        if count == -ESTALE:
            self.show_all()
            count = 0
        ready.count = count if count > 0 else 0
        return count

    cdef list asked(self, object timeout, object most, fs_loop *asleep, bint *rung):
        """What the kernel tells but of the bell. rung: whether it has told of that."""
        cdef Py_ssize_t i
        cdef int bell = self.poller.seats.bell
        rung[0] = True
        fs_seats_ask(&self.poller.seats, 1)
        try:
            reported = self.ask(timeout, most)
            rung[0] = False
            if bell:
                for i in range(len(reported)):
                    if <int>reported[i][0] == bell:
                        del reported[i]
                        rung[0] = True
                        break
        finally:
            fs_seats_ask(&self.poller.seats, -1)
            fs_seats_awake(&self.poller.seats, asleep, rung[0])
        return reported

    @cython.critical_section
    cdef list wait(self, object timeout, object most):
        cdef double seconds
        cdef Ready ready
        cdef list found
        cdef bint rung
        try:
            seconds = in_seconds(timeout, 1)
            if most != -1 and most <= 0:
                return self.ask(timeout, most)
        except TypeError:
            return self.ask(timeout, most)  # which refuses it in its own words
        if fs_seats_moved(&self.poller.seats):
            self.show_all()  # a forked child
        self.poller.turn += 1
        found = self.rest(most)
        if self.poller.count:
            look(&self.poller, &self.poller, &ready, 0 if self.writers > 0 or found else seconds)
            if not ready.count and not found and self.writers > 0 and seconds != 0:
                # room is mostly there: who waits for it is not kept by a look for bytes
                found = self.with_kernel(found, most)
                if not found:
                    look(&self.poller, &self.poller, &ready, seconds)
            if ready.count:
                found = self.with_room(together(found, self.readable(&ready)), most)
        if not found:
            found = self.reported(timeout, seconds, most)
        if found:
            fs_seats_pass_on(&self.poller.seats)
        return found

    cdef list rest(self, object most):
        """From time to time the others, while some are always ready."""
        cdef bint kernel_first = fs_poller_kernel_is_first(&self.poller)
        cdef list found = []
        cdef Ready ready
        if not fs_poller_rest_is_due(&self.poller) or not self.poller.count and self.poller.seats.bell <= 0:
            return found
        if kernel_first:
            found = self.with_kernel(found, most)
        ready.count = fs_seats_look(&self.poller.seats, ready.numbers, FS_POLLED_MOST, FS_AT_ONCE)
        if ready.count > 0:
            found = first_of(together(found, self.readable(&ready)), most)
        return found if kernel_first else self.with_kernel(found, most)

    cdef list with_kernel(self, list found, object most):
        """What the kernel tells once it would not tell again: so it is asked for no more than there is room for."""
        cdef bint rung
        cdef object room = most if most == -1 else most - len(found)
        return found if room == 0 else together(found, self.without_stale(self.asked(0, room, NULL, &rung)))

    cdef list with_room(self, list found, object most):
        """Those of the rings, and those that have room."""
        found = first_of(found, most)
        return self.with_kernel(found, most) if found and self.writers > 0 else found

    cdef list readable(self, Ready *ready):
        """One that is told once only the kernel tells: it must not tell it again."""
        cdef list found = []
        cdef int i, first = <int>(self.poller.turn % <uint64_t>ready.count), number
        cdef uint32_t mask
        for i in range(ready.count):
            number = ready.numbers[(first + i) % ready.count]
            mask = self.masks.get(number, 0)
            if mask & READABLE and not mask & (ONE_SHOT | EDGES):
                found.append((number, mask & READABLE))
        return found

    cdef list reported(self, object timeout, double seconds, object most):
        """What the kernel tells and is so, or the loop."""
        cdef uint64_t until = fs_now_ns() + <uint64_t>(seconds * 1e9) if seconds > 0 else 0, now
        cdef list reported, kept
        cdef int times = 0, busy = 0, state
        cdef bint rung
        cdef fs_loop *asleep
        cdef Ready ready
        while True:
            state = self.before_sleep(&ready, seconds, &asleep)
            if ready.count:
                kept = self.with_room(self.readable(&ready), most)
                if kept:
                    return kept
            if state < 0:  # another thread is at work there
                limit = 0 if busy < FS_MOST_BUSY or 0 <= seconds < BUSY_S else BUSY_S
                reported = self.asked(limit, most, asleep, &rung)
                busy += 1
            else:
                reported = self.asked(timeout, most, asleep, &rung)
            kept = self.without_stale(reported)
            if kept or seconds == 0 and not rung:
                return kept
            if reported:
                times += 1
                if times > FS_MOST_STALE:
                    return reported
            elif not rung and state >= 0:
                return kept
            if seconds > 0:
                now = fs_now_ns()
                if now >= until:
                    return kept
                timeout = <double>(until - now) / 1e9

    cdef list without_stale(self, list reported):
        cdef list kept = []
        cdef uint32_t events, mask
        cdef int number
        cdef bint all_kept = True
        for event in reported:
            number = event[0]
            events = event[1]
            if events & READABLE and fs_table_find(number) != NULL:
                mask = self.masks.get(number, <uint32_t>EDGES)  # registered elsewhere: nothing is known of it
                if mask & EDGES:
                    with nogil:
                        fs_polling_reported_edge(number)
                elif self.is_left_over(number):
                    all_kept = False
                    events &= ~READABLE
                    if not events:
                        if mask & ONE_SHOT:
                            self.arm_again(number)
                        continue
                    event = (number, events)
            kept.append(event)
        return reported if all_kept else kept

    cdef bint is_left_over(self, int number) except -1:
        cdef bint stale = is_stale(&self.poller, number)
        self.heard_of(number)
        return stale

    cdef int arm_again(self, int number) except -1:
        """The kernel has told it once, and tells no more."""
        with registering:
            mask = self.masks.get(number)
            if mask is not None:
                try:
                    self.own.modify(number, mask)
                except (OSError, ValueError):
                    pass  # closed meanwhile
        return 0


cdef list together(list found, list reported):
    cdef dict events_of = dict(found)
    for number, events in reported:
        events_of[number] = <uint32_t>events_of.get(number, 0) | <uint32_t>events
    return list(events_of.items())


cdef list first_of(list found, object most):
    return found if most == -1 or len(found) <= most else found[:most]


cdef object adopted_epoll(object poller, dict masks):
    cdef epoll events = epoll.__new__(epoll, ADOPTED, poller)
    for number, mask in masks.items():
        events.note(number, mask)
    return events


name_class(epoll, b"select.epoll")
