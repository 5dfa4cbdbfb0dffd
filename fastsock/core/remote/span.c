#define _GNU_SOURCE
#include "span.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "system.h"

#define RING_SMALL (128u * 1024) /* the ring that a device knows is the large one: FS_GROWTH times so much */
#define WRITTEN_FROM 3072u       /* shorter data goes with its frame */
#define LONGEST_PIECE (256u * 1024)
#define FOR_CREDIT 16u /* frames that only give credit have so many of the other end's buffers to themselves */
#define MOST_PIECES 64 /* in one turn: others are served by the same thread */
#define OF_CARRIER_BEFORE UINT32_MAX /* a slot */

/* ---- made and freed ---- */

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

static void close_descriptor(int *descriptor)
{
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

void fs_span_drop(struct fs_span *span)
{
    if (atomic_fetch_sub(&span->holders, 1) != 1) return;
    int tcp = atomic_exchange(&span->tcp, -1);
    close_descriptor(&tcp);
    close_descriptor(&span->doorbell);
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

static void become(struct fs_span *span, uint32_t state)
{
    atomic_store(&span->state, state);
    fs_futex_wake_all(&span->state);
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

static int is_open(const struct fs_span *span) { return atomic_load(&span->state) == FS_SPAN_OPEN; }

/* What was posted is kept until it is known to have arrived. */
static int keeps(const struct fs_span *span) { return span->resumes && !span->resumed; }

/* ---- credit ---- */

/* Where the program of this end has read to.  What went over the doorbell itself counts as read. */
static uint64_t read_here(const struct fs_span *span)
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

/* The counts of the other host are input: a frame cannot be heard that was not sent, nor a byte read. */
static int note_counts(struct fs_span *span, const struct fs_frame *frame)
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

/* ---- outwards ---- */

static struct fs_frame frame_of(struct fs_span *span, uint32_t kind, size_t length)
{
    span->told_read = read_here(span);
    span->told_heard = span->heard;
    span->frames++;
    fs_count(&span->counts.frames_sent, 1);
    return (struct fs_frame){kind, (uint32_t)length, span->sent, span->told_read, span->told_heard};
}

static int64_t note_post(struct fs_span *span, int64_t ticket)
{
    if (ticket < 0) fs_span_other_ended(span, (int)-ticket);
    return ticket;
}

/* `data` goes with the frame, if there is any.  Its bytes are in the frame then. */
static int64_t say(struct fs_span *span, uint32_t kind, const void *data, size_t length)
{
    struct fs_frame frame = frame_of(span, kind, length);
    const int tell = kind != FS_FRAME_DATA || keeps(span);
    return note_post(span, span->carrier->calls->post(span->carrier, &frame, data, length, tell));
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

static void consume_done(struct fs_span *span)
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
        ticket = calls->post(span->carrier, &frame, copy, length, span->posted > 0 || keeps(span));
    }
    if (note_post(span, ticket) < 0) return 0;
    span->sent += length;
    if (copied && span->posted == 0 && !keeps(span)) fs_end_consume(span->end, span->doorbell, length);
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
        int64_t ticket = say(span, FS_FRAME_DATA, copy, (size_t)got);
        span->sent += (uint64_t)got;
        if (keeps(span)) {
            span->kept.ticket = ticket > 0 ? ticket : INT64_MAX;
            span->kept.length = (uint32_t)got;
            memcpy(span->kept.bytes, copy, (size_t)got);
        }
    } else if (got == 0) {
        span->shut_ticket = say(span, FS_FRAME_SHUT, NULL, 0);
        span->said_shut = 1;
    } else if (got < 0) {
        say(span, FS_FRAME_RESET, NULL, 0);
        span->said_reset = 1;
    }
}

/* Again, by the next carrier: what of it had not arrived. */
static void send_kept(struct fs_span *span)
{
    const uint32_t length = span->kept.length - span->kept.told;
    span->kept.length = 0;
    say(span, FS_FRAME_DATA, span->kept.bytes + span->kept.told, length);
    span->sent += length;
}

static void outwards(struct fs_span *span, short *wants)
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

/* Position behind all bytes that arrived, placed or not. */
static uint64_t arrived_in_all(const struct fs_span *span)
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
        say(span, FS_FRAME_HELLO, NULL, 0);
        span->said_hello = 1;
    }
    if (!span->connecting && span->heard_hello && state == FS_SPAN_OPEN && !span->said_accepted) {
        say(span, FS_FRAME_ACCEPTED, NULL, 0);
        span->said_accepted = 1;
    }
    if (state == FS_SPAN_WAITING && atomic_load(&span->withdrawing) && !span->said_withdraw) {
        say(span, FS_FRAME_WITHDRAW, NULL, 0);
        span->said_withdraw = 1;
    }
    if (span->resumed && !span->said_resume) {
        struct fs_frame frame = frame_of(span, FS_FRAME_RESUME, 0);
        frame.position = arrived_in_all(span);
        note_post(span, span->carrier->calls->post(span->carrier, &frame, NULL, 0, 0));
        span->said_resume = 1;
    }
}

