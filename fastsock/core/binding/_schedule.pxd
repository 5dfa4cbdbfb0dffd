from libc.stdint cimport uint32_t
from .engine cimport fs_collective, fs_part, fs_schedule, fs_step


cdef class Schedule:
    cdef fs_schedule schedule
    cdef fs_step *steps
    cdef fs_part *parts
    cdef uint32_t *awaited
    cdef Py_ssize_t *lengths  # of the buffers
    cdef Py_ssize_t total     # bytes that it moves
    cdef tuple targets        # whom it sends to
    cdef object asked         # the engine that has asked for them
    cdef readonly Py_ssize_t scratch

    cdef int take_steps(self, list steps, list parts, list awaited, size_t requests) except -1


cdef class BoundSchedule:
    cdef fs_collective *collective
    cdef readonly Schedule schedule
    cdef object memory  # keeps the buffers
    cdef Py_buffer *views
    cdef int view_count

    cdef bint claimed  # by whoever is about to follow it, until it is done

    cdef int bind(self, void **buffers, object memory) except -1
    cdef bint claim(self) except -1  # False: somebody follows it
    cdef int give_back(self) except -1


cdef BoundSchedule new_bound(Schedule schedule)
