#define _GNU_SOURCE
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"

/* ---- its life ---- */

struct fs_engine *fs_engine_new(int rank, int size, const struct fs_engine_options *options, int *error)
{
    *error = -EINVAL;
    if (size < 1 || rank < 0 || rank >= size) return NULL;
    *error = -ENOMEM;
    struct fs_engine *engine = aligned_alloc(64, (sizeof *engine + 63) & ~(size_t)63);
    if (!engine) return NULL;
    memset(engine, 0, sizeof *engine);
    engine->peers = calloc((size_t)size, sizeof *engine->peers);
    engine->links = calloc((size_t)size, sizeof(struct fs_link *));
    if (!engine->peers || !engine->links) {
        free(engine->peers);
        free(engine->links);
        free(engine);
        return NULL;
    }
    engine->holders = 1;
    engine->rank = rank;
    engine->size = size;
    engine->options = *options;
    engine->spin_ticks = (uint64_t)(options->spin_us * fs_ticks_per_us());
    engine->process = fs_process_id();
    engine->kick = -1;
    engine->peers[rank].state = FS_LOCAL;
    *error = 0;
    return engine;
}

void fs_engine_hold(struct fs_engine *engine) { atomic_fetch_add(&engine->holders, 1); }

void fs_engine_release(struct fs_engine *engine)
{
    if (atomic_fetch_sub(&engine->holders, 1) != 1) return;
    while (engine->oldest) {
        struct fs_message *message = engine->oldest;
        fs_message_remove(engine, message);
        fs_message_free(message);
    }
    for (int i = 0; i < atomic_load(&engine->link_count); i++) fs_link_free(engine->links[i]);
    for (int i = 0; i < engine->size; i++) free(engine->peers[i].reason);
    while (engine->members) {
        struct fs_members *next = engine->members->next;
        free(engine->members);
        engine->members = next;
    }
    if (engine->kick >= 0 && engine->process == fs_process_id()) close(engine->kick);
    free((void *)engine->stamps);
    free(engine->slots);
    free(engine->links);
    free(engine->peers);
    free(engine);
}

int fs_engine_is_usable(const struct fs_engine *engine)
{
    return !atomic_load_explicit(&engine->closed, memory_order_relaxed) && engine->process == fs_process_id();
}

int fs_engine_rank(const struct fs_engine *engine) { return engine->rank; }
int fs_engine_size(const struct fs_engine *engine) { return engine->size; }

int fs_engine_only_local(const struct fs_engine *engine)
{
    return atomic_load_explicit(&engine->link_count, memory_order_relaxed) == 0;
}

void fs_engine_after_fork(struct fs_engine *engine)
{
    for (int i = 0; i < atomic_load(&engine->link_count); i++) fs_link_abandon_descriptor(engine->links[i]);
    if (engine->kick >= 0) close(engine->kick);
    engine->kick = -1;
}

/* ---- completion ---- */

static int done_at_once(struct fs_request *request, int error)
{
    request->error = error;
    atomic_store_explicit(&request->done, 1, memory_order_release);
    return FS_DONE;
}

void fs_complete(struct fs_engine *engine, struct fs_request *request, int error)
{
    request->error = error;
    request->state = FS_IDLE;
    if (request->tracked) {
        request->next = NULL;
        if (engine->finished_last) engine->finished_last->next = request;
        else engine->finished_first = request;
        engine->finished_last = request;
        atomic_store_explicit(&engine->finished, engine->finished + 1, memory_order_relaxed);
        if (request->has_callback) atomic_fetch_add(&engine->finished_callbacks, 1);
    }
    atomic_store(&request->done, 1); /* the caller may be gone with it from here on */
    if (atomic_load(&engine->sleepers) != 0 || atomic_load(&engine->asleep) != 0) fs_wake(engine);
}

void fs_complete_elsewhere(struct fs_engine *engine, struct fs_request *request, int error)
{
    if (request->engine == engine) {
        fs_complete(engine, request, error);
        fs_engine_release(engine); /* never the last hold: the caller has one */
        return;
    }
    request->error = error;
    request->next = engine->settled;
    engine->settled = request;
}

int fs_engine_has_finished(const struct fs_engine *engine)
{
    return atomic_load_explicit(&engine->finished, memory_order_relaxed) != 0;
}

