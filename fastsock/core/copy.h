/* Copies of plain memory that keep their speed where memcpy() does not. */
#ifndef FASTSOCK_COPY_H
#define FASTSOCK_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FS_COPY_PAGE = 4096, FS_COPY_NEAR = 32, FS_COPY_SHORT = 2048, FS_COPY_STEP = 64 };

#if defined(__x86_64__)
/* By loads and stores, each store to an aligned place. */
static inline void fs_copy_by_steps(unsigned char *target, const unsigned char *source, size_t length)
{
    typedef long long aligned __attribute__((vector_size(16), may_alias));
    typedef long long loose __attribute__((vector_size(16), may_alias, aligned(1)));
    size_t done = -(uintptr_t)target % sizeof(aligned);
    memcpy(target, source, done);
    for (; length - done >= FS_COPY_STEP; done += FS_COPY_STEP) {
        const loose *from = (const loose *)(const void *)(source + done);
        aligned *to = (aligned *)(void *)(target + done);
        /* all loads come first: a load behind one of these stores would wait for it */
        aligned first = from[0], second = from[1], third = from[2], fourth = from[3];
        to[0] = first, to[1] = second, to[2] = third, to[3] = fourth;
    }
    memcpy(target + done, source + done, length - done);
}
#endif

/* As memcpy().  The C library copies large blocks by one instruction, `rep movsb`.  Some processors (AMD's family 19h) do
 * that at a tenth of their speed where the target lies 1 to 31 bytes behind the source, counted within a page: each load
 * waits for a store that seems to be its own.  An array of numpy lies 16 bytes behind the start of its page, so this is the
 * usual case. */
static inline void fs_copy(void *target, const void *source, size_t length)
{
#if defined(__x86_64__)
    size_t behind = ((uintptr_t)target - (uintptr_t)source) % FS_COPY_PAGE;
    if (length > FS_COPY_SHORT && behind != 0 && behind < FS_COPY_NEAR) {
        fs_copy_by_steps(target, source, length);
        return;
    }
#endif
    memcpy(target, source, length);
}

/* As memmove(). */
static inline void fs_move(void *target, const void *source, size_t length)
{
    uintptr_t to = (uintptr_t)target, from = (uintptr_t)source;
    if (to - from < length || from - to < length) memmove(target, source, length);
    else fs_copy(target, source, length);
}

/* As fs_copy() beside other copies: `moved` bytes are read and written by all of them, this one too.  Where they are very
 * many, the bytes go past the caches. */
void fs_copy_beside(void *target, const void *source, size_t bytes, size_t moved);

#endif
