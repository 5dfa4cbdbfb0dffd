/* rlisten() and rconnect() in a thread of their own.
 *
 * While the library's thread accepts, it waits until the other host has finished the handshake.  One that died in between
 * is given up after a minute, one that only stopped may be waited for longer.  So long rlisten(), rconnect() and rclose()
 * wait too, with one lock of the process.
 *
 * A signal that interrupts them there is taken for the thread's answer (read_all() in rsocket.c): the rsocket fails, and
 * the thread goes on with it after it was freed.  A thread of fs_start_thread() gets no signals.
 */
#ifndef FASTSOCK_REMOTE_RSOCKET_APART_H
#define FASTSOCK_REMOTE_RSOCKET_APART_H

#include <stdint.h>

#include "verbs/rsocket_library.h"

/* Listens on an rsocket that is bound.  0, or -errno; the rsocket is then closed, or will be.  -EBUSY: nobody knows how
 * it ends. */
int fs_rsocket_listen_apart(const struct fs_rsocket_library *library, int number, int backlog, uint64_t limit_ns);
/* Begins to connect an rsocket that does not block.  As above. */
int fs_rsocket_connect_apart(const struct fs_rsocket_library *library, int number, const struct sockaddr *target,
                             socklen_t length, uint64_t limit_ns);

#endif
