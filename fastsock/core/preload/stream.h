/* A call on a stream of the table as the kernel would make it: it waits where the socket blocks, as long as SO_RCVTIMEO and
 * SO_SNDTIMEO say, and a signal ends it or does not, by its handler's SA_RESTART.  Counts, or -errno.  -ENOTSOCK: the
 * number is another file's by now, and not in the table any more. */
#ifndef FASTSOCK_PRELOAD_STREAM_H
#define FASTSOCK_PRELOAD_STREAM_H

#include <errno.h>
#include <sys/socket.h>

#include "parts.h"
#include "switch/table.h"

ssize_t fs_stream_send(struct fs_connection *connection, int descriptor, struct fs_parts *parts, int flags);
ssize_t fs_stream_send_list(struct fs_connection *connection, int descriptor, const struct iovec *list, size_t count,
                            int flags);
ssize_t fs_stream_receive(struct fs_connection *connection, int descriptor, void *target, size_t length, int flags);

/* recvmsg(): by the kernel's call where TCP carries, with all that it tells; else the bytes alone. */
ssize_t fs_stream_receive_message(struct fs_connection *connection, int descriptor, struct msghdr *message, int flags);

/* Whether the socket itself says that calls do not wait. */
int fs_stream_never_waits(int descriptor);

/* Foreign code has the number from now on: TCP carries, for good.  0, or -errno after a bounded time. */
int fs_stream_give_up(struct fs_connection *connection, int descriptor);

/* As a call of the C library answers. */
/* What programs give by mistake: NULL and -1, or a little beside.  Other addresses without memory nobody can tell cheaply. */
static inline int fs_is_nowhere(const void *address)
{
    return (uintptr_t)address < 4096 || (uintptr_t)address >= (uintptr_t)-4096;
}

static inline ssize_t fs_answer(ssize_t result, int error_before)
{
    errno = result < 0 ? (int)-result : error_before;
    return result < 0 ? -1 : result;
}

#endif
