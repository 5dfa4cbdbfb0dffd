#define _GNU_SOURCE
#include "record.h"

#include <sys/mman.h>

#define MOST_SLOTS (1u << 14)
#define FEWEST_SLOTS (1u << 8)
#define TRIES 8

_Atomic uint32_t fs_first_calls = 8;
_Atomic uint64_t fs_first_bytes = 64 * 1024;

/* All of it with the table held.  Memory of this process's own, for records that it begins: the processes that it forks
 * share it.  What is full is left as it is: some of its records will never be given back, because who held them was
 * killed. */
static struct fs_record *fresh; /* the next slot that nobody has had, of so many */
static uint32_t fresh_slots;
static struct fs_record *first, *last; /* free ones: a queue, so that a slot rests before it serves again */

static int make_arena(void)
{
    for (uint32_t slots = MOST_SLOTS; slots >= FEWEST_SLOTS; slots /= 4) {
        size_t bytes = (size_t)slots * sizeof(struct fs_record);
        if (!fs_may_map(bytes)) continue;
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) continue;
        fresh = memory;
        fresh_slots = slots;
        return 1;
    }
    return 0;
}

static void append(struct fs_record *record)
{
    record->next = NULL;
    if (last != NULL) last->next = record;
    else first = record;
    last = record;
}

static struct fs_record *take_first(void)
{
    struct fs_record *record = first;
    first = record->next;
    if (first == NULL) last = NULL;
    return record;
}

static int is_busy(const struct fs_record *record)
{
    return (atomic_load(&record->sent) | atomic_load(&record->received)) & FS_TRAFFIC_INSIDE ||
           atomic_load(&record->sender) != 0 || atomic_load(&record->receiver) != 0;
}

/* A slot whose last threads have gone out, or a new one. */
static struct fs_record *take_slot(void)
{
    for (int i = 0; i < TRIES && first != NULL; i++) {
        struct fs_record *record = take_first();
        if (!is_busy(record)) return record;
        append(record);
    }
    if (fresh_slots == 0 && !make_arena()) return NULL;
    fresh_slots--;
    return fresh++;
}

/* Threads that come too late may enter and back out meanwhile: their marks stay. */
static void clear_traffic(fs_traffic *traffic)
{
    if (fs_moved(traffic) != 0) atomic_fetch_and(traffic, FS_TRAFFIC_INSIDE);
}

#define STORE(WORD, VALUE) atomic_store_explicit(WORD, VALUE, memory_order_relaxed)

/* Without order: who finds the record by its connection has acquired them all (table.c).  Who comes too late, by an earlier
 * connection, may read old words or new ones.  He looks at the table behind his mark or his lock, and backs out. */
static void clear(struct fs_record *record, enum fs_role role)
{
    clear_traffic(&record->sent);
    clear_traffic(&record->received);
    STORE(&record->state, FS_CANDIDATE);
    STORE(&record->role, role);
    STORE(&record->next_try, atomic_load(&fs_first_calls));
    STORE(&record->next_bytes, atomic_load(&fs_first_bytes));
    STORE(&record->since_ns, 0);
    STORE(&record->switches, 0);
    STORE(&record->spills, 0);
    STORE(&record->rests, 0);
    STORE(&record->rested, 0);
    STORE(&record->rested_at, 0);
    STORE(&record->extra_out, 0);
    STORE(&record->extra_in, 0);
    STORE(&record->loop, 0);
    STORE(&record->foreign, 0);
    STORE(&record->watched, 0);
    STORE(&record->out_ring, 0);
    STORE(&record->out_seq, 0);
    STORE(&record->out_pinned, 0);
    STORE(&record->owed, 0);
    STORE(&record->ringing, 0);
    STORE(&record->rseq, 0);
    STORE(&record->taking, 0);
    STORE(&record->read_shut, 0);
    STORE(&record->calls_out, 0);
    STORE(&record->calls_in, 0);
    STORE(&record->reset_reported, 0);
    STORE(&record->failed, 0);
    STORE(&record->rung, 0);
    STORE(&record->reader_stays, 0);
    STORE(&record->listeners, 0);
    STORE(&record->uncounted, 0);
    STORE(&record->nodelay, 0);
    STORE(&record->cork, 0);
    STORE(&record->low_water, 0);
    STORE(&record->pending_error, 0);
}

struct fs_record *fs_record_take(enum fs_role role)
{
    struct fs_record *record = take_slot();
    if (record == NULL) return NULL;
    if (fs_holders_begin(&record->holders) != 0 || fs_holders_begin(&record->keepers) != 0) {
        append(record);
        return NULL;
    }
    clear(record, role);
    return record;
}

void fs_record_give(struct fs_record *record)
{
    if (fs_holders_leave(&record->keepers, FS_ASK_LATER)) append(record);
}

/* Those that were free are the parent's. */
void fs_records_after_fork_in_child(void)
{
    first = last = NULL;
    fresh_slots = 0;
}
