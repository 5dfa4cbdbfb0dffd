/* What becomes of a TCP connection within this host at its listening end, as the kernel tells (sock_diag): whether it
 * still waits in the backlog, whether the listener carries the sign, and how much lies there unread.
 *
 * The sign says that an accept() of this listener connects back, or takes the sign away from the connection.  It is an
 * option of the listener's own descriptor, IP_RECVERR_RFC4884.  TCP has no use for it, each connection
 * inherits it, and sock_diag shows it.  So it needs no descriptor and no name, and it is the listener's wherever that
 * goes: to a forked process, or to another program. */
#ifndef FASTSOCK_ACCEPTED_H
#define FASTSOCK_ACCEPTED_H

#include <stdint.h>
#include <sys/socket.h>

enum { FS_ACCEPTED_UNKNOWN = -1, FS_ACCEPTED_NOT_YET = 0, FS_ACCEPTED = 1 };

struct fs_acceptance {
    int state; /* FS_ACCEPTED...; UNKNOWN also where this kernel does not say */
    /* Its listener had the sign when TCP connected, and nobody took it away.  0 also where this kernel does not say:
     * before 5.10. */
    int is_signed;
    uint32_t unread; /* bytes that TCP has for the listening end */
};

int fs_put_address(struct sockaddr_storage *where, int family, const char *ip, int port); /* 0, or -EINVAL */

/* Of a listener: its later connections have the sign.  Of a connection: it has it, or not.  0, or -errno. */
int fs_accepted_sign(int descriptor, int has_sign);

/* The addresses of both ends: sockaddr_in, or sockaddr_in6. */
struct fs_acceptance fs_accepted(const struct sockaddr *connecting, const struct sockaddr *listening);
/* The same for many connections: the first makes a descriptor to ask, or -1; the second asks one question. */
int fs_accepted_open(void);
struct fs_acceptance fs_accepted_ask(int netlink, const struct sockaddr *connecting, const struct sockaddr *listening);

#endif
