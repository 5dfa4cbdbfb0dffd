/* Requests: to send, to receive, to probe, and their end before their time. */
#include <sched.h>
#include <stdlib.h>

#include "internal.h"

#define PATIENCE_NS 20000000ull          /* for a sender that copies a part */
#define DEVICE_PATIENCE_NS 2000000000ull /* to take memory from the other end's device costs the link */

static int done_at_once(struct fs_request *request, int error)
{
    request->error = error;
    atomic_store_explicit(&request->done, 1, memory_order_release);
    return FS_DONE;
}

void fs_request_prepare(struct fs_request *request, int kind, const struct iovec *parts, size_t count)
{
    request->next = request->previous = NULL;
    request->parts = parts ? parts : &request->one;
    request->count = parts ? count : 1;
    request->layout = request->layout_there = NULL;
    request->length = 0;
    for (size_t i = 0; i < request->count; i++) request->length += request->parts[i].iov_len;
    request->moved = 0;
    request->envelope = (struct fs_envelope){0, 0, 0};
    request->payload = NULL;
    request->owner = NULL;
    request->message = NULL;
    request->region = NULL;
    request->awaited_by = NULL;
    request->id = 0;
    request->kind = (uint8_t)kind;
    request->mode = request->allocates = request->tracked = request->has_callback = request->late = 0;
    request->state = FS_IDLE;
    request->cancelled = 0;
    request->error = FS_FINE;
    atomic_store_explicit(&request->done, 0, memory_order_relaxed);
}

void fs_request_prepare_items(struct fs_request *request, int kind, void *origin, const struct fs_layout *layout,
                              int64_t extent, size_t length)
{
    request->one = (struct iovec){origin, 0};
    fs_request_prepare(request, kind, NULL, 1);
    request->count = 0;
    request->length = length;
    request->layout = layout;
    request->extent = extent;
}

static void count_sent(struct fs_engine *engine, const struct fs_request *request)
{
    if (fs_has_failed(engine, request->peer)) return;
    fs_count(&engine->shown->messages_out, 1);
    fs_count(&engine->shown->bytes_out, request->length);
}

int fs_engine_send(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context, int mode)
{
    request->engine = engine;
    request->peer = peer;
    request->tag = tag;
    request->context = context;
    request->mode = (uint8_t)mode;
    if (!fs_engine_is_usable(engine)) return done_at_once(request, FS_CLOSED);
    if (!fs_is_peer(engine, peer)) return done_at_once(request, FS_PEER_FAILED);
    struct fs_peer *to = &engine->peers[peer];
    fs_engine_lock(engine);
    request->tracked = 0;
    if (fs_is_revoked(engine, context)) {
        fs_engine_unlock(engine);
        return done_at_once(request, FS_CONTEXT_REVOKED);
    }
    count_sent(engine, request);
    int result = FS_PENDING;
    switch (to->state) {
    case FS_LINKED:
        result = fs_protocol_send(engine, request, to->link);
        if (result == FS_DONE || request->state != FS_QUEUED) break;
        fs_links_progress(engine); /* there may be room, or news of credit */
        if (fs_request_is_done(request)) result = FS_DONE;
        break;
    case FS_LOCAL: {
        struct fs_engine *other = peer == engine->rank ? engine : to->local;
        fs_engine_hold(other);
        fs_engine_unlock(engine);
        result = fs_local_send(engine, request, other);
        fs_engine_release(other);
        return result == FS_DONE ? done_at_once(request, request->error) : result;
    }
    case FS_MISSING:
        if (!to->asked) result |= FS_PEER_MISSING;
        to->asked = 1;
        request->state = FS_QUEUED;
        fs_queue_add(&to->waiting, request);
        break;
    default:
        request->error = to->state == FS_LEFT ? fs_sent_in_vain(engine, request) : FS_PEER_FAILED;
        result = FS_DONE;
    }
    if (result != FS_DONE) request->tracked = request->owner != NULL;
    if (result != FS_DONE && engine->failures != 0) fs_doom_later(engine);
    fs_engine_unlock(engine);
    return result == FS_DONE ? done_at_once(request, request->error) : result;
}

void fs_engine_ask_again(struct fs_engine *engine, int peer)
{
    fs_engine_lock(engine);
    engine->peers[peer].asked = 0;
    fs_engine_unlock(engine);
}

/* Nobody is left who could answer, or somebody failed who might have. The rank that failed, or FS_ANY. */
static int failed_source(const struct fs_engine *engine, int peer, uint32_t context)
{
    if (peer != FS_ANY) return fs_has_failed(engine, peer) ? peer : FS_ANY;
    return fs_failed_member(engine, context, 0);
}

