/* Tokens: single bytes on TCP that wake a reader while the payload goes through the ring.  And bits in a loop's page, which
 * do the same for less (ringing.h).
 *
 * The reader asks for one, the sender counts it, clears the wish in the same step and sends it.  While nobody is at work:
 * the reader asks, or at least one token is on its way or lies on TCP.  So what lies in a ring has a token on TCP, also
 * where nobody waits: whoever begins to watch the descriptor sees it.  There are never more than FS_MOST_TOKENS.
 */
#ifndef FASTSOCK_TOKENS_H
#define FASTSOCK_TOKENS_H

#include "connection.h"
#include "edge.h"

extern const struct fs_signals fs_token_signals; /* of an end whose `owner` is the connection */

/* The sender's side, under its lock, while its direction is in the ring. */
void fs_tokens_ring(struct fs_connection *connection, struct fs_end *end, int descriptor); /* if the reader asks */
/* Nobody may be there to send one later: what is unread has a token from now on, however the reader hears. */
void fs_tokens_leave_one(struct fs_connection *connection, struct fs_end *end, int descriptor);
/* 0: an exact watcher would not hear of what is put into the ring now.  With the sender's lock. */
int fs_tokens_can_wake(const struct fs_end *end);

/* Those that TCP refused: they go before any payload.  0, or -EAGAIN. */
int fs_tokens_pay_owed(struct fs_connection *connection, int descriptor);
static inline int fs_tokens_pay(struct fs_connection *connection, int descriptor)
{
    return atomic_load(&connection->record->owed) == 0 ? 0 : fs_tokens_pay_owed(connection, descriptor);
}

/* The last owner of the lock died around a token: the kernel's count says whether TCP has it. */
void fs_tokens_mend(struct fs_record *record, struct fs_end *end, int descriptor);

/* The reader's side, under its lock, while it reads the ring.  All of it: -EPROTO for an impossible count. */
int fs_tokens_on_their_way(const struct fs_connection *connection, const struct fs_end *end);
/* Takes those that were counted by now.  0: all of them, or the end has come; 1: some are still to come. */
int fs_tokens_drain(struct fs_connection *connection, struct fs_end *end, int descriptor);
/* For who sleeps on the descriptor.  1: something has come.  0: the ring is empty, no token lies on TCP, and the next
 * byte brings one. */
int fs_tokens_settle(struct fs_connection *connection, struct fs_end *end, int descriptor);
/* The same behind a receive that took all there was, for an exact watcher: he must not hear of what was read.  So it waits
 * a moment for a token that its sender is about to send. */
int fs_tokens_settle_behind(struct fs_connection *connection, struct fs_end *end, int descriptor);
/* The same for a poller.  by_bit: for a loop that hears by its bit, and watches the descriptor too.  Its place stands in the
 * segment.  edge: of who watches edges: what he was told of may be unread still, and then keeps its tokens. */
int fs_tokens_settle_poller(struct fs_connection *connection, struct fs_end *end, int descriptor, int by_bit,
                            const struct fs_edge *edge);
/* With bytes unread in the ring, for an exact watcher: one token stays, and the next byte brings another one. */
int fs_tokens_keep_one(struct fs_connection *connection, struct fs_end *end, int descriptor);

/* No more are sent, and those that were are taken: 0.  -EAGAIN: one that is counted did not come in time.  Nothing of the
 * ring may be unread. */
int fs_tokens_end(struct fs_connection *connection, struct fs_end *end, int descriptor);
void fs_tokens_begin_again(struct fs_end *end, int left); /* after that, with so many on their way */

/* One recv() under the reader's lock that never sleeps.  What it took is counted before anybody else comes.  The count,
 * 0 at the end, or -errno; an error but -EAGAIN is kept for the program as the record's `pending_error`.  -EBADF: the number
 * is another file's by now. */
ssize_t fs_take_off_tcp(struct fs_connection *connection, int descriptor, void *target, size_t length,
                        int kernel_flags);

/* The last owner of the lock died around such a call: the kernel's count says what it took. */
void fs_take_mend(struct fs_record *record, int descriptor);

#endif
