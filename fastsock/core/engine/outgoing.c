/* What goes out on a link: frames one after the other, of the messages that wait and of those that are asked for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"

#define PARTS 16            /* of one write */
#define PIECE (256u * 1024) /* of a long message, before others have a turn */
#define CONTROL_ROOM 16
#define MOST_CONTROL (1u << 20)
#define ROUNDS 256 /* frames of one flush */

static int has_credit(const struct fs_link *link, const struct fs_request *request)
{
    return link->sent - link->acknowledged + fs_cost(request->length) <= link->credit;
}

/* An announcement takes memory over there too, until its receive comes. */
static int may_announce(const struct fs_link *link)
{
    uint64_t credit = link->credit > FS_FIRST_CREDIT ? link->credit : FS_FIRST_CREDIT;
    return link->sent - link->acknowledged + fs_cost(0) <= credit + link->extra;
}

/* The first send, once the other end has said how much it takes: before that it would go by rendezvous without need.
 * Those behind one that must wait for credit wait with it: messages do not overtake. */
static struct fs_request *next_send(const struct fs_link *link)
{
    struct fs_request *next = link->sends.first;
    if (!next || !may_announce(link)) return NULL;
    return link->greeted || has_credit(link, next) ? next : NULL;
}

void fs_link_set_pending(struct fs_link *link)
{
    int pending = link->out_header + link->out_left != 0 || link->control_count != 0 || next_send(link) ||
                  link->streams.first || link->pushing ||
                  (link->sharing ? !link->share_waits : link->fetches.first != NULL);
    if (atomic_load_explicit(&link->pending, memory_order_relaxed) != pending) atomic_store(&link->pending, pending);
}

/* Something is still to be written. */
static int is_busy(const struct fs_link *link)
{
    /* the other end may not have attached the memory yet, and some memory goes with this process */
    if (link->end && !link->greeted) return 1;
    /* what waits for credit waits for a receive, as what was announced does */
    int sends = link->greeted ? next_send(link) != NULL : link->sends.first != NULL;
    return link->out_header + link->out_left != 0 || link->control_count != 0 || sends || link->streams.first != NULL ||
           link->transfers.first != NULL;
}

static void write_failed(struct fs_engine *engine, struct fs_link *link, int error)
{
    if (error == -EPROTO) {
        fs_link_broken(engine, link, "impossible values in the shared memory");
        return;
    }
    /* what the other end sent before it went is still there to read: reading finds the end */
    atomic_store(&link->hung_up, 1);
}

/* ---- frames under way ---- */

static int is_idle(const struct fs_link *link) { return link->out_header + link->out_left == 0; }

static void next_control(struct fs_link *link)
{
    link->out_frame = link->control[link->control_first];
    link->control_first = (link->control_first + 1) % link->control_room;
    link->control_count--;
    link->out_header = sizeof link->out_frame;
    link->out_request = NULL;
}

/* 0, or FS_NO_MEMORY. */
static int begin_send(struct fs_engine *engine, struct fs_link *link, struct fs_request *request)
{
    /* a message in several parts lies nowhere whence it could be fetched */
    int fetched = request->length >= link->fetch_from && request->count == 1;
    int eager = request->length <= engine->options.eager_limit && !fetched && has_credit(link, request);
    int numbered = !eager || request->mode == FS_SYNCHRONOUS;
    if (request->layout && !fs_may_pack(link)) return FS_NO_MEMORY;
    if (numbered && !fs_slot_take(engine, request, link->peer)) return FS_NO_MEMORY;
    struct fs_frame *frame = &link->out_frame;
    *frame = (struct fs_frame){.magic = FS_FRAME_MAGIC,
                               .kind = eager ? FS_FRAME_EAGER : FS_FRAME_READY_TO_SEND,
                               .tag = request->tag,
                               .context = request->context,
                               .id = request->id,
                               .length = request->length};
    if (eager) {
        frame->word = link->credited = link->consumed;
        link->sent += fs_cost(request->length);
    } else {
        frame->word = fs_stamp(engine, request);
        frame->keyed = (uint8_t)fs_rndv_key(engine, link, request);
        link->sent += fs_cost(0);
    }
    request->moved = 0;
    request->state = FS_BEGINNING; /* it cannot be taken back by itself any more */
    link->out_header = frame->keyed ? sizeof link->out_frames : sizeof *frame;
    link->out_left = eager ? request->length : 0;
    link->out_request = request;
    return FS_FINE;
}

