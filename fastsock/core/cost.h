/* The recent cost of an operation, in ticks; 0: unknown.  A slow one may only have been interrupted, so it counts
 * little. */
#ifndef FASTSOCK_COST_H
#define FASTSOCK_COST_H

#include <stdint.h>

enum { FS_COST_ALL = 1, FS_COST_HALF = 2 }; /* how much a faster one counts */

static inline void fs_cost_learn(uint64_t *cost, uint64_t ticks, uint64_t faster)
{
    if (*cost == 0) *cost = ticks;
    else if (ticks < *cost) *cost -= (*cost - ticks + faster - 1) / faster;
    else *cost += ((ticks < 2 * *cost ? ticks : 2 * *cost) - *cost) / 8;
}

#endif
