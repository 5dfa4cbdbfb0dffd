/* A thread that accepts rsockets.
 *
 * Nothing tells that raccept() has one: rpoll() watches the listener's descriptor, whose events a thread of the library
 * takes away, and then looks again seconds later.  So this thread is woken by the same descriptor, and asks again and
 * again for a short time.  In raccept(), or in rclose() of a listener, it may have to wait as long as the library's thread
 * waits for another host.  That is why it is a thread of its own.
 */
#ifndef FASTSOCK_REMOTE_RSOCKET_ACCEPTING_H
#define FASTSOCK_REMOTE_RSOCKET_ACCEPTING_H

#include "verbs/rsocket_library.h"

struct fs_rsocket_listener;

/* On an rsocket that listens and does not block; it is the listener's from now on.  `accepted` gets every new rsocket.
 * NULL and -errno: it is still the caller's. */
struct fs_rsocket_listener *fs_rsocket_accept_on(const struct fs_rsocket_library *library, int number,
                                                 void (*accepted)(int number), int *error);
/* Waits until nobody listens any more, for a second at most. */
void fs_rsocket_accept_no_more(struct fs_rsocket_listener *listener);

#endif
