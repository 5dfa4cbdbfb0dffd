/* The two addresses of a TCP connection, as both ends write them. */
#ifndef FASTSOCK_TUPLE_H
#define FASTSOCK_TUPLE_H

#include <stdint.h>

struct fs_place {
    unsigned char address[16]; /* IPv6; IPv4 as mapped into it */
    uint16_t port;
    uint32_t scope;
};

struct fs_tuple {
    struct fs_place own, other;
};

int fs_tuple_of(int descriptor, struct fs_tuple *tuple); /* 0; -ENOTCONN; -EAFNOSUPPORT; -EBADF */
int fs_tuple_is_own(const struct fs_tuple *tuple);       /* a socket that is connected to itself */
int fs_tuple_is_first(const struct fs_tuple *tuple);     /* in an order that both ends know: of two ends one is first */

/* Whether both ends are on this host, in one network namespace.  An address of another host costs a few system calls,
 * once in a connection. */
int fs_tuple_is_local(const struct fs_tuple *tuple);

#endif
