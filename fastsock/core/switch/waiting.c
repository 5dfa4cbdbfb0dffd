/* Waiting.  While the ring carries: as every end waits in memory, then poll() on TCP, where a token will come.  Else poll()
 * alone. */
#define _GNU_SOURCE
#include "waiting.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>

#include "carry.h"
#include "identity.h"
#include "refusals.h"
#include "switch.h"
#include "table.h"
#include "tokens.h"

#define LOCK_PATIENCE_NS 50000000ull
#define WRITER_SLICE_NS 100000000ull /* our own shutdown() may come meanwhile */
#define READER_SLICE_NS 5000000ull   /* another thread reads first, and is about to */
#define BEHIND_NS 1000000            /* how old a peek is when it is made again */
#define MOST_CHANGES 4               /* of carrier, seen before one sleep */

static uint64_t until(uint64_t deadline_ns)
{
    uint64_t now = fs_now_ns();
    return deadline_ns == UINT64_MAX ? UINT64_MAX : deadline_ns > now ? deadline_ns - now : 0;
}

/* Whether that direction goes through the ring now, as far as this end has carried out. */
static int is_in_ring(const struct fs_record *record, const struct fs_end *end, int what)
{
    if (end == NULL || fs_record_is_plain(record)) return 0;
    return what == FS_WRITABLE ? atomic_load(&record->out_ring) != 0 : fs_switch_reads_ring(record, end);
}

int fs_carry_look(struct fs_connection *connection, int descriptor, int what)
{
    if (!fs_connection_enter(connection, descriptor)) return 1;
    struct fs_end *end = connection->end;
    int answered = is_in_ring(connection->record, end, what) && fs_end_look(end, what);
    fs_connection_exit(connection);
    return answered;
}

/* An end that leaves says so before its FIN, which no look at memory finds and no futex hears. */
static int is_answered_in_memory(const struct fs_connection *connection, int what)
{
    const struct fs_end *end = connection->end;
    return is_in_ring(connection->record, end, what) && !fs_end_other_left(end);
}

int fs_carry_wait_awake(struct fs_connection *connection, int descriptor, int what)
{
    if (!fs_connection_enter(connection, descriptor)) return 1;
    int answered = is_answered_in_memory(connection, what) && fs_end_wait_awake(connection->end, what);
    fs_connection_exit(connection);
    return answered;
}

static int wait_in_memory(struct fs_connection *connection, int descriptor, int what, uint64_t deadline_ns,
                          const _Atomic int *leaving, int (*wait)(struct fs_end *, int, uint64_t, const _Atomic int *))
{
    if (!fs_connection_enter(connection, descriptor)) return -EBADF;
    int result =
        is_answered_in_memory(connection, what) ? wait(connection->end, what, deadline_ns, leaving) : FS_IN_VAIN;
    fs_connection_exit(connection);
    return result;
}

int fs_carry_doze(struct fs_connection *connection, int descriptor, int what, uint64_t deadline_ns,
                  const _Atomic int *leaving)
{
    return wait_in_memory(connection, descriptor, what, deadline_ns, leaving, fs_end_doze);
}

int fs_carry_wait_briefly(struct fs_connection *connection, int descriptor, int what, uint64_t deadline_ns,
                          const _Atomic int *leaving)
{
    return wait_in_memory(connection, descriptor, what, deadline_ns, leaving, fs_end_wait_briefly);
}

/* ---- the sleep that may last ---- */

/* Between two carriers: whether a receive gets further without a byte on TCP. */
static int can_go_on(const struct fs_record *record, const struct fs_end *end)
{
    const struct fs_switch_words *words = fs_words_in(end);
    uint32_t carried_out = atomic_load(&record->rseq);
    if (atomic_load(&words->seq) == carried_out) return 0;
    if ((carried_out & 1) != 0) return fs_end_has_data(end);
    return fs_distance(fs_moved(&record->received), atomic_load(&words->x)) <= 0;
}

/* The same for who watches edges.  The kernel tells of what comes on TCP.  Of a ring whose bytes lie behind unread ones on
 * TCP nobody tells: -EBUSY. */
