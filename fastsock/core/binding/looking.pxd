# How long the interpreter's lock is kept for looks.
from libc.stdint cimport uint64_t

cdef extern from "looking.h" nogil:
    struct fs_lock_wait:
        pass

    void fs_look_configure(double longest_us, int (*alone)() noexcept nogil)
    uint64_t fs_looked()
    bint fs_is_contended()
    bint fs_is_time_to_offer(uint64_t now)
    void fs_lock_wait_begins(fs_lock_wait *wait)
    uint64_t fs_lock_wait_ends(const fs_lock_wait *wait)
    void fs_lock_is_contended(uint64_t took)
    void fs_lock_is_free()
