from cpython.pystate cimport PyThreadState
from libc.stdint cimport uint32_t, uint64_t
from ._buffers cimport Buffer
from ._engine cimport Engine
from .engine cimport fs_engine
from .team cimport fs_blocks, fs_team


cdef int c_reduce_local(int operation, int type, const void *source, void *target, size_t count) except -1


# What a team's waits do beside waiting.
cdef struct Waiter:
    PyThreadState *outside
    fs_engine *engine
    void *owner  # the Engine
    uint64_t looked_at
    uint32_t context  # of the communicator,
    bint heeds        # which may be revoked
    bint asks         # some of whose members the engine alone knows the ends of


# The hooks of a wait; their context is a Waiter.
cdef void leave_interpreter(void *context) noexcept nogil
cdef void enter_interpreter(void *context) noexcept nogil
cdef int progress_engine(void *context) noexcept nogil
cdef int look_for_signals(void *context) noexcept nogil
cdef int propagate() except -1  # an exception that is set already


cdef class Team:
    cdef fs_team *team
    cdef Waiter waiter
    cdef Engine engine
    cdef readonly tuple ranks
    cdef tuple bells
    cdef readonly tuple watches
    cdef readonly int index, size
    cdef readonly bint threads  # members are threads of this process
    cdef unsigned long user       # the thread within a collective, or 0,
    cdef uint32_t user_generation  # and its process: a forked child has no such thread

    cdef int enter(self) except -1
    cdef int ended(self, int result) except -1
    cdef object failure(self, int result)
    cdef Buffer own_part(self, source, Buffer target)
    cdef int within(self, size_t bytes, Buffer buffer) except -1
    cdef size_t sizes(self, sequence, size_t *array) except? 0
    cdef int layout(self, sizes, offsets, size_t *size, size_t *offset, Buffer buffer) except -1

    # As the methods without c_, on plain memory; counts are elements, lengths bytes.
    cdef int c_barrier(self) except -1
    cdef int c_bcast(self, void *data, size_t length, int root) except -1
    cdef int c_reduce(self, const void *source, void *target, size_t count, int type, int operation, int root) except -1
    cdef int c_allreduce(self, const void *source, void *target, size_t count, int type, int operation) except -1
    cdef int c_scan(self, const void *source, void *target, size_t count, int type, int operation) except -1
    cdef int c_exscan(self, const void *source, void *target, size_t count, int type, int operation) except -1
    cdef int c_reduce_scatter(self, const void *source, void *target, const size_t *counts, int type,
                              int operation) except -1
    cdef int c_gather(self, const void *source, size_t length, void *target, const fs_blocks *blocks, int root) except -1
    cdef int c_scatter(self, const void *source, const fs_blocks *blocks, void *target, size_t length, int root) except -1
    cdef int c_allgather(self, const void *source, void *target, const fs_blocks *blocks) except -1
    cdef int c_alltoall(self, const void *source, const fs_blocks *out, void *target, const fs_blocks *in_) except -1
