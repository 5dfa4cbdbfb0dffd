/* The memory that both ends of a connection map: two directions, each a byte ring.
 *
 * The other process can write everything here at any moment.  A value read from it is checked against limits in
 * private memory (see end.h) before it serves as an index, a length or a count.
 */
#ifndef FASTSOCK_LAYOUT_H
#define FASTSOCK_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#include "cost.h"
#include "system.h"
#include "words.h"

#define FS_MAGIC 0x314b434f53545346ull /* "FSTSOCK1" */
#define FS_VERSION 11u
#define FS_NOT_GROWN UINT64_MAX
#define FS_GROWTH 8u /* the large area is this many times the small one */

/* `bell`: the low bits are the state of the doorbell.  The count of all token bytes ever sent lies above them. */
enum { FS_BELL_SILENT = 0, FS_BELL_RUNG = 1, FS_BELL_RINGING = 2, FS_BELL_ABANDONED = 3, FS_BELL_ENDED = 4 };
enum { FS_BELL_STATE = 7, FS_BELL_SHIFT = 3 };

/* The top bits of `head`.  ASKED: the consumer wants payload over the doorbell from that position on, and nothing can
 * be published any more.  AGREED: the producer has seen that.  Until then the consumer may take it back. */
#define FS_RAW_ASKED (1ull << 63)
#define FS_RAW_AGREED (1ull << 62)
/* The producer sets it: from here on the doorbell carries bytes that are no tokens (farewell.c).  So the consumer
 * cannot ask. */
#define FS_FAREWELL (1ull << 61)
#define FS_POSITION (FS_FAREWELL - 1)
/* The state of those bytes.  UNDER_WAY is set before they are sent. */
enum { FS_FAREWELL_NONE = 0, FS_FAREWELL_UNDER_WAY = 1, FS_FAREWELL_SENT = 2 };
#define FS_FAREWELL_BYTES 2048u /* more than a quarter of the smallest send buffer: then a descriptor is not writable */

/* How an end leaves.  BY_RESET: it closed with SO_LINGER 0, or with bytes unread.  UNLESS_SHUT: a bridge holds bytes,
 * and its death would lose them without a word. */
enum { FS_ORDERLY = 0, FS_BY_RESET = 1, FS_BY_RESET_UNLESS_SHUT = 2 };

/* `watched`.  EXACTLY: the watcher needs an edge for every arrival.  LAZILY: fastsock's own loop watches, and it looks
 * at the ring before it blocks. */
enum { FS_WATCHED_NOT = 0, FS_WATCHED_EXACTLY = 1, FS_WATCHED_LAZILY = 2 };

/* `producer_shut`.  UNSHOWN: the doorbell does not say so yet.  Its reader shows it when all is read.  RAW: the end
 * comes behind payload that went over the doorbell itself. */
enum { FS_SHUT_NOT = 0, FS_SHUT = 1, FS_SHUT_UNSHOWN = 2, FS_SHUT_RAW = 3 };

/* Ticks, lately, for a unit: into the ring; out of the ring, and past it, of what comes the other way. */
struct fs_published_costs {
    _Atomic uint32_t put, take, pull;
};

struct fs_direction {
    /* written by the producer */
    _Alignas(FS_LINE) _Atomic uint64_t head; /* bytes published since the start, and FS_RAW_... */
    _Atomic uint64_t grown_at;               /* stream position from which the large area is used */
    _Atomic uint64_t promised;               /* position that the send under way means to reach: a hint */
    _Atomic uint32_t producer_shut;          /* the producing end called shutdown(SHUT_WR) */
    /* written by the consumer */
    _Alignas(FS_LINE) _Atomic uint64_t tail; /* bytes consumed since the start */
    _Atomic uint64_t want;                   /* as far as the buffer of a large receive reaches, 0 for none */
    /* read by both after every transfer, written only when somebody sleeps, watches or leaves */
    _Alignas(FS_LINE) _Atomic uint32_t reader_sleeps; /* futex word */
    _Atomic uint32_t writer_sleeps;                   /* futex word */
    _Atomic uint32_t notice;       /* moved when the producing end closed or shut down: the doorbell says which */
    _Atomic uint32_t reading_shut; /* the consuming end called shutdown(SHUT_RD) */
    _Atomic uint64_t bell;
    _Atomic uint32_t
        buffers[2];            /* SO_SNDBUF of the producing end, SO_RCVBUF of the other one; 0: as large as we like */
    _Atomic uint32_t stuffed;  /* the doorbell refuses writes because the ring is full */
    _Atomic uint32_t watched;  /* the consumer gave its descriptor away: FS_WATCHED_... */
    _Atomic uint32_t raw;      /* the producer sends payload after the ring's end over the doorbell itself */
    _Atomic uint32_t farewell; /* the producer's, behind all other bytes on the doorbell: FS_FAREWELL_... */
    _Alignas(FS_LINE) _Atomic uint64_t eaten; /* token bytes taken off the doorbell */
    /* direct copy (cma_offer.c): who copies which piece of an offer; what it is, written by the producer; and where its
     * bytes belong, written by the consumer */
    _Alignas(FS_LINE) _Atomic uint64_t offer;
    _Alignas(FS_LINE) _Atomic uint64_t offer_from; /* the ring's position at which it comes */
    _Atomic uint64_t offer_address, nonce_address, nonce;
    _Atomic uint32_t offer_length;
    _Alignas(FS_LINE) _Atomic uint64_t place_address;
    _Atomic uint64_t place_calls, place_gate; /* pages that whoever writes there must pass (cma_guard.h) */
    /* of the producing end, by class of a message's length; hints.  Sockets know no messages: one class serves them all */
    _Alignas(FS_LINE) struct fs_published_costs costs[FS_COST_CLASSES];
};

static inline uint64_t fs_published(const struct fs_direction *direction)
{
    return atomic_load(&direction->head) & FS_POSITION;
}

/* Whether the payload behind what is published goes over the doorbell, as either end decided. */
static inline int fs_is_raw(const struct fs_direction *direction)
{
    return atomic_load(&direction->raw) != 0 || (atomic_load(&direction->head) & FS_RAW_ASKED) != 0;
}

struct fs_segment_header {
    uint64_t magic;
    uint32_t version;
    uint32_t small_bytes; /* ring size of a direction before it grows */
    uint64_t token;       /* of System V memory, whose number means another segment in another namespace */
    _Alignas(FS_LINE) _Atomic uint32_t cpu[2]; /* where each end last ran, plus one */
    _Atomic uint32_t reset[2];                 /* how that end leaves: FS_BY_RESET ... */
    _Atomic uint32_t urgent_inline[2];         /* that end set SO_OOBINLINE */
    _Atomic uint32_t left;                     /* a bit for each end that was closed in good order (farewell.c) */
    _Atomic uint32_t other_holders[2];         /* of that end: processes forked since, less those that closed it */
    _Atomic uint64_t importer[2];              /* where that end takes buffers (core/registered), 0: nowhere */
    _Alignas(FS_LINE) struct fs_direction direction[2]; /* [side]: produced by that side */
    /* of a connection that keeps its TCP socket: whether both ends have this memory, and what carries each direction */
    _Alignas(FS_LINE) _Atomic uint32_t joined;
    struct fs_switch_words words[2]; /* [side]: of what that side sends */
};

#endif
