# What the C core offers to the binding.
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "<stdatomic.h>" nogil:
    ctypedef int atomic_int "_Atomic int"

cdef extern from "system.h" nogil:
    uint64_t fs_ticks()
    void fs_pause()
    double fs_ticks_per_us()
    uint64_t fs_now_ns()
    double fs_cache_line_round_trip_us()
    uint32_t fs_current_cpu()
    size_t fs_expect_blocks(size_t bytes)

cdef extern from "direct.h" nogil:
    int fs_direct_probe()

cdef extern from "end.h" nogil:
    enum: FS_SIDE_ACCEPTED, FS_SIDE_CONNECTED
    enum: FS_READABLE, FS_WRITABLE
    enum: FS_PATIENT, FS_NO_SIGNAL

    struct fs_limits:
        double spin_us
        size_t direct_min
        int peer

    struct fs_yielding:
        pass

    struct fs_statistics:
        uint64_t bytes_sent
        uint64_t bytes_received
        uint64_t bytes_direct
        uint64_t waits
        uint64_t wakes
        uint64_t spins

    struct fs_end:
        fs_statistics statistics
        int gone
        int pending_error
        int raw_in
        int raw_out

    struct fs_segment:
        uint32_t small

    int fs_segment_create(uint32_t small_bytes)
    fs_segment *fs_segment_map(int memory, int *error)
    void fs_segment_drop(fs_segment *segment)
    int fs_segment_renew(fs_segment *segment)
    int fs_segment_reserve(fs_segment *segment, uint64_t ticket)
    int fs_segment_withdraw(fs_segment *segment, uint64_t ticket)
    int fs_segment_claim(fs_segment *segment, uint64_t ticket)
    int fs_segment_disclaim(fs_segment *segment, uint64_t ticket)
    int fs_segment_is_claimed(const fs_segment *segment, uint64_t ticket)
    fs_end *fs_end_open_on(fs_segment *segment, int side, const fs_limits *limits, int *error)
    void fs_end_free(fs_end *end)

    ssize_t fs_end_send(fs_end *end, int doorbell, const void *data, size_t length, int flags)
    ssize_t fs_end_receive(fs_end *end, int doorbell, void *target, size_t length, int peek, int look_for_end)
    ssize_t fs_end_unread(fs_end *end, int doorbell)
    int fs_end_shutdown(fs_end *end, int doorbell, int how)
    void fs_end_closing(fs_end *end, int doorbell, int reset)
    void fs_end_closed(fs_end *end)
    int fs_end_writable(fs_end *end)
    int fs_end_shared(const fs_end *end)
    int fs_end_urgent_inline(const fs_end *end)
    void fs_end_set_urgent_inline(fs_end *end, int on)
    int fs_end_was_reset(fs_end *end, int doorbell)
    int fs_end_take_error(fs_end *end, int doorbell)

    int fs_doorbell_prepare(int doorbell)

    enum: FS_IN_VAIN
    int fs_end_wait_briefly(fs_end *end, int what, uint64_t deadline_ns, const atomic_int *leaving)
    int fs_end_wait_long(fs_end *end, int doorbell, int what, uint64_t deadline_ns, const atomic_int *leaving)
    int fs_end_look(fs_end *end, int what, uint64_t ticks)
    int fs_end_may_spin(fs_end *end, int what)
    int fs_yield_try(fs_yielding *past, uint64_t *start)
    void fs_yield_learn(fs_yielding *past, uint64_t start, int ready, int ends)
    void fs_wake_leaving()
    void fs_wake_leaving_done()
    void fs_end_wake(fs_end *end)

    int fs_end_has_data(const fs_end *end)
    int fs_end_has_stale_token(const fs_end *end)
    int fs_end_is_elsewhere(const fs_end *end)
    void fs_end_knock(fs_end *end, int doorbell)
    void fs_end_watch(fs_end *end, int doorbell)
    void fs_end_set_lazy(fs_end *end, int lazy)
    int fs_end_settle(fs_end *end, int doorbell)
    size_t fs_promised(const fs_end *end)
    int fs_end_release(fs_end *end, int doorbell)
    int fs_bridge_start(fs_end *end, int doorbell, int inner)
    int fs_bridge_fork(fs_end *end, int doorbell, int inner)

cdef extern from "abstract.h" nogil:
    int fs_abstract_knock(const char *name, size_t length)
    int fs_abstract_listen(const char *name, size_t length)
    int fs_abstract_accept(int listener)
    int fs_abstract_reach(const char *name, size_t length)
    int fs_abstract_peer(int stream, int *process, unsigned int *user)
    int fs_abstract_told(int descriptor, unsigned long inode, int keep)
    unsigned int fs_abstract_forks()
