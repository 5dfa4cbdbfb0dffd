#include "copy.h"

/* An ordinary store reads the target's line first, and drives out a line that another copy may need.  From so many moved
 * bytes on the end of the copy drives out its beginning, so both are for nothing.  The C library knows that too, but takes
 * a virtual machine's cache for all of its host's. */
#define PAST_CACHES ((size_t)24 << 20)
#define WORTH_IT ((size_t)1 << 20) /* of one copy */

#if defined(__x86_64__)
#define LINE 64u

typedef long long vector __attribute__((vector_size(16), may_alias));
typedef long long loose __attribute__((vector_size(16), may_alias, aligned(1)));

static void stream(vector *target, vector value)
{
    __asm__ __volatile__("movntdq %1, %0" : "=m"(*target) : "x"(value));
}

/* The target lies at the start of a line. */
static void copy_past_caches(unsigned char *target, const unsigned char *source, size_t lines)
{
    for (size_t at = 0; at < lines * LINE; at += LINE) {
        vector *to = (vector *)(void *)(target + at);
        const loose *from = (const loose *)(const void *)(source + at);
        vector first = from[0], second = from[1], third = from[2], fourth = from[3];
        stream(to, first), stream(to + 1, second), stream(to + 2, third), stream(to + 3, fourth);
    }
    __builtin_ia32_sfence();
}

void fs_copy_beside(void *target, const void *source, size_t bytes, size_t moved)
{
    unsigned char *to = target;
    const unsigned char *from = source;
    if (moved >= PAST_CACHES && bytes >= WORTH_IT) {
        size_t head = -(uintptr_t)to % LINE, lines = (bytes - head) / LINE;
        fs_copy(to, from, head);
        copy_past_caches(to + head, from + head, lines);
        to += head + lines * LINE, from += head + lines * LINE, bytes -= head + lines * LINE;
    }
    fs_copy(to, from, bytes);
}
#else
void fs_copy_beside(void *target, const void *source, size_t bytes, size_t moved)
{
    (void)moved;
    fs_copy(target, source, bytes);
}
#endif
