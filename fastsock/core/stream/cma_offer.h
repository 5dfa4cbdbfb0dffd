/* Direct copy of large blocks, past the ring: the receiver reads the sender's memory while the sender writes the
 * receiver's.
 *
 * An offer lives within one call of the sender, behind a few bytes in the ring that wake the receiver.  It is answered
 * within one call of the receiver, which says where the bytes belong.  Pieces are claimed in the stream's order, one at a
 * time by each end: so the faster end copies more, and an end that does not run costs nothing but its piece.
 *
 * One word, which only moves by compare-and-swap, holds how many pieces were claimed and which one each end copies.
 * Either end may mark the offer withdrawn: the sender when it waits for nobody, the receiver before its call returns.
 * The same move fixes how many pieces were delivered: those before the first one that was not done.  What comes behind
 * goes through the ring, though a stopped end may have copied some of it already.
 *
 * The receiver's call returns only when nothing writes into its buffer any more.  A sender that had claimed a piece by
 * then loses the right to write by the guard (cma_guard.h), wherever it was stopped.  Each end reads and writes only
 * within its own block and the other end's claims, which concern the other end's memory alone.
 */
#ifndef FASTSOCK_CMA_OFFER_H
#define FASTSOCK_CMA_OFFER_H

#include "end.h"

#define FS_CMA_FIRST 4096u /* bytes that go through the ring in front of an offer */

/* The sender's side, with the producer's lock held. */
struct fs_offer {
    uint32_t generation, length;
    const unsigned char *data;
};
/* Offers what lies behind the first bytes of `data`.  The caller publishes those next.  1: made. */
int fs_cma_offer(struct fs_end *end, struct fs_offer *offer, const unsigned char *data, size_t length);
/* Copies with the receiver.  `patience_us`: how long to wait for one that does not begin.  Bytes delivered, or -EPROTO. */
ssize_t fs_cma_serve(struct fs_end *end, const struct fs_offer *offer, double patience_us);
void fs_cma_abandon(struct fs_end *end); /* whatever a process that died left open */

/* The receiver's side, with the consumer's lock held. */
void fs_cma_want(struct fs_end *end, size_t length); /* the size of the buffer; 0: nothing */
int fs_cma_is_offered(const struct fs_end *end);     /* something that comes behind what was read out of the ring */
/* When the ring is empty: answers the offer that comes next, if there is one.  Bytes delivered. */
ssize_t fs_cma_take(struct fs_end *end, unsigned char *target, size_t length);

/* Whether another process of this user, no descendant, may read this one's memory: 0 or -errno. */
int fs_cma_probe(void);

#endif
