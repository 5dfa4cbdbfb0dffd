#define _GNU_SOURCE
#include "span_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int fs_span_can_resume(const struct fs_span *span)
{
    return fs_span_keeps(span) && fs_span_is_open(span) && span->lost != 0 && span->lost != EPROTO &&
           !span->heard_reset && !span->said_reset && span->doorbell >= 0 && atomic_load(&span->tcp) >= 0 &&
           !fs_span_is_orderly(span);
}

/* What was offered and not read has not arrived, nor has what came behind it: it is sent again. */
static void drop_what_was_not_taken(struct fs_span *span)
{
    for (unsigned i = 0; i < span->waiting_count; i++) {
        struct fs_arrival *arrival = &span->waiting[(span->first_waiting + i) % (2 * FS_FRAMES)];
        if (arrival->frame.kind != FS_FRAME_OFFERED) continue;
        if (i == 0 && span->taking > 0 && fs_span_take_offered(span, arrival)) arrival->frame.kind = FS_FRAME_WRITTEN;
        else span->waiting_count = i;
    }
    span->taking = 0;
    span->announced_taken = span->taken; /* what has arrived is told by the next carrier's first frame */
}

/* The bytes of what waits are the carrier's.  What the device wrote lies in the ring. */
static int take_bytes_along(struct fs_span *span)
{
    unsigned char *bytes = malloc((size_t)FS_FRAMES * FS_FRAME_PAYLOAD);
    if (bytes == NULL) return -ENOMEM;
    span->bytes_before = bytes;
    for (unsigned i = 0; i < span->waiting_count; i++) {
        struct fs_arrival *arrival = &span->waiting[(span->first_waiting + i) % (2 * FS_FRAMES)];
        arrival->slot = OF_CARRIER_BEFORE;
        if (arrival->frame.kind != FS_FRAME_DATA) continue;
        memcpy(bytes, arrival->data, arrival->frame.length);
        arrival->data = bytes;
        bytes += arrival->frame.length;
    }
    return 0;
}

int fs_span_leave_carrier(struct fs_span *span, uint64_t patience_ns)
{
    const struct timespec pause = {0, 50000};
    const uint64_t limit = fs_now_ns() + patience_ns;
    int stopped;
    do {
        stopped = span->carrier->calls->stop(span->carrier);
        span->lost = 0;
        fs_span_take_arrivals(span);
        if (!stopped) nanosleep(&pause, NULL);
    } while (!stopped && fs_now_ns() < limit && span->lost != EPROTO);
    fs_span_consume_done(span);
    drop_what_was_not_taken(span);
    return take_bytes_along(span);
}

void fs_span_resume(struct fs_span *span, struct fs_carrier *next)
{
    span->carrier = next;
    span->frames = span->heard_there = span->heard = span->announced_heard = 0;
    span->lost = span->disconnected = span->said_shut = 0;
    atomic_store(&span->resumed, 1);
}

int fs_span_has_resumed(const struct fs_span *span) { return atomic_load(&span->resumed); }
