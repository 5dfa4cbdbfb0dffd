/* Waiting until a call of carry.h is worth another try.  `what`: FS_READABLE or FS_WRITABLE; `leaving`, `deadline_ns` and
 * the answers as of fs_end_wait() in stream/end.h.  No lock is held meanwhile. */
#ifndef FASTSOCK_SWITCH_WAITING_H
#define FASTSOCK_SWITCH_WAITING_H

#include "connection.h"
#include "edge.h"
#include "stream/end.h"

int fs_carry_look(struct fs_connection *connection, int descriptor, int what); /* with the interpreter's lock: 1 or 0 */
/* As fs_end_wait_awake(): what bounds a wait need not be known for it. */
int fs_carry_wait_awake(struct fs_connection *connection, int descriptor, int what);
/* Behind it: the futex (FS_IN_VAIN: now the long one). */
int fs_carry_doze(struct fs_connection *connection, int descriptor, int what, uint64_t deadline_ns,
                  const _Atomic int *leaving);
/* First spin and futex (FS_IN_VAIN: now the other one), then the sleep that may last. */
int fs_carry_wait_briefly(struct fs_connection *connection, int descriptor, int what, uint64_t deadline_ns,
                          const _Atomic int *leaving);
int fs_carry_wait_long(struct fs_connection *connection, int descriptor, int what, uint64_t deadline_ns,
                       const _Atomic int *leaving);

/* Between two peeks, for who wants to see more than there is: nothing tells of bytes behind unread ones.  Sleeps a moment.
 * 1: the other end sends no more; 0; or -errno. */
int fs_carry_wait_behind(struct fs_connection *connection, int descriptor);

/* Called before a loop that fastsock sees blocks in the kernel on the number: 1: there is something to read, or the end.
 * 0: the number becomes readable when there is.  -EBUSY: with FS_AT_ONCE, somebody is at work there: look again.
 * Room for writing is what the kernel says of the number, always: a full ring is spilled to TCP. */
int fs_carry_settle(struct fs_connection *connection, int descriptor, int flags);
/* The same for who watches edges (NULL: he does not): 1: there are news.  -EBUSY: also where only a look will tell of what
 * comes next: he looks again soon. */
int fs_carry_settle_edge(struct fs_connection *connection, int descriptor, int flags, const struct fs_edge *edge);
/* Of `flags`, too.  BY_BIT: the caller is the loop that has joined the connection (loop.h).  COUNTED: it said by
 * fs_carry_listen() that it sleeps on the number.  Where somebody does who has not said so, tokens come for good. */
enum { FS_BY_BIT = 64, FS_COUNTED = 128 };
/* Before the first such sleep of a poller: 1; when it watches the number no more: -1. */
void fs_carry_listen(struct fs_connection *connection, int descriptor, int change);

/* For who looks at many connections by turns.  The end of one that is attached, until fs_end_free(); NULL: it is not. */
struct fs_end *fs_carry_hold(struct fs_connection *connection, int descriptor, struct fs_record **record);
/* Whether the ring carries what comes next, as far as this end has carried out.  Else TCP does, or tells of the end. */
static inline int fs_carry_is_by_ring(const struct fs_record *record, const struct fs_end *end)
{
    uint32_t carried_out = atomic_load_explicit(&record->rseq, memory_order_relaxed);
    return (carried_out & 1) != 0 && atomic_load(&fs_words_in(end)->seq) == carried_out && !fs_end_other_left(end);
}

#endif
