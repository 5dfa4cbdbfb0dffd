#define _GNU_SOURCE
#include "record.h"

#include <pthread.h>
#include <sys/mman.h>

#define MOST_SLOTS (1u << 17)
#define FEWEST_SLOTS (1u << 10)
#define BATCH 64u
#define TRIES 8

_Atomic uint32_t fs_first_calls = 8;
_Atomic uint64_t fs_first_bytes = 64 * 1024;

struct arena {
    _Atomic uint32_t next; /* slots that nobody has had yet; slot 0 is this */
    uint32_t slots;
};

_Static_assert(sizeof(struct arena) <= sizeof(struct fs_record), "it lies in the first slot");

/* The slots that this process may use: a queue, so that a slot rests before it serves again. */
static struct fs_record *records;
static uint32_t first, last; /* 0: none; linked by `next` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct fs_record *make_arena(void)
{
    for (uint32_t slots = MOST_SLOTS; slots >= FEWEST_SLOTS; slots /= 4) {
        size_t bytes = (size_t)slots * sizeof(struct fs_record);
        if (!fs_may_map(bytes)) continue;
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) continue;
        struct arena *arena = memory;
        arena->slots = slots;
        atomic_store(&arena->next, 1);
        return memory;
    }
    return NULL;
}

static void append(uint32_t slot)
{
    records[slot].next = 0;
    if (last != 0) records[last].next = slot;
    else first = slot;
    last = slot;
}

static uint32_t take_first(void)
{
    uint32_t slot = first;
    first = records[slot].next;
    if (first == 0) last = 0;
    return slot;
}

/* A new batch, which no other process has. */
static int refill(void)
{
    struct arena *arena = (struct arena *)records;
    uint32_t begin = atomic_load(&arena->next);
    do
        if (begin + BATCH > arena->slots) return 0;
    while (!atomic_compare_exchange_weak(&arena->next, &begin, begin + BATCH));
    for (uint32_t slot = begin; slot < begin + BATCH; slot++) append(slot);
    return 1;
}

static int is_busy(const struct fs_record *record)
{
    return (atomic_load(&record->sent) | atomic_load(&record->received)) & FS_TRAFFIC_INSIDE ||
           atomic_load(&record->sender) != 0 || atomic_load(&record->receiver) != 0;
}

/* A slot whose last threads have gone out. */
static struct fs_record *take_slot(void)
{
    if (records == NULL && (records = make_arena()) == NULL) return NULL;
    for (int i = 0; i < TRIES && (first != 0 || refill()); i++) {
        uint32_t slot = take_first();
        if (!is_busy(&records[slot])) return &records[slot];
        append(slot);
    }
    return refill() ? &records[take_first()] : NULL;
}

/* Threads that come too late may enter and back out meanwhile: their marks stay. */
static void clear(struct fs_record *record, enum fs_role role)
{
    atomic_fetch_and(&record->sent, FS_TRAFFIC_INSIDE);
    atomic_fetch_and(&record->received, FS_TRAFFIC_INSIDE);
    atomic_store(&record->state, FS_CANDIDATE);
    atomic_store(&record->role, role);
    atomic_store(&record->holders, 1);
    atomic_store(&record->keepers, 1);
    atomic_store(&record->next_try, atomic_load(&fs_first_calls));
    atomic_store(&record->next_bytes, atomic_load(&fs_first_bytes));
    atomic_store(&record->since_ns, 0);
    atomic_store(&record->switches, 0);
    atomic_store(&record->spills, 0);
    _Atomic uint32_t *const words[] = {
        &record->foreign,    &record->watched,   &record->out_ring,  &record->out_seq,
        &record->out_pinned, &record->owed,      &record->ringing,   &record->rseq,
        &record->taking,     &record->read_shut, &record->calls_out, &record->calls_in,
        &record->reset_told, &record->failed,    &record->rung,      &record->reader_stays};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) atomic_store(words[i], 0);
    _Atomic int *const numbers[] = {&record->nodelay, &record->cork, &record->low_water, &record->pending_error};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) atomic_store(numbers[i], 0);
}

struct fs_record *fs_record_take(enum fs_role role)
{
    pthread_mutex_lock(&lock);
    struct fs_record *record = take_slot();
    pthread_mutex_unlock(&lock);
    if (record == NULL) return NULL;
    clear(record, role);
    atomic_fetch_add(&record->generation, 1);
    return record;
}

void fs_record_give(struct fs_record *record)
{
    if (atomic_fetch_sub(&record->keepers, 1) != 1) return;
    pthread_mutex_lock(&lock);
    append((uint32_t)(record - records));
    pthread_mutex_unlock(&lock);
}

void fs_records_before_fork(void) { pthread_mutex_lock(&lock); }

void fs_records_after_fork(int in_child)
{
    if (in_child) first = last = 0; /* they are the parent's */
    pthread_mutex_unlock(&lock);
}