static void next_piece(struct fs_link *link)
{
    struct fs_request *request = link->streams.first;
    fs_queue_remove(&link->streams, request);
    size_t left = request->envelope.length - request->moved;
    link->out_left = left < PIECE ? left : PIECE;
    link->out_frame = fs_frame_of(FS_FRAME_DATA, (uint32_t)request->sequence, link->out_left, 0);
    link->out_header = sizeof link->out_frame;
    link->out_request = request;
}

/* The state of a send that has a number when its first frame has gone. */
static uint8_t begun(const struct fs_link *link)
{
    return link->out_frame.kind == FS_FRAME_EAGER ? FS_SENT : FS_ANNOUNCED;
}

static void frame_gone(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_request *request = link->out_request;
    link->out_request = NULL;
    free(link->out_copy);
    link->out_copy = NULL;
    if (!request) return;
    if (link->out_frame.kind == FS_FRAME_DATA) {
        if (request->moved < request->envelope.length) {
            fs_queue_add(&link->streams, request);
            return;
        }
        fs_slot_give(engine, request->id);
        fs_complete(engine, request, FS_FINE);
    } else if (request->id != 0) {
        request->state = begun(link);
    } else {
        fs_complete(engine, request, FS_FINE);
    }
}

/* What is left of the frame under way.  1: it is gone; 0: no room, or the link is lost. */
static int write_on(struct fs_engine *engine, struct fs_link *link)
{
    while (!is_idle(link)) {
        struct iovec parts[PARTS];
        int count = 0, straight = link->out_left && fs_packs_straight(link);
        size_t header = link->out_header;
        if (header >= sizeof link->out_frame) link->out_frame.limit = link->limit;
        if (header) parts[count++] = (struct iovec){link->out_frames + sizeof link->out_frames - header, header};
        if (link->out_left && !straight) count += fs_payload(link, parts + count, PARTS - count);
        ssize_t written = count ? link->calls->write(link, parts, count) : fs_pack_straight(link);
        if (written < 0) write_failed(engine, link, (int)written);
        if (written <= 0) return 0;
        size_t of_header = (size_t)written < header ? (size_t)written : header;
        link->out_header -= of_header;
        if ((size_t)written > of_header) fs_payload_gone(link, (size_t)written - of_header);
    }
    return 1;
}

int fs_link_flush(struct fs_engine *engine, struct fs_link *link)
{
    int done = 0;
    while (done < ROUNDS && atomic_load_explicit(&link->open, memory_order_relaxed)) {
        if (is_idle(link)) {
            struct fs_request *next = next_send(link);
            if (link->control_count) {
                next_control(link);
            } else if (link->streams.first && ((link->turn ^= 1) || !next)) {
                next_piece(link);
            } else if (next) {
                fs_queue_remove(&link->sends, next);
                int failure = begin_send(engine, link, next);
                if (failure) {
                    fs_complete(engine, next, failure);
                    continue;
                }
            } else {
                break;
            }
        }
        size_t before = link->out_header + link->out_left;
        int gone = write_on(engine, link);
        done += link->out_header + link->out_left < before;
        if (!gone) break;
        frame_gone(engine, link);
    }
    if (atomic_load_explicit(&link->open, memory_order_relaxed)) fs_link_set_pending(link);
    return done;
}

/* ---- what the engine asks for ---- */

