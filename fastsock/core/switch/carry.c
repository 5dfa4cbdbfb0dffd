#define _GNU_SOURCE
#include "carry.h"

#include <sys/ioctl.h>

#include "answering.h"
#include "identity.h"
#include "switch.h"
#include "tokens.h"

#define SHOW_PATIENCE_NS 1000000000ull /* a large block may be copied under the lock; else its owner is stopped */

/* What lies on TCP is tokens up to a byte, and payload behind it; or payload up to X, and tokens behind it. */
static ssize_t unread_of(const struct fs_connection *connection, const struct fs_end *end, int there)
{
    const struct fs_record *record = connection->record;
    const struct fs_switch_words *words = fs_words_in(end);
    if (!fs_connection_is_joined(end)) return there;
    uint32_t seq = atomic_load(&words->seq), carried_out = atomic_load(&record->rseq);
    ssize_t ring = fs_ring_unread(&end->in);
    if (ring < 0 || seq == carried_out) return ring < 0 ? ring : (carried_out & 1) != 0 ? ring : there;
    if ((carried_out & 1) == 0) {
        int64_t left = fs_distance(fs_moved(&record->received), atomic_load(&words->x));
        return there < left ? there : (ssize_t)(left > 0 ? left : 0) + ring;
    }
    int tokens = fs_tokens_on_their_way(connection, end);
    return tokens < 0 ? tokens : ring + (there > tokens ? there - tokens : 0);
}

static int unread_on_tcp(int descriptor)
{
    int there = 0;
    return ioctl(descriptor, FIONREAD, &there) == 0 ? there : 0;
}

/* And is not about to change: what lies on TCP is tokens. */
static int is_read_from_ring(const struct fs_connection *connection, const struct fs_end *end)
{
    uint32_t carried_out = atomic_load(&connection->record->rseq);
    return (carried_out & 1) != 0 && fs_connection_is_joined(end) && atomic_load(&fs_words_in(end)->seq) == carried_out;
}

ssize_t fs_carry_unread(struct fs_connection *connection, int descriptor)
{
    if (!fs_connection_enter(connection, descriptor)) return unread_on_tcp(descriptor);
    struct fs_end *end = connection->end;
    ssize_t unread;
    if (end == NULL || fs_record_is_plain(connection->record)) unread = unread_on_tcp(descriptor);
    else if (is_read_from_ring(connection, end)) unread = fs_ring_unread(&end->in);
    else unread = unread_of(connection, end, unread_on_tcp(descriptor));
    fs_connection_exit(connection);
    return unread;
}

/* With the reader's lock.  1: the other end must be told that a token is wanted. */
static int show(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor)
{
    fs_switch_mend_reader(record, descriptor);
    if (fs_traffic_inside(record->received) != 0 || !fs_table_is(connection, descriptor, record) ||
        fs_record_is_plain(record) || !fs_switch_reads_ring(record, end))
        return 0;
    if (fs_tokens_settle(connection, end, descriptor) <= 0 || !fs_end_has_data(end)) return 0;
    return fs_tokens_keep_one(connection, end, descriptor) == 0 && fs_tokens_on_their_way(connection, end) == 0;
}

void fs_carry_show(struct fs_connection *connection, int descriptor)
{
    if (!fs_identity_check(descriptor) || !fs_connection_enter(connection, descriptor)) return;
    struct fs_record *record = connection->record;
    struct fs_end *end = connection->end;
    int is_wanted = 0;
    if (end != NULL && fs_lock(&record->receiver, SHOW_PATIENCE_NS) == 0) {
        is_wanted = show(connection, record, end, descriptor);
        fs_unlock(&record->receiver);
    }
    if (is_wanted) fs_answering_wake(end);
    fs_connection_exit(connection);
}

void fs_connection_watch(struct fs_connection *connection, int descriptor)
{
    /* a mark without memory concerns nobody, whatever the number is by now */
    if (connection->end != NULL && !fs_identity_check(descriptor)) return;
    if (!fs_connection_enter(connection, descriptor)) return;
    struct fs_record *record = connection->record;
    int was = (int)atomic_exchange(&record->watched, 1); /* before the look at `end`: an attach looks after it */
    struct fs_end *end = connection->end;
    if (end != NULL && !was) {
        atomic_store(&end->in.shared->watched, FS_WATCHED_EXACTLY);
        fs_carry_show(connection, descriptor);
    }
    fs_connection_exit(connection);
}

void fs_connection_unwatch(struct fs_connection *connection, int descriptor)
{
    if (!fs_connection_enter(connection, descriptor)) return;
    struct fs_record *record = connection->record;
    if (fs_holders_is_alone(&record->holders)) {
        atomic_store(&record->watched, 0); /* before the look at `end`, as above */
        struct fs_end *end = connection->end;
        if (end != NULL) atomic_store(&end->in.shared->watched, FS_WATCHED_NOT);
        /* somebody may have begun meanwhile */
        if (end != NULL && atomic_load(&record->watched)) atomic_store(&end->in.shared->watched, FS_WATCHED_EXACTLY);
    }
    fs_connection_exit(connection);
}

void fs_connection_report(struct fs_connection *connection, int descriptor, struct fs_carriers *carriers)
{
    *carriers = (struct fs_carriers){0};
    if (!fs_connection_enter(connection, descriptor)) return;
    const struct fs_record *record = connection->record;
    const struct fs_end *end = connection->end;
    carriers->state = (int)fs_record_state(record);
    carriers->since_ns = atomic_load(&record->since_ns);
    uint64_t extra_in = atomic_load(&record->extra_in), extra_out = atomic_load(&record->extra_out);
    carriers->tcp_in = fs_moved(&record->received) - extra_in; /* which was counted behind it */
    carriers->tcp_out = fs_moved(&record->sent) - extra_out;
    carriers->switches = atomic_load(&record->switches);
    carriers->spills = atomic_load(&record->spills);
    if (end != NULL && (!fs_record_is_plain(record) || fs_record_has_memory(record))) {
        carriers->in_ring = (int)(atomic_load(&record->rseq) & 1);
        carriers->out_ring = (int)(atomic_load(&record->out_seq) & 1);
        carriers->ring_in = atomic_load(&end->statistics.bytes_received);
        carriers->ring_out = atomic_load(&end->statistics.bytes_sent);
        carriers->direct = atomic_load(&end->statistics.bytes_direct);
        carriers->written = atomic_load(&end->statistics.bytes_written);
        carriers->large_in = end->large_in;
        carriers->large_out = end->large_out;
        carriers->waits = atomic_load(&end->statistics.waits);
        carriers->wakes = atomic_load(&end->statistics.wakes);
        carriers->peer = atomic_load(&end->peer);
    }
    fs_connection_exit(connection);
}
