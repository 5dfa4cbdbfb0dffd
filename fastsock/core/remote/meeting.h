/* How two hosts with RDMA find each other: by the connection manager, at the address and port number of TCP.
 *
 * RDMA's ports are a space of their own, so TCP carries nothing of it.  The connecting end meets before it sends its
 * SYN.  Its private data names the address and port from which TCP will come, so the accepting end finds the span that
 * belongs to a connection that it has accepted.  Until the program has called accept(), either end may stay on TCP.
 */
#ifndef FASTSOCK_REMOTE_MEETING_H
#define FASTSOCK_REMOTE_MEETING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "span.h"

/* 0, or why this process cannot use RDMA: -ENODEV no device, -ENOSYS built without the headers, -ENOENT a library is
 * not there, -EPERM it was forked from one that used RDMA, -ENOTSUP the kernel
 * is older than 5.12. */
int fs_meeting_usable(void);
/* Whether connections made from now on go on over TCP where the carrier breaks.  Both ends must say so. */
void fs_meeting_resume(int resumes);
/* Whether this end's large data is read by the other end's device, on connections made from now on.  Else this end's
 * device writes it.  Each end chooses for what it sends. */
void fs_meeting_rendezvous(int offers);

struct fs_meeting_listener;
/* NULL and -errno: -EADDRINUSE somebody listens there, -ENODEV no device has that address, -EOPNOTSUPP iWARP. */
struct fs_meeting_listener *fs_meeting_listen(const struct sockaddr *at, int *error);
void fs_meeting_unlisten(struct fs_meeting_listener *listener);

/* The connecting end.  `source`: from where TCP will come.  A held span, or NULL and -errno: -ENODEV no device leads
 * there, -ECONNREFUSED nobody listens with RDMA, -ETIMEDOUT, -EPROTO another version, -ENOMEM (also RLIMIT_MEMLOCK). */
struct fs_span *fs_meeting_offer(const struct sockaddr *source, const struct sockaddr *target, uint64_t patience_ns,
                                 int *error);
/* The accepting end.  `source`: from where TCP came.  A held span that is open now, or NULL: there is none. */
struct fs_span *fs_meeting_claim(const struct sockaddr *source);
/* The connecting end does not wait any longer.  The state that both ends agree on: FS_SPAN_OPEN, _WITHDRAWN, _BROKEN. */
uint32_t fs_meeting_withdraw(struct fs_span *span, uint64_t patience_ns);

#endif