struct fs_request *fs_engine_finished(struct fs_engine *engine)
{
    if (!fs_engine_has_finished(engine)) return NULL;
    fs_engine_lock(engine);
    struct fs_request *request = engine->finished_first;
    if (request) {
        engine->finished_first = request->next;
        if (!request->next) engine->finished_last = NULL;
        request->next = NULL;
        atomic_store_explicit(&engine->finished, engine->finished - 1, memory_order_relaxed);
        if (request->has_callback) atomic_fetch_sub(&engine->finished_callbacks, 1);
    }
    fs_engine_unlock(engine);
    return request;
}

int fs_engine_set_callback(struct fs_engine *engine, struct fs_request *request)
{
    fs_engine_lock(engine);
    int pending = !atomic_load(&request->done);
    if (pending) request->has_callback = 1;
    fs_engine_unlock(engine);
    return pending;
}

/* ---- sending and receiving ---- */

void fs_request_prepare(struct fs_request *request, int kind, const struct iovec *parts, size_t count)
{
    request->next = request->previous = NULL;
    request->parts = parts ? parts : &request->one;
    request->count = parts ? count : 1;
    request->length = 0;
    for (size_t i = 0; i < request->count; i++) request->length += request->parts[i].iov_len;
    request->moved = 0;
    request->envelope = (struct fs_envelope){0, 0, 0};
    request->payload = NULL;
    request->owner = NULL;
    request->message = NULL;
    request->id = 0;
    request->kind = (uint8_t)kind;
    request->mode = request->allocates = request->tracked = request->has_callback = request->blocking = 0;
    request->state = FS_IDLE;
    request->cancelled = 0;
    request->error = FS_FINE;
    atomic_store_explicit(&request->done, 0, memory_order_relaxed);
}

static int is_peer(const struct fs_engine *engine, int peer) { return peer >= 0 && peer < engine->size; }

int fs_engine_send(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context, int mode)
{
    request->engine = engine;
    request->peer = peer;
    request->tag = tag;
    request->context = context;
    request->mode = (uint8_t)mode;
    if (!fs_engine_is_usable(engine)) return done_at_once(request, FS_CLOSED);
    if (!is_peer(engine, peer)) return done_at_once(request, FS_PEER_FAILED);
    struct fs_peer *to = &engine->peers[peer];
    fs_engine_lock(engine);
    request->tracked = 0;
    int result = FS_PENDING;
    switch (to->state) {
    case FS_LINKED:
        result = fs_protocol_send(engine, request, to->link);
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
        request->error = FS_PEER_FAILED;
        result = FS_DONE;
    }
    if (result != FS_DONE) request->tracked = request->owner != NULL;
    fs_engine_unlock(engine);
    return result == FS_DONE ? done_at_once(request, request->error) : result;
}

static const struct fs_members *members_of(const struct fs_engine *engine, uint32_t context)
{
    const struct fs_members *members = engine->members;
    while (members && members->context != context) members = members->next;
    return members;
}

static int is_member(const struct fs_engine *engine, uint32_t context, int rank)
{
    const struct fs_members *members = members_of(engine, context);
    if (!members) return 1;
    size_t low = 0, high = members->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (members->ranks[middle] < rank) low = middle + 1;
        else high = middle;
    }
    return low < members->count && members->ranks[low] == rank;
}

static int has_failed(const struct fs_engine *engine, int peer)
{
    return engine->peers[peer].state == FS_FAILED || engine->peers[peer].state == FS_LEFT;
}

/* Nobody is left who could answer, or somebody failed who might have. The rank that failed, or FS_ANY. */
static int failed_source(const struct fs_engine *engine, const struct fs_request *request)
{
    if (request->peer != FS_ANY) return has_failed(engine, request->peer) ? request->peer : FS_ANY;
    if (engine->failures == 0) return FS_ANY;
    for (int rank = 0; rank < engine->size; rank++)
        if (engine->peers[rank].state == FS_FAILED && is_member(engine, request->context, rank)) return rank;
    return FS_ANY;
}

