/* librdmacm's rsockets, opened when a device is there.
 *
 * Versions before 53 are refused.  There raccept() gives every connection to a thread of the library, and that thread
 * goes on in memory that was freed when the fourth one came (cm_svc_run() in rsocket.c): it hears nothing any more, so
 * raccept() and rclose() wait for ever, or it writes into what has the memory now.
 */
#ifndef FASTSOCK_VERBS_RSOCKET_LIBRARY_H
#define FASTSOCK_VERBS_RSOCKET_LIBRARY_H

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "library.h"

#if defined(FS_HAS_VERBS) && __has_include(<rdma/rsocket.h>)
#define FS_HAS_RSOCKETS 1
#endif

/* As <rdma/rsocket.h> has them.  They stand here so that who calls them is built, and tested, without that header. */
struct fs_rsocket_library {
    int (*rsocket)(int domain, int type, int protocol);
    int (*rbind)(int socket, const struct sockaddr *address, socklen_t length);
    int (*rlisten)(int socket, int backlog);
    int (*raccept)(int socket, struct sockaddr *address, socklen_t *length);
    int (*rconnect)(int socket, const struct sockaddr *address, socklen_t length);
    int (*rclose)(int socket);
    ssize_t (*rrecv)(int socket, void *buffer, size_t length, int flags);
    ssize_t (*rsend)(int socket, const void *buffer, size_t length, int flags);
    int (*rpoll)(struct pollfd *descriptors, nfds_t count, int timeout);
    int (*rgetpeername)(int socket, struct sockaddr *address, socklen_t *length);
    int (*rgetsockopt)(int socket, int level, int option, void *value, socklen_t *length);
    int (*rsetsockopt)(int socket, int level, int option, const void *value, socklen_t length);
    int (*rfcntl)(int socket, int command, ...);
};

#ifdef FS_HAS_RSOCKETS
/* The functions, or NULL with -errno: those of fs_verbs_library(), and -ELIBBAD: the library is older than 53, or does
 * not say how old it is. */
const struct fs_rsocket_library *fs_rsocket_library(int *error);
#endif

#endif
