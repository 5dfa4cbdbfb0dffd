/* The other ranks: who is in which context, who is in this process, who failed or left. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- members of a context ---- */

static struct fs_members *take_members(struct fs_engine *engine, uint32_t context)
{
    for (struct fs_members **link = &engine->members; *link; link = &(*link)->next) {
        struct fs_members *found = *link;
        if (found->context != context) continue;
        *link = found->next;
        return found;
    }
    return NULL;
}

int fs_engine_set_members(struct fs_engine *engine, uint32_t context, const int *ranks, size_t count)
{
    struct fs_members *fresh = malloc(sizeof *fresh + count * sizeof(int));
    if (!fresh) return -ENOMEM;
    fresh->context = context;
    fresh->count = count;
    memcpy(fresh->ranks, ranks, count * sizeof(int)); /* in order: the caller sorts */
    fs_engine_lock(engine);
    struct fs_members *old = take_members(engine, context);
    fresh->next = engine->members;
    engine->members = fresh;
    fs_engine_unlock(engine);
    free(old);
    return 0;
}

int fs_engine_clear_members(struct fs_engine *engine, uint32_t context)
{
    fs_engine_lock(engine);
    struct fs_members *old = take_members(engine, context);
    fs_engine_unlock(engine);
    int found = old != NULL;
    free(old);
    return found;
}

static const struct fs_members *members_of(const struct fs_engine *engine, uint32_t context)
{
    const struct fs_members *members = engine->members;
    while (members && members->context != context) members = members->next;
    return members;
}

int fs_is_member(const struct fs_engine *engine, uint32_t context, int rank)
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

/* ---- ranks of this process ---- */

int fs_engine_attach_local(struct fs_engine *engine, int peer, struct fs_engine *other)
{
    if (!fs_is_peer(engine, peer) || peer == engine->rank || other->rank != peer) return -EINVAL;
    fs_engine_lock(engine);
    struct fs_peer *to = &engine->peers[peer];
    if (to->state != FS_MISSING) {
        int error = fs_has_failed(engine, peer) ? -EPIPE : -EEXIST;
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
        request->state = FS_BEGINNING; /* nobody else's business meanwhile */
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

/* Tells an engine of this process that this one is done with it, and releases both from each other. */
static void part(struct fs_engine *engine, struct fs_engine *other, int error, const char *reason)
{
    fs_engine_lock(other);
    struct fs_engine *held = other->peers[engine->rank].local;
    other->peers[engine->rank].local = NULL;
    fs_peer_lost(other, engine->rank, error, reason);
    fs_engine_unlock(other);
    if (held) fs_engine_release(held);
    fs_engine_release(other);
}

void fs_leave_local_peers(struct fs_engine *engine)
{
    for (int rank = 0; rank < engine->size; rank++) {
        fs_engine_lock(engine);
        struct fs_engine *other = engine->peers[rank].local;
        engine->peers[rank].local = NULL;
        if (other) engine->peers[rank].state = FS_LEFT;
        fs_engine_unlock(engine);
        if (other) part(engine, other, FS_FINE, "it has finished");
    }
}

/* ---- failing ---- */

static int concerns(const struct fs_engine *engine, const struct fs_request *request, int peer, int failed)
{
    if (request->peer == peer) return 1;
    return failed && request->peer == FS_ANY && fs_is_member(engine, request->context, peer);
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

void fs_lose_messages(struct fs_engine *engine, int peer)
{
    for (struct fs_message *message = engine->oldest; message; message = message->newer)
        lose_message(engine, message, peer);
    for (struct fs_message *message = engine->matched; message; message = message->newer)
        lose_message(engine, message, peer);
}

void fs_peer_lost(struct fs_engine *engine, int peer, int error, const char *reason)
{
    struct fs_peer *lost = &engine->peers[peer];
    if (fs_has_failed(engine, peer)) return;
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
    fs_lose_messages(engine, peer);
    for (uint32_t i = 0; i < FS_BUCKETS; i++) fail_posted(engine, &engine->buckets[i].posted, peer, failed, error);
    fail_posted(engine, &engine->posted_any, peer, failed, error);
    atomic_fetch_add(&engine->arrivals, 1); /* probes look again */
    fs_wake(engine);
}

void fs_engine_fail(struct fs_engine *engine, int peer, const char *reason)
{
    if (!fs_is_peer(engine, peer) || peer == engine->rank || !fs_engine_is_usable(engine)) return;
    fs_engine_lock(engine);
    struct fs_engine *other = engine->peers[peer].local;
    engine->peers[peer].local = NULL;
    fs_peer_lost(engine, peer, FS_PEER_FAILED, reason);
    fs_engine_unlock(engine);
    if (other) part(engine, other, FS_PEER_FAILED, "it has given this rank up");
}

int fs_engine_reason(struct fs_engine *engine, int peer, char *reason, size_t reason_size, const char **path)
{
    *path = "";
    reason[0] = 0;
    if (!fs_is_peer(engine, peer)) return 0;
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