static int may_send_data(const struct fs_span *span)
{
    if (span->resumed && !span->heard_resume) return 0;
    return span->doorbell >= 0 && (span->connecting ? span->said_hello : span->said_accepted);
}

static void tell_taken(struct fs_span *span)
{
    if (span->taken == span->told_taken || span->said_reset || frames_allowed(span, 0) == 0) return;
    struct fs_frame frame = frame_of(span, FS_FRAME_TAKEN, 0);
    frame.position = span->told_taken = span->taken;
    note_post(span, span->carrier->calls->post(span->carrier, &frame, NULL, 0, 0));
}

static void give_credit(struct fs_span *span)
{
    uint64_t size = span->end->out.large, here = read_here(span), left = size - (span->arrived - span->told_read);
    if (!may_send_data(span) || span->said_reset || span->heard_shut) here = span->told_read;
    int much = here - span->told_read >= size / 4 || span->heard - span->told_heard >= FS_FRAMES / 4;
    int urgent = here > span->told_read && left < size / 4;
    if ((much || urgent) && frames_allowed(span, 0) > 0) say(span, FS_FRAME_CREDIT, NULL, 0);
}

/* The other end has used up its window, and the program has read nothing: tell us when it has. */
static void await_reader(struct fs_span *span, short *wants)
{
    uint64_t size = span->end->out.large;
    span->wants_room = span->looks_seldom = 0;
    if (span->arrived - span->told_read < size || span->heard_shut) return;
    if (read_here(span) == span->told_read && fs_lock(span->end->exclusion.sender, 0) == 0) {
        fs_doorbell_stuff(span->end, span->doorbell);
        fs_unlock(span->end->exclusion.sender);
    }
    give_credit(span);
    if (span->arrived - span->told_read < size) return;
    /* A program that shut its reading half may still read what is there, and the doorbell cannot tell of that. */
    struct pollfd room = {span->doorbell, POLLOUT, 0};
    span->looks_seldom = poll(&room, 1, 0) > 0 && read_here(span) == span->told_read;
    if (span->looks_seldom) return;
    span->wants_room = 1;
    *wants |= POLLOUT;
}

/* ---- inwards ---- */

