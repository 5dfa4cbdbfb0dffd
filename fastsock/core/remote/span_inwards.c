#define _GNU_SOURCE
#include "span_internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

/* The program shut the reading half of its descriptor, and is there: as TCP, what comes for it is dropped. */
static int is_deaf(const struct fs_span *span)
{
    struct pollfd left = {span->doorbell, 0, 0};
    return send(span->doorbell, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL) != 0 && errno == EPIPE && poll(&left, 1, 0) == 0;
}

/* Where the device places the bytes of a frame that has them not behind itself. */
static unsigned char *place_of(const struct fs_span *span, const struct fs_frame *frame)
{
    const uint64_t size = span->end->out.large;
    return span->end->out.data + ((size / FS_GROWTH + frame->position) & (size - 1));
}

int fs_span_take_offered(struct fs_span *span, const struct fs_arrival *arrival)
{
    const struct fs_carrier *carrier = span->carrier;
    if (span->taking == 0 && carrier->calls->room(carrier) > 0)
        span->taking =
            fs_span_note_post(span, carrier->calls->read(span->carrier, arrival, place_of(span, &arrival->frame)));
    if (span->taking <= 0 || carrier->calls->done(carrier) < span->taking) return 0;
    const uint64_t behind = arrival->frame.position + arrival->frame.length;
    if (span->taken != behind) fs_count(&span->counts.taken, arrival->frame.length);
    span->taken = behind;
    return 1;
}

/* 1: all of it was placed.  0: there is no room now. */
static int place(struct fs_span *span, const struct fs_arrival *arrival, short *wants)
{
    const struct fs_frame *frame = &arrival->frame;
    const int in_ring = frame->kind != FS_FRAME_DATA;
    const unsigned char *bytes = in_ring ? place_of(span, frame) : arrival->data;
    int placed =
        span->unpublished ? -EBUSY : fs_end_place(span->end, span->doorbell, in_ring ? NULL : bytes, frame->length);
    if (placed == -EAGAIN) return 0;
    if (placed == -EPIPE) {
        fs_span_break_off(span);
        return 1;
    }
    if (placed == 0) {
        span->arrived += frame->length;
        return 1;
    }
    span->unpublished = 1;
    while (span->placed < frame->length) {
        const size_t rest = frame->length - span->placed;
        ssize_t sent = is_deaf(span) ? (ssize_t)rest
                                     : fs_end_send(span->end, span->doorbell, bytes + span->placed, rest, FS_NO_SIGNAL);
        if (sent == -EAGAIN) {
            *wants |= POLLOUT;
            return 0;
        }
        if (sent < 0) {
            fs_span_break_off(span);
            break;
        }
        span->placed += (uint32_t)sent;
        span->arrived += (uint64_t)sent;
    }
    span->placed = 0;
    return 1;
}

static int is_sound(const struct fs_span *span, const struct fs_arrival *arrival)
{
    const struct fs_frame *frame = &arrival->frame;
    const int in_ring = frame->kind == FS_FRAME_WRITTEN || frame->kind == FS_FRAME_OFFERED;
    if (frame->kind < FS_FRAME_HELLO || frame->kind >= FS_FRAME_KINDS) return 0;
    if (frame->kind != FS_FRAME_HELLO && !span->connecting && !span->heard_hello) return 0;
    if (arrival->slot != OF_CARRIER_BEFORE &&
        (frame->kind == FS_FRAME_RESUME) != (span->resumed && !span->heard_resume))
        return 0;
    if (!in_ring && frame->kind != FS_FRAME_DATA) return frame->length == 0;
    if (frame->kind == FS_FRAME_OFFERED && span->carrier->calls->read == NULL) return 0;
    const uint64_t size = span->end->out.large, offset = (size / FS_GROWTH + frame->position) & (size - 1);
    if (!fs_span_is_open(span) || span->heard_shut || frame->length == 0 || frame->position != span->arrived) return 0;
    if (in_ring && frame->length > size - offset) return 0;
    return frame->length <= size - (span->arrived - span->announced_read);
}

