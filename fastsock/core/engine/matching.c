/* Which receive a message belongs to.
 *
 * Receives and unexpected messages stand in buckets by (context, source, tag); receives with a wildcard in one list of
 * their own, and unexpected messages also in one by arrival.  Among what fits the earliest wins.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct fs_bucket *fs_bucket_of(struct fs_engine *engine, uint32_t context, int source, int tag)
{
    uint32_t mixed = context * 0x9e3779b1u ^ (uint32_t)source * 0x85ebca6bu ^ (uint32_t)tag * 0xc2b2ae35u;
    return &engine->buckets[(mixed ^ mixed >> 15) % FS_BUCKETS];
}

static int has_wildcard(const struct fs_request *request) { return request->peer == FS_ANY || request->tag == FS_ANY; }

static struct fs_queue *queue_of(struct fs_engine *engine, const struct fs_request *request)
{
    if (has_wildcard(request)) return &engine->posted_any;
    return &fs_bucket_of(engine, request->context, request->peer, request->tag)->posted;
}

void fs_post(struct fs_engine *engine, struct fs_request *request)
{
    request->sequence = ++engine->sequence;
    request->state = FS_POSTED;
    fs_queue_add(queue_of(engine, request), request);
}

void fs_unpost(struct fs_engine *engine, struct fs_request *request)
{
    fs_queue_remove(queue_of(engine, request), request);
    request->state = FS_IDLE;
}

/* An internal context (odd) has tags of its own kind: a wildcard there is still a wildcard. */
static int fits(int wanted_source, int wanted_tag, int source, int tag)
{
    return (wanted_source == FS_ANY || wanted_source == source) && (wanted_tag == FS_ANY || wanted_tag == tag);
}

static int may_be_from(const struct fs_queue *queue, int peer)
{
    for (const struct fs_request *request = queue->first; request; request = request->next)
        if (request->peer == peer || request->peer == FS_ANY) return 1;
    return 0;
}

int fs_waits_for(const struct fs_engine *engine, int peer)
{
    int found = may_be_from(&engine->posted_any, peer);
    for (uint32_t i = 0; i < FS_BUCKETS && !found; i++) found = may_be_from(&engine->buckets[i].posted, peer);
    return found;
}

struct fs_request *fs_find_posted(struct fs_engine *engine, uint32_t context, int source, int tag)
{
    struct fs_request *found = fs_bucket_of(engine, context, source, tag)->posted.first;
    while (found && (found->context != context || found->peer != source || found->tag != tag)) found = found->next;
    for (struct fs_request *other = engine->posted_any.first; other; other = other->next) {
        if (found && found->sequence < other->sequence) break;
        if (other->context != context || !fits(other->peer, other->tag, source, tag)) continue;
        found = other;
        break;
    }
    if (found) {
        fs_unpost(engine, found);
        found->state = FS_MATCHED;
    }
    return found;
}

struct fs_message *fs_message_new(uint32_t context, int source, int tag, size_t length)
{
    struct fs_message *message = calloc(1, sizeof *message);
    if (!message) return NULL;
    message->context = context;
    message->envelope = (struct fs_envelope){source, tag, length};
    return message;
}

void fs_message_free(struct fs_message *message)
{
    if (message->sender) fs_engine_release(message->sender);
    free(message->payload);
    free(message);
}

void fs_message_add(struct fs_engine *engine, struct fs_message *message)
{
    struct fs_bucket *bucket = fs_bucket_of(engine, message->context, message->envelope.source, message->envelope.tag);
    message->next = NULL;
    message->previous = bucket->last;
    if (bucket->last) bucket->last->next = message;
    else bucket->first = message;
    bucket->last = message;
    message->newer = NULL;
    message->older = engine->newest;
    if (engine->newest) engine->newest->newer = message;
    else engine->oldest = message;
    engine->newest = message;
    message->queued = 1;
    atomic_fetch_add(&engine->arrivals, 1);
    if (atomic_load(&engine->watchers) != 0) fs_wake(engine);
}

void fs_message_remove(struct fs_engine *engine, struct fs_message *message)
{
    struct fs_bucket *bucket = fs_bucket_of(engine, message->context, message->envelope.source, message->envelope.tag);
    if (message->previous) message->previous->next = message->next;
    else bucket->first = message->next;
    if (message->next) message->next->previous = message->previous;
    else bucket->last = message->previous;
    if (message->older) message->older->newer = message->newer;
    else engine->oldest = message->newer;
    if (message->newer) message->newer->older = message->older;
    else engine->newest = message->older;
    message->queued = 0;
}

void fs_matched_add(struct fs_engine *engine, struct fs_message *message)
{
    message->older = NULL;
    message->newer = engine->matched;
    if (engine->matched) engine->matched->older = message;
    engine->matched = message;
}

void fs_matched_remove(struct fs_engine *engine, struct fs_message *message)
{
    if (message->older) message->older->newer = message->newer;
    else engine->matched = message->newer;
    if (message->newer) message->newer->older = message->older;
}

struct fs_message *fs_find_message(struct fs_engine *engine, uint32_t context, int source, int tag)
{
    if (!engine->oldest) return NULL;
    if (source != FS_ANY && tag != FS_ANY) {
        struct fs_message *message = fs_bucket_of(engine, context, source, tag)->first;
        while (message &&
               (message->context != context || message->envelope.source != source || message->envelope.tag != tag))
            message = message->next;
        return message;
    }
    for (struct fs_message *message = engine->oldest; message; message = message->newer)
        if (message->context == context && fits(source, tag, message->envelope.source, message->envelope.tag))
            return message;
    return NULL;
}

int fs_accept_envelope(struct fs_request *request, const struct fs_envelope *envelope)
{
    request->envelope = *envelope;
    request->state = FS_MATCHED;
    request->moved = 0;
    if (!request->allocates) return envelope->length > request->length ? FS_TRUNCATED : FS_FINE;
    size_t room = (envelope->length + 63) & ~(size_t)63;
    if (room < envelope->length) return FS_NO_MEMORY;
    if (!request->payload) request->payload = aligned_alloc(64, room ? room : 64);
    if (!request->payload) return FS_NO_MEMORY;
    request->one = (struct iovec){request->payload, envelope->length};
    request->parts = &request->one;
    request->count = 1;
    request->length = envelope->length;
    return FS_FINE;
}
