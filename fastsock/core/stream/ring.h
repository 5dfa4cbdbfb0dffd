/* One direction's bytes: a single-producer single-consumer ring in shared memory.
 *
 * The ring starts small, so it stays in cache and touches little memory.  It grows to the large area when its consumer
 * does not keep up: a ring takes at least as much unread data as a TCP connection on one host.  It shrinks again once
 * the consumer has read everything.  It takes no more than both ends' programs asked of TCP's buffers, where both did.
 *
 * Positions count bytes since the start.  Position p lies at
 *     p mod small                              before `grown_at`
 *     (small + p - grown_at) mod large         from `grown_at` on
 * This holds whatever the other process writes: none of its indices can leave the data area.
 */
#ifndef FASTSOCK_RING_H
#define FASTSOCK_RING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "layout.h"
#include "parts.h"

struct fs_ring {
    struct fs_direction *shared;
    unsigned char *data;
    uint64_t small, large; /* powers of two, in bytes */
    uint64_t cached;       /* the other side's index as last seen; only ever too cautious */
    uint64_t touched;      /* bytes at the front of `data` that this end has copied into or out of */
};

/* Producer's side.  All return -EPROTO when the indices are impossible. */
ssize_t fs_ring_space(struct fs_ring *ring, size_t wanted);
int fs_ring_put(struct fs_ring *ring, const unsigned char *source, size_t length); /* length <= space */
/* The two halves of fs_ring_put().  The first writes bytes `offset` behind the head.  The second moves the head over
 * all of them: 0.  -EAGAIN: nothing is published, because the consumer asked for payload over the doorbell. */
void fs_ring_fill(struct fs_ring *ring, uint64_t offset, const unsigned char *source, size_t length);
int fs_ring_publish(struct fs_ring *ring, size_t length);
/* Both at once, of the first bytes of a gather.  Those that are published are taken off it. */
int fs_ring_gather(struct fs_ring *ring, struct fs_parts *parts, size_t length);
int fs_ring_agree(struct fs_ring *ring);        /* 1: it did, and it can take that back no more */
void fs_ring_shrink(struct fs_ring *ring);      /* back to the small area once all was read: that one is in cache */
int fs_ring_say_farewell(struct fs_ring *ring); /* 1: nobody can ask for raw payload any more; 0: somebody has */
int fs_ring_may_grow(const struct fs_ring *ring);
int fs_ring_grow(struct fs_ring *ring);   /* 1 if it grew now */
void fs_ring_touch(struct fs_ring *ring); /* has the kernel make the small area's memory now, where it can */

/* Consumer's side. */
int fs_ring_ask_raw(struct fs_ring *ring);       /* 1: nothing is unread, and nothing more will be published */
int fs_ring_take_back_raw(struct fs_ring *ring); /* 0: the producer agreed already */
ssize_t fs_ring_used(struct fs_ring *ring);      /* as last seen, where that is not 0 */
ssize_t fs_ring_used_at_least(struct fs_ring *ring, uint64_t wanted); /* looks anew for so many */
void fs_ring_copy_out(struct fs_ring *ring, uint64_t offset, unsigned char *target, size_t length);
void fs_ring_consume(struct fs_ring *ring, size_t length);

/* For whoever fills the ring without a copy: where the byte behind the head lies, and how many from there on are
 * together.  No more than fs_ring_space() of them are the producer's. */
unsigned char *fs_ring_place(const struct fs_ring *ring, size_t *length);
/* For whoever reads it so, as a pump whose device does: where byte `offset` behind the tail lies, and how many from there
 * on are together. */
const unsigned char *fs_ring_run(const struct fs_ring *ring, uint64_t offset, size_t *length);

/* Unread bytes as either side sees them now; -EPROTO as above. */
ssize_t fs_ring_unread(const struct fs_ring *ring);
ssize_t fs_ring_room(const struct fs_ring *ring);
uint64_t fs_ring_capacity(const struct fs_ring *ring);

/* The size of a buffer of TCP's that the program of this end asked for: of the producer's, or of the consumer's. */
enum fs_ring_buffer { FS_SEND_BUFFER, FS_RECEIVE_BUFFER };
void fs_ring_set_buffer(struct fs_ring *ring, enum fs_ring_buffer which, uint64_t bytes);
uint64_t fs_ring_most_unread(const struct fs_ring *ring); /* that both allow; UINT64_MAX: any number */

/* Whether this end has been at the memory of these bytes before.  The first time takes many times as long, so it says
 * nothing about what a copy costs.  Where that is uncertain the answer is no. */
int fs_ring_is_touched(const struct fs_ring *ring, uint64_t position, size_t length);

#endif
