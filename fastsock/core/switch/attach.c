#define _GNU_SOURCE
#include "attach.h"

#include <errno.h>

#include "identity.h"
#include "options.h"
#include "switch.h"
#include "table.h"
#include "tokens.h"

#define WITHDRAWN (sizeof((struct fs_connection *)0)->withdrawn / sizeof(struct fs_end *))

/* ---- both locks, and nobody who forks ---- */

static void let_go(struct fs_record *record)
{
    fs_unlock(&record->receiver);
    fs_unlock(&record->sender);
    fs_table_release();
}

static int hold(struct fs_connection *connection, int descriptor, struct fs_record *record)
{
    fs_table_hold();
    if (fs_lock(&record->sender, 0) == 0) {
        if (fs_lock(&record->receiver, 0) == 0) {
            if (fs_table_is(connection, descriptor, record)) return 0;
            fs_unlock(&record->receiver);
        }
        fs_unlock(&record->sender);
    }
    fs_table_release();
    return -EAGAIN;
}

static int is_free(const struct fs_connection *connection)
{
    for (size_t i = 0; i < WITHDRAWN; i++)
        if (connection->withdrawn[i] == NULL) return 1;
    return 0;
}

/* An end that served for nothing.  Somebody may still look at it. */
static void set_aside(struct fs_connection *connection)
{
    struct fs_end *end = atomic_exchange(&connection->end, NULL);
    for (size_t i = 0; i < WITHDRAWN && end != NULL; i++)
        if (connection->withdrawn[i] == NULL) {
            connection->withdrawn[i] = end;
            return;
        }
}

/* A forked process that holds it, too, would not have the memory. */
static int may_attach(const struct fs_connection *connection, struct fs_record *record)
{
    if (fs_record_state(record) != FS_CANDIDATE || atomic_load(&record->foreign)) return -EINVAL;
    if (!is_free(connection)) return -EXFULL;
    return fs_holders_is_alone(&record->holders) ? 0 : -EAGAIN;
}

static struct fs_end *open_end(struct fs_connection *connection, struct fs_segment *segment, int side,
                               const struct fs_limits *limits)
{
    struct fs_record *record = connection->record;
    if (record == NULL) return NULL;
    struct fs_exclusion locks = {&record->sender, &record->receiver, NULL};
    return fs_end_open_with(segment, side, limits, &locks, &fs_token_signals, connection);
}

/* Of readers from now on only those with the lock come in.  One that is within recv() already counts what he gets as if
 * he had it.  How many are: 0 or 1; -EAGAIN: more, or somebody watches the descriptor who must not miss a token. */
static int shut_readers_out(struct fs_record *record)
{
    atomic_store(&record->state, FS_OFFERED);
    uint32_t within = fs_traffic_inside(atomic_load(&record->received));
    if (within == 0 || (within == 1 && !atomic_load(&record->watched))) return (int)within;
    atomic_store(&record->state, FS_CANDIDATE);
    return -EAGAIN;
}

_Atomic int fs_attached_ever;

/* Others see it from now on. */
static void show(struct fs_connection *connection, struct fs_end *end, int descriptor, int reader_within)
{
    struct fs_record *record = connection->record;
    fs_identity_keep(connection, descriptor);
    atomic_store(&fs_words_in(end)->rx_in, (uint32_t)reader_within);
    atomic_store(&record->rseq, 0);
    atomic_store(&fs_attached_ever, 1);
    atomic_store(&connection->end, end);
    /* behind that: whoever sets a buffer, or begins to watch and marks the record, looks for the end then */
    fs_options_bound_end(end, descriptor);
    if (atomic_load(&record->watched)) atomic_store(&end->in.shared->watched, FS_WATCHED_EXACTLY);
}

static int refused(struct fs_end *end, int error)
{
    fs_end_free(end);
    return error;
}

/* ---- the end that offers ---- */

int fs_attach_offer(struct fs_connection *connection, int descriptor, struct fs_segment *segment,
                    const struct fs_limits *limits)
{
    if (fs_options_permit(descriptor) != 0) return -EINVAL;
    struct fs_end *end = open_end(connection, segment, FS_SIDE_CONNECTED, limits);
    if (end == NULL) return -ENOMEM;
    struct fs_record *record = connection->record;
    int error = hold(connection, descriptor, record);
    if (error != 0) return refused(end, error);
    int within = 0;
    if ((error = may_attach(connection, record)) != 0) within = 0;
    else if (fs_traffic_inside(atomic_load(&record->sent)) != 0) error = -EAGAIN;
    else if ((within = shut_readers_out(record)) < 0) error = within;
    else {
        fs_options_take(record, descriptor); /* from now on a token must wake whoever reads */
        show(connection, end, descriptor, within);
    }
    let_go(record);
    return error == 0 ? 0 : refused(end, error);
}

