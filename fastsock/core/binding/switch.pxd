# What the core offers of TCP connections that gain memory while they live.
from libc.stdint cimport uint32_t, uint64_t
from .stream cimport fs_end, fs_limits
from .system cimport atomic_int, fs_parts

cdef extern from "switch/table.h" nogil:
    enum: FS_ROLE_UNKNOWN, FS_ROLE_CONNECTED, FS_ROLE_ACCEPTED
    enum: FS_CANDIDATE, FS_TCP_ONLY, FS_RELEASED, FS_OWNED, FS_OFFERED, FS_ATTACHED

    struct fs_record:
        pass
    struct fs_connection:
        pass

    int fs_table_enter(int descriptor, int role)
    ctypedef struct fs_table_chunk:
        pass
    fs_table_chunk *fs_table_chunks
    fs_connection *fs_table_find_in(fs_table_chunk *chunks, int descriptor)
    fs_connection *fs_table_find(int descriptor)
    void fs_table_lose(int descriptor)
    int fs_table_duplicate(int descriptor, int number)
    int fs_table_next(int descriptor)

cdef extern from *:
    """
    #include "switch/connection.h"

    static inline uint32_t fs_connection_generation(const struct fs_connection *connection)
    {
        return atomic_load(&connection->generation);
    }
    """
    uint32_t fs_connection_generation(const fs_connection *connection) nogil

cdef extern from "switch/carry.h" nogil:
    enum: FS_LOOKS, FS_MAY_SLEEP, FS_WILL_WAIT
    enum: FS_KERNELS_END

    ssize_t fs_carry_send(fs_connection *connection, int descriptor, fs_parts *parts, int flags, int kernel_flags)
    ssize_t fs_carry_receive(fs_connection *connection, int descriptor, void *target, size_t length, int flags, int kernel_flags)
    int fs_carry_is_attached(const fs_connection *connection)
    int fs_carry_sends_by_tcp(const fs_connection *connection)
    ssize_t fs_carry_unread(fs_connection *connection, int descriptor)

    void fs_carry_show(fs_connection *connection, int descriptor)
    void fs_connection_watch(fs_connection *connection, int descriptor)
    void fs_connection_unwatch(fs_connection *connection, int descriptor)

    int fs_carry_send_begins(fs_connection *connection, int descriptor, int pinned, fs_record **within)
    void fs_carry_send_ended(fs_connection *connection, int descriptor, fs_record *within, ssize_t moved)
    int fs_carry_receive_begins(fs_connection *connection, int descriptor, int lasts, fs_record **within)
    ssize_t fs_carry_receive_ended(fs_connection *connection, int descriptor, int lasts, fs_record *within, ssize_t moved, int peeked)

    struct fs_carriers:
        int state
        int in_ring, out_ring
        uint64_t since_ns
        uint64_t tcp_in, tcp_out, ring_in, ring_out
        uint64_t switches, spills
        uint64_t direct, written, waits, wakes
        uint32_t large_in, large_out
        int peer

cdef extern from "switch/options.h" nogil:
    int fs_option_set(fs_connection *connection, int descriptor, int level, int option, int value)
    void fs_options_bound(fs_connection *connection, int descriptor)
    int fs_option_get(fs_connection *connection, int descriptor, int level, int option, int *value)

cdef extern from "switch/waiting.h" nogil:
    int fs_carry_look(fs_connection *connection, int descriptor, int what)
    int fs_carry_wait_awake(fs_connection *connection, int descriptor, int what)
    int fs_carry_doze(fs_connection *connection, int descriptor, int what, uint64_t deadline_ns, const atomic_int *leaving)
    int fs_carry_wait_briefly(fs_connection *connection, int descriptor, int what, uint64_t deadline_ns, const atomic_int *leaving)
    int fs_carry_wait_long(fs_connection *connection, int descriptor, int what, uint64_t deadline_ns, const atomic_int *leaving)
    int fs_carry_wait_behind(fs_connection *connection, int descriptor)
    int fs_carry_settle(fs_connection *connection, int descriptor, int flags)
    fs_end *fs_carry_hold(fs_connection *connection, int descriptor, fs_record **record)
    bint fs_carry_is_by_ring(const fs_record *record, const fs_end *end)

