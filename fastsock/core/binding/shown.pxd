# What the core offers of what a process shows of itself.
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "shown.h" nogil:
    struct fs_shown_daemon:
        pass
    fs_shown_daemon *fs_shown_take_daemon(const uint64_t *host, uint32_t port)
    void fs_shown_give(void *shown)
