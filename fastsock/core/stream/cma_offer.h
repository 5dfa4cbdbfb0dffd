/* Direct copy of large messages: a receiver that waits reads them straight out of the sender's memory.
 *
 * Between cores that are near each other two copies through the ring are faster, as both ends copy at once in their
 * caches; between far ones a single copy is, by several times.  So the receiver measures both and asks for offers where
 * they pay.  Each end touches only the ring, its own memory, and, the receiver, the sender's by reading.
 *
 * An offer lives within one call of the sender, behind a few bytes in the ring that wake the receiver.  One word, which
 * only moves by compare-and-swap, holds how much of it was received: the receiver moves it after each piece that it has
 * copied, the sender marks it withdrawn when it waits for nobody.  What was not received by then goes through the ring.
 */
#ifndef FASTSOCK_CMA_OFFER_H
#define FASTSOCK_CMA_OFFER_H

#include "end.h"

#define FS_CMA_PIECE (64u * 1024)
#define FS_CMA_FIRST 4096u /* bytes that go through the ring in front of an offer */

/* The sender's side, with the producer's lock held. */
struct fs_offer {
    uint32_t generation, length;
};
/* Offers what lies behind the first bytes of `data`.  The caller publishes those next.  1: made. */
int fs_cma_offer(struct fs_end *end, struct fs_offer *offer, const unsigned char *data, size_t length);
ssize_t fs_cma_await(struct fs_end *end, const struct fs_offer *offer); /* bytes that were received, or -EPROTO */
void fs_cma_abandon(struct fs_end *end);                                /* whatever a process that died left open */

void fs_cma_note_put(struct fs_end *end, uint64_t ticks); /* what putting a piece into the ring took */

/* The receiver's side, with the consumer's lock held. */
void fs_cma_want(struct fs_end *end, size_t length);                           /* the size of the buffer; 0: nothing */
ssize_t fs_cma_pull(struct fs_end *end, unsigned char *target, size_t length); /* when the ring is empty: bytes */
void fs_cma_note_take(struct fs_end *end, uint64_t ticks); /* what taking a piece out of the ring took */

/* Whether another process of this user, no descendant, may read this one's memory: 0 or -errno. */
int fs_cma_probe(void);

#endif
