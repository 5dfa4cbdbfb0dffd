#define _GNU_SOURCE
#include "ring.h"

#include <errno.h>

#include "copy.h"

#define MOST_LOOKS 1000
#define LEAST_BUFFER 2304u /* of TCP's kernel, for either buffer */
#define LOAD(field) atomic_load_explicit(&ring->shared->field, memory_order_acquire)

static uint64_t own_head(const struct fs_ring *ring)
{
    return atomic_load_explicit(&ring->shared->head, memory_order_relaxed) & FS_POSITION;
}

struct run {
    uint64_t offset, length;
};

/* The contiguous stretch of the data area that starts at `position`. */
static struct run run_at(const struct fs_ring *ring, uint64_t position, uint64_t grown_at)
{
    if (position < grown_at) {
        uint64_t offset = position & (ring->small - 1), length = ring->small - offset;
        if (grown_at - position < length) length = grown_at - position;
        return (struct run){offset, length};
    }
    uint64_t offset = (ring->small + position - grown_at) & (ring->large - 1);
    return (struct run){offset, ring->large - offset};
}

ssize_t fs_ring_unread(const struct fs_ring *ring)
{
    for (int look = 0; look < MOST_LOOKS; look++) {
        uint64_t tail = LOAD(tail), head = LOAD(head) & FS_POSITION;
        if (head - tail <= (LOAD(grown_at) == FS_NOT_GROWN ? ring->small : ring->large)) return (ssize_t)(head - tail);
        if (LOAD(tail) == tail) break; /* else it moved on between the two: look again */
    }
    return -EPROTO;
}

/* Unread bytes that both ends' programs allow.  The other end's word can stop its own connection alone. */
uint64_t fs_ring_most_unread(const struct fs_ring *ring)
{
    uint64_t send = atomic_load_explicit(&ring->shared->buffers[FS_SEND_BUFFER], memory_order_relaxed);
    uint64_t receive = atomic_load_explicit(&ring->shared->buffers[FS_RECEIVE_BUFFER], memory_order_relaxed);
    return send == 0 || receive == 0 ? UINT64_MAX : 2 * (send + receive); /* TCP's kernel doubles them too */
}

void fs_ring_set_buffer(struct fs_ring *ring, enum fs_ring_buffer which, uint64_t bytes)
{
    if (bytes < LEAST_BUFFER) bytes = LEAST_BUFFER;
    if (bytes > UINT32_MAX) bytes = UINT32_MAX;
    atomic_store(&ring->shared->buffers[which], (uint32_t)bytes);
}

static ssize_t area_seen(const struct fs_ring *ring, uint64_t head, uint64_t tail, uint64_t grown_at)
{
    uint64_t used = head - tail;
    if (grown_at == FS_NOT_GROWN) return used > ring->small ? -EPROTO : (ssize_t)(ring->small - used);
    if (used > ring->large) return -EPROTO;
    if (tail >= grown_at) return (ssize_t)(ring->large - used);
    /* the small area is still being read: only what lies behind it is free */
    uint64_t room = ring->large - ring->small, since = head - grown_at;
    return head < grown_at || since > room ? -EPROTO : (ssize_t)(room - since);
}

static ssize_t space_seen(const struct fs_ring *ring, uint64_t head, uint64_t tail, uint64_t grown_at)
{
    ssize_t area = area_seen(ring, head, tail, grown_at);
    uint64_t most = fs_ring_most_unread(ring), used = head - tail;
    if (area <= 0 || most == UINT64_MAX) return area;
    if (used >= most) return 0;
    return (uint64_t)area < most - used ? area : (ssize_t)(most - used);
}

ssize_t fs_ring_room(const struct fs_ring *ring)
{
    return space_seen(ring, LOAD(head) & FS_POSITION, LOAD(tail), LOAD(grown_at));
}

uint64_t fs_ring_capacity(const struct fs_ring *ring)
{
    uint64_t area = LOAD(grown_at) == FS_NOT_GROWN ? ring->small : ring->large, most = fs_ring_most_unread(ring);
    return area < most ? area : most;
}

static void note_touched(struct fs_ring *ring, uint64_t offset, uint64_t length)
{
    if (offset <= ring->touched && offset + length > ring->touched) ring->touched = offset + length;
}

int fs_ring_is_touched(const struct fs_ring *ring, uint64_t position, size_t length)
{
    struct run run = run_at(ring, position, LOAD(grown_at));
    return length <= run.length && run.offset + length <= ring->touched;
}

void fs_ring_touch(struct fs_ring *ring)
{
    if (fs_populate(ring->data, ring->small)) note_touched(ring, 0, ring->small);
}

ssize_t fs_ring_space(struct fs_ring *ring, size_t wanted)
{
    uint64_t head = own_head(ring);
    uint64_t grown_at = atomic_load_explicit(&ring->shared->grown_at, memory_order_relaxed);
    ssize_t space = space_seen(ring, head, ring->cached, grown_at);
    if (space >= 0 && (size_t)space >= wanted) return space;
    ring->cached = LOAD(tail);
    return space_seen(ring, head, ring->cached, grown_at);
}

void fs_ring_fill(struct fs_ring *ring, uint64_t offset, const unsigned char *source, size_t length)
{
    uint64_t position = own_head(ring) + offset;
    uint64_t grown_at = atomic_load_explicit(&ring->shared->grown_at, memory_order_relaxed);
    while (length > 0) {
        struct run run = run_at(ring, position, grown_at);
        size_t part = run.length < length ? run.length : length;
        fs_copy(ring->data + run.offset, source, part);
        note_touched(ring, run.offset, part);
        source += part, position += part, length -= part;
    }
}

