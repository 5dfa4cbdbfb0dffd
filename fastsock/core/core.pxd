# What the C core offers to the binding.
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "<stdatomic.h>" nogil:
    ctypedef int atomic_int "_Atomic int"
    ctypedef size_t atomic_size "_Atomic size_t"
    ctypedef uint64_t atomic_uint64 "_Atomic uint64_t"
    void atomic_store(atomic_int *variable, int value)
    int atomic_fetch_add(atomic_int *variable, int value)
    int atomic_fetch_sub(atomic_int *variable, int value)

cdef extern from "system.h" nogil:
    uint64_t fs_ticks()
    void fs_pause()
    double fs_ticks_per_us()
    uint64_t fs_now_ns()
    uint32_t fs_generation()
    double fs_cache_line_round_trip_us()
    uint32_t fs_current_cpu()
    size_t fs_expect_blocks(size_t bytes)

cdef extern from "<fcntl.h>" nogil:
    enum: F_GETFD, FD_CLOEXEC, O_CLOEXEC

cdef extern from "<unistd.h>" nogil:
    int dup3(int descriptor, int number, int flags)

cdef extern from "registrations.h" nogil:
    int fs_replace_watched(int source, int number, int flags)

cdef extern from "linger.h" nogil:
    int fs_linger(int descriptor)
    void fs_linger_rest()

cdef extern from "direct.h" nogil:
    int fs_direct_probe()

cdef extern from "end.h" nogil:
    enum: FS_SIDE_ACCEPTED, FS_SIDE_CONNECTED
    enum: FS_READABLE, FS_WRITABLE
    enum: FS_PATIENT, FS_NO_SIGNAL, FS_PEEK, FS_AT_ONCE

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

    struct fs_custody
    struct fs_end:
        fs_statistics statistics
        fs_custody *custody
        int gone
        int pending_error
        int raw_in
        int raw_out

    struct fs_segment:
        uint32_t small

    int fs_segment_create(uint32_t small_bytes)
    fs_segment *fs_segment_make(uint32_t small_bytes, int *memory)
    fs_segment *fs_segment_map(int memory, int *error)
    size_t fs_segment_bytes(uint32_t small_bytes)
    int fs_sysv_format(int id, uint32_t small_bytes, uint64_t token)
    fs_segment *fs_sysv_attach(int id, uint64_t token, int *error)
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
    ssize_t fs_end_receive(fs_end *end, int doorbell, void *target, size_t length, int flags, int look_for_end)
    ssize_t fs_end_unread(fs_end *end, int doorbell)
    int fs_end_shutdown(fs_end *end, int doorbell, int how)
    void fs_end_closing(fs_end *end, int doorbell, int reset)
    void fs_end_closed(fs_end *end)
    int fs_end_writable(fs_end *end)
    int fs_end_is_watched(const fs_end *end)
    int fs_end_was_served(const fs_end *end)
    int fs_end_shared(const fs_end *end)
    int fs_end_urgent_inline(const fs_end *end)
    void fs_end_set_urgent_inline(fs_end *end, int on)
    void fs_end_set_send_buffer(fs_end *end, uint64_t bytes)
    int fs_end_was_reset(fs_end *end, int doorbell)
    int fs_end_is_over(fs_end *end, int doorbell)
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
    int fs_end_settle(fs_end *end, int doorbell, int flags)
    size_t fs_promised(const fs_end *end)
    int fs_end_release(fs_end *end, int doorbell)
    int fs_bridge_start(fs_end *end, int doorbell, int inner)
    int fs_bridge_fork(fs_end *end, int doorbell, int inner)

cdef extern from "abstract.h" nogil:
    int fs_abstract_knock(const char *name, size_t length)
    int fs_abstract_listen(const char *name, size_t length)
    int fs_abstract_pair(const char *name, size_t length, int pair[2])
    int fs_abstract_accept(int listener)
    int fs_abstract_reach(const char *name, size_t length)
    int fs_abstract_peer(int stream, int *process, unsigned int *user)
    int fs_is_own_user(unsigned int user)
    int fs_abstract_told(int descriptor, unsigned long inode, int keep)
    unsigned int fs_abstract_forks()

cdef extern from "<sys/socket.h>" nogil:
    struct sockaddr:
        pass
    struct sockaddr_storage:
        pass
    enum: AF_INET_NUMBER "AF_INET", AF_INET6_NUMBER "AF_INET6"

cdef extern from "ports.h" nogil:
    enum: FS_ADDRESS_TEXT
    int fs_take_port(int descriptor, char ip[FS_ADDRESS_TEXT], int *port)

