/* Looking at memory for an answer while the interpreter's lock is kept.
 *
 * Where the answer comes at once, a look is cheaper than to give the lock up and to take it back.  But no other thread of
 * the program runs meanwhile.  So the looks of all threads together have a share of the time, however many look: those in
 * vain, and beside a thread that computes all of them.
 */
#ifndef FASTSOCK_LOOKING_H
#define FASTSOCK_LOOKING_H

#include <stdatomic.h>
#include <stdint.h>

#include "system.h"

#define FS_LOOK_SHARE 20u /* one part in so many */

/* Of the process.  Where there is no such lock, threads may be granted the same time at once: nobody waits for them. */
struct fs_looking {
    _Atomic uint64_t paid_until; /* ticks: up to then all looks so far are the share of the time */
    _Atomic uint64_t spent;      /* ticks, ever */
    _Atomic uint64_t longest;    /* ticks: a look of a wait, where no thread computes */
    _Atomic uint64_t at_once;    /* ticks: the longest of all looks, 0 before that is known */
    _Atomic uint64_t hold_until; /* while contended: no longer than this without offering the lock */
    _Atomic uint64_t patience;   /* ticks, while contended: of a look */
    _Atomic int contended;       /* another thread computes */
};
extern struct fs_looking fs_looking;

/* alone: whether no other thread could want the lock.  It is asked by a thread that has the lock. */
void fs_look_configure(double longest_us, int (*alone)(void));

static inline int fs_is_contended(void) { return atomic_load_explicit(&fs_looking.contended, memory_order_relaxed); }
static inline uint64_t fs_look_longest(void) { return atomic_load_explicit(&fs_looking.longest, memory_order_relaxed); }

/* Past the time for which the lock may be kept from a thread that computes. */
static inline int fs_is_time_to_offer(uint64_t now)
{
    return fs_is_contended() && now > atomic_load_explicit(&fs_looking.hold_until, memory_order_relaxed);
}

uint64_t fs_look_patience(uint64_t now);                /* while contended: ticks that a look is worth, 0: none */
uint64_t fs_look_credit(uint64_t now, uint64_t wanted); /* ticks that a look may take, 0: none */
uint64_t fs_look_afford(uint64_t now, uint64_t wanted); /* the same for a thread that has the lock */
void fs_look_charge(uint64_t start, uint64_t end);
static inline uint64_t fs_looked(void) { return atomic_load_explicit(&fs_looking.spent, memory_order_relaxed); }

/* As fs_look_afford(), mostly without a call. */
static inline uint64_t fs_look_granted(uint64_t now, uint64_t wanted)
{
    uint64_t until = atomic_load_explicit(&fs_looking.paid_until, memory_order_relaxed);
    return (int64_t)(until - now) <= 0 && wanted <= atomic_load_explicit(&fs_looking.at_once, memory_order_relaxed)
               ? wanted
               : fs_look_afford(now, wanted);
}

/* Of a look that began at `start` and is over. */
static inline void fs_look_ended(uint64_t start, int answered)
{
    if (!answered || fs_is_contended()) fs_look_charge(start, fs_ticks());
}

/* ---- waiting for the lock itself ---- */

struct fs_lock_wait {
    uint64_t since, spent;
};

static inline void fs_lock_wait_begins(struct fs_lock_wait *wait)
{
    wait->spent = fs_looked();
    wait->since = fs_ticks();
}

/* Ticks that it took, where that is so long that another thread computes: else 0.  What the looks of others took of it
 * tells of no such thread. */
uint64_t fs_lock_wait_ends(const struct fs_lock_wait *wait);
void fs_lock_is_contended(
    uint64_t took);         /* by a thread that computes: from now on nine tenths of the time are for it */
void fs_lock_is_free(void); /* nobody computes, as far as is known */

#endif
