/* Messages between ranks of one process, and to oneself: one copy, under the receiver's lock. */
#include <stdlib.h>

#include "internal.h"

/* A sender must not wait for a receive where it would not have waited on another path. */
static int buffer(struct fs_engine *other, struct fs_request *request)
{
    struct fs_peer *peer = &other->peers[request->engine->rank];
    size_t cost = request->length + FS_MESSAGE_COST;
    if (request->mode != FS_STANDARD || request->length > other->options.eager_limit) return 0;
    if (peer->buffered + cost > other->options.credit) return 0;
    struct fs_message *message = fs_message_new(request->context, request->engine->rank, request->tag, request->length);
    if (message) message->payload = aligned_alloc(64, ((request->length + 63) & ~(size_t)63) + 64);
    if (!message || !message->payload) {
        if (message) fs_message_free(message);
        return 0;
    }
    fs_copy_out(request, 0, message->payload, request->length);
    message->received = request->length;
    message->charged = 1;
    peer->buffered += cost;
    fs_message_add(other, message);
    return 1;
}

/* Without a lock; the caller holds both engines. */
int fs_local_send(struct fs_engine *engine, struct fs_request *request, struct fs_engine *other)
{
    struct fs_envelope envelope = {engine->rank, request->tag, request->length};
    fs_engine_lock(other);
    /* where the two have parted meanwhile, nobody would ever take it out again */
    int other_closed = atomic_load_explicit(&other->closed, memory_order_relaxed);
    if (other_closed || fs_has_failed(other, engine->rank)) {
        int given_up = !other_closed && other->peers[engine->rank].state == FS_FAILED;
        request->error = given_up ? FS_PEER_FAILED : fs_sent_in_vain(engine, request);
        if (atomic_load(&engine->closed)) request->error = FS_CLOSED;
        fs_engine_unlock(other);
        return FS_DONE;
    }
    if (fs_is_revoked(other, request->context)) {
        fs_engine_unlock(other);
        request->error = FS_CONTEXT_REVOKED;
        return FS_DONE;
    }
    struct fs_request *receive = fs_find_posted(other, request->context, engine->rank, request->tag);
    if (receive) {
        int failure = fs_accept_envelope(receive, &envelope);
        receive->moved = failure == FS_NO_MEMORY ? 0 : fs_wanted(receive, request->length);
        fs_copy_across(request, receive, receive->moved);
        fs_complete(other, receive, failure);
        fs_engine_unlock(other);
        return FS_DONE;
    }
    if (buffer(other, request)) {
        fs_engine_unlock(other);
        return FS_DONE;
    }
    struct fs_message *message = fs_message_new(request->context, engine->rank, request->tag, request->length);
    if (!message) {
        fs_engine_unlock(other);
        request->error = FS_NO_MEMORY;
        return FS_DONE;
    }
    fs_engine_hold(engine);
    message->sender = engine;
    message->request = request;
    request->message = message;
    request->state = FS_ANNOUNCED;
    request->tracked = request->owner != NULL;
    fs_message_add(other, message);
    fs_engine_unlock(other);
    return FS_PENDING;
}

void fs_local_receive(struct fs_engine *engine, struct fs_request *request, struct fs_message *message)
{
    struct fs_request *send = message->request;
    int failure = fs_accept_envelope(request, &message->envelope);
    request->moved = failure == FS_NO_MEMORY ? 0 : fs_wanted(request, message->envelope.length);
    fs_copy_across(send, request, request->moved);
    send->message = NULL;
    fs_complete_elsewhere(engine, send, FS_FINE);
    message->sender = NULL; /* the hold goes along with the request */
    fs_message_free(message);
    fs_complete(engine, request, failure);
}

int fs_local_withdraw(struct fs_request *request, struct fs_engine *other, int by_copy)
{
    int withdrawn = 0;
    fs_engine_lock(other);
    struct fs_message *message = request->message;
    if (message && message->queued) {
        fs_message_remove(other, message);
        fs_message_free(message);
        request->message = NULL;
        withdrawn = 1;
    } else if (message && by_copy) { /* a matched probe has it */
        message->payload = aligned_alloc(64, ((request->length + 63) & ~(size_t)63) + 64);
        if (message->payload) {
            fs_copy_out(request, 0, message->payload, request->length);
            message->received = request->length;
            request->message = NULL;
            fs_engine_release(message->sender);
            message->sender = NULL;
            message->request = NULL;
            withdrawn = 1;
        }
    }
    fs_engine_unlock(other);
    return withdrawn;
}