/* Why nothing comes from a rank that failed, or left; `peer`: who was asked for. */
static int lack(const struct fs_engine *engine, int rank, int peer)
{
    if (peer == FS_ANY) return FS_SENDER_FAILED;
    return engine->peers[rank].state == FS_LEFT ? FS_PEER_LEFT : FS_PEER_FAILED;
}

/* `takes`: also a message that has come already. */
static int receive(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context, int takes)
{
    request->engine = engine;
    request->peer = peer;
    request->tag = tag;
    request->context = context;
    if (!fs_engine_is_usable(engine)) return done_at_once(request, FS_CLOSED);
    if (peer != FS_ANY && !fs_is_peer(engine, peer)) return done_at_once(request, FS_PEER_FAILED);
    fs_engine_lock(engine);
    request->tracked = 0;
    if (fs_is_revoked(engine, context)) {
        fs_engine_unlock(engine);
        return done_at_once(request, FS_CONTEXT_REVOKED);
    }
    struct fs_message *message = fs_find_message(engine, context, peer, tag);
    if (message && !takes) {
        fs_engine_unlock(engine);
        return FS_LATER;
    }
    if (message) {
        fs_message_remove(engine, message);
        fs_receive_message(engine, request, message);
    } else {
        int failed = failed_source(engine, peer, context);
        if (failed != FS_ANY) {
            request->envelope.source = failed;
            fs_complete(engine, request, lack(engine, failed, peer));
        } else {
            fs_post(engine, request);
            if (engine->failures != 0) fs_doom_later(engine);
            fs_protocol_wanted(engine, peer);
        }
    }
    int result = atomic_load(&request->done) ? FS_DONE : FS_PENDING;
    if (result != FS_DONE) request->tracked = request->owner != NULL;
    fs_engine_unlock(engine);
    return result;
}

int fs_engine_receive(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context)
{
    return receive(engine, request, peer, tag, context, 1);
}

int fs_engine_expect(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context)
{
    return receive(engine, request, peer, tag, context, 0);
}

/* ---- probing ---- */

/* For a probe, with the lock held: FS_HERE, and the message.  Lost is the first that fits where its sender failed. */
static int find_whole(struct fs_engine *engine, uint32_t context, int peer, int tag, struct fs_message **found)
{
    if (fs_is_revoked(engine, context)) return FS_NEVER;
    struct fs_message *message = fs_find_message(engine, context, peer, tag);
    *found = message;
    if (message) return message->lost ? FS_NEVER : FS_HERE;
    fs_protocol_wanted(engine, peer);
    return failed_source(engine, peer, context) == FS_ANY ? FS_NOT_YET : FS_NEVER;
}

int fs_engine_probe(struct fs_engine *engine, int peer, int tag, uint32_t context, struct fs_envelope *envelope)
{
    struct fs_message *message;
    if (peer != FS_ANY && !fs_is_peer(engine, peer)) return FS_NEVER;
    fs_engine_lock(engine);
    int found = find_whole(engine, context, peer, tag, &message);
    if (found == FS_HERE) *envelope = message->envelope;
    fs_engine_unlock(engine);
    return found;
}

int fs_engine_probe_failed(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context)
{
    request->peer = peer;
    request->tag = tag;
    request->context = context;
    if (peer != FS_ANY && !fs_is_peer(engine, peer)) {
        request->error = FS_PEER_FAILED;
        return 1;
    }
    fs_engine_lock(engine);
    /* what arrived before the failure is found first */
    const struct fs_message *message = fs_find_message(engine, context, peer, tag);
    int failed = !message ? failed_source(engine, peer, context) : message->lost ? message->envelope.source : FS_ANY;
    request->error = failed == FS_ANY ? FS_FINE : message ? FS_PEER_FAILED : lack(engine, failed, peer);
    if (fs_is_revoked(engine, context)) request->error = FS_CONTEXT_REVOKED;
    fs_engine_unlock(engine);
    request->envelope.source = failed;
    return request->error != FS_FINE;
}

uint32_t fs_engine_arrivals(const struct fs_engine *engine) { return atomic_load(&engine->arrivals); }

int fs_engine_match(struct fs_engine *engine, int peer, int tag, uint32_t context, struct fs_envelope *envelope,
                    struct fs_message **message)
{
    if (peer != FS_ANY && !fs_is_peer(engine, peer)) return FS_NEVER;
    fs_engine_lock(engine);
    int found = find_whole(engine, context, peer, tag, message);
    if (found == FS_HERE) {
        *envelope = (*message)->envelope;
        fs_message_remove(engine, *message);
        fs_matched_add(engine, *message);
    }
    fs_engine_unlock(engine);
    return found;
}

/* ---- what a probe took out ---- */

