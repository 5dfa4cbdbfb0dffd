# What the machine and its C library offer to the binding.
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "<stdatomic.h>" nogil:
    ctypedef int atomic_int "_Atomic int"
    ctypedef size_t atomic_size "_Atomic size_t"
    ctypedef uint64_t atomic_uint64 "_Atomic uint64_t"
    void atomic_store(atomic_int *variable, int value)
    int atomic_look "atomic_load" (const atomic_int *variable)
    int atomic_fetch_add(atomic_int *variable, int value)
    int atomic_fetch_sub(atomic_int *variable, int value)

cdef extern from "system.h" nogil:
    uint64_t fs_ticks()
    void fs_pause()
    double fs_ticks_per_us()
    uint64_t fs_now_ns()
    uint32_t fs_generation()
    double fs_cache_line_round_trip_us()
    size_t fs_expect_blocks(size_t bytes)

cdef extern from "<fcntl.h>" nogil:
    enum: F_GETFD, FD_CLOEXEC, O_CLOEXEC

cdef extern from "<unistd.h>" nogil:
    int dup3(int descriptor, int number, int flags)

cdef extern from "<sys/socket.h>" nogil:
    struct sockaddr:
        pass
    struct sockaddr_storage:
        pass
    enum: AF_INET_NUMBER "AF_INET", AF_INET6_NUMBER "AF_INET6"

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "parts.h" nogil:
    struct fs_parts:
        iovec *next
        int count
        size_t left
    fs_parts fs_parts_of(iovec *parts, int count)
    void fs_parts_advance(fs_parts *parts, size_t length)
    ssize_t fs_parts_send(int descriptor, const fs_parts *parts, size_t most, int flags)