int fs_engine_receive(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context)
{
    request->engine = engine;
    request->peer = peer;
    request->tag = tag;
    request->context = context;
    if (!fs_engine_is_usable(engine)) return done_at_once(request, FS_CLOSED);
    if (peer != FS_ANY && !is_peer(engine, peer)) return done_at_once(request, FS_PEER_FAILED);
    fs_engine_lock(engine);
    request->tracked = 0;
    struct fs_message *message = fs_find_message(engine, context, peer, tag);
    if (message) {
        fs_message_remove(engine, message);
        fs_receive_message(engine, request, message);
    } else {
        int failed = failed_source(engine, request);
        if (failed != FS_ANY) {
            request->envelope.source = failed;
            fs_complete(engine, request, FS_PEER_FAILED);
        } else {
            fs_post(engine, request);
        }
    }
    int result = atomic_load(&request->done) ? FS_DONE : FS_PENDING;
    if (result != FS_DONE) request->tracked = request->owner != NULL;
    fs_engine_unlock(engine);
    return result;
}

/* For a probe: NULL too where the first that fits is lost, for its sender failed. */
static struct fs_message *find_whole(struct fs_engine *engine, uint32_t context, int peer, int tag)
{
    struct fs_message *message = fs_find_message(engine, context, peer, tag);
    return message && !message->lost ? message : NULL;
}

int fs_engine_probe(struct fs_engine *engine, int peer, int tag, uint32_t context, struct fs_envelope *envelope)
{
    fs_engine_lock(engine);
    struct fs_message *message = find_whole(engine, context, peer, tag);
    if (message) *envelope = message->envelope;
    fs_engine_unlock(engine);
    return message != NULL;
}

int fs_engine_probe_failed(struct fs_engine *engine, struct fs_request *request, int peer, int tag, uint32_t context)
{
    request->peer = peer;
    request->tag = tag;
    request->context = context;
    if (peer != FS_ANY && !is_peer(engine, peer)) {
        request->error = FS_PEER_FAILED;
        return 1;
    }
    fs_engine_lock(engine);
    /* what arrived before the failure is found first */
    const struct fs_message *message = fs_find_message(engine, context, peer, tag);
    int failed = !message ? failed_source(engine, request) : message->lost ? message->envelope.source : FS_ANY;
    fs_engine_unlock(engine);
    request->envelope.source = failed;
    request->error = failed != FS_ANY ? FS_PEER_FAILED : FS_FINE;
    return failed != FS_ANY;
}

uint32_t fs_engine_arrivals(const struct fs_engine *engine) { return atomic_load(&engine->arrivals); }

struct fs_message *fs_engine_match(struct fs_engine *engine, int peer, int tag, uint32_t context, struct fs_envelope *envelope)
{
    fs_engine_lock(engine);
    struct fs_message *message = find_whole(engine, context, peer, tag);
    if (message) {
        *envelope = message->envelope;
        fs_message_remove(engine, message);
        fs_matched_add(engine, message);
    }
    fs_engine_unlock(engine);
    return message;
}

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

/* ---- the end of requests before their time ---- */

int fs_engine_cancel(struct fs_engine *engine, struct fs_request *request)
{
    int cancelled = 0;
    struct fs_engine *other = NULL;
    fs_engine_lock(engine);
    if (atomic_load(&request->done)) {
        fs_engine_unlock(engine);
        return 0;
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
        } else if (to->state == FS_LINKED) {
            known = !fs_protocol_abandon_send(engine, request, to->link);
        }
    } else if (known) {
        known = !fs_protocol_abandon_receive(engine, request);
    }
    fs_engine_unlock(engine);
    if (other) {
        if (fs_local_withdraw(request, other, 1)) known = 0;
        fs_engine_release(other);
    }
    /* another thread is about to complete it, or another process to end its copy */
    while (known && !fs_request_is_done(request))
        if (!fs_engine_progress(engine)) fs_pause();
    if (request->payload && request->owner == NULL) {
        free(request->payload);
        request->payload = NULL;
    }
}

/* ---- peers ---- */

int fs_engine_set_members(struct fs_engine *engine, uint32_t context, const int *ranks, size_t count)
{
    struct fs_members *fresh = malloc(sizeof *fresh + count * sizeof(int));
    if (!fresh) return -ENOMEM;
    fresh->context = context;
    fresh->count = count;
    memcpy(fresh->ranks, ranks, count * sizeof(int)); /* in order: the caller sorts */
    fs_engine_lock(engine);
    for (struct fs_members **link = &engine->members; *link; link = &(*link)->next) {
        struct fs_members *old = *link;
        if (old->context != context) continue;
        *link = old->next;
        free(old);
        break;
    }
    fresh->next = engine->members;
    engine->members = fresh;
    fs_engine_unlock(engine);
    return 0;
}

