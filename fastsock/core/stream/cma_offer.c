#define _GNU_SOURCE
#include "cma_offer.h"

#include <errno.h>
#include <sys/uio.h>

#include "cma.h"
#include "cost.h"
#include "system.h"

#define PIECE FS_CMA_PIECE
#define LONGEST_OFFER (64u << 20)
#define LONGEST_WAIT_US 40000.0 /* then the call looks up for signals, even while it is being answered */
#define PATIENCE 4              /* times the longest spin, for a receiver that has begun */
#define FARTHEST (1ull << 40)   /* nobody has a buffer of that size: a lie, or a word that is out of date */
#define PROBE_EVERY (64u << 20) /* bytes */
#define PROBE (4 * PIECE)
#define WITHDRAWN (1u << 31)

/* `offer` packs the offer's generation, the mark, and how many of its bytes were received.  What it describes changes
 * only while the mark stands, or before the first one: no offer has generation 0. */
static uint64_t word_of(uint32_t generation, uint32_t done) { return (uint64_t)generation << 32 | done; }
static uint32_t done_of(uint64_t word) { return (uint32_t)word & ~WITHDRAWN; }
static int is_open(uint64_t word) { return word >> 32 != 0 && !((uint32_t)word & WITHDRAWN); }

static uint64_t ticks_of(double microseconds) { return (uint64_t)(microseconds * fs_ticks_per_us()); }

/* ---- sending ---- */

void fs_cma_note_put(struct fs_end *end, uint64_t ticks)
{
    fs_cost_learn(&end->put_cost, ticks, FS_COST_HALF);
    uint32_t told = end->put_cost < UINT32_MAX ? (uint32_t)end->put_cost : UINT32_MAX;
    atomic_store_explicit(&end->out.shared->put_cost, told, memory_order_relaxed);
}

int fs_cma_offer(struct fs_end *end, struct fs_offer *offer, const unsigned char *data, size_t length)
{
    struct fs_direction *out = end->out.shared;
    uint64_t want = atomic_load_explicit(&out->want, memory_order_acquire);
    if (want == 0 || want == end->unanswered) return 0;
    /* a forked process has another number than the one that the receiver knows */
    if (fs_end_shared(end) || !fs_end_is_elsewhere(end)) return 0;
    if (end->offers == UINT32_MAX || is_open(atomic_load_explicit(&out->offer, memory_order_relaxed))) return 0;
    uint64_t head = fs_published(out), reach = want - head;
    if (reach > FARTHEST) return 0;
    if (reach > length) reach = length;
    if (reach > LONGEST_OFFER) reach = LONGEST_OFFER;
    if (reach < end->limits.direct_min || reach <= FS_CMA_FIRST) return 0;
    *offer = (struct fs_offer){++end->offers, (uint32_t)(reach - FS_CMA_FIRST)};
    atomic_store_explicit(&out->offer_from, head + FS_CMA_FIRST, memory_order_relaxed);
    atomic_store_explicit(&out->offer_length, offer->length, memory_order_relaxed);
    atomic_store_explicit(&out->offer_address, (uint64_t)(uintptr_t)(data + FS_CMA_FIRST), memory_order_relaxed);
    atomic_store_explicit(&out->nonce_address, (uint64_t)(uintptr_t)&end->nonce, memory_order_relaxed);
    atomic_store_explicit(&out->nonce, end->nonce, memory_order_relaxed);
    atomic_store(&out->offer, word_of(offer->generation, 0));
    return 1;
}

ssize_t fs_cma_await(struct fs_end *end, const struct fs_offer *offer)
{
    _Atomic uint64_t *word = &end->out.shared->offer;
    _Atomic uint64_t *tail = &end->out.shared->tail;
    uint64_t seen = atomic_load(word), read = atomic_load_explicit(tail, memory_order_relaxed);
    uint64_t began = fs_ticks(), moved = began, spin = ticks_of(end->limits.spin_us);
    for (;; fs_pause()) {
        uint64_t now = fs_ticks(), next = atomic_load(word),
                 next_read = atomic_load_explicit(tail, memory_order_relaxed);
        if (next != seen || next_read != read) moved = now;
        seen = next, read = next_read;
        uint32_t done = done_of(seen);
        if (seen >> 32 != offer->generation || done > offer->length) return -EPROTO;
        int over = ((uint32_t)seen & WITHDRAWN) != 0; /* by the receiver, who may not read there */
        int late = now - moved > (done == 0 ? spin : PATIENCE * spin) || now - began > ticks_of(LONGEST_WAIT_US);
        if (!over && done < offer->length && !late) continue;
        if (!over) { /* at once and for good, whatever the other end writes meanwhile */
            seen = atomic_fetch_or(word, WITHDRAWN);
            done = done_of(seen);
            if (seen >> 32 != offer->generation || done > offer->length) return -EPROTO;
        }
        /* who is not there now is not offered anything more in this call of his */
        if (done < offer->length) end->unanswered = atomic_load_explicit(&end->out.shared->want, memory_order_relaxed);
        fs_count(&end->statistics.bytes_direct, done);
        return done;
    }
}

