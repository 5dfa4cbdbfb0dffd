/* The port of a connection is known to the other end's kernel only: who must tell of it before takes one. */
#ifndef FASTSOCK_PORTS_H
#define FASTSOCK_PORTS_H

enum { FS_ADDRESS_TEXT = 64 };

/* Binds a TCP socket to a port, unless it has one, at the address that its program chose without a port
 * (IP_BIND_ADDRESS_NO_PORT), if it did.  The number is asked for, where nothing speaks against it: one that the kernel
 * chose would be free again once the other end resets.  Where it is bound then: 0, or -errno, and it is as before. */
int fs_take_port(int descriptor, char ip[FS_ADDRESS_TEXT], int *port);

#endif
