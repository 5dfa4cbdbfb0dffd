# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False
"""`select.poll` and `select.select` for programs whose connections may have memory.

The kernel looks at all that they are given each time, and so do they.
"""
cimport cython
from libc.stdint cimport uint32_t, uint64_t

from ._polling cimport (
    EVERYTHING, READABLE, Ready, WRITABLE, adopted_epoll, explain_watch, in_seconds, is_stale, look, name_class,
    number_of, show, together,
)
from .switch cimport (
    FS_MOST_STALE, FS_POLLER_NEW, fs_poller, fs_poller_note, fs_poller_rest_is_due, fs_polling_is_due, fs_table_find,
)
from .system cimport fs_now_ns

import select as _select

cdef object standard_epoll = _select.epoll, standard_poll = _select.poll, standard_select = _select.select
cdef object standard_poll_type = type(standard_poll())

cdef extern from "Python.h":
    object PySequence_Fast(object sequence, const char *refusal)
    Py_ssize_t PySequence_Fast_GET_SIZE(object fast) noexcept
    object PySequence_ITEM "PySequence_GetItem" (object fast, Py_ssize_t i)

cdef extern from *:
    """
    static void forbid_making(PyObject *kind) /* by programs: poll() makes them */
    {
        PyTypeObject *type = (PyTypeObject *)kind;
        type->tp_new = NULL;
        type->tp_vectorcall = NULL;
        type->tp_flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;
        if (PyDict_DelItemString(type->tp_dict, "__new__") != 0) PyErr_Clear(); /* it would call tp_new all the same */
        PyType_Modified(type);
    }

    static void name_function(PyObject *function, PyObject *like)
    {
        if (!PyCFunction_Check(function) || !PyCFunction_Check(like)) return;
        PyObject *module = ((PyCFunctionObject *)like)->m_module;
        Py_XINCREF(module);
        Py_XSETREF(((PyCFunctionObject *)function)->m_module, module);
        ((PyCFunctionObject *)function)->m_ml->ml_doc = ((PyCFunctionObject *)like)->m_ml->ml_doc;
    }
    """
    void forbid_making(object kind) noexcept
    void name_function(object function, object like) noexcept

cdef fs_poller common  # what was learned of waiting a moment, by all that have no memory of their own


cdef int begin(fs_poller *poller) noexcept:
    poller[0] = FS_POLLER_NEW
    common.turn += 1
    return 0


cdef int note_or_show(fs_poller *poller, int number) except -1:
    if not fs_poller_note(poller, number):
        with nogil:
            show(number)
    return 0


@cython.final
cdef class PollObject:
    cdef object own, ask   # the standard object, and its poll()
    cdef dict masks        # what was registered, by numbers

    def __cinit__(self):
        self.own = standard_poll()
        self.ask = self.own.poll
        self.masks = {}

    def register(self, fd, eventmask=EVERYTHING, /):
        """As select.poll.register()."""
        cdef int number = number_of(fd)
        self.own.register(number, eventmask)
        self.note(number, eventmask)

    def modify(self, fd, eventmask, /):
        """As select.poll.modify()."""
        cdef int number = number_of(fd)
        self.own.modify(number, eventmask)
        self.note(number, eventmask)

    def unregister(self, fd, /):
        """As select.poll.unregister()."""
        cdef int number = number_of(fd)
        self.own.unregister(number)
        self.masks.pop(number, None)

    def poll(self, timeout=None, /):
        """As select.poll.poll()."""
        if not fs_polling_is_due():
            return self.ask(timeout)
        return self.wait(timeout)

    cdef int note(self, int number, object eventmask) except -1:
        self.masks[number] = eventmask
        explain_watch(number)
        return 0

    @cython.critical_section
    cdef list wait(self, object timeout):
        cdef fs_poller poller
        cdef Ready ready
        cdef double seconds
        cdef list found
        cdef uint32_t mask, all_masks = 0
        cdef int i
        try:
            seconds = in_seconds(timeout, 1000)
        except TypeError:
            return self.ask(timeout)  # which refuses it in its own words
        begin(&poller)
        for number, mask in self.masks.items():
            all_masks |= mask
            if mask & READABLE:
                note_or_show(&poller, number)
        if poller.count:
            look(&poller, &common, &ready, seconds)
            if ready.count:
                found = [(ready.numbers[i], <uint32_t>self.masks[ready.numbers[i]] & READABLE) for i in range(ready.count)
                         if ready.numbers[i] in self.masks]
                # what else is so, also of those whose rings have something
                if all_masks & WRITABLE or fs_poller_rest_is_due(&common):
                    found = together(found, self.without_stale(self.ask(0)))
                if found:
                    return found
        return self.reported(timeout, seconds)

    cdef list reported(self, object timeout, double seconds):
        """What the kernel tells and is so."""
        cdef uint64_t until = fs_now_ns() + <uint64_t>(seconds * 1e9) if seconds > 0 else 0, now
        cdef list reported, kept
        cdef int times = 0
        while True:
            reported = self.ask(timeout)
            kept = self.without_stale(reported)
            if kept or not reported or seconds == 0:
                return kept
            times += 1
            if times > FS_MOST_STALE:
                return reported
            if seconds > 0:
                now = fs_now_ns()
                if now >= until:
                    return kept
                timeout = <double>(until - now) / 1e6

    cdef list without_stale(self, list reported):
        cdef list kept = []
        cdef uint32_t events
        for event in reported:
            events = event[1]
            if events & READABLE and is_left_over(event[0]):
                events &= ~READABLE
                if not events:
                    continue
                event = (event[0], events)
            kept.append(event)
        return kept