int fs_protocol_send(struct fs_engine *engine, struct fs_request *request, struct fs_link *link)
{
    if (link->leaving) { /* the other end looks no further than the goodbye */
        request->error = FS_CLOSED;
        return FS_DONE;
    }
    int short_of_credit = request->length <= engine->options.eager_limit && !has_credit(link, request);
    if (atomic_load_explicit(&link->pending, memory_order_relaxed) || link->sends.first || short_of_credit ||
        !may_announce(link)) {
        request->state = FS_QUEUED;
        fs_queue_add(&link->sends, request);
        fs_link_set_pending(link);
        return FS_PENDING;
    }
    request->error = begin_send(engine, link, request);
    if (request->error) return FS_DONE;
    if (!write_on(engine, link)) {
        if (atomic_load(&link->open)) fs_link_set_pending(link);
        return fs_request_is_done(request) ? FS_DONE : FS_PENDING;
    }
    link->out_request = NULL;
    if (request->id == 0) return FS_DONE;
    request->state = begun(link);
    return FS_PENDING;
}

void fs_link_control(struct fs_engine *engine, struct fs_link *link, struct fs_frame frame)
{
    if (!atomic_load(&link->open) || link->leaving) return;
    if (link->control_count == link->control_room) {
        size_t room = link->control_room ? link->control_room * 2 : CONTROL_ROOM;
        if (room > MOST_CONTROL) {
            fs_link_broken(engine, link, "it asks and asks, and does not read the answers");
            return;
        }
        struct fs_frame *larger = malloc(room * sizeof *larger);
        if (!larger) {
            fs_peer_lost(engine, link->peer, FS_NO_MEMORY, "no memory for control frames");
            return;
        }
        for (size_t i = 0; i < link->control_count; i++)
            larger[i] = link->control[(link->control_first + i) % link->control_room];
        free(link->control);
        link->control = larger;
        link->control_first = 0;
        link->control_room = room;
    }
    link->control[(link->control_first + link->control_count++) % link->control_room] = frame;
    atomic_store_explicit(&link->pending, 1, memory_order_relaxed);
}

void fs_stream(struct fs_link *link, struct fs_request *request, uint32_t receive)
{
    request->sequence = receive;
    request->moved = 0;
    request->state = FS_STREAMING;
    fs_queue_add(&link->streams, request);
    atomic_store_explicit(&link->pending, 1, memory_order_relaxed);
}

void fs_link_greet(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_greeting greeting = {
        .version = FS_FRAME_VERSION,
        .byte_order = FS_FRAME_ORDER,
        .rank = engine->rank,
        .credit = engine->options.credit,
        .eager_limit = engine->options.eager_limit,
        .nonce = engine->nonce,
        .stamps = (uint64_t)(uintptr_t)engine->stamps,
        .calls = (uint64_t)(uintptr_t)link->guard.calls,
        .gate = (uint64_t)(uintptr_t)link->guard.gate,
    };
    link->credit = FS_FIRST_CREDIT;
    link->out_copy = malloc(sizeof greeting);
    if (!link->out_copy) {
        fs_peer_lost(engine, link->peer, FS_NO_MEMORY, "no memory for a greeting");
        return;
    }
    memcpy(link->out_copy, &greeting, sizeof greeting);
    link->out_copied = 0;
    link->out_frame = fs_frame_of(FS_FRAME_GREETING, 0, sizeof greeting, 0);
    link->out_header = sizeof link->out_frame;
    link->out_left = sizeof greeting;
    link->out_request = NULL;
    fs_link_flush(engine, link);
}

int fs_link_goodbye(struct fs_engine *engine, struct fs_link *link)
{
    /* in the middle of a message no goodbye can be said: the peer will hear of a failure, as it should */
    if (!link->leaving && !is_idle(link)) return 0;
    if (!link->leaving) fs_link_control(engine, link, fs_frame_of(FS_FRAME_GOODBYE, 0, 0, 0));
    link->leaving = 1;
    while (atomic_load(&link->open) && link->control_count + link->out_header) {
        if (is_idle(link)) next_control(link);
        if (!write_on(engine, link)) return 0;
    }
    return 1;
}

int fs_link_leave(struct fs_engine *engine, struct fs_link *link)
{
    if (!atomic_load(&link->open)) return 1;
    if (!link->leaving && is_busy(link)) return 0;
    if (!fs_link_goodbye(engine, link)) return 0;
    return !atomic_load(&link->open) || !link->calls->delivered || link->calls->delivered(link);
}