cdef extern from "switch/polling.h" nogil:
    enum: FS_POLLED_MOST
    struct fs_polled:
        pass
    struct fs_loop:
        pass
    struct fs_seats:
        fs_loop *loop
        int bell
        int never
    struct fs_poller:
        fs_polled among[FS_POLLED_MOST]
        int count
        uint64_t turn
        fs_seats seats
    fs_poller FS_POLLER_NEW
    enum: FS_MOST_STALE, FS_MOST_BUSY, FS_BUSY_NS
    bint fs_poller_rest_is_due(const fs_poller *poller)
    bint fs_poller_kernel_is_first(const fs_poller *poller)
    int fs_polling_is_due()
    int fs_poller_note(fs_poller *poller, int descriptor)
    void fs_poller_drop(fs_poller *poller, int descriptor)
    int fs_poller_look(fs_poller *poller, int *ready)
    int fs_poller_settle(fs_poller *poller, int *ready)
    int fs_poller_await(fs_poller *poller, const fs_polled *among, int count, uint64_t limit_ns)
    int fs_polling_is_stale(int descriptor, int flags)
    void fs_polling_reported_edge(int descriptor)

cdef extern from "switch/seats.h" nogil:
    enum fs_hearing: FS_HEARS_TOKENS, FS_HEARS_ANY

    int fs_seats_take(fs_seats *seats, int descriptor, fs_hearing hearing)
    void fs_seats_leave(fs_seats *seats, int descriptor)
    void fs_seats_end(fs_seats *seats)
    int fs_seats_flags(const fs_seats *seats, int descriptor)
    int fs_seats_reported(fs_seats *seats, int descriptor)
    int fs_seats_make_loop(fs_seats *seats)
    void fs_seats_drop_loop(fs_seats *seats)
    int fs_seats_next(const fs_seats *seats, int descriptor)
    int fs_seats_moved(fs_seats *seats)
    int fs_seats_look(fs_seats *seats, int *numbers, int most, int flags)
    int fs_seats_sleep(fs_seats *seats, int *numbers, int most, int flags, fs_loop **asleep)
    void fs_seats_awake(fs_seats *seats, fs_loop *asleep, int rung)
    void fs_seats_ask(fs_seats *seats, int change)
    void fs_seats_pass_on(fs_seats *seats)

cdef extern from "switch/leave.h" nogil:
    void fs_leave_descriptor(int descriptor)
    void fs_leave_number(int descriptor)
    void fs_leave_range(unsigned first, unsigned last)
    void fs_leave_all()
    int fs_leave_shutdown(fs_connection *connection, int descriptor, int how)
    int fs_leave_release(fs_connection *connection, int descriptor)

cdef extern from "switch/identity.h" nogil:
    int fs_identity_check(int descriptor)
    int fs_identity_adopt(int descriptor)

cdef extern from "switch/answering.h" nogil:
    void fs_answering_rest()
    void fs_answering_go_on()

cdef extern from "switch/importers.h" nogil:
    int fs_importer_show(fs_connection *connection, int descriptor, uint64_t importer)
    uint64_t fs_importer_own(fs_connection *connection, int descriptor)
    uint64_t fs_importer_other(fs_connection *connection, int descriptor)
    bint fs_importer_closes(const fs_connection *connection)

cdef extern from "switch/owned.h" nogil:
    int fs_owned_is_possible(fs_connection *connection, int descriptor)

cdef extern from "switch/names.h" nogil:
    enum: FS_PEERS_OWN, FS_PEERS_ANY

cdef extern from "switch/candidates.h" nogil:
    struct fs_candidate_settings:
        int never
        uint32_t calls
        uint64_t bytes
        int learns
        uint32_t ring_bytes
        int peers
        int hides
        fs_limits limits
    void fs_candidates_set(const fs_candidate_settings *settings)
    void fs_candidate_never(fs_connection *connection)
    int fs_candidate_attach(fs_connection *connection, int descriptor, uint64_t deadline_ns)

cdef extern from "switch/lives.h" nogil:
    struct fs_threshold:
        uint32_t calls
        int lesson

cdef extern from "switch/closed.h" nogil:
    enum: FS_CLOSED_KEPT

    union fs_closed_address:
        pass
    struct fs_closed:
        fs_carriers carriers
        int role, why
        fs_threshold threshold
        fs_closed_address own, other
    void fs_closed_keep(int all)
    void fs_closed_note(int descriptor)
    uint64_t fs_closed_attached()
    size_t fs_closed_list(fs_closed *list)
    void fs_closed_look(fs_connection *connection, int descriptor, fs_closed *seen)

cdef extern from "beside.h" nogil:
    int fs_beside_share(int wanted)
    int fs_beside_pass(int descriptor)
    void fs_beside_reports(int python)
    uint32_t fs_beside_entered()
