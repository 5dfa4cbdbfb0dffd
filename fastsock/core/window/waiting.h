/* How a member waits for others, and wakes them. */
#ifndef FASTSOCK_WINDOW_WAITING_H
#define FASTSOCK_WINDOW_WAITING_H

#include <errno.h>

#include "memory.h"

enum { FS_WINDOW_LOOKS = 64 }; /* before a wait begins to cost anything else */

/* What is waited for.  `come`: whether it is so.  `author`: the member whose doing it is, or the first dead one of several; -1
 * where nobody's death could keep it from coming. */
struct fs_window_wait {
    int (*come)(const struct fs_window *window, const struct fs_window_wait *wait);
    int (*author)(const struct fs_window *window, const struct fs_window_wait *wait);
    const _Atomic uint32_t *word;
    uint32_t value;
    int member;
};

/* The leave hook, unless it was called already: whether it was now.  Then fs_window_enter() follows. */
int fs_window_leave(struct fs_window_call *call);
void fs_window_enter(struct fs_window_call *call);

int fs_window_wait_slowly(struct fs_window *window, struct fs_window_call *call, const struct fs_window_wait *wait);
void fs_window_wake(struct fs_window *window);

static inline int fs_window_await(struct fs_window *window, struct fs_window_call *call,
                                  const struct fs_window_wait *wait)
{
    for (int i = 0; i < FS_WINDOW_LOOKS; i++) {
        if (wait->come(window, wait)) return 0;
        if (window->crowded || window->at_once) break;
        fs_pause();
    }
    return fs_window_wait_slowly(window, call, wait);
}

/* After something that others may wait for.  A sleeper looks again when it has said that it sleeps, and from time to time: so
 * no fence is needed here, although a store that is still under way may make this miss it. */
static inline void fs_window_show(struct fs_window *window)
{
    if (atomic_load_explicit(&window->header->sleepers, memory_order_relaxed) != 0) fs_window_wake(window);
}

/* Numbers that only grow, and wrap around. */
static inline int fs_window_has_come(uint32_t number, uint32_t least) { return (int32_t)(number - least) >= 0; }

/* A member's count to come so far. */
struct fs_window_wait fs_window_count_of(int member, const _Atomic uint32_t *count, uint32_t least);

#endif
