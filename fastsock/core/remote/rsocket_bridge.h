/* rsockets in the agent's thread, where it waits: their descriptors tell poll() and epoll nothing of their bytes, only
 * rpoll() does.
 *
 * rpoll() is as it is in librdmacm, so:
 *  - No other thread calls it to wait, and it gets no time to wait for: a timer among its descriptors ends it.  A call
 *    that runs out of its own time never leaves the count of those who wait (versions before 63).  After that no call
 *    waits any more, and no ordinary descriptor is looked at again.
 *  - Nobody waits by it for a connection to come or to be made: a thread of the library takes those events away, and
 *    then rpoll() looks again seconds later.
 */
#ifndef FASTSOCK_REMOTE_RSOCKET_BRIDGE_H
#define FASTSOCK_REMOTE_RSOCKET_BRIDGE_H

#include "verbs/rsocket_library.h"

struct fs_rsocket_polled {
    int number;
    short events;     /* of poll(); 0: it is not looked at */
    int is_unsettled; /* it is asked again and again */
    struct fs_rsocket_polled *next;
};

/* The agent's thread waits by rpoll() from now on.  0 or -errno. */
int fs_rsocket_bridge_start(const struct fs_rsocket_library *library);
void fs_rsocket_bridge_add(struct fs_rsocket_polled *polled);
void fs_rsocket_bridge_remove(struct fs_rsocket_polled *polled); /* by the agent's thread, once it waits by it */
/* rclose() waits until the other host has everything, however long that takes: in a thread of its own. */
void fs_rsocket_close(const struct fs_rsocket_library *library, int number);

#endif
