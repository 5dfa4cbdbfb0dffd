/* Who answers for a program that makes no call: a thread of its process.
 *
 * An end whose descriptor other code takes asks that its unread bytes be sent again over TCP (leave.c).  The words of the
 * direction name the processes that have put bytes into the ring.  Each has a datagram socket of that name, and a thread
 * that sleeps on it: it costs nothing until somebody asks.  A futex would have to lie in memory that all ends of a process
 * share with all their other ends, and there is none; a descriptor passed at the attach would be one more for each
 * connection.  The thread has no signals and no interpreter's lock.
 */
#ifndef FASTSOCK_ANSWERING_H
#define FASTSOCK_ANSWERING_H

#include "connection.h"

/* With the sender's lock, before the first byte is put into the ring: what is unread there has somebody who answers.
 * Where no thread can be started, nobody does. */
void fs_answering_begin(struct fs_connection *connection, struct fs_end *end);
static inline void fs_answering_be_known(struct fs_connection *connection, struct fs_end *end)
{
    if (atomic_load_explicit(&connection->answers_as, memory_order_relaxed) != fs_generation())
        fs_answering_begin(connection, end);
}

/* Wakes those who answer for the other end: a wish of `release`, or a token that is wanted while bytes are unread in the
 * ring.  How many there are. */
int fs_answering_wake(struct fs_end *end);

/* Ends the thread for the time of a fork, which a program must be able to do with one thread alone.  Who asks meanwhile
 * waits.  Each is without effect where there is nothing to do. */
void fs_answering_rest(void);
void fs_answering_go_on(void);

#endif
