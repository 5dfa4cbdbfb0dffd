/* An rsocket as the carrier of one connection: a stream of bytes, as librdmacm makes it of a queue pair.
 *
 * An rsocket cannot say who is at its other end: any program may listen at that port of RDMA.  So each connection
 * begins with a greeting of three words.  The accepting end speaks first: a server that is not ours hears nothing.
 */
#ifndef FASTSOCK_REMOTE_RSOCKET_CARRIER_H
#define FASTSOCK_REMOTE_RSOCKET_CARRIER_H

#include "carrier.h"
#include "key.h"
#include "rsocket_bridge.h"

#define FS_GREETED UINT32_MAX /* else 0: not yet, or the errno of how it ended */

struct fs_rsocket_greeting {
    int connecting;
    uint64_t cookie;           /* of the accepting end */
    uint64_t limit_ns;         /* until when it must have been */
    uint32_t window_bytes;     /* of this end */
    struct fs_key from;        /* the connecting end: of TCP's connection.  The other one: whose it must be, port 0 */
    _Atomic uint32_t *greeted; /* a futex word */
};

/* On a connected rsocket that does not block; it is the carrier's from now on.  NULL and -errno: it is still the
 * caller's. */
struct fs_carrier *fs_rsocket_carrier_make(const struct fs_rsocket_library *library, int number,
                                           const struct fs_rsocket_greeting *greeting, int *error);
/* From where TCP's connection comes, once the connecting end has said so; or NULL: also for other carriers. */
const struct fs_key *fs_rsocket_carrier_from(const struct fs_carrier *carrier);

#endif
