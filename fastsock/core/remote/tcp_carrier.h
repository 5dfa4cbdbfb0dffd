/* A TCP connection as the carrier: where a connection goes on after its queue pair broke. */
#ifndef FASTSOCK_REMOTE_TCP_CARRIER_H
#define FASTSOCK_REMOTE_TCP_CARRIER_H

#include "carrier.h"

/* `tcp` stays the caller's, and open until the carrier is closed.  `window_bytes`: of the other end, as the carrier
 * before knew it.  NULL and -errno. */
struct fs_carrier *fs_tcp_carrier_make(int tcp, uint64_t window_bytes, int *error);

#endif
