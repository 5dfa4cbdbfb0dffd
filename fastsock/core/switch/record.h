/* A connection's state as all processes share it that were forked from the one where it began.
 *
 * Records lie in shared memory of the process that begins the connection.  That memory is never unmapped and never serves
 * anything else: whoever comes late to a record finds a record, perhaps of another connection, and backs out (carry.h).
 */
#ifndef FASTSOCK_RECORD_H
#define FASTSOCK_RECORD_H

#include <stdatomic.h>
#include <stdint.h>

#include "holders.h"
#include "stream/exclusion.h"
#include "system.h"

/* PLAIN states carry over TCP and know nothing of memory.  OFFERED: this end has offered it.  ATTACHED: both ends have it.
 * RELEASED: they had it, and foreign code has the descriptor now.  OWNED: they have it, and one owner alone moves the bytes
 * (owned.h): for all others that is plain. */
enum fs_record_state {
    FS_CANDIDATE = 0,
    FS_TCP_ONLY = 1,
    FS_RELEASED = 2,
    FS_OWNED = 3,
    FS_OFFERED = 4,
    FS_ATTACHED = 5
};

enum fs_role { FS_ROLE_UNKNOWN, FS_ROLE_CONNECTED, FS_ROLE_ACCEPTED };

/* Bytes of one direction on TCP, tokens among them, and how many threads are within the kernel's call without a lock: one
 * word, so that whoever leaves it counts what he moved in the same step.  The bytes count modulo 2^48. */
typedef _Atomic uint64_t fs_traffic;
enum { FS_TRAFFIC_SHIFT = 16, FS_TRAFFIC_INSIDE = 0xffff };

static inline uint64_t fs_traffic_bytes(uint64_t word) { return word >> FS_TRAFFIC_SHIFT; }
static inline uint32_t fs_traffic_inside(uint64_t word) { return (uint32_t)(word & FS_TRAFFIC_INSIDE); }
static inline uint64_t fs_moved(const fs_traffic *traffic) { return fs_traffic_bytes(atomic_load(traffic)); }
/* How far `to` lies behind `from`: both are such counts, and the result is less than 2^47 either way. */
static inline int64_t fs_distance(uint64_t from, uint64_t to)
{
    return (int64_t)((to - from) << FS_TRAFFIC_SHIFT) >> FS_TRAFFIC_SHIFT;
}

struct fs_record {
    /* read in each call, seldom written */
    _Atomic uint32_t state; /* enum fs_record_state */
    _Atomic uint32_t role;
    _Atomic uint32_t next_try;   /* from as many calls of a direction on candidates.c is asked; UINT32_MAX: never */
    _Atomic uint32_t foreign;    /* something that only TCP can carry went over it: not a candidate any more */
    _Atomic uint32_t watched;    /* by somebody whom fastsock does not see */
    _Atomic uint64_t next_bytes; /* from as many bytes on, likewise; UINT64_MAX: never */
    struct fs_record *next;      /* of those that are free */
    struct fs_holders holders;   /* the processes that have numbers of it */
    struct fs_holders keepers;   /* the same, until each is done with it */
    _Atomic int nodelay, cork, low_water; /* what the program set, while another value holds underneath (options.h) */
    _Atomic uint64_t since_ns;            /* when it was attached, on fs_now_ns()'s clock */

    /* the sender's */
    _Alignas(FS_LINE) fs_traffic sent;
    _Atomic uint32_t out_ring;   /* payload goes into the ring; nobody enters the kernel's send any more */
    _Atomic uint32_t out_seq;    /* as the segment's, where the other end cannot write */
    _Atomic uint32_t out_pinned; /* it stays on TCP: something went over it that only TCP carries */
    _Atomic uint32_t owed;       /* tokens that TCP refused: before any payload */
    _Atomic uint32_t
        ringing; /* a token is being sent: whoever finds that behind a dead owner looks at the kernel's count */
    _Atomic uint32_t reader_stays; /* the other end's, in a recv() since before the attach */
    _Atomic uint32_t rung; /* tokens since X that were sent, or are owed: what the segment counts, but for one */
    _Atomic uint32_t calls_out;
    _Atomic uint64_t switches, spills; /* of this end's direction */
    _Atomic uint32_t rests, rested;    /* sends left over TCP before the ring is tried again; how many there were */
    _Atomic uint64_t rested_at;        /* the ring's head then */
    _Atomic uint64_t extra_out;        /* among `sent`: tokens, and what had gone into the ring before */
    fs_lock_word sender;

    /* the reader's */
    _Alignas(FS_LINE) fs_traffic received;
    _Atomic uint32_t rseq;           /* as the segment's, where the other end cannot write */
    _Atomic uint32_t taking;         /* bytes are being taken off TCP under the lock: as `ringing` */
    _Atomic uint32_t read_shut;      /* shutdown(SHUT_RD) */
    _Atomic int pending_error;       /* errno that the kernel has told, but we have not */
    _Atomic uint32_t failed;         /* the kernel has told an error: the connection is over */
    _Atomic uint32_t reset_reported; /* that the other end is gone, by an error or in place of one */
    _Atomic uint32_t calls_in;
    _Atomic uint64_t extra_in;  /* among `received`: tokens */
    _Atomic uint32_t listeners; /* threads and pollers that may sleep until a token comes; one that was killed stays */
    _Atomic uint32_t uncounted; /* another one may, that is not counted */
    _Atomic uint64_t loop;      /* the ticket of the loop that hears by a bit (loop.c), 0: none */
    fs_lock_word receiver;
};

/* All with the table held (table.h). */
/* With one holder; NULL: there is no memory, or no slot is free.  Its words are stored without order:
 * who stores where others find the record releases them, too. */
struct fs_record *fs_record_take(enum fs_role role);
void fs_record_give(struct fs_record *record); /* this process is done with it; the last one frees it */
void fs_records_after_fork_in_child(void);

/* Of new records: `next_try` and `next_bytes`. */
extern _Atomic uint32_t fs_first_calls;
extern _Atomic uint64_t fs_first_bytes;

static inline uint32_t fs_record_state(const struct fs_record *record)
{
    return atomic_load_explicit(&record->state, memory_order_acquire);
}
static inline int fs_record_is_plain(const struct fs_record *record) { return fs_record_state(record) < FS_OFFERED; }
static inline int fs_record_has_memory(const struct fs_record *record)
{
    uint32_t state = fs_record_state(record);
    return state == FS_ATTACHED || state == FS_OWNED;
}

#endif
