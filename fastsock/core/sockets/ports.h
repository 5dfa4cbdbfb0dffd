/* The kernel chooses the port of a connection only when it connects.  A program that must tell the port before takes
 * one. */
#ifndef FASTSOCK_PORTS_H
#define FASTSOCK_PORTS_H

enum { FS_ADDRESS_TEXT = 64 };

/* Binds a TCP socket to a port, unless it has one, at the address that its program chose without a port
 * (IP_BIND_ADDRESS_NO_PORT), if it did.  Where nothing speaks against it, the bind names the number: a number that the
 * kernel chose would be free again once the other end resets.  0, and `ip` and `port` say where it is bound.  On -errno
 * it is as before. */
int fs_take_port(int descriptor, char ip[FS_ADDRESS_TEXT], int *port);

#endif