int fs_engine_receive_matched(struct fs_engine *engine, struct fs_request *request, struct fs_message *message)
{
    request->engine = engine;
    request->context = message->context;
    request->peer = message->envelope.source;
    request->tag = message->envelope.tag;
    if (!fs_engine_is_usable(engine)) return done_at_once(request, FS_CLOSED);
    fs_engine_lock(engine);
    request->tracked = 0;
    fs_matched_remove(engine, message);
    fs_receive_message(engine, request, message);
    int result = atomic_load(&request->done) ? FS_DONE : FS_PENDING;
    if (result != FS_DONE) request->tracked = request->owner != NULL;
    fs_engine_unlock(engine);
    return result;
}

void fs_engine_drop_matched(struct fs_engine *engine, struct fs_message *message)
{
    struct fs_request nobody;
    nobody.one = (struct iovec){NULL, 0};
    fs_request_prepare(&nobody, FS_RECEIVING, NULL, 1);
    if (fs_engine_receive_matched(engine, &nobody, message) == FS_PENDING) fs_engine_abandon(engine, &nobody);
}

void fs_engine_again(struct fs_request *request)
{
    request->moved = 0;
    request->has_callback = request->late = 0;
    request->state = FS_IDLE;
    request->error = FS_FINE;
    atomic_store(&request->done, 0);
}

/* ---- their end before their time ---- */

int fs_engine_cancel(struct fs_engine *engine, struct fs_request *request)
{
    int cancelled = 0;
    struct fs_engine *other = NULL;
    fs_engine_lock(engine);
    if (atomic_load(&request->done)) {
        const int unmatched = request->error == FS_PEER_LEFT || request->error == FS_SENDER_FAILED;
        if (unmatched) {
            request->error = FS_FINE;
            request->cancelled = 1;
        }
        fs_engine_unlock(engine);
        return unmatched;
    }
    if (request->state == FS_POSTED) {
        fs_unpost(engine, request);
        cancelled = 1;
    } else if (request->kind == FS_SENDING) {
        struct fs_peer *to = &engine->peers[request->peer];
        if (to->state == FS_MISSING && request->state == FS_QUEUED) {
            fs_queue_remove(&to->waiting, request);
            cancelled = 1;
        } else if (to->state == FS_LOCAL) {
            other = request->peer == engine->rank ? engine : to->local;
            fs_engine_hold(other);
        } else if (to->state == FS_LINKED) {
            cancelled = fs_protocol_cancel(engine, request, to->link);
        }
    }
    if (cancelled == 1) {
        request->cancelled = 1;
        fs_complete(engine, request, FS_FINE);
    }
    fs_engine_unlock(engine);
    if (!other) return cancelled != 0;
    cancelled = fs_local_withdraw(request, other, 0);
    fs_engine_release(other);
    if (!cancelled) return 0;
    fs_engine_lock(engine);
    request->cancelled = 1;
    fs_complete(engine, request, FS_FINE);
    fs_engine_unlock(engine);
    return 1;
}

/* 1: it is, as far as this engine and the other end go. */
static int abandon_linked(struct fs_engine *engine, struct fs_request *request, int patient)
{
    if (request->kind != FS_SENDING) return fs_protocol_abandon_receive(engine, request, patient);
    const struct fs_peer *to = &engine->peers[request->peer];
    return to->state == FS_LINKED && fs_protocol_abandon_send(engine, request, to->link, patient);
}

void fs_engine_abandon(struct fs_engine *engine, struct fs_request *request)
{
    struct fs_engine *other = NULL;
    fs_engine_lock(engine);
    int known = !atomic_load(&request->done);
    if (known && request->state == FS_POSTED) {
        fs_unpost(engine, request);
        known = 0;
    } else if (known && request->kind == FS_SENDING) {
        struct fs_peer *to = &engine->peers[request->peer];
        if (to->state == FS_MISSING && request->state == FS_QUEUED) {
            fs_queue_remove(&to->waiting, request);
            known = 0;
        } else if (to->state == FS_LOCAL) {
            other = request->peer == engine->rank ? engine : to->local;
            fs_engine_hold(other);
        } else {
            known = !abandon_linked(engine, request, 1);
        }
    } else if (known) {
        known = !abandon_linked(engine, request, 1);
    }
    const int device_has_it = known && request->region != NULL;
    fs_engine_unlock(engine);
    if (other) {
        if (fs_local_withdraw(request, other, 1)) known = 0;
        fs_engine_release(other);
    }
    /* another thread is about to complete it, or another process to end its copy */
    uint64_t patient_until = fs_now_ns() + (device_has_it ? DEVICE_PATIENCE_NS : PATIENCE_NS);
    while (known && !fs_request_is_done(request)) {
        if (!fs_links_round(engine)) sched_yield();
        if (other || fs_now_ns() < patient_until) continue;
        fs_engine_lock(engine);
        if (!fs_request_is_done(request)) known = !abandon_linked(engine, request, 0);
        fs_engine_unlock(engine);
    }
    if (request->payload && request->owner == NULL) {
        free(request->payload);
        request->payload = NULL;
    }
}
