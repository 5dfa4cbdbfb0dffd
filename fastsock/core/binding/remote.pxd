# What the core offers of connections between hosts.
from libc.stdint cimport uint32_t, uint64_t
from .stream cimport fs_end, fs_segment
from .system cimport sockaddr

cdef extern from "remote/span.h" nogil:
    enum: FS_SPAN_OFFERED, FS_SPAN_WAITING, FS_SPAN_OPEN, FS_SPAN_WITHDRAWN, FS_SPAN_BROKEN

    struct fs_span_counts:
        uint64_t frames_sent
        uint64_t frames_heard
        uint64_t written
        uint64_t taken

    struct fs_span:
        fs_segment *segment
        fs_span_counts counts

    int fs_span_has_resumed(const fs_span *span)
    void fs_span_drop(fs_span *span)
    uint32_t fs_span_await(fs_span *span, uint64_t deadline_ns)

cdef extern from "remote/agent.h" nogil:
    int fs_agent_begin(fs_span *span, int doorbell, int tcp)
    void fs_agent_lend(fs_span *span, fs_end *end)
    unsigned fs_agent_leave(uint64_t patience_ns)

cdef extern from "remote/meeting.h" nogil:
    struct fs_meeting_listener
    int fs_meeting_usable()
    void fs_meeting_resume(int resumes)
    void fs_meeting_rendezvous(int offers)
    fs_meeting_listener *fs_meeting_listen(const sockaddr *at, int *error)
    void fs_meeting_unlisten(fs_meeting_listener *listener)
    fs_span *fs_meeting_offer(const sockaddr *source, const sockaddr *target, uint64_t patience_ns, int *error)
    fs_span *fs_meeting_claim(const sockaddr *source)
    uint32_t fs_meeting_withdraw(fs_span *span, uint64_t patience_ns)

cdef extern from "remote/rsocket_meeting.h" nogil:
    struct fs_rsocket_listener
    int fs_rsocket_usable()
    fs_rsocket_listener *fs_rsocket_listen(const sockaddr *at, int *error)
    void fs_rsocket_unlisten(fs_rsocket_listener *listener)
    fs_span *fs_rsocket_offer(const sockaddr *source, const sockaddr *target, uint64_t patience_ns, int *error)
    fs_span *fs_rsocket_claim(const sockaddr *source)

cdef extern from "verbs/library.h" nogil:
    int fs_verbs_has_device()