int fs_engine_clear_members(struct fs_engine *engine, uint32_t context)
{
    fs_engine_lock(engine);
    int found = 0;
    for (struct fs_members **link = &engine->members; *link; link = &(*link)->next) {
        struct fs_members *old = *link;
        if (old->context != context) continue;
        *link = old->next;
        free(old);
        found = 1;
        break;
    }
    fs_engine_unlock(engine);
    return found;
}

int fs_engine_attach_local(struct fs_engine *engine, int peer, struct fs_engine *other)
{
    if (!is_peer(engine, peer) || peer == engine->rank || other->rank != peer) return -EINVAL;
    fs_engine_lock(engine);
    struct fs_peer *to = &engine->peers[peer];
    if (to->state != FS_MISSING) {
        int error = has_failed(engine, peer) ? -EPIPE : -EEXIST;
        fs_engine_unlock(engine);
        return error;
    }
    fs_engine_unlock(engine);
    fs_engine_hold(other);
    for (;;) { /* later sends queue up behind those that waited until none is left */
        fs_engine_lock(engine);
        struct fs_request *request = to->waiting.first;
        if (!request || to->state != FS_MISSING) break;
        fs_queue_remove(&to->waiting, request);
        request->state = FS_MATCHED; /* nobody else's business meanwhile */
        fs_engine_unlock(engine);
        if (fs_local_send(engine, request, other) == FS_PENDING) continue;
        fs_engine_lock(engine);
        fs_complete(engine, request, request->error);
        fs_engine_unlock(engine);
    }
    int attached = to->state == FS_MISSING;
    if (attached) {
        to->local = other;
        to->state = FS_LOCAL;
        to->was_local = 1;
    }
    fs_engine_unlock(engine);
    if (!attached) fs_engine_release(other);
    return attached ? 0 : -EPIPE;
}

static int concerns(const struct fs_engine *engine, const struct fs_request *request, int peer, int failed)
{
    if (request->peer == peer) return 1;
    return failed && request->peer == FS_ANY && is_member(engine, request->context, peer);
}

static void fail_posted(struct fs_engine *engine, struct fs_queue *queue, int peer, int failed, int error)
{
    for (struct fs_request *request = queue->first, *next; request; request = next) {
        next = request->next;
        if (!concerns(engine, request, peer, failed)) continue;
        fs_unpost(engine, request);
        request->envelope.source = peer;
        fs_complete(engine, request, error);
    }
}

static void lose_message(struct fs_engine *engine, struct fs_message *message, int peer)
{
    int never_arrives = message->announced || message->sender || message->received < message->envelope.length;
    if (message->envelope.source != peer || message->lost || !never_arrives) return;
    message->lost = 1;
    free(message->payload);
    message->payload = NULL;
    if (!message->sender) return;
    message->request->message = NULL;
    fs_complete_elsewhere(engine, message->request, FS_PEER_FAILED);
    message->sender = NULL; /* the hold goes along with the request */
    message->request = NULL;
}

/* They keep their places: a receive that is theirs must fail, and not take one that was sent later for it. */
static void lose_messages(struct fs_engine *engine, int peer)
{
    for (struct fs_message *message = engine->oldest; message; message = message->newer)
        lose_message(engine, message, peer);
    for (struct fs_message *message = engine->matched; message; message = message->newer)
        lose_message(engine, message, peer);
}

void fs_peer_lost(struct fs_engine *engine, int peer, int error, const char *reason)
{
    struct fs_peer *lost = &engine->peers[peer];
    if (has_failed(engine, peer)) return;
    int failed = error != FS_FINE; /* else it said goodbye */
    struct fs_link *link = lost->link;
    lost->state = failed ? FS_FAILED : FS_LEFT;
    engine->failures += failed;
    free(lost->reason);
    lost->reason = strdup(reason);
    if (!failed) error = FS_PEER_FAILED;
    if (link) fs_link_lost(engine, link, error);
    while (lost->waiting.first) {
        struct fs_request *request = lost->waiting.first;
        fs_queue_remove(&lost->waiting, request);
        fs_complete(engine, request, error);
    }
    for (uint32_t i = 1; i < engine->slot_count; i++) {
        struct fs_slot *slot = &engine->slots[i];
        if (slot->peer != peer) continue;
        struct fs_request *request = slot->request;
        fs_slot_give(engine, i);
        if (request) fs_complete(engine, request, error);
    }
    lose_messages(engine, peer);
    for (uint32_t i = 0; i < FS_BUCKETS; i++) fail_posted(engine, &engine->buckets[i].posted, peer, failed, error);
    fail_posted(engine, &engine->posted_any, peer, failed, error);
    atomic_fetch_add(&engine->arrivals, 1); /* probes look again */
    fs_wake(engine);
}