int fs_ring_publish(struct fs_ring *ring, size_t length)
{
    uint64_t head = own_head(ring);
    /* sequentially consistent: the producer looks for sleepers next, and one of the two must see the other */
    return atomic_compare_exchange_strong(&ring->shared->head, &head, head + length) ? 0 : -EAGAIN;
}

int fs_ring_put(struct fs_ring *ring, const unsigned char *source, size_t length)
{
    fs_ring_fill(ring, 0, source, length);
    return fs_ring_publish(ring, length);
}

int fs_ring_gather(struct fs_ring *ring, struct fs_parts *parts, size_t length)
{
    const struct iovec *part = parts->next;
    for (size_t done = 0, run; done < length; done += run, part++) {
        run = part->iov_len < length - done ? part->iov_len : length - done;
        fs_ring_fill(ring, done, part->iov_base, run);
    }
    int error = fs_ring_publish(ring, length);
    if (error == 0) fs_parts_advance(parts, length);
    return error;
}

int fs_ring_agree(struct fs_ring *ring)
{
    uint64_t head = atomic_load(&ring->shared->head);
    for (int look = 0; look < MOST_LOOKS && head & FS_RAW_ASKED; look++)
        if (head & FS_RAW_AGREED || atomic_compare_exchange_weak(&ring->shared->head, &head, head | FS_RAW_AGREED))
            return 1;
    return 0;
}

int fs_ring_ask_raw(struct fs_ring *ring)
{
    uint64_t head = LOAD(tail);
    return atomic_compare_exchange_strong(&ring->shared->head, &head, head | FS_RAW_ASKED);
}

int fs_ring_take_back_raw(struct fs_ring *ring)
{
    uint64_t tail = LOAD(tail), asked = tail | FS_RAW_ASKED;
    return atomic_compare_exchange_strong(&ring->shared->head, &asked, tail);
}

int fs_ring_say_farewell(struct fs_ring *ring)
{
    uint64_t head = atomic_load(&ring->shared->head);
    for (int look = 0; look < MOST_LOOKS && !(head & FS_RAW_ASKED); look++)
        if (atomic_compare_exchange_weak(&ring->shared->head, &head, head | FS_FAREWELL)) return 1;
    return 0;
}

int fs_ring_may_grow(const struct fs_ring *ring)
{
    uint64_t send = atomic_load_explicit(&ring->shared->buffers[FS_SEND_BUFFER], memory_order_relaxed);
    if (atomic_load_explicit(&ring->shared->grown_at, memory_order_relaxed) != FS_NOT_GROWN) return 0;
    return (send == 0 || send > ring->small / 2) && fs_ring_most_unread(ring) > ring->small;
}

int fs_ring_grow(struct fs_ring *ring)
{
    if (!fs_ring_may_grow(ring)) return 0;
    atomic_store_explicit(&ring->shared->grown_at, own_head(ring), memory_order_release);
    return 1;
}

void fs_ring_shrink(struct fs_ring *ring)
{
    if (atomic_load_explicit(&ring->shared->grown_at, memory_order_relaxed) == FS_NOT_GROWN) return;
    uint64_t head = own_head(ring);
    ring->cached = LOAD(tail);
    /* empty: no byte lies where the old mapping puts it, and the consumer reads the new one behind the next head */
    if (ring->cached == head) atomic_store_explicit(&ring->shared->grown_at, FS_NOT_GROWN, memory_order_release);
}

ssize_t fs_ring_used_at_least(struct fs_ring *ring, uint64_t wanted)
{
    uint64_t tail = atomic_load_explicit(&ring->shared->tail, memory_order_relaxed);
    uint64_t used = ring->cached - tail;
    if (used < wanted || used > ring->large) { /* not seen yet, or another process at this end read on */
        ring->cached = fs_published(ring->shared);
        used = ring->cached - tail;
        uint64_t limit = LOAD(grown_at) == FS_NOT_GROWN ? ring->small : ring->large;
        if (used > limit) return -EPROTO;
    }
    return (ssize_t)used;
}

ssize_t fs_ring_used(struct fs_ring *ring) { return fs_ring_used_at_least(ring, 1); }

void fs_ring_copy_out(struct fs_ring *ring, uint64_t offset, unsigned char *target, size_t length)
{
    uint64_t position = atomic_load_explicit(&ring->shared->tail, memory_order_relaxed) + offset;
    uint64_t grown_at = LOAD(grown_at);
    while (length > 0) {
        struct run run = run_at(ring, position, grown_at);
        size_t part = run.length < length ? run.length : length;
        fs_copy(target, ring->data + run.offset, part);
        note_touched(ring, run.offset, part);
        target += part, position += part, length -= part;
    }
}

void fs_ring_consume(struct fs_ring *ring, size_t length)
{
    uint64_t tail = atomic_load_explicit(&ring->shared->tail, memory_order_relaxed);
    atomic_store(&ring->shared->tail, tail + length);
}

unsigned char *fs_ring_place(const struct fs_ring *ring, size_t *length)
{
    struct run run = run_at(ring, own_head(ring), atomic_load_explicit(&ring->shared->grown_at, memory_order_relaxed));
    *length = (size_t)run.length;
    return ring->data + run.offset;
}

const unsigned char *fs_ring_run(const struct fs_ring *ring, uint64_t offset, size_t *length)
{
    uint64_t position = atomic_load_explicit(&ring->shared->tail, memory_order_relaxed) + offset;
    struct run run = run_at(ring, position, LOAD(grown_at));
    *length = (size_t)run.length;
    return ring->data + run.offset;
}
