/* The kernel's send and receive on a connection whose bytes are counted, without a lock.
 *
 * Whoever is within is marked.  The change to the ring looks at the marks after it has shut the door; a caller looks at
 * the door after it has set its mark.  Then it looks at the table: is this still the connection?
 */
#ifndef FASTSOCK_KERNEL_H
#define FASTSOCK_KERNEL_H

#include "connection.h"
#include "table.h"

/* Called after a plain call, when as many calls or bytes went that way as the record's `next_try` and `next_bytes` say.
 * NULL: nobody looks for other ends.  candidates.c sets it. */
extern void (*_Atomic fs_candidate_step)(struct fs_connection *connection, int descriptor);

enum fs_entry { FS_ENTERED, FS_SHUT_OUT, FS_OTHERS };

/* SHUT_OUT: the ring carries it, or is about to.  OTHERS: the number is not this connection's. */
static inline enum fs_entry fs_kernel_enter_send(struct fs_connection *connection, int descriptor,
                                                 struct fs_record *record)
{
    atomic_fetch_add(&record->sent, 1);
    int shut = atomic_load(&record->out_ring) != 0;
    if (!shut && fs_table_is(connection, descriptor, record)) return FS_ENTERED;
    atomic_fetch_sub(&record->sent, 1);
    return shut ? FS_SHUT_OUT : FS_OTHERS;
}

/* Bytes so far, counted in the same step as the mark goes. */
static inline uint64_t fs_kernel_leave(fs_traffic *traffic, ssize_t moved)
{
    uint64_t change = (moved > 0 ? (uint64_t)moved << FS_TRAFFIC_SHIFT : 0) - 1;
    return fs_traffic_bytes(atomic_fetch_add(traffic, change) + change);
}

/* SHUT_OUT: memory is offered or attached: the reader's lock is needed. */
static inline enum fs_entry fs_kernel_enter_receive(struct fs_connection *connection, int descriptor,
                                                    struct fs_record *record)
{
    atomic_fetch_add(&record->received, 1);
    int shut = atomic_load(&record->state) >= FS_OFFERED;
    if (!shut && fs_table_is(connection, descriptor, record)) return FS_ENTERED;
    atomic_fetch_sub(&record->received, 1);
    return shut ? FS_SHUT_OUT : FS_OTHERS;
}

/* After a call: is it time to look for the other end? */
static inline void fs_candidate_heed(struct fs_connection *connection, int descriptor, struct fs_record *record,
                                     _Atomic uint32_t *calls, uint64_t bytes)
{
    uint32_t count = atomic_load_explicit(calls, memory_order_relaxed) + 1;
    atomic_store_explicit(calls, count, memory_order_relaxed); /* a lost count is only a later try */
    if (count < atomic_load_explicit(&record->next_try, memory_order_relaxed) &&
        bytes < atomic_load_explicit(&record->next_bytes, memory_order_relaxed))
        return;
    void (*step)(struct fs_connection *, int) = atomic_load_explicit(&fs_candidate_step, memory_order_acquire);
    if (step != NULL) step(connection, descriptor);
}

/* Memory was offered or joined while this thread was within. */
ssize_t fs_kernel_leave_offered(struct fs_connection *connection, int descriptor, struct fs_record *record,
                                ssize_t moved, int peeked, uint64_t *bytes);

/* As fs_carry_receive_ended(), for who is within. */
static inline ssize_t fs_kernel_leave_receive(struct fs_connection *connection, int descriptor,
                                              struct fs_record *record, ssize_t moved, int peeked, uint64_t *bytes)
{
    if (atomic_load(&record->state) >= FS_OFFERED)
        return fs_kernel_leave_offered(connection, descriptor, record, moved, peeked, bytes);
    *bytes = fs_kernel_leave(&record->received, peeked ? 0 : moved);
    return moved;
}

#endif
