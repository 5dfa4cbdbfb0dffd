/* How two hosts meet by rsockets: at the address and port number of TCP, which are a space of their own.
 *
 * As meeting.h has it: the connecting end meets before it sends its SYN, and says from where TCP will come.  Nothing
 * travels with a request for an rsocket, so that is said in the greeting (rsocket_carrier.h).
 */
#ifndef FASTSOCK_REMOTE_RSOCKET_MEETING_H
#define FASTSOCK_REMOTE_RSOCKET_MEETING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "span.h"

/* 0, or why this process cannot use rsockets: as fs_meeting_usable(), or -ELIBBAD: librdmacm is too old. */
int fs_rsocket_usable(void);

struct fs_rsocket_listener;
/* NULL and -errno: as fs_meeting_listen(). */
struct fs_rsocket_listener *fs_rsocket_listen(const struct sockaddr *at, int *error);
void fs_rsocket_unlisten(struct fs_rsocket_listener *listener);

/* As fs_meeting_offer() and fs_meeting_claim(). */
struct fs_span *fs_rsocket_offer(const struct sockaddr *source, const struct sockaddr *target, uint64_t patience_ns,
                                 int *error);
struct fs_span *fs_rsocket_claim(const struct sockaddr *source);

#endif
