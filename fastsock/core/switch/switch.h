/* The change of carrier of the direction that this end sends, under the sender's lock. */
#ifndef FASTSOCK_SWITCH_H
#define FASTSOCK_SWITCH_H

#include "connection.h"
#include "tokens.h"

/* Whether the direction could go back to the ring: cheap, and without the lock. */
int fs_switch_is_due(const struct fs_record *record, const struct fs_end *end);
/* 1: it did; 0: not now.  The first one shuts all senders out of the kernel: no other thread may be within. */
int fs_switch_to_ring(struct fs_connection *connection, struct fs_end *end, int descriptor);
int fs_switch_to_tcp(struct fs_connection *connection, struct fs_end *end, int descriptor);
/* Where the last owner of the lock died in the middle of a change. */
void fs_switch_finish(struct fs_record *record, struct fs_end *end, int descriptor);
static inline void fs_switch_mend(struct fs_record *record, struct fs_end *end, int descriptor)
{
    uint32_t seq = atomic_load(&record->out_seq);
    if (atomic_load_explicit(&record->ringing, memory_order_relaxed) || atomic_load(&fs_words_out(end)->seq) != seq ||
        atomic_load(&record->out_ring) != (seq & 1))
        fs_switch_finish(record, end, descriptor);
}
static inline void fs_switch_mend_reader(struct fs_record *record, int descriptor)
{
    if (atomic_load_explicit(&record->taking, memory_order_relaxed)) fs_take_mend(record, descriptor);
}
/* X and `seq` alone: the first change, as a step of attach. */
int fs_switch_name_byte(struct fs_record *record, struct fs_end *end, int descriptor);
void fs_switch_wake(struct fs_end *end); /* whoever waits for the ring at the other end looks again */

/* The reader's side, under its lock: it goes on behind the next change of the other end. */
static inline void fs_switch_carry_out(struct fs_record *record, struct fs_end *end)
{
    uint32_t seq = atomic_load(&record->rseq) + 1;
    atomic_store(&record->rseq, seq);
    atomic_store(&fs_words_in(end)->drained, fs_moved(&record->received));
    atomic_store(&fs_words_in(end)->rseq, seq);
}

/* As far as a receive would get without taking payload. */
void fs_switch_catch_up(struct fs_connection *connection, struct fs_end *end, int descriptor);
/* What comes in goes through the ring now, as far as this end has carried out. */
static inline int fs_switch_reads_ring(const struct fs_record *record, const struct fs_end *end)
{
    uint32_t carried_out = atomic_load(&record->rseq);
    return (carried_out & 1) != 0 && atomic_load(&fs_words_in(end)->seq) == carried_out;
}

/* The other end needs its descriptor for other code, and asks that what it has not read be sent again over TCP. */
static inline int fs_switch_is_asked(const struct fs_end *end)
{
    return atomic_load_explicit(&fs_words_out(end)->release, memory_order_relaxed) == FS_RELEASE_ASKED;
}
void fs_switch_answer(struct fs_connection *connection, struct fs_end *end, int descriptor);

#endif
