/* What the kernel counts of a TCP connection: exact, and nobody's word.
 *
 * A connection may change its carrier only where fastsock knows of every byte.  The kernel's counters are compared with
 * fastsock's own, so they tell whether other code has sent or received on the socket.
 */
#ifndef FASTSOCK_COUNTERS_H
#define FASTSOCK_COUNTERS_H

#include <stdint.h>

enum { FS_OPENED_UNKNOWN = 0, FS_OPENED_HERE = 1, FS_OPENED_THERE = 2 };

struct fs_counters {
    uint64_t sent;         /* by calls on this socket, whether it has left or not */
    uint64_t consumed;     /* by calls on this socket */
    uint64_t received;     /* consumed, or still to be */
    uint64_t acknowledged; /* of `sent`, what has reached the other end: at least so much */
    int opened;            /* which end called connect(): FS_OPENED_... */
};

/* 0.  -ENOTCONN: the connection is not established, or an end has shut down a direction.  -EAGAIN: it is not established yet,
 * or bytes came in at every try.  -EOPNOTSUPP: the kernel does not count all of this (before Linux 4.19), or this is no TCP socket.
 * An urgent byte that was not read inline counts in `received` and, once it is passed, in `consumed`.  While one is still
 * ahead, the kernel tells too few unread bytes, so `consumed` is too large: such a socket does not look untouched. */
int fs_counters_read(int descriptor, struct fs_counters *counters);

/* Whether one TCP connection can have these two ends.  `before`: of one end, read before `now` was read of the other.
 * What has arrived at an end was sent by the other one. */
static inline int fs_counters_agree(const struct fs_counters *before, const struct fs_counters *now)
{
    return before->received <= now->sent && before->acknowledged <= now->received;
}

#endif
