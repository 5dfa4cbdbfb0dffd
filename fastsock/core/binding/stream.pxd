# What the core offers of streams: memory, ends, waiting.
from libc.stdint cimport uint32_t, uint64_t
from .system cimport atomic_int, fs_parts

cdef extern from "stream/cma_offer.h" nogil:
    int fs_cma_probe()

cdef extern from "stream/end.h" nogil:
    enum: FS_SIDE_ACCEPTED, FS_SIDE_CONNECTED
    enum: FS_READABLE, FS_WRITABLE
    enum: FS_PATIENT, FS_NO_SIGNAL, FS_PEEK, FS_AT_ONCE, FS_UNPOLLED

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
        uint64_t bytes_written
        uint64_t waits
        uint64_t wakes
        uint64_t spins

    struct fs_end:
        fs_statistics statistics
        int gone
        int pending_error
        int raw_in
        int raw_out
        int abrupt
        uint32_t large_in
        uint32_t large_out

    struct fs_segment:
        uint32_t small

    int fs_segment_create(uint32_t small_bytes)
    fs_segment *fs_segment_make(uint32_t small_bytes, int *memory)
    fs_segment *fs_segment_map(int memory, int *error)
    size_t fs_segment_bytes(uint32_t small_bytes)
    int fs_sysv_format(int id, uint32_t small_bytes, uint64_t token)
    fs_segment *fs_sysv_attach(int id, uint64_t token, int *error)
    fs_segment *fs_segment_hold(fs_segment *segment)
    void fs_segment_drop(fs_segment *segment)
    fs_end *fs_end_open_on(fs_segment *segment, int side, const fs_limits *limits, int *error)
    void fs_end_free(fs_end *end)

    enum: FS_TOGETHER
    ssize_t fs_end_send_parts(fs_end *end, int doorbell, fs_parts *parts, int flags)
    ssize_t fs_end_receive(fs_end *end, int doorbell, void *target, size_t length, int flags, int look_for_end)
    ssize_t fs_end_unread(fs_end *end, int doorbell)
    int fs_end_shutdown(fs_end *end, int doorbell, int how)
    void fs_end_closing(fs_end *end, int doorbell, int reset)
    void fs_end_closed(fs_end *end)
    int fs_end_is_watched(const fs_end *end)
    void fs_end_show_importer(const fs_end *end, uint64_t importer)
    uint64_t fs_end_other_importer(const fs_end *end)
    int fs_end_urgent_inline(const fs_end *end)
    void fs_end_set_urgent_inline(fs_end *end, int on)
    void fs_end_set_send_buffer(fs_end *end, uint64_t bytes)
    void fs_end_set_receive_buffer(fs_end *end, int doorbell, uint64_t bytes)
    int fs_end_was_reset(fs_end *end, int doorbell)
    int fs_end_is_over(fs_end *end, int doorbell)
    int fs_end_take_error(fs_end *end, int doorbell)

    int fs_doorbell_prepare(int doorbell)

    enum: FS_IN_VAIN
    int fs_end_wait_briefly(fs_end *end, int what, uint64_t deadline_ns, const atomic_int *leaving)
    int fs_end_wait_long(fs_end *end, int doorbell, int what, uint64_t deadline_ns, const atomic_int *leaving)
    int fs_end_look(fs_end *end, int what)
    void fs_wake_leaving()
    void fs_wake_leaving_done()
    void fs_end_wake(fs_end *end)

    int fs_end_has_data(const fs_end *end)
    int fs_end_has_stale_token(const fs_end *end)
    int fs_end_is_elsewhere(const fs_end *end)
    void fs_end_look_once(const fs_end *end)
    void fs_end_watch(fs_end *end, int doorbell)
    void fs_end_set_lazy(fs_end *end, int lazy)
    int fs_end_settle(fs_end *end, int doorbell, int flags)
    size_t fs_promised(const fs_end *end)
    int fs_end_release(fs_end *end, int doorbell)
    int fs_bridge_start(fs_end *end, int doorbell, int inner)
    int fs_bridge_fork(fs_end *end, int doorbell, int inner)
