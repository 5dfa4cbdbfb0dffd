/* The ends of this process: a fork adds a holder to each. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "cma.h"
#include "end.h"
#include "system.h"

static pthread_mutex_t ends_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fs_end *ends;

static void before_fork(void)
{
    pthread_mutex_lock(&ends_lock);
    for (struct fs_end *end = ends; end != NULL; end = end->next)
        if (!end->closed) atomic_fetch_add(&end->header->other_holders[end->side], 1);
}

static void after_fork(void) { pthread_mutex_unlock(&ends_lock); }

__attribute__((constructor)) static void heed_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void add(struct fs_end *end)
{
    pthread_mutex_lock(&ends_lock);
    end->next = ends;
    if (ends != NULL) ends->previous = end;
    ends = end;
    pthread_mutex_unlock(&ends_lock);
}

static void remove_end(struct fs_end *end)
{
    pthread_mutex_lock(&ends_lock);
    if (end->previous != NULL) end->previous->next = end->next;
    else ends = end->next;
    if (end->next != NULL) end->next->previous = end->previous;
    pthread_mutex_unlock(&ends_lock);
}

/* Forks count in, closes count out; what ended without closing stays counted, and then nobody is the last. */
int fs_end_is_last(struct fs_end *end)
{
    _Atomic uint32_t *others = &end->header->other_holders[end->side];
    uint32_t count = atomic_load(others);
    while (count != 0)
        if (atomic_compare_exchange_weak(others, &count, count - 1)) return 0;
    return 1;
}

void fs_ends_leave(const struct fs_end *but)
{
    for (struct fs_end *end = ends; end != NULL; end = end->next)
        if (end != but && !end->closed) fs_end_is_last(end);
}

static struct fs_end *make(struct fs_segment *segment, int side, const struct fs_limits *limits,
                           const struct fs_exclusion *exclusion, const struct fs_signals *signals)
{
    struct fs_end *end = calloc(1, sizeof *end);
    if (end == NULL) return NULL;
    end->exclusion = *exclusion;
    end->signals = signals;
    end->holders = 1;
    end->segment = fs_segment_hold(segment);
    end->header = segment->header;
    end->side = side;
    end->lifeline = -1;
    end->forks_at_start = fs_fork_count();
    end->limits = *limits;
    end->peer = limits->peer;
    end->nonce = fs_cma_nonce();
    end->spin_read.success = end->spin_write.success = 1.0f;
    unsigned char *data = fs_segment_rings(segment);
    uint64_t large = (uint64_t)segment->small * FS_GROWTH;
    for (int d = 0; d < 2; d++) {
        struct fs_ring *ring = d == side ? &end->out : &end->in;
        *ring = (struct fs_ring){&end->header->direction[d], data + (size_t)d * large, segment->small, large, 0, 0};
    }
    add(end);
    return end;
}

struct fs_end *fs_end_open_on(struct fs_segment *segment, int side, const struct fs_limits *limits, int *error)
{
    struct fs_exclusion exclusion;
    struct fs_end *end = NULL;
    *error = fs_exclusion_take(&exclusion);
    if (*error != 0) return NULL;
    end = make(segment, side, limits, &exclusion, &fs_doorbell_signals);
    if (end == NULL) {
        fs_exclusion_give(&exclusion);
        *error = -ENOMEM;
    }
    return end;
}

struct fs_end *fs_end_open_with(struct fs_segment *segment, int side, const struct fs_limits *limits,
                                const struct fs_exclusion *exclusion, const struct fs_signals *signals, void *owner)
{
    struct fs_end *end = make(segment, side, limits, exclusion, signals);
    if (end != NULL) end->owner = owner;
    return end;
}

struct fs_end *fs_end_open(int memory, int side, const struct fs_limits *limits, int *error)
{
    struct fs_segment *segment = fs_segment_map(memory, error);
    if (segment == NULL) return NULL;
    struct fs_end *end = fs_end_open_on(segment, side, limits, error);
    fs_segment_drop(segment);
    return end;
}

struct fs_end *fs_end_hold(struct fs_end *end)
{
    atomic_fetch_add(&end->holders, 1);
    return end;
}

void fs_end_free(struct fs_end *end)
{
    if (atomic_fetch_sub(&end->holders, 1) != 1) return;
    remove_end(end);
    fs_farewell_drop_lifeline(end);
    fs_guard_close(&end->guard);
    fs_segment_drop(end->segment);
    if (end->exclusion.page != NULL) fs_exclusion_give(&end->exclusion);
    if (end->assistant.drop != NULL) end->assistant.drop(end->assistant.of);
    free(end);
}
