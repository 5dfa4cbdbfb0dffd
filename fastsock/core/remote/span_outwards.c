#define _GNU_SOURCE
#include "span_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define WRITTEN_FROM 3072u /* shorter data goes with its frame */
#define LONGEST_PIECE (256u * 1024)
#define FOR_CREDIT 16u /* frames that only give credit have so many of the other end's buffers to themselves */
#define MOST_PIECES 64 /* in one turn: others are served by the same thread */

int fs_span_keeps(const struct fs_span *span) { return span->resumes && !span->resumed; }

/* ---- credit ---- */

uint64_t fs_span_read_here(const struct fs_span *span)
{
    ssize_t unread = span->unpublished ? 0 : fs_ring_unread(&span->end->out);
    return span->arrived - (unread > 0 ? (uint64_t)unread : 0);
}

static uint64_t window(const struct fs_span *span)
{
    return span->carrier->window_bytes - (span->sent - span->read_there);
}

static unsigned frames_allowed(const struct fs_span *span, unsigned reserve)
{
    uint64_t unheard = span->frames - span->heard_there;
    unsigned allowed = unheard + reserve >= FS_FRAMES ? 0 : (unsigned)(FS_FRAMES - reserve - unheard);
    unsigned room = span->carrier->calls->room(span->carrier);
    return allowed < room ? allowed : room;
}

int fs_span_note_counts(struct fs_span *span, const struct fs_frame *frame)
{
    if (frame->consumed < span->read_there || frame->consumed > span->sent) return -EPROTO;
    if (frame->heard < span->heard_there || frame->heard > span->frames) return -EPROTO;
    if (frame->kind == FS_FRAME_TAKEN) { /* not in its turn: what waits before it may wait for the other end */
        if (span->resumed || frame->position < span->taken_there || frame->position > span->sent) return -EPROTO;
        span->taken_there = frame->position;
    }
    span->read_there = frame->consumed;
    span->heard_there = frame->heard;
    return 0;
}

/* ---- frames ---- */

static struct fs_frame frame_of(struct fs_span *span, uint32_t kind, size_t length)
{
    span->announced_read = fs_span_read_here(span);
    span->announced_heard = span->heard;
    span->frames++;
    fs_count(&span->counts.frames_sent, 1);
    return (struct fs_frame){kind, (uint32_t)length, span->sent, span->announced_read, span->announced_heard};
}

int64_t fs_span_note_post(struct fs_span *span, int64_t ticket)
{
    if (ticket < 0) fs_span_other_ended(span, (int)-ticket);
    return ticket;
}

/* `data` goes with the frame, if there is any.  Its bytes are in the frame then. */
int64_t fs_span_say(struct fs_span *span, uint32_t kind, const void *data, size_t length)
{
    struct fs_frame frame = frame_of(span, kind, length);
    const int signaled = kind != FS_FRAME_DATA || fs_span_keeps(span);
    return fs_span_note_post(span, span->carrier->calls->post(span->carrier, &frame, data, length, signaled));
}

/* The last `length` bytes that were sent.  `offered`: they stay until the other end has taken them. */
static void remember(struct fs_span *span, int64_t ticket, size_t length, int offered)
{
    unsigned place = (span->first_pending + span->pending_count++) % (2 * FS_FRAMES);
    span->pending[place].ticket = ticket;
    span->pending[place].offered = offered ? span->sent : 0;
    span->pending[place].consume = length;
    span->posted += length;
}

static int is_first_done(const struct fs_span *span, int64_t done)
{
    const uint64_t offered = span->pending[span->first_pending].offered;
    return offered > 0 ? span->taken_there >= offered : span->pending[span->first_pending].ticket <= done;
}