static void broken_by_program(struct fs_span *span)
{
    if (!span->said_reset && span->lost == 0 && frames_allowed(span, 0) > 0) say(span, FS_FRAME_RESET, NULL, 0);
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

/* 1: the bytes that the first arrival offers lie in the ring. */
static int take(struct fs_span *span, const struct fs_arrival *arrival)
{
    const struct fs_carrier *carrier = span->carrier;
    if (span->taking == 0 && carrier->calls->room(carrier) > 0)
        span->taking = note_post(span, carrier->calls->read(span->carrier, arrival, place_of(span, &arrival->frame)));
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
        broken_by_program(span);
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
            broken_by_program(span);
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
    if (!is_open(span) || span->heard_shut || frame->length == 0 || frame->position != span->arrived) return 0;
    if (in_ring && frame->length > size - offset) return 0;
    return frame->length <= size - (span->arrived - span->told_read);
}

/* The other end has so much of what was sent.  The rest of it is sent again. */
static void heed_resume(struct fs_span *span, uint64_t arrived_there)
{
    uint64_t kept = span->kept.length, before = span->sent - span->posted - kept;
    if (arrived_there < before || arrived_there > span->sent) { /* the device lost what it had acknowledged */
        fs_span_other_ended(span, ECONNRESET);
        return;
    }
    span->heard_resume = 1;
    span->sent = arrived_there;
    if (kept > 0) {
        span->kept.told = (uint32_t)(arrived_there - before);
        if (span->kept.told == kept) span->kept.length = 0;
    } else if (arrived_there > before) {
        fs_end_consume(span->end, span->doorbell, (size_t)(arrived_there - before));
    }
    span->posted = 0;
    span->pending_count = 0;
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
        else if (atomic_load(&span->state) == FS_SPAN_WAITING) become(span, FS_SPAN_OPEN);
        break;
    case FS_FRAME_WITHDRAW:
        if (atomic_compare_exchange_strong(&span->state, &offered, FS_SPAN_WITHDRAWN)) {
            span->shut_ticket = say(span, FS_FRAME_WITHDRAWN, NULL, 0);
            span->said_withdrawn = 1;
        }
        break;
    case FS_FRAME_WITHDRAWN:
        if (span->said_withdraw && atomic_load(&span->state) == FS_SPAN_WAITING) become(span, FS_SPAN_WITHDRAWN);
        else fs_span_other_ended(span, EPROTO);
        break;
    case FS_FRAME_DATA:
    case FS_FRAME_WRITTEN:
        if (span->doorbell < 0) return 0;
        return span->said_reset || place(span, arrival, wants);
    case FS_FRAME_OFFERED:
        if (span->doorbell < 0) return 0;
        if (!span->said_reset && (!take(span, arrival) || !place(span, arrival, wants))) return 0;
        span->taking = 0;
        break;
    case FS_FRAME_SHUT:
        if (span->doorbell < 0) return 0;
        if (!span->heard_shut) fs_end_shutdown(span->end, span->doorbell, SHUT_WR); /* it may be said again */
        span->heard_shut = 1;
        break;
    case FS_FRAME_RESET: span->heard_reset = 1; break;
    case FS_FRAME_RESUME: heed_resume(span, frame->position); break;
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
    const int had_credit = span->heard - span->told_heard < FS_FRAMES;
    return says_counts && frame->length == 0 && span->waiting_count > 0 && had_credit;
}

static void take_arrivals(struct fs_span *span)
{
    while (span->waiting_count < 2 * FS_FRAMES && span->lost == 0) {
        struct fs_arrival found[16];
        unsigned most = 2 * FS_FRAMES - span->waiting_count < 16 ? 2 * FS_FRAMES - span->waiting_count : 16;
        int count = span->carrier->calls->poll(span->carrier, found, (int)most);
        if (count < 0) fs_span_other_ended(span, -count);
        if (count <= 0) return;
        for (int i = 0; i < count; i++) {
            if (note_counts(span, &found[i].frame) != 0) fs_span_other_ended(span, EPROTO);
            if (is_heard_out_of_turn(span, &found[i].frame)) hear(span, found[i].slot);
            else span->waiting[(span->first_waiting + span->waiting_count++) % (2 * FS_FRAMES)] = found[i];
        }
    }
}

static void inwards(struct fs_span *span, short *wants)
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

/* ---- one turn ---- */

int fs_span_is_orderly(const struct fs_span *span)
{
    return span->said_shut && span->heard_shut && span->posted == 0 && span->shut_ticket > 0 && span->carrier != NULL &&
           span->carrier->calls->done(span->carrier) >= span->shut_ticket;
}

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
    take_arrivals(span);
    inwards(span, wants);
    if (span->lost != EPROTO) span->lost = error;
}

/* ---- another carrier ---- */

