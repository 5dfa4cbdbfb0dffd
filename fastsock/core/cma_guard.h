/* What another process may write here, and until when.
 *
 * A process number can come to name somebody else between any look at it and the write, and a writer that was stopped
 * before its write would make it whenever it goes on.  So every write passes, in one system call, two pages whose random
 * addresses only the writer was told: where they are not mapped, the call ends before anything else is written.  The
 * first page counts the calls that began and, behind the bytes, those that ended.  The second one is a gate: once it is
 * taken away no call passes any more, and since the kernel looks for it after it has counted, equal counts say from then
 * on that none is between the two. */
#ifndef FASTSOCK_CMA_GUARD_H
#define FASTSOCK_CMA_GUARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct fs_guard_calls {
    _Atomic uint64_t begun, ended;
};

#define FS_GUARD_WRITERS 256 /* at most, of one guard */

/* Here: all zero at first. */
struct fs_guard {
    struct fs_guard_calls *calls; /* of each writer; NULL: nobody may write */
    void *gate;                   /* NULL: nobody may write any more */
    uint64_t shut_at;
    uint32_t generation; /* a child that was forked since has neither page */
    uint32_t writers;
};

/* The same as the writer knows it. */
struct fs_guard_place {
    int64_t process;
    uint64_t calls, gate; /* addresses, 0 where nobody may write */
};

void fs_guard_open(struct fs_guard *guard, uint32_t writers); /* both pages, or `gate` stays NULL */
void fs_guard_shut(struct fs_guard *guard);                   /* no write begins any more */
void fs_guard_close(struct fs_guard *guard);
int fs_guard_is_quiet(const struct fs_guard *guard); /* none that began is under way; for good, once it is shut */
/* Shuts it.  1 once no write is under way.  What has begun is in the kernel, where no stop holds it; so after a second it
 * has failed and was not told yet: *late is set then. */
int fs_guard_revoke(struct fs_guard *guard, int *late);

/* `call`: the writer's count of these calls, from 1.  Whether all was written. */
int fs_guarded_write(const struct fs_guard_place *there, uint64_t call, const void *source, uint64_t target,
                     size_t length);
/* The same to many places, one after the other, which are `length` bytes together.  Of the array the first two, and one behind
 * the places, are room for what is passed. */
enum { FS_GUARD_BEFORE = 2, FS_GUARD_AROUND = 3 };
int fs_guarded_scatter(const struct fs_guard_place *there, uint64_t call, const void *source, size_t length,
                       struct iovec *places, int count);
/* After a call of which some was written, because memory there is gone: that it is over.  Whether the other end is there. */
int fs_guarded_end(const struct fs_guard_place *there, uint64_t call);

#endif
