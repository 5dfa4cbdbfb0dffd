/* Kernel calls on sockets with names in the abstract UNIX namespace.
 *
 * Names come with their leading zero byte.  Functions return a descriptor (close-on-exec, non-blocking), or as said, or
 * a negative errno.
 */
#ifndef FASTSOCK_ABSTRACT_H
#define FASTSOCK_ABSTRACT_H

#include <stddef.h>
#include <sys/types.h>

int fs_abstract_pair(const char *name, size_t length,
                     int pair[2]); /* two connected streams, the first with the name: 0 */
int fs_abstract_accept(int listener);
int fs_abstract_reach(const char *name, size_t length); /* a stream connected to the listener; -ECONNREFUSED for none */
int fs_abstract_peer(int stream, pid_t *process, uid_t *user); /* who listened or connected there: 0 */

/* Whether a user number from the kernel is surely this process's own.  In a user namespace every user without a number
 * gets the overflow number, perhaps this process too: that number proves nothing. */
int fs_is_own_user(uid_t user);

#endif