void fs_span_consume_done(struct fs_span *span)
{
    if (span->resumed) return; /* the tickets are those of the carrier before */
    int64_t done = span->carrier->calls->done(span->carrier);
    uint64_t length = 0;
    if (span->kept.length > 0 && span->kept.ticket <= done) span->kept.length = 0;
    while (span->pending_count > 0 && is_first_done(span, done)) {
        length += span->pending[span->first_pending].consume;
        span->first_pending = (span->first_pending + 1) % (2 * FS_FRAMES);
        span->pending_count--;
    }
    if (length == 0) return;
    fs_end_consume(span->end, span->doorbell, (size_t)length);
    span->posted -= length;
}

/* A piece of the ring.  Returns its length, or 0: nothing more can go now. */
static size_t send_piece(struct fs_span *span, size_t there)
{
    uint64_t free_there = window(span);
    const struct fs_carrier_calls *calls = span->carrier->calls;
    size_t length, together;
    int64_t ticket;
    int copied, offered = span->offers && calls->offer != NULL;
    const unsigned char *data = fs_ring_run(&span->end->in, span->posted, &together);
    if (there > free_there) there = (size_t)free_there;
    if (there == 0) return 0;
    copied = there < WRITTEN_FROM || (!offered && calls->write == NULL);
    if (!copied) {
        uint64_t size = span->carrier->window_bytes, offset = (size / FS_GROWTH + span->sent) & (size - 1);
        length = there < LONGEST_PIECE ? there : LONGEST_PIECE;
        if (length > together) length = together;
        if (length > size - offset) length = (size_t)(size - offset);
        struct fs_frame frame = frame_of(span, offered ? FS_FRAME_OFFERED : FS_FRAME_WRITTEN, length);
        ticket = offered ? calls->offer(span->carrier, &frame, data)
                         : calls->write(span->carrier, &frame, data, length, offset);
        if (!offered) fs_count(&span->counts.written, length);
    } else {
        unsigned char copy[FS_FRAME_PAYLOAD];
        length = there < sizeof copy ? there : sizeof copy;
        fs_ring_copy_out(&span->end->in, span->posted, copy, length);
        struct fs_frame frame = frame_of(span, FS_FRAME_DATA, length);
        ticket = calls->post(span->carrier, &frame, copy, length, span->posted > 0 || fs_span_keeps(span));
    }
    if (fs_span_note_post(span, ticket) < 0) return 0;
    span->sent += length;
    if (copied && span->posted == 0 && !fs_span_keeps(span)) fs_end_consume(span->end, span->doorbell, length);
    else remember(span, ticket, length, offered && !copied);
    return length;
}

/* With nothing of the ring under way: the end of the stream, a reset, or bytes that the doorbell itself carries. */
static void send_rest(struct fs_span *span, short *wants)
{
    unsigned char copy[FS_FRAME_PAYLOAD];
    uint64_t free_there = window(span);
    size_t most = free_there < sizeof copy ? (size_t)free_there : sizeof copy;
    ssize_t got = fs_end_receive(span->end, span->doorbell, copy, most == 0 ? 1 : most, most == 0 ? FS_PEEK : 0,
                                 !span->doorbell_is_quiet || span->leaving);
    if (got == -EAGAIN && span->leaving) got = fs_ring_unread(&span->end->out) == 0 ? 0 : -ECONNRESET; /* as TCP */
    if (got == -EAGAIN) {
        *wants |= POLLIN;
    } else if (got > 0 && most > 0) {
        int64_t ticket = fs_span_say(span, FS_FRAME_DATA, copy, (size_t)got);
        span->sent += (uint64_t)got;
        if (fs_span_keeps(span)) {
            span->kept.ticket = ticket > 0 ? ticket : INT64_MAX;
            span->kept.length = (uint32_t)got;
            memcpy(span->kept.bytes, copy, (size_t)got);
        }
    } else if (got == 0) {
        span->shut_ticket = fs_span_say(span, FS_FRAME_SHUT, NULL, 0);
        span->said_shut = 1;
    } else if (got < 0) {
        fs_span_say(span, FS_FRAME_RESET, NULL, 0);
        span->said_reset = 1;
    }
}