static int has_edge(const struct fs_record *record, const struct fs_end *end, const struct fs_edge *edge)
{
    uint32_t carried_out = atomic_load(&record->rseq);
    if (atomic_load(&fs_words_in(end)->seq) == carried_out) return 0;
    if (fs_edge_has_news(edge, record, end)) return 1;
    return (carried_out & 1) != 0 ? 0 : -EBUSY;
}

/* With the reader's lock.  1: there is something to read; 0: the descriptor will show it; -EBUSY: of an edge. */
static int settle(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor,
                  int by_bit, const struct fs_edge *edge)
{
    for (int i = 0; i < MOST_CHANGES; i++) {
        fs_switch_catch_up(connection, end, descriptor);
        if (!fs_switch_reads_ring(record, end))
            return edge == NULL ? can_go_on(record, end) : has_edge(record, end, edge);
        int moved = fs_tokens_settle_poller(connection, end, descriptor, by_bit, edge);
        if (moved == 0) return 0;
        if (moved < 0 || fs_edge_has_news(edge, record, end)) return 1;
    }
    return 1;
}

/* Before a sleep until there is something to read.  1: there is; 0: the descriptor will show it; -EBUSY. */
static int prepare_reader(struct fs_connection *connection, int descriptor, struct fs_record *record,
                          uint64_t patience_ns, int by_bit, const struct fs_edge *edge)
{
    int result = fs_lock(&record->receiver, patience_ns);
    if (result != 0) return result;
    struct fs_end *end = connection->end;
    result = 0;
    if (end != NULL && fs_table_is(connection, descriptor, record) && !fs_record_is_plain(record)) {
        fs_switch_mend_reader(record, descriptor);
        /* who hears by a bit sleeps on whatever file the number is */
        if (!by_bit && !fs_identity_holds(connection, descriptor)) result = -EBADF;
        else if (fs_traffic_inside(atomic_load(&record->received)) != 0) result = -EBUSY;
        else if (fs_connection_is_joined(end)) result = settle(connection, record, end, descriptor, by_bit, edge);
    }
    fs_unlock(&record->receiver);
    return result;
}

/* Before a sleep until there is room.  1: there is; 0: the kernel's word counts: a full ring was spilled; -EBADF. */
static int prepare_writer(struct fs_connection *connection, int descriptor, struct fs_record *record)
{
    if (!atomic_load(&record->out_ring)) return 0;
    int result = fs_lock(&record->sender, LOCK_PATIENCE_NS);
    if (result != 0) return result;
    struct fs_end *end = connection->end;
    result = 1;
    if (end != NULL && fs_table_is(connection, descriptor, record) && atomic_load(&record->out_ring)) {
        fs_switch_mend(record, end, descriptor);
        end->room_wanted = 0; /* it waited for long: now what there is must do */
        if (!fs_identity_holds(connection, descriptor)) result = -EBADF;
        else if (fs_ring_space(&end->out, 1) == 0 && !fs_ring_grow(&end->out))
            result = fs_switch_to_tcp(connection, end, descriptor) ? 0 : -EBUSY;
    }
    fs_unlock(&record->sender);
    return result;
}

static int sleep_on(int descriptor, int what, uint64_t left, uint64_t slice, const _Atomic int *leaving)
{
    struct pollfd list[2] = {{descriptor, what == FS_READABLE ? POLLIN | POLLRDHUP : POLLOUT, 0},
                             {fs_leaving_descriptor(), POLLIN, 0}};
    int sliced = left > slice;
    if (sliced) left = slice;
    struct timespec limit = {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)};
    if (atomic_load(leaving)) return -EBADF;
    int count = fs_poll_on(list, 2, left == UINT64_MAX ? NULL : &limit);
    if (count < 0) return -errno;
    if (count == 0) return sliced ? 0 : -ETIMEDOUT;
    if (list[1].revents && !list[0].revents) sched_yield(); /* somebody else leaves: until that is done */
    return 0;
}

