/* Whether a number still is the socket that it was.
 *
 * Code that fastsock does not see may close a number, and the next file gets it.  The calls of a plain connection are
 * then those of that file.  Memory is the first socket's alone.  So the kernel's own name of the socket, which it never
 * gives twice, is kept when memory is added.  To ask for it costs a system call of 0.2 us.  It is asked before anything
 * is sent or taken on the number itself, when an end with nothing to read or to send looks round, when a socket object
 * takes over a number, and at the close.
 */
#ifndef FASTSOCK_IDENTITY_H
#define FASTSOCK_IDENTITY_H

#include "connection.h"

uint64_t fs_identity_of(int descriptor); /* 0: the kernel does not tell */

static inline void fs_identity_keep(struct fs_connection *connection, int descriptor)
{
    atomic_store(&connection->identity, fs_identity_of(descriptor));
}

static inline void fs_identity_forget(struct fs_connection *connection) { atomic_store(&connection->identity, 0); }

/* 1 also where nothing was kept. */
static inline int fs_identity_holds(const struct fs_connection *connection, int descriptor)
{
    uint64_t kept = atomic_load_explicit(&connection->identity, memory_order_relaxed);
    return kept == 0 || fs_identity_of(descriptor) == kept;
}

/* Of a number in the table: whether it is that connection's still.  If not, it leaves the table without a word. */
int fs_identity_check(int descriptor);

/* Of a number that a socket object takes over: whether it is in the table.  It comes there if it is a duplicate, made
 * unseen, of a number whose connection has memory. */
int fs_identity_adopt(int descriptor);

#endif