/* Again, by the next carrier: what of it had not arrived. */
static void send_kept(struct fs_span *span)
{
    const uint32_t length = span->kept.length - span->kept.delivered;
    span->kept.length = 0;
    fs_span_say(span, FS_FRAME_DATA, span->kept.bytes + span->kept.delivered, length);
    span->sent += length;
}

static void send_what_fits(struct fs_span *span, short *wants)
{
    span->held_up = 1;
    for (int pieces = 0; pieces < MOST_PIECES && !span->said_shut && !span->said_reset && span->lost == 0; pieces++) {
        if (frames_allowed(span, FOR_CREDIT) == 0 || span->pending_count == 2 * FS_FRAMES) return;
        if (span->kept.length > 0) {
            if (!span->resumed) return; /* its completion comes first */
            send_kept(span);
        }
        ssize_t used = fs_ring_used_at_least(&span->end->in, span->posted + 1);
        if (used < 0) {
            fs_span_other_ended(span, EPROTO);
        } else if ((uint64_t)used > span->posted) {
            if (send_piece(span, (size_t)used - (size_t)span->posted) == 0) return;
        } else if (span->posted > 0 || span->lent) {
            span->held_up = 0;
            return; /* the completions come first */
        } else {
            uint64_t before = span->frames;
            send_rest(span, wants);
            if (span->frames == before) {
                span->held_up = 0;
                return;
            }
        }
    }
}

uint64_t fs_span_arrived_in_all(const struct fs_span *span)
{
    uint64_t position = span->arrived - span->placed;
    for (unsigned i = 0; i < span->waiting_count; i++) {
        const struct fs_arrival *arrival = &span->waiting[(span->first_waiting + i) % (2 * FS_FRAMES)];
        if (arrival->slot == OF_CARRIER_BEFORE) position += arrival->frame.length; /* only data has one */
    }
    return position;
}

/* What the two ends must know before any data, in its order. */
static void say_what_is_due(struct fs_span *span)
{
    uint32_t state = atomic_load(&span->state);
    if (frames_allowed(span, 0) == 0) return;
    if (span->connecting && !span->said_hello) {
        fs_span_say(span, FS_FRAME_HELLO, NULL, 0);
        span->said_hello = 1;
    }
    if (!span->connecting && span->heard_hello && state == FS_SPAN_OPEN && !span->said_accepted) {
        fs_span_say(span, FS_FRAME_ACCEPTED, NULL, 0);
        span->said_accepted = 1;
    }
    if (state == FS_SPAN_WAITING && atomic_load(&span->withdrawing) && !span->said_withdraw) {
        fs_span_say(span, FS_FRAME_WITHDRAW, NULL, 0);
        span->said_withdraw = 1;
    }
    if (span->resumed && !span->said_resume) {
        struct fs_frame frame = frame_of(span, FS_FRAME_RESUME, 0);
        frame.position = fs_span_arrived_in_all(span);
        fs_span_note_post(span, span->carrier->calls->post(span->carrier, &frame, NULL, 0, 0));
        span->said_resume = 1;
    }
}

static int may_send_data(const struct fs_span *span)
{
    if (span->resumed && !span->heard_resume) return 0;
    return span->doorbell >= 0 && (span->connecting ? span->said_hello : span->said_accepted);
}

static void announce_taken(struct fs_span *span)
{
    if (span->taken == span->announced_taken || span->said_reset || frames_allowed(span, 0) == 0) return;
    struct fs_frame frame = frame_of(span, FS_FRAME_TAKEN, 0);
    frame.position = span->announced_taken = span->taken;
    fs_span_note_post(span, span->carrier->calls->post(span->carrier, &frame, NULL, 0, 0));
}

