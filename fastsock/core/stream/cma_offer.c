#define _GNU_SOURCE
#include "cma_offer.h"

#include <errno.h>
#include <sched.h>
#include <sys/uio.h>

#include "cma.h"
#include "cma_choice.h"
#include "cma_pieces.h"
#include "system.h"

#define LONGEST_OFFER (64u << 20)
#define LONGEST_WAIT_US 40000.0 /* then the call looks up for signals, even while it is being answered */
#define PATIENCE 4              /* times the longest spin, for another end that has begun */
#define FARTHEST (1ull << 40)   /* nobody has a buffer of that size: a lie, or a word that is out of date */
#define SERIAL_SHIFT 48         /* of `want`: how often it was set, above the position */
#define WANTED_POSITION ((1ull << SERIAL_SHIFT) - 1)
#define MOST_TRIES 4u /* for each piece, at its word */
#define DEATH_SLICE_NS 1000000ull
#define MOST_GENERATIONS ((1u << 24) - 1)

/* ---- the word ---- */

/* What an offer says changes only while it is withdrawn, or before the first one: no offer has generation 0. */
struct progress {
    uint32_t generation;
    int withdrawn;
    int joined;         /* by a receiver that said where the bytes belong: the sender may write them there */
    uint32_t claimed;   /* pieces; once it is withdrawn those delivered */
    uint32_t receivers; /* the piece that this end copies, counted from 1; 0: none */
    uint32_t senders;   /* once the receiver has withdrawn it: not 0 where the sender may still be writing */
};

enum { COUNT_BITS = 12, JOINED_BIT = 3 * COUNT_BITS, WITHDRAWN_BIT, GENERATION_SHIFT = 40 };
#define COUNT_MASK ((1u << COUNT_BITS) - 1)

_Static_assert(LONGEST_OFFER / FS_LONGEST_PIECE < COUNT_MASK, "the count of pieces fits");

static uint64_t word_of(struct progress p)
{
    return (uint64_t)p.generation << GENERATION_SHIFT | (uint64_t)(p.withdrawn != 0) << WITHDRAWN_BIT |
           (uint64_t)(p.joined != 0) << JOINED_BIT | (uint64_t)p.senders << 2 * COUNT_BITS |
           (uint64_t)p.receivers << COUNT_BITS | p.claimed;
}

static struct progress progress_of(uint64_t word)
{
    return (struct progress){.generation = (uint32_t)(word >> GENERATION_SHIFT),
                             .withdrawn = (int)(word >> WITHDRAWN_BIT & 1),
                             .joined = (int)(word >> JOINED_BIT & 1),
                             .claimed = (uint32_t)word & COUNT_MASK,
                             .receivers = (uint32_t)(word >> COUNT_BITS) & COUNT_MASK,
                             .senders = (uint32_t)(word >> 2 * COUNT_BITS) & COUNT_MASK};
}

static int is_open(uint64_t word)
{
    struct progress p = progress_of(word);
    return p.generation != 0 && !p.withdrawn;
}

/* Of the offer that this end knows, and possible. */
static int is_sane(struct progress p, uint32_t generation, uint32_t all, uint32_t senders)
{
    if (p.generation != generation || p.claimed > all) return 0;
    return p.withdrawn || (p.receivers <= p.claimed && p.senders == senders);
}

static struct progress withdrawn(struct progress p, int writes)
{
    uint32_t delivered = p.claimed;
    if (p.senders != 0 && p.senders <= delivered) delivered = p.senders - 1;
    if (p.receivers != 0 && p.receivers <= delivered) delivered = p.receivers - 1;
    return (struct progress){
        .generation = p.generation, .withdrawn = 1, .claimed = delivered, .senders = writes ? p.senders : 0};
}

static int move(_Atomic uint64_t *word, uint64_t *seen, struct progress next)
{
    uint64_t wanted = word_of(next);
    if (!atomic_compare_exchange_strong(word, seen, wanted)) return 0;
    *seen = wanted;
    return 1;
}

/* At once and for good, whatever the other end writes meanwhile.  `writes`: the sender may be writing. */
static uint64_t withdraw(_Atomic uint64_t *word, int writes)
{
    uint64_t seen = atomic_load(word);
    while (is_open(seen) && !move(word, &seen, withdrawn(progress_of(seen), writes))) {}
    return seen;
}

/* ---- patience with the other end ---- */

struct watch {
    uint64_t began, moved, seen;
};

static uint64_t ticks_of(double microseconds) { return (uint64_t)(microseconds * fs_ticks_per_us()); }

