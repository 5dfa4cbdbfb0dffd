/* Memory of a member's own process: the others read and write it with the kernel's help (cma.h), and need none of the member. */
#ifndef FASTSOCK_WINDOW_DOORS_H
#define FASTSOCK_WINDOW_DOORS_H

#include <pthread.h>

#include "memory.h"

struct fs_window_doors {
    struct fs_guard guard;           /* what others write here */
    pthread_mutex_t writing;         /* threads count their calls one by one */
    uint64_t calls[FS_WINDOW_MOST];  /* of this member, with each target */
    uint8_t is_here[FS_WINDOW_MOST]; /* members that are threads of this process, as this one is */
};

/* Whether a target's memory has to be read and written by the calls of window.h; else it is at hand. */
static inline int fs_window_is_far(const struct fs_window *window, int target)
{
    return window->doors != NULL && !window->doors->is_here[target];
}

#endif
