/* Addresses from text. */
#ifndef FASTSOCK_ADDRESS_H
#define FASTSOCK_ADDRESS_H

#include <sys/socket.h>

int fs_put_address(struct sockaddr_storage *where, int family, const char *ip, int port); /* 0, or -EINVAL */

#endif