static struct watch watch_from(uint64_t seen)
{
    uint64_t now = fs_ticks();
    return (struct watch){now, now, seen};
}

static int is_late(struct watch *watch, uint64_t seen, double patience_us)
{
    uint64_t now = fs_ticks();
    if (seen != watch->seen) watch->moved = now;
    watch->seen = seen;
    return now - watch->moved > ticks_of(patience_us) || now - watch->began > ticks_of(LONGEST_WAIT_US);
}

static size_t bytes_of(size_t length, uint32_t pieces)
{
    size_t bytes = (size_t)pieces * fs_piece_of(length);
    return bytes < length ? bytes : length;
}

/* ---- sending ---- */

int fs_cma_offer(struct fs_end *end, struct fs_offer *offer, const unsigned char *data, size_t length)
{
    struct fs_direction *out = end->out.shared;
    uint64_t want = atomic_load_explicit(&out->want, memory_order_acquire);
    if (want == 0 || want == end->answered) return 0;
    /* a forked process has another number than the one that the receiver knows */
    if (fs_end_shared(end) || !fs_end_is_elsewhere(end)) return 0;
    if (is_open(atomic_load_explicit(&out->offer, memory_order_relaxed))) return 0;
    uint64_t head = fs_published(out), reach = (want - head) & WANTED_POSITION;
    if (reach > FARTHEST) return 0;
    if (reach > length) reach = length;
    if (reach > LONGEST_OFFER) reach = LONGEST_OFFER;
    if (reach < end->limits.direct_min || reach <= FS_CMA_FIRST) return 0;
    /* the numbers come again: nobody has held on to a word for so many offers that he did not answer */
    end->offers = end->offers % MOST_GENERATIONS + 1;
    end->answered = want; /* each once: who is not there is not waited for again */
    *offer = (struct fs_offer){end->offers, (uint32_t)(reach - FS_CMA_FIRST), data + FS_CMA_FIRST};
    atomic_store_explicit(&out->offer_from, head + FS_CMA_FIRST, memory_order_relaxed);
    atomic_store_explicit(&out->offer_length, offer->length, memory_order_relaxed);
    atomic_store_explicit(&out->offer_address, (uint64_t)(uintptr_t)offer->data, memory_order_relaxed);
    atomic_store_explicit(&out->nonce_address, (uint64_t)(uintptr_t)&end->nonce, memory_order_relaxed);
    atomic_store_explicit(&out->nonce, end->nonce, memory_order_relaxed);
    atomic_store(&out->offer, word_of((struct progress){.generation = offer->generation}));
    return 1;
}

/* One piece into the receiver's buffer, where it says that this is.  A lie concerns its own memory. */
static int write_piece(struct fs_end *end, const struct fs_offer *offer, uint32_t index)
{
    const struct fs_direction *out = end->out.shared;
    struct fs_guard_place there = {.process = atomic_load_explicit(&end->peer, memory_order_relaxed),
                                   .calls = atomic_load_explicit(&out->place_calls, memory_order_relaxed),
                                   .gate = atomic_load_explicit(&out->place_gate, memory_order_relaxed)};
    size_t from = index * fs_piece_of(offer->length), length = fs_length_of_piece(offer->length, index);
    uint64_t address = atomic_load_explicit(&out->place_address, memory_order_relaxed) + from;
    if (!fs_guarded_write(&there, ++end->writes, offer->data + from, address, length)) return 0;
    fs_count(&end->statistics.bytes_written, length);
    return 1;
}

/* A receiver that is still at it asks anew when it has left it.  Only then may there be another offer: it would take the
 * word for that of its own one. */
static void give_up(struct fs_end *end)
{
    struct fs_direction *out = end->out.shared;
    withdraw(&out->offer, 0);
    end->answered = atomic_load(&out->want);
}

/* Claims the next piece, and copies it: 0, or -EPROTO. */
static int help(struct fs_end *end, const struct fs_offer *offer, uint64_t seen, uint32_t all)
{
    _Atomic uint64_t *word = &end->out.shared->offer;
    struct progress next = progress_of(seen);
    uint32_t mine = next.senders = ++next.claimed;
    if (!move(word, &seen, next)) return 0;
    if (!write_piece(end, offer, mine - 1)) {
        if (is_open(atomic_load(word))) end->unwritable = 1; /* not permitted, or gone: else the right was taken away */
        give_up(end);
        return 0;
    }
    for (seen = atomic_load(word); is_open(seen);) {
        next = progress_of(seen);
        if (!is_sane(next, offer->generation, all, mine)) return -EPROTO;
        next.senders = 0;
        if (move(word, &seen, next)) break;
    }
    return 0;
}