/* What looks ready may be a lie of the other end, told again and again; or another thread of this process reads first. */
static int heed_feints(const struct fs_record *record, struct fs_end *end, int what, uint64_t began,
                       uint64_t deadline_ns, int result)
{
    if (end == NULL) return result;
    uint64_t moved = what == FS_READABLE ? end->statistics.bytes_received + fs_moved(&record->received)
                                         : end->statistics.bytes_sent + fs_moved(&record->sent);
    return fs_end_heed_feints(end, what, moved, began, deadline_ns, result);
}

int fs_carry_wait_long(struct fs_connection *connection, int descriptor, int what, uint64_t deadline_ns,
                       const _Atomic int *leaving)
{
    uint64_t began = fs_ticks(), left = until(deadline_ns);
    if (atomic_load(leaving)) return -EBADF;
    if (left == 0) return -ETIMEDOUT;
    if (!fs_connection_enter(connection, descriptor)) return -EBADF;
    struct fs_record *record = connection->record;
    if (what == FS_READABLE) atomic_fetch_add(&record->listeners, 1);
    int ready = what == FS_WRITABLE ? prepare_writer(connection, descriptor, record)
                                    : prepare_reader(connection, descriptor, record, LOCK_PATIENCE_NS, 0, NULL);
    struct fs_end *end = connection->end;
    int result = 0;
    if (ready == 0) {
        result = sleep_on(descriptor, what, left, what == FS_WRITABLE ? WRITER_SLICE_NS : UINT64_MAX, leaving);
    } else if (ready == -EBADF) {
        result = ready;
    } else if (ready < 0) { /* who is within the kernel, or stopped with the lock, is not waited for by its lock */
        struct timespec nap = {0, (long)(left < READER_SLICE_NS ? left : READER_SLICE_NS) / 10};
        result = nanosleep(&nap, NULL) != 0 ? -errno : 0;
    }
    if (what == FS_READABLE) atomic_fetch_sub(&record->listeners, 1);
    if (end != NULL && what == FS_READABLE && result == 0) end->looked_at = 0;
    result = heed_feints(record, end, what, began, deadline_ns, result);
    fs_connection_exit(connection);
    return result;
}

int fs_carry_wait_behind(struct fs_connection *connection, int descriptor)
{
    struct pollfd list[2] = {{descriptor, POLLRDHUP, 0}, {fs_leaving_descriptor(), POLLIN, 0}};
    const struct timespec slice = {0, BEHIND_NS};
    if (!fs_identity_check(descriptor) || fs_table_find(descriptor) != connection) return -EBADF;
    int count = fs_poll_on(list, 2, &slice);
    return count < 0 ? -errno : list[0].revents != 0;
}

int fs_carry_settle_edge(struct fs_connection *connection, int descriptor, int flags, const struct fs_edge *edge)
{
    if (!fs_connection_enter(connection, descriptor)) return 1;
    struct fs_record *record = connection->record;
    if (!(flags & (FS_BY_BIT | FS_COUNTED)) && !atomic_load_explicit(&record->uncounted, memory_order_relaxed))
        atomic_store(&record->uncounted, 1);
    int ready = fs_record_is_plain(record)
                    ? 0
                    : prepare_reader(connection, descriptor, record, flags & FS_AT_ONCE ? 0 : LOCK_PATIENCE_NS,
                                     (flags & FS_BY_BIT) != 0, edge);
    fs_connection_exit(connection);
    return ready == -EBADF ? 0 : ready; /* what the kernel says of another file is right */
}

int fs_carry_settle(struct fs_connection *connection, int descriptor, int flags)
{
    return fs_carry_settle_edge(connection, descriptor, flags, NULL);
}

struct fs_end *fs_carry_hold(struct fs_connection *connection, int descriptor, struct fs_record **record)
{
    if (!fs_connection_enter(connection, descriptor)) return NULL;
    struct fs_end *end = connection->end;
    *record = connection->record;
    end = end != NULL && fs_record_state(*record) == FS_ATTACHED ? fs_end_hold(end) : NULL;
    fs_connection_exit(connection);
    return end;
}

void fs_carry_listen(struct fs_connection *connection, int descriptor, int change)
{
    if (!fs_connection_enter(connection, descriptor)) return;
    atomic_fetch_add(&connection->record->listeners, (uint32_t)change);
    fs_connection_exit(connection);
}
