/* Leaving: shutdown, close, and the way out. */
#ifndef FASTSOCK_LEAVE_H
#define FASTSOCK_LEAVE_H

#include "connection.h"

/* As shutdown(2).  Instead of it: the kernel's is called within. */
int fs_leave_shutdown(struct fs_connection *connection, int descriptor, int how);

/* Before close(), and before dup2() to that number: says what must be said, and takes the number out of the table.  The
 * kernel's close() comes next, by the caller.  Numbers that are not in the table are left alone. */
void fs_leave_descriptor(int descriptor);
/* The same.  What other threads begin on the number meanwhile fails by EBADF, and does not go past the memory: the number
 * means a file that is good for nothing, until the caller closes it, or has another file take its place. */
void fs_leave_number(int descriptor);
void fs_leave_range(unsigned first, unsigned last); /* before close_range() */
void fs_leave_all(void);                            /* at the program's end: no token stays behind */

/* The way out: foreign code takes the number.  0: TCP carries both directions from now on, nothing lies anywhere else, and
 * this end of the connection is plain for good.  -EAGAIN: unread bytes are in the way, and the other end did not send them
 * again in time.  Waits for that, a bounded time; so no interpreter's lock may be held. */
int fs_leave_release(struct fs_connection *connection, int descriptor);

#endif
