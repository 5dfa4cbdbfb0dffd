#define _GNU_SOURCE
#include "owned.h"

#include <sys/socket.h>

#include "closed.h"
#include "identity.h"
#include "leave.h"
#include "switch.h"
#include "table.h"
#include "tokens.h"

#define LOCK_PATIENCE_NS 50000000ull

static int is_carried_out(uint32_t seq, uint32_t rseq) { return (seq & 1) != 0 && seq == rseq; }

static int is_by_ring(const struct fs_record *record, const struct fs_end *end)
{
    return fs_record_state(record) == FS_ATTACHED && fs_connection_is_joined(end) &&
           is_carried_out(atomic_load(&record->out_seq), atomic_load(&fs_words_out(end)->rseq)) &&
           is_carried_out(atomic_load(&fs_words_in(end)->seq), atomic_load(&record->rseq)) &&
           fs_traffic_inside(atomic_load(&record->received)) == 0;
}

int fs_owned_is_possible(struct fs_connection *connection, int descriptor)
{
    if (!fs_connection_enter(connection, descriptor)) return 0;
    const struct fs_end *end = connection->end;
    int possible = end != NULL && is_by_ring(connection->record, end);
    fs_connection_exit(connection);
    return possible;
}

/* With both locks.  Nobody asks the kernel for the socket's name any more: its number is the owner's alone. */
static int take(struct fs_connection *connection, int descriptor)
{
    struct fs_record *record = connection->record;
    struct fs_end *end = connection->end;
    if (!fs_table_is(connection, descriptor, record) || end == NULL) return 0;
    fs_switch_mend(record, end, descriptor);
    fs_switch_mend_reader(record, descriptor);
    if (!is_by_ring(record, end)) return 0;
    atomic_store(&record->watched, 0);
    atomic_store(&end->in.shared->watched, FS_WATCHED_NOT);
    fs_identity_forget(connection);
    atomic_store(&record->state, FS_OWNED);
    return 1;
}

struct fs_connection *fs_owned_take(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || !fs_identity_check(descriptor) || !fs_connection_enter(connection, descriptor))
        return NULL;
    struct fs_record *record = connection->record;
    int sends = fs_lock(&record->sender, LOCK_PATIENCE_NS) == 0,
        reads = sends && fs_lock(&record->receiver, LOCK_PATIENCE_NS) == 0,
        taken = reads && take(connection, descriptor);
    if (reads) fs_unlock(&record->receiver);
    if (sends) fs_unlock(&record->sender);
    if (!taken) fs_connection_exit(connection);
    return taken ? connection : NULL;
}

void fs_owned_leave(struct fs_connection *connection, int descriptor)
{
    char drop[FS_MOST_TOKENS];
    if (recv(descriptor, drop, sizeof drop, MSG_DONTWAIT) >= 0) {} /* else the close is a reset */
    fs_closed_note(descriptor);
    fs_leave_descriptor(descriptor);
    fs_connection_exit(connection);
}

void fs_owned_send_token(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    if (fs_tokens_pay(connection, descriptor) == 0) fs_tokens_ring(connection, end, descriptor);
}

/* Whoever counts tokens that cannot be ends its own connection. */
int fs_owned_settle(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    fs_tokens_pay(connection, descriptor);
    int moved = fs_tokens_settle(connection, end, descriptor);
    if (moved < 0) shutdown(descriptor, SHUT_RDWR);
    return moved > 0;
}
