/* Both ends of a live TCP connection get the same memory: one offers it, the other one joins.
 *
 * Nothing here waits, and nothing is decided by time.  How the memory travels is the caller's matter: names.c, or a test.
 * Whoever calls this has seen that nobody else moves bytes on the socket (counters.h).  Nothing comes of it while two
 * threads of this end are within recv(), or several processes hold this end: -EAGAIN.
 */
#ifndef FASTSOCK_ATTACH_H
#define FASTSOCK_ATTACH_H

#include "connection.h"

/* Before the memory is passed on.  From then on the other end may act on it.  0; -EAGAIN: not now; -EINVAL: this
 * connection is no candidate, or it has options that only TCP can serve. */
int fs_attach_offer(struct fs_connection *connection, int descriptor, struct fs_segment *segment,
                    const struct fs_limits *limits);
/* 1: the other end will never join, and the connection is a candidate again.  0: it has joined.  -EAGAIN: not now. */
int fs_attach_withdraw(struct fs_connection *connection, int descriptor);
/* Of the other end, with the memory that was passed.  0: attached.  -EAGAIN: not now; -ECONNREFUSED: withdrawn meanwhile;
 * -EINVAL as above; -EPROTO: such memory nobody has offered. */
int fs_attach_join(struct fs_connection *connection, int descriptor, struct fs_segment *segment,
                   const struct fs_limits *limits);
/* Of the end that offered: 1 once it is attached, 0 while the other end has not joined, -EAGAIN: not now.  carry.c calls
 * it in each call while an offer is open, so nobody else need. */
int fs_attach_progress(struct fs_connection *connection, int descriptor);
extern _Atomic int fs_attached_ever; /* a connection of this process had memory, or of its parents */
/* The other process as the kernel tells it, once that is known: only then is memory copied past the ring. */
void fs_attach_peer(struct fs_connection *connection, int process);

#endif