void fs_cma_abandon(struct fs_end *end)
{
    _Atomic uint64_t *word = &end->out.shared->offer;
    if (is_open(atomic_load_explicit(word, memory_order_relaxed))) atomic_fetch_or(word, WITHDRAWN);
}

/* ---- receiving ---- */

static uint64_t received(const struct fs_end *end)
{
    return atomic_load_explicit(&end->statistics.bytes_received, memory_order_relaxed);
}

void fs_cma_note_take(struct fs_end *end, uint64_t ticks)
{
    fs_cost_learn(&end->take_cost, ticks, FS_COST_HALF);
    end->took_at = received(end);
}

/* Through the ring, both ends copy at once: the slower one counts. */
static int is_cheaper(const struct fs_end *end)
{
    uint64_t put = atomic_load_explicit(&end->in.shared->put_cost, memory_order_relaxed);
    uint64_t ring = put > end->take_cost ? put : end->take_cost;
    return end->pull_cost < ring - ring / 4;
}

/* How much of a buffer of that size to ask for: all of it, enough to measure, or nothing.  Whichever way is taken, the
 * other one is measured from time to time. */
static size_t worth_asking(struct fs_end *end, size_t length)
{
    size_t least = end->limits.direct_min, enough = 2 * least > PROBE ? 2 * least : PROBE;
    if (least == 0 || length < least || end->peer <= 0 || end->unreadable) return 0;
    if (end->pull_cost != 0 && is_cheaper(end)) return received(end) - end->took_at > PROBE_EVERY ? 0 : length;
    if (end->pull_cost != 0 && received(end) - end->pulled_at <= PROBE_EVERY) return 0;
    return length < enough ? length : enough;
}

void fs_cma_want(struct fs_end *end, size_t length)
{
    size_t wanted = worth_asking(end, length);
    if (wanted == 0 && !end->wants) return;
    uint64_t tail = atomic_load_explicit(&end->in.shared->tail, memory_order_relaxed);
    atomic_store_explicit(&end->in.shared->want, wanted != 0 ? tail + wanted : 0, memory_order_release);
    end->wants = wanted != 0;
}

struct place {
    uint32_t length;
    uint64_t address;
    struct fs_cma_identity identity;
};

/* The other end's claims.  1: they belong to the offer that `seen` says, and come next in the stream. */
static int find(const struct fs_end *end, uint64_t seen, struct place *place)
{
    struct fs_direction *in = end->in.shared;
    uint64_t from = atomic_load_explicit(&in->offer_from, memory_order_relaxed);
    place->length = atomic_load_explicit(&in->offer_length, memory_order_relaxed);
    place->address = atomic_load_explicit(&in->offer_address, memory_order_relaxed);
    place->identity.process = end->peer;
    place->identity.address = atomic_load_explicit(&in->nonce_address, memory_order_relaxed);
    place->identity.nonce = atomic_load_explicit(&in->nonce, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&in->offer) == seen && from == atomic_load_explicit(&in->tail, memory_order_relaxed) &&
           done_of(seen) < place->length;
}

ssize_t fs_cma_pull(struct fs_end *end, unsigned char *target, size_t length)
{
    _Atomic uint64_t *word = &end->in.shared->offer;
    uint64_t seen = atomic_load(word);
    struct place place;
    if (!end->wants || !is_open(seen) || !find(end, seen, &place)) return 0;
    uint32_t done = done_of(seen), part = place.length - done < PIECE ? place.length - done : PIECE;
    if (part > length) part = (uint32_t)length;
    uint64_t start = fs_ticks();
    struct iovec parts[2] = {{target, part}};
    if (!fs_cma_read(&place.identity, place.address + done, parts, 1)) {
        end->unreadable = 1; /* not permitted, or not the process that it was: the ring serves */
        fs_cma_want(end, 0);
        atomic_compare_exchange_strong(word, &seen, seen | WITHDRAWN);
        return 0;
    }
    if (!atomic_compare_exchange_strong(word, &seen, seen + part)) return 0; /* withdrawn: it comes through the ring */
    if (part == PIECE) {
        fs_cost_learn(&end->pull_cost, fs_ticks() - start, FS_COST_HALF);
        end->pulled_at = received(end);
    }
    fs_count(&end->statistics.bytes_direct, part);
    return part;
}
