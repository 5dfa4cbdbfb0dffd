#include "kernel.h"

#include <errno.h>

void (*_Atomic fs_candidate_step)(struct fs_connection *, int);

/* Of `moved` bytes from `before` on, those that are payload: the others lie beyond X. */
static ssize_t payload_in(const struct fs_record *record, const struct fs_end *end, uint64_t before, ssize_t moved)
{
    if (!fs_connection_is_joined(end)) return moved;
    const struct fs_switch_words *words = fs_words_in(end);
    if (atomic_load(&words->seq) == atomic_load(&record->rseq)) return moved;
    int64_t left = fs_distance(before, atomic_load(&words->x));
    return left <= 0 ? 0 : left < moved ? (ssize_t)left : moved;
}

/* Memory was offered or joined while this thread was within.  It counts as the owner of the reader's lock. */
static ssize_t leave_as_owner(struct fs_connection *connection, struct fs_record *record, ssize_t moved, int peeked,
                              uint64_t *bytes)
{
    struct fs_end *end = connection->end;
    ssize_t payload = end == NULL ? moved : payload_in(record, end, fs_moved(&record->received), moved);
    *bytes = fs_kernel_leave(&record->received, peeked ? 0 : moved);
    if (!peeked) atomic_fetch_add_explicit(&record->extra_in, (uint64_t)(moved - payload), memory_order_relaxed);
    if (end != NULL) atomic_store(&fs_words_in(end)->rx_in, 0);
    return payload;
}

ssize_t fs_kernel_leave_offered(struct fs_connection *connection, int descriptor, struct fs_record *record,
                                ssize_t moved, int peeked, uint64_t *bytes)
{
    if (!fs_connection_enter(connection, descriptor)) {
        *bytes = fs_kernel_leave(&record->received, peeked ? 0 : moved);
        return -EBADF; /* closed meanwhile: what is payload in that nobody can tell */
    }
    /* at the end, too: what the ring holds comes before */
    ssize_t payload = leave_as_owner(connection, record, moved < 0 ? 0 : moved, peeked, bytes);
    fs_connection_exit(connection);
    if (moved < 0) return moved;
    return payload > 0 ? payload : -EAGAIN;
}