void fs_engine_fail(struct fs_engine *engine, int peer, const char *reason)
{
    if (!is_peer(engine, peer) || peer == engine->rank || !fs_engine_is_usable(engine)) return;
    fs_engine_lock(engine);
    struct fs_engine *other = engine->peers[peer].local;
    engine->peers[peer].local = NULL;
    fs_peer_lost(engine, peer, FS_PEER_FAILED, reason);
    fs_engine_unlock(engine);
    if (!other) return;
    fs_engine_lock(other);
    lose_messages(other, engine->rank);
    fs_engine_unlock(other);
    fs_engine_release(other);
}

int fs_engine_reason(struct fs_engine *engine, int peer, char *reason, size_t reason_size, const char **path)
{
    *path = "";
    reason[0] = 0;
    if (!is_peer(engine, peer)) return 0;
    fs_engine_lock(engine);
    const struct fs_peer *about = &engine->peers[peer];
    if (about->link) *path = fs_link_path(about->link);
    else if (about->state == FS_LOCAL || about->was_local) *path = "this process's memory";
    if (about->reason) {
        strncpy(reason, about->reason, reason_size - 1);
        reason[reason_size - 1] = 0;
    }
    fs_engine_unlock(engine);
    return reason[0] != 0 || **path != 0;
}

/* ---- leaving ---- */

int fs_engine_flushed(struct fs_engine *engine)
{
    fs_links_look(engine); /* what a peer that is gone would have got never goes */
    fs_engine_progress(engine);
    int busy = 0;
    fs_engine_lock(engine);
    for (int i = 0; i < atomic_load(&engine->link_count); i++) busy |= fs_link_is_busy(engine->links[i]);
    fs_engine_unlock(engine);
    return !busy;
}

static void leave_local_peers(struct fs_engine *engine)
{
    for (int rank = 0; rank < engine->size; rank++) {
        fs_engine_lock(engine);
        struct fs_engine *other = engine->peers[rank].local;
        engine->peers[rank].local = NULL;
        if (other) engine->peers[rank].state = FS_LEFT;
        fs_engine_unlock(engine);
        if (!other) continue;
        fs_engine_lock(other);
        struct fs_engine *held = other->peers[engine->rank].local;
        other->peers[engine->rank].local = NULL;
        fs_peer_lost(other, engine->rank, FS_FINE, "it has finished");
        fs_engine_unlock(other);
        if (held) fs_engine_release(held);
        fs_engine_release(other);
    }
}

void fs_engine_close(struct fs_engine *engine)
{
    int usable = fs_engine_is_usable(engine);
    if (atomic_exchange(&engine->closed, 1)) return;
    if (!usable) return; /* a child's copy: nothing of it is the child's */
    leave_local_peers(engine);
    fs_engine_lock(engine);
    for (int rank = 0; rank < engine->size; rank++) {
        struct fs_peer *peer = &engine->peers[rank];
        if (peer->state == FS_LINKED) fs_link_goodbye(engine, peer->link);
        if (rank != engine->rank) fs_peer_lost(engine, rank, FS_CLOSED, "this rank's engine was closed");
        lose_messages(engine, rank);
    }
    for (uint32_t i = 0; i < FS_BUCKETS; i++)
        while (engine->buckets[i].posted.first) {
            struct fs_request *request = engine->buckets[i].posted.first;
            fs_unpost(engine, request);
            fs_complete(engine, request, FS_CLOSED);
        }
    while (engine->posted_any.first) {
        struct fs_request *request = engine->posted_any.first;
        fs_unpost(engine, request);
        fs_complete(engine, request, FS_CLOSED);
    }
    fs_wake(engine);
    fs_engine_unlock(engine);
}
