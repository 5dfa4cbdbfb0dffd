/* The kernel calls of a meeting: sockets with names in the abstract UNIX namespace.
 *
 * Names come with their leading zero byte.  Functions return a descriptor (close-on-exec, non-blocking), or as said, or
 * a negative errno.  Callers serialise them: the two probes are kept from one call to the next, because making a socket
 * costs more than everything that is asked of it.
 */
#ifndef FASTSOCK_ABSTRACT_H
#define FASTSOCK_ABSTRACT_H

#include <stddef.h>
#include <sys/types.h>

int fs_abstract_exists(const char *name, size_t length);  /* 1: a datagram socket is bound there; else 0 */
int fs_abstract_listen(const char *name, size_t length);  /* a stream listener */
int fs_abstract_accept(int listener);
int fs_abstract_reach(const char *name, size_t length);   /* a stream connected to the listener; -ECONNREFUSED for none */
int fs_abstract_peer(int stream, pid_t *process, uid_t *user); /* who listened or connected there: 0 */

#endif
