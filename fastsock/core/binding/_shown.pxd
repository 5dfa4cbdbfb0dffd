# What other processes see of what is no connection and no rank, for the modules that count it.
cimport cython
from .shown cimport fs_shown_daemon


@cython.final
cdef class ShownDaemon:
    cdef fs_shown_daemon *place  # NULL: nobody sees it

    cdef void called(self, Py_ssize_t calls) noexcept  # so many calls have come
