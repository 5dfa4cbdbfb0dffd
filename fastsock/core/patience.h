/* How a rank waits for another one in memory that both map: one policy, whatever is waited for.
 *
 * It looks; after a moment it hands the core over between looks; it gives locks up, so that other threads go on, and lets
 * other work progress; now and then it looks who has died; and it sleeps after long.  Compiled into each of its users, which
 * look too often for calls through pointers. */
#ifndef FASTSOCK_PATIENCE_H
#define FASTSOCK_PATIENCE_H

#include <sched.h>
#include <stdint.h>

#include "looking.h"
#include "system.h"

enum {
    FS_LOOKS_PER_ROUND = 16,
    FS_SPIN_US = 50,               /* without handing the core over, where the other one has one of its own */
    FS_HOLD_US = 10,               /* before locks are given up: that costs both them and this wait something */
    FS_PROGRESS_US = 10,           /* between two rounds of other work */
    FS_CHECK_US = 2000,            /* who has died, who has left, are there signals */
    FS_PATIENCE_US = 4000,         /* then it sleeps: a wake costs tens of microseconds */
    FS_PATIENCE_CROWDED_US = 1000, /* those who yield take their share of the core from those who compute */
    FS_FIRST_SLEEP_MS = 1,         /* wakes may be missed, and other work waits meanwhile */
    FS_LONGEST_SLEEP_MS = 5,
};

/* `self` is the waiter's own. */
struct fs_waiter {
    int (*has_come)(void *self);
    int (*is_beside)(void *self);           /* the other one runs on this core; may be NULL */
    void (*move)(void *self, uint64_t now); /* away from there, when it was there in time; NULL where that is */
    void (*leave)(void *self);              /* gives locks up, unless it has */
    int (*progress)(void *self);            /* other work: whether there was any */
    int (*look_around)(void *self);         /* 0, or why this wait ends; it may have come, as far as is known here */
    int (*sleep)(void *self, int most_ms);  /* until a wake; the same */
};

/* `crowded`: there are more ranks than cores.  `keeps`: the interpreter's lock is held, and `leave` gives it up.  0, or what a
 * look around or a sleep returned. */
static inline __attribute__((always_inline)) int fs_wait_patiently(const struct fs_waiter *waiter, void *self,
                                                                   int crowded, int keeps)
{
    const double scale = fs_ticks_per_us();
    const uint64_t patience = (uint64_t)((crowded ? FS_PATIENCE_CROWDED_US : FS_PATIENCE_US) * scale);
    uint64_t start = fs_ticks(), progressed = start, checked = start;
    const uint64_t hold = keeps ? fs_look_granted(start, (uint64_t)(FS_HOLD_US * scale)) : 0;
    int nap = FS_FIRST_SLEEP_MS;
    while (!waiter->has_come(self)) {
        for (int i = 0; !crowded && i < FS_LOOKS_PER_ROUND; i++) {
            if (waiter->has_come(self)) return 0;
            fs_pause();
        }
        const uint64_t now = fs_ticks();
        const int beside = !crowded && waiter->is_beside != NULL && waiter->is_beside(self);
        if (crowded || beside || now - start > (uint64_t)(FS_SPIN_US * scale)) sched_yield();
        if (beside && waiter->has_come(self)) waiter->move(self, now);
        if (now - start < hold) continue;
        if (keeps) fs_look_ended(start, 0);
        keeps = 0;
        waiter->leave(self);
        if (now - progressed > (uint64_t)(FS_PROGRESS_US * scale)) {
            if (waiter->progress(self)) start = now;
            progressed = now;
        }
        int result = 0;
        if (now - checked > (uint64_t)(FS_CHECK_US * scale)) {
            result = waiter->look_around(self);
            checked = now;
        }
        if (result == 0 && now - start > patience && !waiter->has_come(self)) {
            result = waiter->sleep(self, nap);
            nap = FS_LONGEST_SLEEP_MS;
        }
        if (result != 0) return result;
    }
    return 0;
}

#endif
