/* What copying costs lately, in ticks for a unit, and when a way that lost is tried again: for sockets and for ranks. */
#ifndef FASTSOCK_COST_H
#define FASTSOCK_COST_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define FS_COST_UNIT (64u * 1024)
#define FS_DIRECT_OVERHEAD_US 3.0 /* of a copy past the ring: what both ends say to each other, and the system call */

enum { FS_COST_ALL = 1, FS_COST_HALF = 2 }; /* how much a faster one counts */

/* 0: unknown.  A slow copy may only have been interrupted, so it counts little. */
static inline void fs_cost_learn(uint64_t *cost, uint64_t ticks, uint64_t faster)
{
    if (*cost == 0) *cost = ticks;
    else if (ticks < *cost) *cost -= (*cost - ticks + faster - 1) / faster;
    else *cost += ((ticks < 2 * *cost ? ticks : 2 * *cost) - *cost) / 8;
}

/* The same for a copy of so many bytes. */
static inline void fs_cost_note(uint64_t *cost, size_t length, uint64_t ticks, uint64_t faster)
{
    fs_cost_learn(cost, (uint64_t)((double)ticks * FS_COST_UNIT / (double)length) + 1, faster);
}

static inline void fs_cost_publish(_Atomic uint32_t *published, uint64_t cost)
{
    atomic_store_explicit(published, cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX, memory_order_relaxed);
}

/* What so many bytes take. */
static inline double fs_cost_of(size_t length, uint64_t cost) { return (double)length / FS_COST_UNIT * (double)cost; }

/* ---- classes of length: what fits into a cache says nothing of what does not, nor do small pages of large ones ---- */

enum { FS_COST_CLASSES = 5 };

#define FS_COST_SHORT_BITS 14

static inline int fs_cost_class_bits(int class) { return FS_COST_SHORT_BITS + 2 * class; } /* of its shortest length */

/* From 16 KiB, 64 KiB, 256 KiB, 1 MiB and 4 MiB on; what is shorter belongs to the first. */
static inline int fs_cost_class(size_t length)
{
    int class = 0;
    while (class < FS_COST_CLASSES - 1 && length >> fs_cost_class_bits(class + 1) != 0) class ++;
    return class;
}

/* ---- trials of the way that lost: soon at first, as the first times are those of memory that is touched for the first
 * time, then more and more seldom ---- */

#define FS_TRY_FIRST (512u << 10) /* bytes that go the other way before a trial; twice as many before the next one */
#define FS_TRY_DOUBLINGS 7u       /* up to 64 MiB */
#define FS_TRY_MOST ((uint64_t)FS_TRY_FIRST << FS_TRY_DOUBLINGS)
#define FS_TRY_BETWEEN 4u /* messages of that length; twice as many after every second trial */
#define FS_TRY_CLEARLY 3u /* times as slow: then the next few trials fall out */
#define FS_TRY_FALL_OUT 3u

struct fs_trials {
    uint64_t last; /* bytes moved by then, either way */
    uint8_t done;
};

/* `length`: of what would be tried. */
static inline int fs_trial_is_due(const struct fs_trials *trials, uint64_t moved, size_t length)
{
    uint64_t few = ((uint64_t)FS_TRY_BETWEEN << trials->done / 2) * length;
    uint64_t patience = (uint64_t)FS_TRY_FIRST << trials->done;
    return moved - trials->last > (few > patience ? few : patience);
}

/* That way was measured.  `cost` and `other`: of both ways now. */
static inline void fs_trial_done(struct fs_trials *trials, uint64_t moved, uint64_t cost, uint64_t other)
{
    if (fs_trial_is_due(trials, moved, 0)) {
        uint32_t done = trials->done + 1u + (other != 0 && cost / FS_TRY_CLEARLY > other ? FS_TRY_FALL_OUT : 0);
        trials->done = (uint8_t)(done < FS_TRY_DOUBLINGS ? done : FS_TRY_DOUBLINGS);
    }
    trials->last = moved;
}

#endif
