from libc.stdint cimport uint64_t
from .stream cimport fs_end, fs_segment
from .system cimport atomic_int


cdef class Segment:
    cdef fs_segment *segment


cdef class End:
    cdef fs_end *end
    cdef atomic_int open_channels
    cdef object closed  # called once this process has closed its end
    cdef uint64_t importer  # where buffers for this end go, as it was shown; 0: nowhere
    cdef bint shown     # and is shown still

    cdef void hide_importer(self) noexcept
    cdef int report_closed(self) except -1