/* 1: done with it. */
static int heed(struct fs_span *span, const struct fs_arrival *arrival, short *wants)
{
    const struct fs_frame *frame = &arrival->frame;
    uint32_t offered = FS_SPAN_OFFERED;
    if (span->placed == 0 && span->taking == 0 && !is_sound(span, arrival)) {
        fs_span_other_ended(span, EPROTO);
        return 1;
    }
    switch (frame->kind) {
    case FS_FRAME_HELLO: span->heard_hello = 1; break;
    case FS_FRAME_ACCEPTED:
        if (!span->connecting) fs_span_other_ended(span, EPROTO);
        else if (atomic_load(&span->state) == FS_SPAN_WAITING) fs_span_become(span, FS_SPAN_OPEN);
        break;
    case FS_FRAME_WITHDRAW:
        if (atomic_compare_exchange_strong(&span->state, &offered, FS_SPAN_WITHDRAWN)) {
            span->shut_ticket = fs_span_say(span, FS_FRAME_WITHDRAWN, NULL, 0);
            span->said_withdrawn = 1;
        }
        break;
    case FS_FRAME_WITHDRAWN:
        if (span->said_withdraw && atomic_load(&span->state) == FS_SPAN_WAITING)
            fs_span_become(span, FS_SPAN_WITHDRAWN);
        else fs_span_other_ended(span, EPROTO);
        break;
    case FS_FRAME_DATA:
    case FS_FRAME_WRITTEN:
        if (span->doorbell < 0) return 0;
        return span->said_reset || place(span, arrival, wants);
    case FS_FRAME_OFFERED:
        if (span->doorbell < 0) return 0;
        if (!span->said_reset && (!fs_span_take_offered(span, arrival) || !place(span, arrival, wants))) return 0;
        span->taking = 0;
        break;
    case FS_FRAME_SHUT:
        if (span->doorbell < 0) return 0;
        if (!span->heard_shut) fs_end_shutdown(span->end, span->doorbell, SHUT_WR); /* it may be said again */
        span->heard_shut = 1;
        break;
    case FS_FRAME_RESET: span->heard_reset = 1; break;
    case FS_FRAME_RESUME: fs_span_send_again_from(span, frame->position); break;
    default: break;
    }
    return 1;
}

static void hear(struct fs_span *span, uint32_t slot)
{
    span->heard++;
    fs_count(&span->counts.frames_heard, 1);
    int error = span->carrier->calls->release(span->carrier, slot);
    if (error < 0) fs_span_other_ended(span, -error);
}

/* Its counts are noted, and it says nothing else.  Behind data that finds no room it would be heard only when the program
 * reads: then the other end runs out of frames to give credit with, and what the program sends waits for that too. */
static int is_heard_out_of_turn(const struct fs_span *span, const struct fs_frame *frame)
{
    const int says_counts = frame->kind == FS_FRAME_CREDIT || frame->kind == FS_FRAME_TAKEN;
    const int had_credit = span->heard - span->announced_heard < FS_FRAMES;
    return says_counts && frame->length == 0 && span->waiting_count > 0 && had_credit;
}

void fs_span_take_arrivals(struct fs_span *span)
{
    while (span->waiting_count < 2 * FS_FRAMES && span->lost == 0) {
        struct fs_arrival found[16];
        unsigned most = 2 * FS_FRAMES - span->waiting_count < 16 ? 2 * FS_FRAMES - span->waiting_count : 16;
        int count = span->carrier->calls->poll(span->carrier, found, (int)most);
        if (count < 0) fs_span_other_ended(span, -count);
        if (count <= 0) return;
        for (int i = 0; i < count; i++) {
            if (fs_span_note_counts(span, &found[i].frame) != 0) fs_span_other_ended(span, EPROTO);
            if (is_heard_out_of_turn(span, &found[i].frame)) hear(span, found[i].slot);
            else span->waiting[(span->first_waiting + span->waiting_count++) % (2 * FS_FRAMES)] = found[i];
        }
    }
}

void fs_span_turn_inwards(struct fs_span *span, short *wants)
{
    while (span->waiting_count > 0 && span->lost != EPROTO && !span->heard_reset) {
        const struct fs_arrival *first = &span->waiting[span->first_waiting];
        if (!heed(span, first, wants)) return;
        uint32_t slot = first->slot;
        span->first_waiting = (span->first_waiting + 1) % (2 * FS_FRAMES);
        span->waiting_count--;
        if (slot != OF_CARRIER_BEFORE) hear(span, slot);
    }
}