static int can_resume(const struct fs_span *span)
{
    return keeps(span) && is_open(span) && span->lost != 0 && span->lost != EPROTO && !span->heard_reset &&
           !span->said_reset && span->doorbell >= 0 && atomic_load(&span->tcp) >= 0 && !fs_span_is_orderly(span);
}

/* What was offered and not read has not arrived, nor has what came behind it: it is sent again. */
static void drop_what_was_not_taken(struct fs_span *span)
{
    for (unsigned i = 0; i < span->waiting_count; i++) {
        struct fs_arrival *arrival = &span->waiting[(span->first_waiting + i) % (2 * FS_FRAMES)];
        if (arrival->frame.kind != FS_FRAME_OFFERED) continue;
        if (i == 0 && span->taking > 0 && take(span, arrival)) arrival->frame.kind = FS_FRAME_WRITTEN;
        else span->waiting_count = i;
    }
    span->taking = 0;
    span->told_taken = span->taken; /* what has arrived is told by the next carrier's first frame */
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
        take_arrivals(span);
        if (!stopped) nanosleep(&pause, NULL);
    } while (!stopped && fs_now_ns() < limit && span->lost != EPROTO);
    consume_done(span);
    drop_what_was_not_taken(span);
    return take_bytes_along(span);
}

void fs_span_resume(struct fs_span *span, struct fs_carrier *next)
{
    span->carrier = next;
    span->frames = span->heard_there = span->heard = span->told_heard = 0;
    span->lost = span->disconnected = span->said_shut = 0;
    atomic_store(&span->resumed, 1);
}

int fs_span_has_resumed(const struct fs_span *span) { return atomic_load(&span->resumed); }

enum fs_span_turned fs_span_turn(struct fs_span *span, short *wants)
{
    *wants = 0;
    take_arrivals(span);
    consume_done(span);
    inwards(span, wants);
    if (span->disconnected != 0 && span->waiting_count == 0 && !fs_span_is_orderly(span))
        fs_span_other_ended(span, span->disconnected);
    if (span->lost == 0 && !span->heard_reset) {
        say_what_is_due(span);
        if (left_with_bytes_unread(span)) broken_by_program(span);
        tell_taken(span);
        if (may_send_data(span)) {
            outwards(span, wants);
            give_credit(span);
            await_reader(span, wants);
        }
    }
    if (span->lost != 0 && span->lost != EPROTO) take_last_arrivals(span, wants);
    if (can_resume(span)) return FS_SPAN_LEAVES_CARRIER;
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
static void tell_the_end_beside(struct fs_span *span, int tcp)
{
    const uint64_t read = read_here(span);
    const struct fs_frame frames[2] = {{FS_FRAME_RESUME, 0, arrived_in_all(span), read, 0},
                                       {FS_FRAME_SHUT, 0, span->sent, read, 0}};
    unsigned char both[2 * FS_FRAME_BYTES];
    for (int i = 0; i < 2; i++) fs_frame_put(both + i * FS_FRAME_BYTES, &frames[i]);
    send(tcp, both, sizeof both, MSG_DONTWAIT | MSG_NOSIGNAL); /* it is not there any more: then it knows */
}

void fs_span_finish(struct fs_span *span)
{
    uint32_t state = atomic_load(&span->state);
    const int was_told = fs_span_is_orderly(span), orderly = was_told || left_in_order(span);
    int tcp = atomic_exchange(&span->tcp, -1);
    if (was_told && keeps(span)) tell_the_end_beside(span, tcp);
    close_descriptor(&tcp);
    if (state == FS_SPAN_WAITING) become(span, FS_SPAN_BROKEN);
    /* a claim may come now: it finds the state changed, or its program finds the reset */
    if (state == FS_SPAN_OFFERED) atomic_compare_exchange_strong(&span->state, &state, FS_SPAN_BROKEN);
    if (span->doorbell >= 0) fs_end_closing(span->end, span->doorbell, !orderly);
    else if (!orderly) fs_end_leaves(span->end, FS_BY_RESET);
    close_descriptor(&span->doorbell);
    fs_end_closed(span->end);
}
