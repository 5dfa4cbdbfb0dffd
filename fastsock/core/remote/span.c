#define _GNU_SOURCE
#include "span_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define RING_SMALL (128u * 1024) /* the ring that a device knows is the large one: FS_GROWTH times so much */

struct fs_span *fs_span_make(int connecting, int *error)
{
    const struct fs_limits limits = {0, 0, 0};
    int memory = -1;
    struct fs_span *span = calloc(1, sizeof *span);
    *error = -ENOMEM;
    if (span == NULL) return NULL;
    span->holders = 1;
    span->connecting = connecting;
    span->state = connecting ? FS_SPAN_WAITING : FS_SPAN_OFFERED;
    span->doorbell = -1;
    span->tcp = -1;
    span->segment = fs_segment_make(RING_SMALL, &memory);
    if (span->segment == NULL) {
        *error = memory;
    } else {
        close(memory);
        span->end = fs_end_open_on(span->segment, FS_SIDE_ACCEPTED, &limits, error);
    }
    if (span->end == NULL) {
        fs_span_drop(span);
        return NULL;
    }
    fs_ring_grow(&span->end->out); /* at position 0, for good: so the device knows where each position lies */
    return span;
}

int fs_span_begin(struct fs_span *span, int doorbell)
{
    int error = fs_doorbell_prepare(doorbell);
    if (error != 0) return error;
    span->doorbell = doorbell;
    fs_end_watch(span->end, doorbell);
    fs_end_set_lazy(span->end, 1);
    return 0;
}

struct fs_span *fs_span_hold(struct fs_span *span)
{
    atomic_fetch_add(&span->holders, 1);
    return span;
}

void fs_span_close(int *descriptor)
{
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

void fs_span_drop(struct fs_span *span)
{
    if (atomic_fetch_sub(&span->holders, 1) != 1) return;
    int tcp = atomic_exchange(&span->tcp, -1);
    fs_span_close(&tcp);
    fs_span_close(&span->doorbell);
    if (span->end != NULL) fs_end_free(span->end);
    if (span->segment != NULL) fs_segment_drop(span->segment);
    free(span->bytes_before);
    free(span);
}

unsigned char *fs_span_out(const struct fs_span *span, size_t *bytes)
{
    *bytes = (size_t)span->end->in.large;
    return span->end->in.data;
}

unsigned char *fs_span_in(const struct fs_span *span, size_t *bytes)
{
    *bytes = (size_t)span->end->out.large;
    return span->end->out.data;
}

int fs_span_claim(struct fs_span *span)
{
    uint32_t offered = FS_SPAN_OFFERED;
    return atomic_compare_exchange_strong(&span->state, &offered, FS_SPAN_OPEN);
}

uint32_t fs_span_await(struct fs_span *span, uint64_t deadline_ns)
{
    for (;;) {
        uint32_t state = atomic_load(&span->state);
        uint64_t now = fs_now_ns();
        if (state != FS_SPAN_WAITING || now >= deadline_ns) return state;
        fs_futex_wait(&span->state, FS_SPAN_WAITING, deadline_ns - now);
    }
}

void fs_span_other_ended(struct fs_span *span, int error)
{
    if (span->lost == 0) span->lost = error;
}

void fs_span_become(struct fs_span *span, uint32_t state)
{
    atomic_store(&span->state, state);
    fs_futex_wake_all(&span->state);
}

int fs_span_is_open(const struct fs_span *span) { return atomic_load(&span->state) == FS_SPAN_OPEN; }
