/* The recent cost of copying, in ticks for a unit; 0: unknown.  A slow copy may only have been interrupted, so it counts
 * little. */
#ifndef FASTSOCK_COST_H
#define FASTSOCK_COST_H

#include <stddef.h>
#include <stdint.h>

#define FS_COST_UNIT (64u * 1024)
#define FS_DIRECT_OVERHEAD_US 3.0 /* of a copy past the ring: what both ends say to each other, and the system call */

enum { FS_COST_ALL = 1, FS_COST_HALF = 2 }; /* how much a faster one counts */

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

/* What so many bytes take. */
static inline double fs_cost_of(size_t length, uint64_t cost) { return (double)length / FS_COST_UNIT * (double)cost; }

#endif