cdef extern from "accepted.h" nogil:
    int fs_put_address(sockaddr_storage *where, int family, const char *ip, int port)
    int fs_accepted(const sockaddr *connecting, const sockaddr *listening)

cdef extern from "custody.h" nogil:
    enum: FS_CUSTODY_PENDING, FS_CUSTODY_HANDED, FS_CUSTODY_JOINED, FS_CUSTODY_RELAYED, FS_CUSTODY_ENDED

    struct fs_custody_terms:
        sockaddr_storage connecting
        sockaddr_storage listening
        unsigned char hello[64]
        size_t hello_length
        int any_user
        uint64_t patience_ns

    void fs_custody_rest()
    int fs_custody_begin(fs_end *end, int doorbell, int memory, int stream, int listener, const fs_custody_terms *terms)
    int fs_custody_take_back(fs_custody *custody)
    int fs_custody_take_port(fs_custody *custody)
    int fs_custody_fork(fs_custody *custody)
    void fs_custody_relay(fs_custody *custody)
    int fs_custody_state(const fs_custody *custody)
    int fs_custody_is_accepted(const fs_custody *custody)
    uint64_t fs_custody_lasted_ns(const fs_custody *custody)
    int fs_custody_joined_by(const fs_custody *custody)

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "engine.h" nogil:
    enum: FS_ANY
    enum: FS_STANDARD, FS_SYNCHRONOUS
    enum: FS_SENDING, FS_RECEIVING, FS_PROMISED
    enum: FS_FINE, FS_TRUNCATED, FS_PEER_FAILED, FS_PROTOCOL, FS_CANCELLED, FS_CLOSED, FS_NO_MEMORY
    enum: FS_DONE, FS_PENDING, FS_PEER_MISSING
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
        unsigned char blocking
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

    fs_engine *fs_engine_new(int rank, int size, const fs_engine_options *options, int *error)
    void fs_engine_hold(fs_engine *engine)
    void fs_engine_release(fs_engine *engine)
    void fs_engine_close(fs_engine *engine)
    int fs_engine_flushed(fs_engine *engine)
    int fs_engine_is_usable(const fs_engine *engine)
    void fs_engine_after_fork(fs_engine *engine)
    int fs_engine_attach_local(fs_engine *engine, int peer, fs_engine *other)
    int fs_engine_attach_end(fs_engine *engine, int peer, fs_end *end, int doorbell)
    int fs_engine_attach_descriptor(fs_engine *engine, int peer, int descriptor)
    void fs_engine_fail(fs_engine *engine, int peer, const char *reason)
    int fs_engine_set_members(fs_engine *engine, uint32_t context, const int *ranks, size_t count)
    int fs_engine_clear_members(fs_engine *engine, uint32_t context)
    int fs_engine_reason(fs_engine *engine, int peer, char *reason, size_t reason_size, const char **path)
    int fs_engine_only_local(const fs_engine *engine)
    int fs_engine_set_callback(fs_engine *engine, fs_request *request)

    void fs_request_prepare(fs_request *request, int kind, const iovec *parts, size_t count)
    int fs_request_is_done(const fs_request *request)
    int fs_engine_send(fs_engine *engine, fs_request *request, int peer, int tag, uint32_t context, int mode)
    int fs_engine_receive(fs_engine *engine, fs_request *request, int peer, int tag, uint32_t context)
    int fs_engine_cancel(fs_engine *engine, fs_request *request)
    void fs_engine_abandon(fs_engine *engine, fs_request *request)
    int fs_engine_probe(fs_engine *engine, int peer, int tag, uint32_t context, fs_envelope *envelope)
    int fs_engine_probe_failed(fs_engine *engine, fs_request *request, int peer, int tag, uint32_t context)
    uint32_t fs_engine_arrivals(const fs_engine *engine)
    fs_message *fs_engine_match(fs_engine *engine, int peer, int tag, uint32_t context, fs_envelope *envelope)
    int fs_engine_receive_matched(fs_engine *engine, fs_request *request, fs_message *message)
    void fs_engine_drop_matched(fs_engine *engine, fs_message *message)
    int fs_engine_progress(fs_engine *engine)
    int fs_engine_look(fs_engine *engine, const fs_request *request, uint64_t ticks)
    void fs_engine_promise(fs_engine *engine, fs_request *request)
    void fs_engine_fulfil(fs_engine *engine, fs_request *request, int error)
    fs_request *fs_engine_finished(fs_engine *engine)
    int fs_engine_has_finished(const fs_engine *engine)
    void fs_wait_prepare(fs_wait *wait, fs_engine *engine, fs_request **requests, size_t count, int all,
                         uint64_t deadline_ns)
    int fs_do_wait "fs_wait" (fs_wait *wait)
