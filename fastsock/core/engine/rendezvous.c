/* How a message that is matched comes to its receive. */
#include "link.h"

void fs_rendezvous(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id,
                   const struct fs_source *source)
{
    size_t wanted = fs_accept_announced(engine, link, request, id);
    if (wanted == 0) return;
    if (fs_fetch_is_possible(link, request, id, source->address) &&
        fs_fetch_is_faster(link, wanted, fs_ends_are_busy(engine, link)))
        fs_fetch_begin(link, request, id, source->address);
    else if (!fs_rndv_get(engine, link, request, id, wanted, source) &&
             !fs_rndv_put_ask(engine, link, request, id, wanted))
        fs_rndv_rtr(engine, link, request, id, wanted);
}

static void receive_announced(struct fs_engine *engine, struct fs_request *request, struct fs_message *message)
{
    struct fs_peer *peer = &engine->peers[message->envelope.source];
    request->envelope = message->envelope;
    if (peer->state == FS_LINKED) {
        fs_rendezvous(engine, peer->link, request, message->id, &message->source);
        fs_link_consumed(engine, peer->link, fs_charged_length(message));
        if (atomic_load(&peer->link->open)) fs_link_flush(engine, peer->link);
    } else {
        fs_complete(engine, request, FS_PEER_FAILED);
    }
    fs_message_free(message);
}

/* The receive takes a message that is in no list any more. */
void fs_receive_message(struct fs_engine *engine, struct fs_request *request, struct fs_message *message)
{
    if (message->lost) {
        request->envelope = message->envelope;
        fs_message_free(message);
        fs_complete(engine, request, FS_PEER_FAILED);
        return;
    }
    if (message->sender) {
        fs_local_receive(engine, request, message);
        return;
    }
    if (message->announced) {
        receive_announced(engine, request, message);
        return;
    }
    if (message->received < message->envelope.length) {
        message->claimed = request;
        request->message = message;
        request->state = FS_ARRIVING;
        return;
    }
    if (request->allocates && message->payload) {
        request->payload = message->payload;
        message->payload = NULL;
        (void)fs_accept_envelope(request, &message->envelope);
        request->moved = message->envelope.length;
        fs_protocol_consumed(engine, message);
        fs_complete(engine, request, FS_FINE);
    } else {
        int failure = fs_accept_envelope(request, &message->envelope);
        request->moved = failure == FS_NO_MEMORY ? 0 : fs_wanted(request, message->envelope.length);
        fs_copy_in(request, 0, message->payload, request->moved);
        fs_protocol_consumed(engine, message);
        fs_complete(engine, request, failure);
    }
    fs_message_free(message);
}
