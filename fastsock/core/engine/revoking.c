/* What is pending in a context ends: the context is revoked; or it is of collective operations, and one of the members failed.
 *
 * Where the context is revoked, a message that no receive has taken is dropped, unless its sender waits for an answer: that one
 * hears of the revocation too, and takes it back.
 */
#include <errno.h>

#include "link.h"

/* With what a pending request ends now; FS_FINE: it goes on.  `doomed`: also where a member failed. */
static int ending(const struct fs_engine *engine, const struct fs_request *request, int doomed)
{
    int error = fs_ending(engine, request->context);
    return error == FS_CONTEXT_REVOKED || doomed ? error : FS_FINE;
}

/* In no queue any more. */
static void end(struct fs_engine *engine, struct fs_request *request, int error)
{
    if (error == FS_PEER_FAILED) /* which rank is to blame */
        request->peer = request->envelope.source = fs_failed_member(engine, request->context, 1);
    fs_complete(engine, request, error);
}

static void end_posted(struct fs_engine *engine, struct fs_queue *queue, int doomed)
{
    for (struct fs_request *request = queue->first, *next; request; request = next) {
        next = request->next;
        const int error = ending(engine, request, doomed);
        if (error == FS_FINE) continue;
        fs_unpost(engine, request);
        end(engine, request, error);
    }
}

static int end_waiting(struct fs_engine *engine, struct fs_queue *queue, int doomed)
{
    int ended = 0;
    for (struct fs_request *request = queue->first, *next; request; request = next) {
        next = request->next;
        const int error = ending(engine, request, doomed);
        if (error == FS_FINE) continue;
        fs_queue_remove(queue, request);
        end(engine, request, error);
        ended++;
    }
    return ended;
}

/* The other end answers whether it was in time. */
static void take_back(struct fs_engine *engine, int doomed)
{
    for (uint32_t i = 1; i < engine->slot_count; i++) {
        struct fs_request *request = engine->slots[i].request;
        if (!request || request->kind != FS_SENDING || ending(engine, request, doomed) == FS_FINE) continue;
        const struct fs_peer *to = &engine->peers[request->peer];
        if (to->state == FS_LINKED) fs_protocol_cancel(engine, request, to->link);
    }
}

/* What a rank of this process still waits to get rid of. */
static void refuse_local(struct fs_engine *engine, struct fs_message *message, int error)
{
    message->request->message = NULL;
    fs_complete_elsewhere(engine, message->request, error);
    message->sender = NULL; /* the hold goes along with the request */
    fs_message_free(message);
}

static void end_pending(struct fs_engine *engine, int doomed)
{
    for (uint32_t i = 0; i < FS_BUCKETS; i++) end_posted(engine, &engine->buckets[i].posted, doomed);
    end_posted(engine, &engine->posted_any, doomed);
    for (int rank = 0; rank < fs_peer_count(engine); rank++) end_waiting(engine, &engine->peers[rank].waiting, doomed);
    for (int i = 0; i < fs_links_count(engine); i++)
        if (end_waiting(engine, &engine->links[i]->sends, doomed)) fs_link_set_pending(engine->links[i]);
    take_back(engine, doomed);
}

void fs_end_doomed(struct fs_engine *engine)
{
    engine->doomed_at = 0;
    end_pending(engine, 1);
    for (struct fs_message *message = engine->oldest, *newer; message; message = newer) {
        newer = message->newer;
        if (!message->sender || fs_ending(engine, message->context) == FS_FINE) continue;
        fs_message_remove(engine, message);
        refuse_local(engine, message, FS_PEER_FAILED);
    }
}

/* ---- of contexts that are revoked ---- */

static void drop(struct fs_engine *engine, struct fs_message *message)
{
    struct fs_request nobody;
    struct fs_link *link = engine->peers[message->envelope.source].link;
    fs_message_remove(engine, message);
    if (message->sender) {
        refuse_local(engine, message, FS_CONTEXT_REVOKED);
    } else if (!message->announced && !message->lost && message->received < message->envelope.length) {
        link->in_message = NULL; /* the rest of it is still on its way */
        fs_message_free(message);
    } else {
        nobody.one = (struct iovec){NULL, 0};
        fs_request_prepare(&nobody, FS_RECEIVING, NULL, 1);
        fs_receive_message(engine, &nobody, message);
    }
}

/* Whether one of them was not, before. */
static int mark(struct fs_engine *engine, const uint32_t *contexts, size_t count)
{
    int news = 0;
    for (size_t i = 0; i < count; i++) {
        struct fs_fate *fate = fs_fate_of(engine, contexts[i]);
        if (fate->revoked) continue;
        fate->revoked = news = 1;
        atomic_fetch_add(&engine->revoked, 1);
    }
    return news;
}

int fs_engine_revoke(struct fs_engine *engine, const uint32_t *contexts, size_t count)
{
    int error = 0;
    if (!fs_engine_is_usable(engine)) return 0;
    fs_engine_lock(engine);
    for (size_t i = 0; i < count; i++)
        if (!fs_fate_of(engine, contexts[i])) error = -ENOMEM;
    if (error == 0 && mark(engine, contexts, count)) {
        end_pending(engine, 0);
        for (struct fs_message *message = engine->oldest, *newer; message; message = newer) {
            newer = message->newer;
            if (message->id == 0 && fs_is_revoked(engine, message->context)) drop(engine, message);
        }
        atomic_fetch_add(&engine->arrivals, 1); /* probes look again */
        fs_wake(engine);
    }
    fs_engine_unlock(engine);
    return error;
}
