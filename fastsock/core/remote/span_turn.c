#define _GNU_SOURCE
#include "span_internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_over(const struct fs_span *span)
{
    uint32_t state = atomic_load(&span->state);
    if (span->heard_reset || span->lost != 0) return 1;
    if (span->said_reset) return span->carrier->calls->room(span->carrier) == FS_FRAMES / 2; /* it was told */
    if (state == FS_SPAN_WITHDRAWN)
        return span->connecting || span->carrier->calls->done(span->carrier) >= span->shut_ticket;
    return fs_span_is_orderly(span);
}

/* The carrier is broken, or the other process is gone: what had arrived by then is the program's. */
static void take_last_arrivals(struct fs_span *span, short *wants)
{
    int error = span->lost;
    span->lost = 0;
    fs_span_take_arrivals(span);
    fs_span_turn_inwards(span, wants);
    if (span->lost != EPROTO) span->lost = error;
}

enum fs_span_turned fs_span_turn(struct fs_span *span, short *wants)
{
    *wants = 0;
    fs_span_take_arrivals(span);
    fs_span_consume_done(span);
    fs_span_turn_inwards(span, wants);
    if (span->disconnected != 0 && span->waiting_count == 0 && !fs_span_is_orderly(span))
        fs_span_other_ended(span, span->disconnected);
    if (span->lost == 0 && !span->heard_reset) fs_span_turn_outwards(span, wants);
    if (span->lost != 0 && span->lost != EPROTO) take_last_arrivals(span, wants);
    if (fs_span_can_resume(span)) return FS_SPAN_LEAVES_CARRIER;
    if (span->said_shut && span->heard_shut && span->posted == 0 && span->carrier->calls->farewell != NULL)
        span->carrier->calls->farewell(span->carrier);
    return is_over(span) ? FS_SPAN_OVER : FS_SPAN_GOES_ON;
}

/* The other program closed in good order, and has nothing of ours to miss.  What is sent now goes to nobody, as TCP's. */
static int left_in_order(const struct fs_span *span)
{
    return span->heard_shut && !span->heard_reset && span->lost != EPROTO && span->posted == 0 &&
           fs_ring_unread(&span->end->in) == 0;
}

/* The other end may not know it, because the device broke before the last acknowledgement.  Then it looks here. */
static void send_the_end_beside(struct fs_span *span, int tcp)
{
    const uint64_t read = fs_span_read_here(span);
    const struct fs_frame frames[2] = {{FS_FRAME_RESUME, 0, fs_span_arrived_in_all(span), read, 0},
                                       {FS_FRAME_SHUT, 0, span->sent, read, 0}};
    unsigned char both[2 * FS_FRAME_BYTES];
    for (int i = 0; i < 2; i++) fs_frame_put(both + i * FS_FRAME_BYTES, &frames[i]);
    send(tcp, both, sizeof both, MSG_DONTWAIT | MSG_NOSIGNAL); /* it is not there any more: then it knows */
}

void fs_span_finish(struct fs_span *span)
{
    uint32_t state = atomic_load(&span->state);
    const int was_sent = fs_span_is_orderly(span), orderly = was_sent || left_in_order(span);
    int tcp = atomic_exchange(&span->tcp, -1);
    if (was_sent && fs_span_keeps(span)) send_the_end_beside(span, tcp);
    fs_span_close(&tcp);
    if (state == FS_SPAN_WAITING) fs_span_become(span, FS_SPAN_BROKEN);
    /* a claim may come now: it finds the state changed, or its program finds the reset */
    if (state == FS_SPAN_OFFERED) atomic_compare_exchange_strong(&span->state, &state, FS_SPAN_BROKEN);
    if (span->doorbell >= 0) fs_end_closing(span->end, span->doorbell, !orderly);
    else if (!orderly) fs_end_leaves(span->end, FS_BY_RESET);
    fs_span_close(&span->doorbell);
    fs_end_closed(span->end);
}
