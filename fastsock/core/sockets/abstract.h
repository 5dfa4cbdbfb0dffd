/* The kernel calls of a meeting: sockets with names in the abstract UNIX namespace.
 *
 * Names come with their leading zero byte.  Functions return a descriptor (close-on-exec, non-blocking), or as said, or
 * a negative errno.  The functions that reach or knock keep their two probe sockets
 * from one call to the next, because making a socket costs more than its use.  So callers serialise these functions.
 */
#ifndef FASTSOCK_ABSTRACT_H
#define FASTSOCK_ABSTRACT_H

#include <stddef.h>
#include <sys/types.h>

int fs_abstract_knock(const char *name, size_t length);  /* 1: a datagram socket is bound there, and was told; else 0 */
int fs_abstract_listen(const char *name, size_t length); /* a stream listener */
int fs_abstract_pair(const char *name, size_t length,
                     int pair[2]); /* two connected streams, the first with the name: 0 */
int fs_abstract_accept(int listener);
int fs_abstract_reach(const char *name, size_t length); /* a stream connected to the listener; -ECONNREFUSED for none */
int fs_abstract_peer(int stream, pid_t *process, uid_t *user); /* who listened or connected there: 0 */

/* One descriptor over a connected stream: 0, and what came.  That is a duplicate: the stream keeps its own until it is
 * closed, so nothing is lost where no number is free (-EMFILE).  -EAGAIN: nothing yet, -ECONNRESET: the other end hung up,
 * -EPROTO: something else came. */
int fs_abstract_pass(int stream, int descriptor);
int fs_abstract_passed(int stream);

/* Whether a user number from the kernel is surely this process's own.  In a user namespace every user without a number
 * gets the overflow number, perhaps this process too: that number proves nothing. */
int fs_is_own_user(uid_t user);

/* How often the datagram socket of that inode was told.  keep: the count stays for the next call, and the answer is 0
 * or 1.  -EBADF: the number is another file's by now. */
int fs_abstract_told(int descriptor, ino_t inode, int keep);
unsigned int fs_abstract_forks(void); /* changes whenever this process forks, from the first call on */

#endif