int fs_attach_withdraw(struct fs_connection *connection, int descriptor)
{
    struct fs_record *record = connection->record;
    if (record == NULL || hold(connection, descriptor, record) != 0) return -EAGAIN;
    struct fs_end *end = connection->end;
    uint32_t open = FS_JOIN_OPEN, state = fs_record_state(record);
    int withdrawn =
        state == FS_OFFERED && atomic_compare_exchange_strong(&end->header->joined, &open, FS_JOIN_DECLINED);
    if (withdrawn) {
        atomic_store(&record->state, FS_CANDIDATE);
        fs_options_give_back(record, descriptor);
        set_aside(connection);
    }
    let_go(record);
    return withdrawn || state < FS_OFFERED;
}

int fs_attach_progress(struct fs_connection *connection, int descriptor)
{
    struct fs_record *record = connection->record;
    if (record == NULL || fs_lock(&record->sender, 0) != 0) return -EAGAIN;
    int result = -EAGAIN;
    struct fs_end *end = connection->end;
    if (!fs_table_is(connection, descriptor, record) || end == NULL) {
        fs_unlock(&record->sender);
        return -EAGAIN;
    }
    uint32_t joined = atomic_load(&end->header->joined); /* once: what is done goes by what was seen */
    if (fs_record_state(record) == FS_ATTACHED) result = 1;
    else if (fs_record_state(record) != FS_OFFERED || joined != FS_JOINED) result = 0;
    else if (atomic_load(&record->out_pinned) || fs_switch_name_byte(record, end, descriptor)) {
        atomic_store(&record->since_ns, fs_now_ns());
        atomic_store(&record->state, FS_ATTACHED);
        result = 1;
    }
    fs_unlock(&record->sender);
    return result;
}

/* ---- the end that joins ---- */

/* All that the other end may act on; then the step that permits it.  With both locks.  1: it failed when others could see
 * the end already. */
static int join(struct fs_connection *connection, struct fs_end *end, int descriptor, int *error)
{
    struct fs_record *record = connection->record;
    uint32_t open = FS_JOIN_OPEN;
    int within = shut_readers_out(record);
    *error = within < 0 ? within : 0;
    if (within < 0) return 0;
    atomic_store(&record->out_seq, 0);
    if (!fs_switch_name_byte(record, end, descriptor)) {
        atomic_store(&record->state, FS_CANDIDATE);
        *error = -EAGAIN;
        return 0;
    }
    fs_options_take(record, descriptor);
    atomic_store(&record->since_ns, fs_now_ns());
    show(connection, end, descriptor, within);
    atomic_store(&record->state, FS_ATTACHED);
    if (atomic_compare_exchange_strong(&end->header->joined, &open, FS_JOINED)) return 0;
    fs_options_give_back(record, descriptor);
    atomic_store(&record->state, FS_CANDIDATE);
    atomic_store(&record->out_seq, 0);
    atomic_store(&record->out_ring, 0);
    *error = open == FS_JOIN_DECLINED ? -ECONNREFUSED : -EPROTO;
    return 1;
}

/* As fresh memory is.  What the other end writes there later is looked at where it is used. */
static int is_fresh(const struct fs_segment *segment)
{
    const struct fs_segment_header *header = segment->header;
    int fresh = 1;
    for (int side = 0; side < 2; side++)
        fresh &= atomic_load(&header->words[side].seq) == 0 && atomic_load(&header->words[side].rseq) == 0 &&
                 atomic_load(&header->direction[side].head) == 0 && atomic_load(&header->direction[side].tail) == 0;
    return fresh;
}

int fs_attach_join(struct fs_connection *connection, int descriptor, struct fs_segment *segment,
                   const struct fs_limits *limits)
{
    if (!is_fresh(segment)) return -EPROTO;
    if (fs_options_permit(descriptor) != 0) return -EINVAL;
    struct fs_end *end = open_end(connection, segment, FS_SIDE_ACCEPTED, limits);
    if (end == NULL) return -ENOMEM;
    struct fs_record *record = connection->record;
    int error = hold(connection, descriptor, record), seen = 0;
    if (error != 0) return refused(end, error);
    error = may_attach(connection, record);
    if (error == 0) seen = join(connection, end, descriptor, &error);
    if (seen) set_aside(connection);
    let_go(record);
    return error == 0 || seen ? error : refused(end, error);
}

void fs_attach_peer(struct fs_connection *connection, int process)
{
    struct fs_end *end = connection->end;
    if (end != NULL) atomic_store(&end->peer, process);
}
