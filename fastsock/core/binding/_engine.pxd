from libc.stdint cimport int64_t, uint32_t, uint64_t
from ._messages cimport Messages
from ._requests cimport Request
from ._schedule cimport BoundSchedule, Schedule
from .engine cimport fs_layout


cdef class Engine(Messages):
    # Follows a schedule; `tags` has one for each of its channels.
    cdef int c_start(self, Request request, BoundSchedule bound, const int *tags) except -1
    # As set_members(); the latter takes back what the former said.
    cdef int c_set_members(self, uint32_t context, const int *ranks, size_t count) except -1
    cdef void c_clear_members(self, uint32_t context) noexcept
    # Nobody uses that context any more.
    cdef void c_forget_fate(self, uint32_t context) noexcept

    # The device writes data to memory that the peer exposes, or reads them there, by `kind`: without the peer, in the order
    # of calls.  `layout`: of the items there, or NULL.  None where messages are to do it.
    cdef Request c_reach(self, int kind, data, int peer, uint32_t context, uint64_t address, uint32_t key,
                         const fs_layout *layout, int64_t extent)

    cdef int ask_targets(self, Schedule schedule) except -1
    cdef int check_attached(self, int peer, int error) except -1
    cdef int wait_many(self, requests, bint all, timeout, Py_ssize_t *which) except -1
