# What the core offers of messages.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from .stream cimport fs_end
from .system cimport iovec

cdef extern from "verbs/ibvx.h" nogil:
    struct fs_ibvx_options:
        const char *device
        const char *local
        size_t memory
        int keeps
        int rings
    struct fs_ibvx_counts:
        uint64_t segments
        uint64_t received
        uint64_t inlined
        uint64_t signalled
        uint64_t credit_segments
        uint64_t stalls
        uint64_t written
        uint64_t placed
        uint64_t fetched
        uint64_t refused
        uint64_t known_already
        uint64_t registered
        uint64_t most_registered

cdef extern from "strided.h" nogil:
    struct fs_layout:
        pass

cdef extern from "engine/engine.h" nogil:
    enum: FS_ANY
    enum: FS_STANDARD, FS_SYNCHRONOUS
    enum: FS_SENDING, FS_RECEIVING, FS_USER_REQUEST, FS_REMOTE_WRITE, FS_REMOTE_READ
    enum: FS_FINE, FS_TRUNCATED, FS_PEER_FAILED, FS_PROTOCOL, FS_CANCELLED, FS_CLOSED, FS_NO_MEMORY, FS_PEER_LEFT
    enum: FS_SENDER_FAILED, FS_CONTEXT_REVOKED
    enum: FS_DONE, FS_PENDING, FS_PEER_MISSING, FS_LATER, FS_UNREACHED
    enum: FS_NEVER, FS_NOT_YET, FS_HERE
    enum: FS_SATISFIED, FS_FINISHED_SOME, FS_LOOK_UP

    struct fs_engine:
        pass
    struct fs_message:
        pass
    struct fs_envelope:
        int source
        int tag
        size_t length
    struct fs_request:
        iovec one
        size_t length
        size_t moved
        fs_envelope envelope
        void *payload
        void *owner
        int peer
        int tag
        uint32_t context
        unsigned char kind
        unsigned char allocates
        unsigned char has_callback
        unsigned char late
        unsigned char cancelled
        int error
    struct fs_engine_options:
        size_t eager_limit
        size_t credit
        double spin_us
        int crowded
    struct fs_wait "fs_wait":
        size_t first
        int any_message
        int any_finished
        uint64_t deadline_ns
        uint32_t events

    void fs_engines_heed_interpreter(void *(*leave)() noexcept nogil, void (*enter)(void *left) noexcept nogil)
    fs_engine *fs_engine_new(int rank, int size, const fs_engine_options *options, int *error)
    void fs_engine_show(fs_engine *engine)
    void fs_engine_note_collective(fs_engine *engine)
    void fs_engine_release(fs_engine *engine)
    void fs_engine_close(fs_engine *engine)
    int fs_engine_leave(fs_engine *engine)
    int fs_engine_is_usable(const fs_engine *engine)
    void fs_engine_after_fork(fs_engine *engine)
    int fs_engine_attach_local(fs_engine *engine, int peer, fs_engine *other)
    int fs_engine_attach_end(fs_engine *engine, int peer, fs_end *end, int doorbell)
    int fs_engine_attach_descriptor(fs_engine *engine, int peer, int descriptor)
    int fs_engine_attach_memory(fs_engine *engine, int peer, int descriptor)
    int fs_engine_open_verbs(fs_engine *engine, const fs_ibvx_options *options, int offers)
    void fs_engine_ask_again(fs_engine *engine, int peer)
    int fs_engine_attach_verbs(fs_engine *engine, int peer, int descriptor)
    int fs_engine_pin(fs_engine *engine, void *memory, size_t length, bint pins)
    int fs_engine_verbs_counts(fs_engine *engine, int peer, fs_ibvx_counts *counts, char *device, size_t size)
    void fs_engine_fail(fs_engine *engine, int peer, const char *reason)
    void fs_engine_left(fs_engine *engine, int peer)
    int fs_engine_add_peers(fs_engine *engine, const int *ranks, size_t count)
    int fs_engine_set_members(fs_engine *engine, uint32_t context, const int *ranks, size_t count)
    int fs_engine_clear_members(fs_engine *engine, uint32_t context)
    int fs_engine_reason(fs_engine *engine, int peer, char *reason, size_t reason_size, const char **path)
    int fs_engine_only_local(const fs_engine *engine)
    int fs_engine_revoke(fs_engine *engine, const uint32_t *contexts, size_t count)
    int fs_engine_is_revoked(fs_engine *engine, uint32_t context)
    uint32_t fs_engine_failure(fs_engine *engine, int peer)
    int fs_engine_failed_member(fs_engine *engine, uint32_t context)
    int fs_engine_acknowledge(fs_engine *engine, uint32_t context, uint32_t failure)
    void fs_engine_has_collectives(fs_engine *engine)
    void fs_engine_forget_fate(fs_engine *engine, uint32_t context)
    void fs_engine_again(fs_request *request)
    int fs_engine_set_callback(fs_engine *engine, fs_request *request)

    void fs_request_prepare(fs_request *request, int kind, const iovec *parts, size_t count)
    void fs_request_prepare_items(fs_request *request, int kind, void *origin, const fs_layout *layout, int64_t extent,
                                  size_t length)
    int fs_request_is_done(const fs_request *request)
    int fs_engine_send(fs_engine *engine, fs_request *request, int peer, int tag, uint32_t context, int mode)
    int fs_engine_receive(fs_engine *engine, fs_request *request, int peer, int tag, uint32_t context)
    int fs_engine_expect(fs_engine *engine, fs_request *request, int peer, int tag, uint32_t context)
    int fs_engine_expose(fs_engine *engine, void *memory, size_t length, uint32_t *key)
    void fs_engine_conceal(fs_engine *engine, uint32_t key)
    int fs_engine_reach(fs_engine *engine, fs_request *request, int peer, uint32_t context, uint64_t address,
                        uint32_t key, const fs_layout *layout, int64_t extent)
    int fs_engine_cancel(fs_engine *engine, fs_request *request)
    void fs_engine_abandon(fs_engine *engine, fs_request *request)
    int fs_engine_probe(fs_engine *engine, int peer, int tag, uint32_t context, fs_envelope *envelope)
    int fs_engine_probe_failed(fs_engine *engine, fs_request *request, int peer, int tag, uint32_t context)
    uint32_t fs_engine_arrivals(const fs_engine *engine)
    int fs_engine_match(fs_engine *engine, int peer, int tag, uint32_t context, fs_envelope *envelope,
                        fs_message **message)
    int fs_engine_receive_matched(fs_engine *engine, fs_request *request, fs_message *message)
    void fs_engine_drop_matched(fs_engine *engine, fs_message *message)
    int fs_engine_progress(fs_engine *engine)
    int fs_engine_is_in_the_way(fs_engine *engine)
    void fs_engine_give_way(fs_engine *engine)
    int fs_engine_look(fs_engine *engine, const fs_request *request)
    int fs_engine_look_out(fs_engine *engine, uint32_t arrivals)
    void fs_engine_begin_user_request(fs_engine *engine, fs_request *request)
    void fs_engine_end_user_request(fs_engine *engine, fs_request *request, int error)
    fs_request *fs_engine_finished(fs_engine *engine)
    int fs_engine_has_finished(const fs_engine *engine)
    void fs_wait_prepare(fs_wait *wait, fs_engine *engine, fs_request **requests, size_t count, int all,
                         uint64_t deadline_ns)
    int fs_do_wait "fs_wait" (fs_wait *wait)

cdef extern from "engine/schedule.h" nogil:
    enum: FS_CHANNELS
    enum: FS_STEP_SEND, FS_STEP_RECEIVE, FS_STEP_WAIT, FS_STEP_COPY, FS_STEP_COMBINE
    ctypedef void fs_combine(const void *left, const void *right, void *target, size_t count) noexcept
    struct fs_step:
        unsigned char kind
        unsigned char channel
        int peer
        uint32_t request
        uint32_t first
        uint32_t count
    struct fs_part:
        uint32_t buffer
        size_t offset
        size_t length
    struct fs_schedule:
        const fs_step *steps
        const fs_part *parts
        const uint32_t *awaited
        size_t step_count
        size_t part_count
        size_t request_count
        size_t buffer_count
        uint32_t *contexts
        size_t channel_count
        fs_combine *combine
        size_t element
    struct fs_collective:
        pass
    fs_collective *fs_collective_new(const fs_schedule *schedule)
    void fs_collective_free(fs_collective *collective)
    void fs_collective_bind(fs_collective *collective, void **buffers)
    int fs_collective_start(fs_engine *engine, fs_collective *collective, fs_request *whole, const int *tags)
    int fs_engine_ask_for(fs_engine *engine, int peer)
