/* Which processes hold something that those share which were forked from one another.
 *
 * A process may end without a word: by a kill, by _exit(), by exec.  So processes are not counted but named.  Each has a
 * place in a table of its family; what is held has a bit for each place.  Whether a process of a bit still is there is
 * asked of the kernel when it matters.  A fork costs one compare-and-swap for each thing held, and no system call.
 */
#ifndef FASTSOCK_HOLDERS_H
#define FASTSOCK_HOLDERS_H

#include <stdatomic.h>
#include <stdint.h>

struct fs_family;

struct fs_holders {
    struct fs_family *family; /* at the same address in all its processes */
    _Atomic uint64_t word;    /* the bits; above them, how often one was set */
};

/* How much is asked of the kernel.  LATER: nothing of processes of which it was asked a moment ago. */
enum fs_asking { FS_ASK_LATER, FS_ASK_ALL };

/* This process alone: 0, or -ENOMEM.  It is stored without order: nobody else knows the holders yet. */
int fs_holders_begin(struct fs_holders *holders);
/* This process does not hold it any more.  1: nobody else does. */
int fs_holders_leave(struct fs_holders *holders, enum fs_asking asking);
int fs_holders_is_alone(struct fs_holders *holders); /* whether this process alone holds it */

/* Around a fork, with whatever keeps others from it: first a place for the child, if it will hold anything, then each thing
 * that it will hold. */
void fs_holders_before_fork(int holds);
void fs_holders_add_child(struct fs_holders *holders);
void fs_holders_after_fork(int in_child);

#endif
