/* The locks of an end: one sender and one receiver work at a time, among the threads of this process and of the
 * processes that it forked.  The locks lie in memory of these processes alone.  The other end cannot reach it: it can
 * neither hold a lock nor make one look held.
 */
#ifndef FASTSOCK_EXCLUSION_H
#define FASTSOCK_EXCLUSION_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t fs_lock_word; /* 0, or who holds it */

struct fs_exclusion {
    fs_lock_word *sender, *receiver;
    struct fs_lock_page *page;
};

int fs_exclusion_take(struct fs_exclusion *exclusion); /* 0 or -ENOMEM */
void fs_exclusion_give(struct fs_exclusion *exclusion);

/* 0.  -EBUSY: the lock did not become free within that time.  A patience of 0 looks for a moment and never sleeps.  An
 * owner that died loses the lock. */
int fs_lock(fs_lock_word *word, uint64_t patience_ns);
int fs_try_lock(fs_lock_word *word); /* 1: it was free */
/* The thread of this process that holds it, if one does, has let it go: 0; -EBUSY: not within that time. */
int fs_await_owner(const fs_lock_word *word, uint64_t patience_ns);
void fs_unlock(fs_lock_word *word);

#endif
