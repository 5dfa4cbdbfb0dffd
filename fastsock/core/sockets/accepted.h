/* Whether a TCP connection within this host still waits in its listener's backlog, as the kernel tells (sock_diag). */
#ifndef FASTSOCK_ACCEPTED_H
#define FASTSOCK_ACCEPTED_H

#include <sys/socket.h>

enum { FS_ACCEPTED_UNKNOWN = -1, FS_ACCEPTED_NOT_YET = 0, FS_ACCEPTED = 1 };

int fs_put_address(struct sockaddr_storage *where, int family, const char *ip, int port); /* 0, or -EINVAL */

/* The addresses of both ends: sockaddr_in, or sockaddr_in6.  UNKNOWN also where this kernel does not say. */
int fs_accepted(const struct sockaddr *connecting, const struct sockaddr *listening);
/* The same for many connections: the first makes a descriptor to ask, or -1; the second asks one question. */
int fs_accepted_open(void);
int fs_accepted_ask(int netlink, const struct sockaddr *connecting, const struct sockaddr *listening);

#endif