static void give_credit(struct fs_span *span)
{
    uint64_t size = span->end->out.large, here = fs_span_read_here(span),
             left = size - (span->arrived - span->announced_read);
    if (!may_send_data(span) || span->said_reset || span->heard_shut) here = span->announced_read;
    int much = here - span->announced_read >= size / 4 || span->heard - span->announced_heard >= FS_FRAMES / 4;
    int urgent = here > span->announced_read && left < size / 4;
    if ((much || urgent) && frames_allowed(span, 0) > 0) fs_span_say(span, FS_FRAME_CREDIT, NULL, 0);
}

/* The other end has used up its window, and the program has read nothing: tell us when it has. */
static void await_reader(struct fs_span *span, short *wants)
{
    uint64_t size = span->end->out.large;
    span->wants_room = span->looks_seldom = 0;
    if (span->arrived - span->announced_read < size || span->heard_shut) return;
    if (fs_span_read_here(span) == span->announced_read && fs_lock(span->end->exclusion.sender, 0) == 0) {
        fs_doorbell_stuff(span->end, span->doorbell);
        fs_unlock(span->end->exclusion.sender);
    }
    give_credit(span);
    if (span->arrived - span->announced_read < size) return;
    /* A program that shut its reading half may still read what is there, and the doorbell cannot tell of that. */
    struct pollfd room = {span->doorbell, POLLOUT, 0};
    span->looks_seldom = poll(&room, 1, 0) > 0 && fs_span_read_here(span) == span->announced_read;
    if (span->looks_seldom) return;
    span->wants_room = 1;
    *wants |= POLLOUT;
}

void fs_span_break_off(struct fs_span *span)
{
    if (!span->said_reset && span->lost == 0 && frames_allowed(span, 0) > 0) fs_span_say(span, FS_FRAME_RESET, NULL, 0);
    span->said_reset = 1;
}

/* As TCP: whoever closes with bytes unread breaks the connection off, also where what it sent still waits for room.  Where
 * all halves are shut its descriptor looks as if it had left, though it may still read, and its bytes must still go. */
static int left_with_bytes_unread(const struct fs_span *span)
{
    const struct fs_end *end = span->end;
    const uint32_t how = atomic_load(&end->header->reset[!end->side]);
    const int died = how == FS_BY_RESET_UNLESS_SHUT && !atomic_load(&end->in.shared->producer_shut);
    const int closed = how == FS_BY_RESET || died || fs_end_other_left(end);
    return span->program_left && (closed || (span->said_shut && !span->heard_shut)) && fs_ring_unread(&end->out) != 0;
}

void fs_span_send_again_from(struct fs_span *span, uint64_t arrived_there)
{
    uint64_t kept = span->kept.length, before = span->sent - span->posted - kept;
    if (arrived_there < before || arrived_there > span->sent) { /* the device lost what it had acknowledged */
        fs_span_other_ended(span, ECONNRESET);
        return;
    }
    span->heard_resume = 1;
    span->sent = arrived_there;
    if (kept > 0) {
        span->kept.delivered = (uint32_t)(arrived_there - before);
        if (span->kept.delivered == kept) span->kept.length = 0;
    } else if (arrived_there > before) {
        fs_end_consume(span->end, span->doorbell, (size_t)(arrived_there - before));
    }
    span->posted = 0;
    span->pending_count = 0;
}

void fs_span_turn_outwards(struct fs_span *span, short *wants)
{
    say_what_is_due(span);
    if (left_with_bytes_unread(span)) fs_span_break_off(span);
    announce_taken(span);
    if (!may_send_data(span)) return;
    send_what_fits(span, wants);
    give_credit(span);
    await_reader(span, wants);
}

int fs_span_is_orderly(const struct fs_span *span)
{
    return span->said_shut && span->heard_shut && span->posted == 0 && span->shut_ticket > 0 && span->carrier != NULL &&
           span->carrier->calls->done(span->carrier) >= span->shut_ticket;
}
