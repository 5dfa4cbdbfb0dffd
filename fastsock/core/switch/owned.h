/* A connection whose ring has one owner: a link of the message engine, which moves the bytes by its own means.
 *
 * Both directions go through the ring, for as long as the connection lasts.  TCP carries tokens and tells of the end.  The
 * owner's lock stands for the sender's and the reader's.  It is in the table still, for reports and for forks; but its
 * calls are those of a plain one, which nobody makes: the owner alone knows the number.  A forked child says nothing of it
 * when it closes the number.
 */
#ifndef FASTSOCK_OWNED_H
#define FASTSOCK_OWNED_H

#include "connection.h"

/* Whether both directions go through the ring, and each reader has carried that out. */
int fs_owned_is_possible(struct fs_connection *connection, int descriptor);
/* The caller owns it from now on, as a user of it; its `end` stays where it is.  NULL: it is not possible, or somebody is
 * at work there. */
struct fs_connection *fs_owned_take(int descriptor);
/* Before the number is closed. */
void fs_owned_leave(struct fs_connection *connection, int descriptor);

/* With the owner's lock. */
void fs_owned_send_token(struct fs_connection *connection, struct fs_end *end, int descriptor);
/* What was published, or the room that was made, wakes the other end if it sleeps. */
static inline void fs_owned_wake(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    if (atomic_load(&fs_words_out(end)->tokens) & (FS_TOKEN_WANTED | FS_BIT_WANTED) ||
        atomic_load_explicit(&connection->record->owed, memory_order_relaxed) != 0)
        fs_owned_send_token(connection, end, descriptor);
}
/* Before a sleep on the number.  1: something has come.  0: the number becomes readable when something does, or hangs up. */
int fs_owned_settle(struct fs_connection *connection, struct fs_end *end, int descriptor);

#endif
