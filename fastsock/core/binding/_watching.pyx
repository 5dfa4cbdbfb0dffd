# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""Who asks for the numbers of connections, and may watch them. What this means is said in connection/watchers.py."""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from .switch cimport (
    FS_ROLE_ACCEPTED, fs_connection, fs_connection_generation, fs_connection_unwatch, fs_connection_watch, fs_table_find,
)

import sys as _sys

cdef extern from "Python.h":
    ctypedef struct PyFrameObject
    ctypedef struct PyCodeObject:
        PyObject *co_name
    PyFrameObject *PyEval_GetFrame() noexcept
    PyCodeObject *PyFrame_GetCode(PyFrameObject *frame)
    PyObject *PyEval_GetGlobals() noexcept
    void Py_DECREF(PyObject *object)
    bint PyModule_Check(object candidate) noexcept
    PyObject *PyModule_GetDict(object module)

cdef enum:
    NEAR = 12  # frames: how far from a registration its package may be


@cython.final
@cython.no_gc  # it holds nothing that leads back here, and there are as many as connections
cdef class Notes:
    """Who has asked for the numbers of one connection. Mostly that is one package, for one number."""
    cdef uint32_t generation
    cdef int left          # that were not explained
    cdef int number        # of the first who asked
    cdef object package    # likewise; None: nobody has
    cdef bint is_explained
    cdef dict others       # of those who asked later: by number and package, whether it was explained

    cdef int begin(self, uint32_t generation) except -1:
        self.generation, self.left, self.package, self.others = generation, 0, None, None
        return 0

    cdef bint is_first(self, int number, object package) except -1:
        return self.number == number and (self.package is package or self.package == package)

    cdef bint asks(self, int number, object package) except -1:
        """Whether that is new."""
        if self.package is None:
            self.number, self.package, self.is_explained = number, package, False
        elif self.is_first(number, package):
            return False
        else:
            if self.others is None:
                self.others = {}
            if (number, package) in self.others:
                return False
            self.others[number, package] = False
        self.left += 1
        return True

    cdef int explained(self, int number, object package) except -1:
        if self.is_first(number, package):
            if self.is_explained:
                return 0
            self.is_explained = True
        elif self.others is None or self.others.get((number, package)) is not False:
            return 0
        else:
            self.others[number, package] = True
        self.left -= 1
        return 0


cdef dict notes_of = {}     # by connection: the core uses its memory again
cdef dict unexplained = {}  # those of them where some are left
cdef dict early = {}        # packages by number, of sockets that are not connected
cdef object frame_of = _sys._getframe
cdef dict loaded = _sys.modules
cdef object guard = None, is_polling = None, asking = None, package_of = None, for_good = None
cdef dict packages = {}
cdef frozenset only_notes = frozenset()
cdef tuple interfaces = ()
cdef object shown_to_c = None
cdef dict looked_at = {}


def watch_by(polling, asker, dict known, package, good, frozenset passing_on):
    """polling(): whether a poller of fastsock asks. asker(frame): the frame that asks, behind functions `fileno`.
    package(globals): the package of a module, kept in `known` by its name. good: who watches for good. passing_on: modules
    that ask for a number to hand it on. Returns the connections of which an ask is not explained yet."""
    global is_polling, asking, packages, package_of, for_good, only_notes
    is_polling, asking, packages, package_of, for_good, only_notes = polling, asker, known, package, good, passing_on
    return unexplained


def guard_notes(lock):
    """A lock that a thread may take again. A forked child gives a new one."""
    global guard
    guard = lock


def show_to_c(tuple modules, hook, dict known):
    """hook(number, frame): a number of a connection is asked for, where one of these modules is loaded. known: by module,
    how many names it had, and whether it calls C."""
    global interfaces, shown_to_c, looked_at
    interfaces, shown_to_c, looked_at = modules, hook, known


cdef object name_in(object names):
    return (<dict>names).get("__name__")  # or of a class derived from dict


