from libc.stdint cimport int64_t, uint64_t

from ._engine cimport Engine
from ._team cimport Team
from .window cimport fs_layout, fs_window


cdef class Window:
    cdef fs_window *window
    cdef Engine engine
    cdef Team team
    cdef readonly tuple ranks
    cdef readonly int index, size
    cdef unsigned char *data
    cdef readonly uint64_t nbytes
    cdef object __weakref__

    cdef readonly bint is_apart  # the data lie in the members' own processes: addresses are those there

    cdef int refuse(self, int result, int culprit) except -1
    cdef int numbers(self, members, int *into) except -1

    # As the methods without c_, on plain memory. Offsets count from the beginning of the target's part, where `memory` lies.
    cdef bint c_is_inherited(self) noexcept  # this process was forked from the member
    cdef int c_lock(self, int target, bint alone) except -1
    cdef int c_unlock(self, int target, bint alone) except -1
    cdef int c_fence(self) except -1
    cdef int c_read(self, int target, const void *memory, void *into, size_t length) except -1
    cdef int c_write(self, int target, void *memory, const void *source, size_t length) except -1
    cdef bint c_is_attached(self, int target, uint64_t low, uint64_t high) except -1
    cdef int c_accumulate(self, int target, uint64_t offset, unsigned char *memory, const void *source, void *result,
                          size_t count, int type, int operation) except -1
    cdef int c_accumulate_items(self, int target, unsigned char *memory, const fs_layout *layout, int64_t extent,
                                const void *source, void *result, size_t length, int type, int operation) except -1
    cdef int c_compare_and_swap(self, int target, uint64_t offset, unsigned char *memory, const void *source,
                                const void *compare, void *result, size_t length) except -1
    cdef int c_read_items(self, int target, unsigned char *memory, const fs_layout *layout, int64_t extent,
                          void *packed, size_t length) except -1
    cdef int c_write_items(self, int target, unsigned char *memory, const fs_layout *layout, int64_t extent,
                           const void *packed, size_t length) except -1