static int may_help(const struct fs_end *end) { return !end->unwritable && atomic_load(&end->peer) > 0; }

ssize_t fs_cma_serve(struct fs_end *end, const struct fs_offer *offer, double patience_us)
{
    struct fs_direction *out = end->out.shared;
    uint32_t all = fs_pieces_of(offer->length), tries = 0;
    uint64_t writes = end->writes;
    struct watch watch = watch_from(atomic_load(&out->offer) + atomic_load(&out->tail));
    for (;; fs_pause()) {
        uint64_t seen = atomic_load(&out->offer);
        struct progress now = progress_of(seen);
        if (!is_sane(now, offer->generation, all, 0)) return -EPROTO;
        if (now.withdrawn) break; /* by the receiver, perhaps because all is done */
        if (now.joined && now.claimed < all && may_help(end)) {
            if (tries++ > MOST_TRIES * all || help(end, offer, seen, all) != 0) return -EPROTO;
            watch.moved = fs_ticks();
            continue;
        }
        int begun = now.joined || now.claimed != 0, over = now.claimed == all && now.receivers == 0;
        double patience =
            begun && patience_us < PATIENCE * end->limits.spin_us ? PATIENCE * end->limits.spin_us : patience_us;
        if (over || is_late(&watch, seen + atomic_load_explicit(&out->tail, memory_order_relaxed), patience))
            give_up(end);
    }
    struct progress last = progress_of(atomic_load(&out->offer));
    if (!is_sane(last, offer->generation, all, 0)) return -EPROTO;
    size_t delivered = bytes_of(offer->length, last.claimed);
    fs_count(&end->statistics.bytes_direct, delivered);
    if (delivered != 0) fs_note_large(&end->large_out, end->writes != writes ? FS_BY_BOTH : FS_BY_RECEIVER);
    return (ssize_t)delivered;
}

void fs_cma_abandon(struct fs_end *end) { withdraw(&end->out.shared->offer, 0); }

/* ---- receiving ---- */

void fs_cma_want(struct fs_end *end, size_t length)
{
    size_t wanted = fs_cma_worth_asking(end, length);
    if (wanted == 0 && !end->wants) return;
    uint64_t reach = atomic_load_explicit(&end->in.shared->tail, memory_order_relaxed) + wanted, word = 0;
    if (wanted != 0) word = (uint64_t)++end->askings << SERIAL_SHIFT | (reach & WANTED_POSITION);
    atomic_store_explicit(&end->in.shared->want, word, memory_order_release);
    end->wants = wanted != 0;
}

struct source {
    size_t length;
    uint32_t copied; /* pieces, by this end */
    uint64_t address;
    struct fs_cma_identity identity;
};

/* The other end's claims.  1: they belong to the offer that `seen` says, and come next in the stream. */
static int find(const struct fs_end *end, uint64_t seen, struct source *source)
{
    struct fs_direction *in = end->in.shared;
    uint64_t from = atomic_load_explicit(&in->offer_from, memory_order_relaxed);
    source->length = atomic_load_explicit(&in->offer_length, memory_order_relaxed);
    source->address = atomic_load_explicit(&in->offer_address, memory_order_relaxed);
    source->identity.process = end->peer;
    source->identity.address = atomic_load_explicit(&in->nonce_address, memory_order_relaxed);
    source->identity.nonce = atomic_load_explicit(&in->nonce, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&in->offer) == seen && from == atomic_load_explicit(&in->tail, memory_order_relaxed);
}

int fs_cma_is_offered(const struct fs_end *end)
{
    struct fs_direction *in = end->in.shared;
    return end->wants && is_open(atomic_load_explicit(&in->offer, memory_order_acquire)) &&
           atomic_load_explicit(&in->offer_from, memory_order_relaxed) ==
               atomic_load_explicit(&in->tail, memory_order_relaxed);
}

/* Whether the sender may write here: it says where.  A forked process has another number than the one that the sender
 * knows. */
static int lay_open(struct fs_end *end, unsigned char *target)
{
    struct fs_direction *in = end->in.shared;
    if (end->unguarded || fs_end_shared(end)) return 0;
    if (end->guard.gate == NULL) fs_guard_open(&end->guard, 1);
    if (end->guard.gate == NULL) {
        fs_guard_close(&end->guard);
        end->unguarded = 1;
        return 0;
    }
    atomic_store_explicit(&in->place_address, (uint64_t)(uintptr_t)target, memory_order_relaxed);
    atomic_store_explicit(&in->place_calls, (uint64_t)(uintptr_t)end->guard.calls, memory_order_relaxed);
    atomic_store_explicit(&in->place_gate, (uint64_t)(uintptr_t)end->guard.gate, memory_order_relaxed);
    return 1;
}

