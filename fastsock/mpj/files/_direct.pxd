# What an open file's native calls look at, each time.
from libc.stdint cimport int64_t

from fastsock.mpj.datatypes._memory cimport buffer
from fastsock.mpj.files._transfer cimport Places

cdef extern from "files/pointer.h" nogil:
    struct fs_file_pointer:
        pass


cdef class Seen:
    cdef readonly Places places
    cdef readonly int64_t unit
    cdef readonly bint converts


cdef class Pointer:
    cdef buffer memory
    cdef fs_file_pointer *number


cdef class Direct:
    cdef readonly object engine
    cdef readonly Pointer pointer
    cdef public int descriptor, how
    cdef public bint atomic
    cdef int refused_reads, refused_writes
    cdef int64_t place
    cdef Seen current

    cdef Seen seen(self)
    cdef bint replace(self, int64_t before, int64_t after)