cdef object package_in(object names):
    name = name_in(names)
    found = packages.get(name) if type(name) is str else None
    return package_of(names) if found is None else found


def asked(int descriptor, frame):
    """The program asks for the number in `frame`, and may watch it."""
    if is_polling():
        return
    if frame.f_code.co_name == "fileno":
        frame = asking(frame)
    if frame is None:
        note(descriptor, for_good)
    else:
        note_of(descriptor, frame.f_globals)


cdef int note_of(int descriptor, object names) except -1:
    name = name_in(names)
    if type(name) is not str or name not in only_notes:
        note(descriptor, package_in(names))
    return 0


cdef int ask_for(int descriptor, bint is_connected) except -1:
    """The innermost frame does. A loop asks at each turn of a connection: so a frame that has a plain answer is not made
    an object of."""
    cdef PyFrameObject *frame = PyEval_GetFrame()
    cdef PyObject *code
    cdef bint hands_on
    if frame == NULL:
        note(descriptor, for_good)
        return 0
    code = <PyObject *>PyFrame_GetCode(frame)
    hands_on = <object>(<PyCodeObject *>code).co_name == "fileno"
    Py_DECREF(code)
    if is_connected:
        for name in interfaces:
            if name in loaded:
                if hands_on or not calls_no_c(<object>PyEval_GetGlobals()):
                    shown_to_c(descriptor, <object>frame)
                    return 0
                break
    if hands_on:
        asked(descriptor, <object>frame)
    elif not is_polling():
        note_of(descriptor, <object>PyEval_GetGlobals())
    return 0


cdef bint calls_no_c(object names) except -1:
    """Whether that is known of the module with these globals, and they have grown by no name since."""
    cdef Py_ssize_t count
    name = name_in(names)
    known = looked_at.get(name) if type(name) is str else None
    if known is None:
        return False
    count, found = <tuple>known
    if found or count != len(names):
        return False
    module = loaded.get(name)
    return module is not None and PyModule_Check(module) and PyModule_GetDict(module) == <PyObject *>names


def watched_for_good(int descriptor):
    """It must be exact, whoever else watches it."""
    note(descriptor, for_good)


cdef int note(int descriptor, object package) except -1:
    cdef fs_connection *connection
    cdef Notes notes
    with guard:
        connection = fs_table_find(descriptor)
        if connection == NULL:
            early.setdefault(descriptor, set()).add(package)
            return 0
        key = <size_t>connection
        notes = notes_of.get(key)
        if notes is None:
            notes = notes_of[key] = Notes.__new__(Notes)
            notes.begin(fs_connection_generation(connection))
        elif notes.generation != fs_connection_generation(connection):
            unexplained.pop(key, None)
            notes.begin(fs_connection_generation(connection))
        if notes.asks(descriptor, package):
            unexplained[key] = notes
            fs_connection_watch(connection, descriptor)  # what the kernel shows is exact from now on
    return 0


cdef int heed_early(int descriptor, int role) except -1:
    """The socket of that number is connected."""
    if not early:
        return 0
    found = early.pop(descriptor, ())
    if role != FS_ROLE_ACCEPTED:  # else that was another socket
        for package in found:
            note(descriptor, package)
    return 0


cdef int forget_early(int descriptor) except -1:
    """Who asked for the number before asked for another file's."""
    if early:
        early.pop(descriptor, None)
    return 0


def explains(int descriptor):
    """A poller of fastsock is given the number."""
    cdef fs_connection *connection
    cdef Notes notes
    cdef int i
    with guard:
        connection = fs_table_find(descriptor)
        key = <size_t>connection
        notes = unexplained.get(key)
        if notes is None or notes.generation != fs_connection_generation(connection):
            return
        frame = frame_of(0)
        for i in range(NEAR):
            if frame is None or notes.left == 0:
                break
            notes.explained(descriptor, package_in(frame.f_globals))
            frame = frame.f_back
        if notes.left == 0:
            del unexplained[key]
            fs_connection_unwatch(connection, descriptor)
