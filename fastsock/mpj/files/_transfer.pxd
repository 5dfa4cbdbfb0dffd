# What the hot path of a file's calls takes from _transfer.
from libc.stdint cimport int64_t

from fastsock.mpj.datatypes._memory cimport TypeRecord, fs_layout

cdef extern from "files/transfer.h" nogil:
    struct fs_reach:
        int64_t first, end, runs
    struct fs_file_view:
        int64_t start, extent
        const fs_layout *layout
        fs_reach reach


cdef class Places:
    cdef fs_file_view view
    cdef readonly TypeRecord type
    cdef readonly int64_t start
    cdef readonly bint ordered  # also the items among each other

    # As the methods without c_. They return a negative errno where those raise.
    cdef int64_t c_read(self, int file, int64_t start, void *data, int64_t nbytes, int how) noexcept
    cdef int64_t c_write(self, int file, int64_t start, const void *data, int64_t nbytes, int how) noexcept
