/* Through the ring or past it?  Which is faster depends on where the two cores sit, and changes while we run.  So both are
 * timed, and the one that lost is tried again: from time to time, and at once when an end has moved to another core. */
#ifndef FASTSOCK_CMA_CHOICE_H
#define FASTSOCK_CMA_CHOICE_H

#include "cost.h"
#include "end.h"

/* The sender's side, with the producer's lock held. */
void fs_cma_note_put(struct fs_end *end, size_t length, uint64_t ticks); /* into the ring */

/* The receiver's side, with the consumer's lock held. */
void fs_cma_note_take(struct fs_end *end, size_t length, uint64_t ticks);   /* out of the ring */
void fs_cma_note_direct(struct fs_end *end, size_t length, uint64_t ticks); /* past it, as was last asked */
/* How much of a buffer of that size to ask for: all of it, enough to measure, or nothing. */
size_t fs_cma_worth_asking(struct fs_end *end, size_t length);

#endif