/* Takes the sender's right to write away, and waits until nothing of it is under way. */
static void close_off(struct fs_end *end)
{
    int late = 0;
    uint64_t looked = fs_now_ns();
    while (!fs_guard_revoke(&end->guard, &late)) {
        sched_yield();
        if (fs_now_ns() - looked < DEATH_SLICE_NS) continue;
        if (!fs_is_alive(end->peer)) break; /* killed in the middle of it */
        looked = fs_now_ns();
    }
    if (late) end->unguarded = 1;
    fs_guard_close(&end->guard);
}

/* Copies the pieces that this end claims, from the first one on, which it has claimed.  0: something was impossible. */
static int copy_pieces(struct fs_end *end, struct source *source, unsigned char *target, uint64_t seen)
{
    _Atomic uint64_t *word = &end->in.shared->offer;
    uint32_t all = fs_pieces_of(source->length), generation = progress_of(seen).generation, index = 0;
    for (source->copied = 0; source->copied < all;) {
        size_t from = index * fs_piece_of(source->length), length = fs_length_of_piece(source->length, index);
        struct iovec part[2] = {{target + from, length}};
        if (!fs_cma_read(&source->identity, source->address + from, part, 1)) {
            end->unreadable = 1; /* not permitted, or not the process that it was: the ring serves */
            return 0;
        }
        source->copied++;
        struct progress next;
        seen = atomic_load(word);
        do {
            next = progress_of(seen);
            if (!is_open(seen)) return 1;
            if (!is_sane(next, generation, all, next.senders) || next.senders > next.claimed) return 0;
            next.receivers = next.claimed < all ? ++next.claimed : 0;
        } while (!move(word, &seen, next));
        if (next.receivers == 0) return 1;
        index = next.receivers - 1;
    }
    return 0; /* more than there are */
}

/* Until the sender has done its last piece, or does not come back to it. */
static void await_sender(struct fs_end *end)
{
    _Atomic uint64_t *word = &end->in.shared->offer;
    uint64_t seen = atomic_load(word);
    struct watch watch = watch_from(seen);
    while (is_open(seen) && progress_of(seen).senders != 0 && !is_late(&watch, seen, PATIENCE * end->limits.spin_us)) {
        fs_pause();
        seen = atomic_load(word);
    }
}

ssize_t fs_cma_take(struct fs_end *end, unsigned char *target, size_t length)
{
    _Atomic uint64_t *word = &end->in.shared->offer;
    uint64_t seen = atomic_load(word), began = fs_ticks();
    struct source source;
    if (!is_open(seen) || !find(end, seen, &source)) return 0;
    struct progress next = progress_of(seen);
    if (!end->wants || source.length == 0 || source.length > length || source.length > LONGEST_OFFER ||
        next.claimed != 0) {
        /* it is for another call of ours, or for a brother who died at it: what that one had did not come to anybody */
        next.claimed = next.receivers = 0;
        move(word, &seen, withdrawn(next, 0));
        return 0;
    }
    int is_first = end->guard.gate == NULL;
    next.joined = lay_open(end, target);
    is_first &= next.joined; /* the guard was made just now: that takes longer than the copy */
    next.receivers = next.claimed = 1;
    if (!move(word, &seen, next)) return 0; /* withdrawn: it comes through the ring */
    if (copy_pieces(end, &source, target, seen)) await_sender(end);
    struct progress last = progress_of(withdraw(word, 1));
    if (next.joined && last.senders != 0) close_off(end);
    if (last.generation != next.generation || last.claimed > fs_pieces_of(source.length)) return -EPROTO;
    size_t delivered = bytes_of(source.length, last.claimed);
    size_t least = fs_length_of_piece(source.length, 0); /* what was broken off was slow */
    if (!is_first) fs_cma_note_direct(end, delivered > least ? delivered : least, fs_ticks() - began);
    size_t copied = bytes_of(source.length, source.copied);
    if (copied < delivered) fs_count(&end->statistics.bytes_written, delivered - copied);
    fs_count(&end->statistics.bytes_direct, delivered);
    if (delivered != 0) fs_note_large(&end->large_in, copied < delivered ? FS_BY_BOTH : FS_BY_RECEIVER);
    fs_cma_want(end, length - delivered);
    return (ssize_t)delivered;
}