cdef bint is_left_over(int number) except -1:
    """As is_stale(), for who keeps nothing in mind."""
    cdef fs_poller nobody
    if fs_table_find(number) == NULL:
        return False
    nobody = FS_POLLER_NEW
    return is_stale(&nobody, number)


def poll():
    """As select.poll()."""
    return PollObject.__new__(PollObject)


# ---- select ----

@cython.final
cdef class Files:
    """One of the lists that select() is given."""
    cdef list files, numbers

    def __cinit__(self, given):
        cdef Py_ssize_t i = 0
        cdef object fast = PySequence_Fast(given, b"arguments 1-3 must be sequences")
        self.files = []
        self.numbers = []
        while i < PySequence_Fast_GET_SIZE(fast):  # asked for its number a file may take others off the list
            file = PySequence_ITEM(fast, i)
            self.numbers.append(number_of(file))
            self.files.append(file)
            i += 1
        for number in self.numbers:
            explain_watch(number)

    cdef list among(self, found):
        """Those of the files whose numbers are found."""
        cdef Py_ssize_t i
        if not found:
            return []
        return [self.files[i] for i in range(len(self.files)) if self.numbers[i] in found]


def select(rlist, wlist, xlist, timeout=None, /):
    """As select.select()."""
    cdef Files readers = Files.__new__(Files, rlist), writers = Files.__new__(Files, wlist), others = Files.__new__(Files, xlist)
    cdef fs_poller poller
    cdef Ready ready
    cdef double seconds
    cdef int i
    begin(&poller)
    if fs_polling_is_due() and is_limit(timeout):
        for number in readers.numbers:
            if number >= 0:
                note_or_show(&poller, number)
    if not poller.count:
        reported = standard_select(readers.numbers, writers.numbers, others.numbers, timeout)
        return readers.among(reported[0]), writers.among(reported[1]), others.among(reported[2])
    seconds = in_seconds(timeout, 1)
    look(&poller, &common, &ready, seconds)
    if ready.count:
        found = {ready.numbers[i] for i in range(ready.count)}
        asks_rest = len(readers.numbers) > 1 and fs_poller_rest_is_due(&common)
        if not writers.numbers and not others.numbers and not asks_rest:
            return readers.among(found), [], []
        reported = standard_select(readers.numbers, writers.numbers, others.numbers, 0)
        found.update([number for number in reported[0] if not is_left_over(number)])
        return readers.among(found), writers.among(reported[1]), others.among(reported[2])
    return select_by_kernel(readers, writers, others, timeout, seconds)


cdef bint is_limit(object timeout):
    """Whether select() takes it."""
    try:
        return timeout is None or timeout >= 0
    except TypeError:
        return False


cdef tuple select_by_kernel(Files readers, Files writers, Files others, object timeout, double seconds):
    """What the kernel tells and is so."""
    cdef uint64_t until = fs_now_ns() + <uint64_t>(seconds * 1e9) if seconds > 0 else 0, now
    cdef int times = 0
    while True:
        reported = standard_select(readers.numbers, writers.numbers, others.numbers, timeout)
        found = reported[0]
        if times < FS_MOST_STALE:
            found = [number for number in found if not is_left_over(number)]
        if found or reported[1] or reported[2] or not reported[0] or seconds == 0:
            break
        times += 1
        if seconds > 0:
            now = fs_now_ns()
            if now >= until:
                break
            timeout = <double>(until - now) / 1e9
    return readers.among(found), writers.among(reported[1]), others.among(reported[2])


def adopted(poller, dict masks):
    """The same as `poller`, a standard epoll or poll object, where the numbers of `masks` are registered as they say."""
    cdef PollObject polls
    if isinstance(poller, standard_epoll):
        return adopted_epoll(poller, masks)
    if isinstance(poller, standard_poll_type):
        polls = PollObject.__new__(PollObject)
        polls.own = poller
        polls.ask = poller.poll
        for number, mask in masks.items():
            polls.note(number, mask)
        return polls
    return poller


name_class(PollObject, b"select.poll")
forbid_making(PollObject)
name_function(poll, standard_poll)
name_function(select, standard_select)
common = FS_POLLER_NEW
