/* Ranks that failed or left: what was under way with them ends. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "link.h"

static int concerns(const struct fs_engine *engine, const struct fs_request *request, int peer, int failed)
{
    if (request->peer == peer) return 1;
    return failed && request->peer == FS_ANY && fs_is_member(engine, request->context, peer);
}

/* With what a request ends whose peer is lost. */
static int ending(const struct fs_engine *engine, const struct fs_request *request, int failed, int error)
{
    return failed || request->kind != FS_SENDING ? error : fs_sent_in_vain(engine, request);
}

static void fail_posted(struct fs_engine *engine, struct fs_queue *queue, int peer, int failed, int error)
{
    if (!failed) error = FS_PEER_LEFT;
    for (struct fs_request *request = queue->first, *next; request; request = next) {
        next = request->next;
        if (!concerns(engine, request, peer, failed)) continue;
        fs_unpost(engine, request);
        request->envelope.source = peer;
        fs_complete(engine, request, failed && request->peer == FS_ANY ? FS_SENDER_FAILED : error);
    }
}

static void lose_message(struct fs_engine *engine, struct fs_message *message, int peer, int failed)
{
    int never_arrives = message->announced || message->sender || message->received < message->envelope.length;
    if (message->envelope.source != peer || message->lost || !never_arrives) return;
    message->lost = 1;
    free(message->payload);
    message->payload = NULL;
    if (!message->sender) return;
    message->request->message = NULL;
    fs_complete_elsewhere(engine, message->request, ending(message->sender, message->request, failed, FS_PEER_FAILED));
    message->sender = NULL; /* the hold goes along with the request */
    message->request = NULL;
}

void fs_lose_messages(struct fs_engine *engine, int peer, int failed)
{
    for (struct fs_message *message = engine->oldest; message; message = message->newer)
        lose_message(engine, message, peer, failed);
    for (struct fs_message *message = engine->matched; message; message = message->newer)
        lose_message(engine, message, peer, failed);
}

/* A collective may still end well: its part with that rank may be over. */
static void doom(struct fs_engine *engine, struct fs_collective *collective, int peer)
{
    const struct fs_schedule *schedule = collective->schedule;
    for (size_t i = 0; i < schedule->channel_count; i++)
        if (fs_is_member(engine, schedule->contexts[i], peer)) fs_collective_is_doomed(engine, collective);
}

static void end_queue(struct fs_engine *engine, struct fs_queue *queue, int failed, int error)
{
    while (queue->first) {
        struct fs_request *request = queue->first;
        fs_queue_remove(queue, request);
        fs_complete(engine, request, ending(engine, request, failed, error));
    }
}

/* ---- the link ---- */

static int is_said(const struct fs_link *link, int kind, uint32_t id)
{
    if (link->out_header != 0 && link->out_frame.kind == kind && link->out_frame.id == id) return 0;
    for (size_t i = 0; i < link->control_count; i++) {
        const struct fs_frame *frame = &link->control[(link->control_first + i) % link->control_room];
        if (frame->kind == kind && frame->id == id) return 0;
    }
    return 1;
}

/* Whoever leaves has what it waited for.  So a send whose bytes and PUT_DONE have gone is complete, although the device has
 * not told so yet: what comes in may be seen before it. */
static struct fs_queue take_put(struct fs_link *link)
{
    struct fs_queue put = {NULL, NULL};
    for (struct fs_request *request = link->transfers.first, *next; request; request = next) {
        next = request->next;
        if (request->state != FS_PUTTING || request->moved < request->envelope.length) continue;
        if (!is_said(link, FS_FRAME_PUT_DONE, (uint32_t)request->sequence)) continue;
        fs_queue_remove(&link->transfers, request);
        fs_queue_add(&put, request);
    }
    return put;
}

static void end_put(struct fs_engine *engine, struct fs_queue *put)
{
    while (put->first) {
        struct fs_request *request = put->first;
        fs_queue_remove(put, request);
        fs_slot_give(engine, request->id);
        fs_complete(engine, request, FS_FINE);
    }
}

/* Requests that have a number are ended by whoever calls: the other end may know them without a queue. */
static void lose_link(struct fs_engine *engine, struct fs_link *link, int failed, int error)
{
    struct fs_queue put = {NULL, NULL};
    atomic_store(&link->open, 0);
    atomic_store(&link->pending, 0);
    struct fs_request *out = link->out_request, *in = link->in_request;
    link->out_request = link->in_request = NULL;
    if (!failed) put = take_put(link);
    link->out_header = link->out_left = 0;
    if (out && out->id == 0) fs_complete(engine, out, ending(engine, out, failed, error));
    if (in && in->id == 0) fs_complete(engine, in, error);
    struct fs_message *message = link->in_message;
    link->in_message = NULL;
    if (message && message->claimed) {
        fs_complete(engine, message->claimed, error);
        fs_message_free(message);
    }
    link->streams = (struct fs_queue){NULL, NULL};
    link->transfers = (struct fs_queue){NULL, NULL};
    link->pushing = NULL;
    if (link->sharing) fs_share_end(link);
    link->sharing = NULL; /* ended with the others that have a number */
    end_queue(engine, &link->fetches, failed, error);
    end_queue(engine, &link->sends, failed, error);
    engine->descriptor_links -= link->staging != NULL;
    link->calls->close(link);
    end_put(engine, &put); /* now that the device has their memory no more */
}

/* ---- the rank ---- */

void fs_peer_lost(struct fs_engine *engine, int peer, int error, const char *reason)
{
    struct fs_peer *lost = &engine->peers[peer];
    if (fs_has_failed(engine, peer)) return;
    int failed = error != FS_FINE; /* else it said goodbye */
    struct fs_link *link = lost->link;
    lost->state = failed ? FS_FAILED : FS_LEFT;
    if (failed) lost->failure = ++engine->failures;
    free(lost->reason);
    lost->reason = strdup(reason);
    if (!failed) error = FS_PEER_FAILED;
    if (link) lose_link(engine, link, failed, error);
    end_queue(engine, &lost->waiting, failed, error);
    for (uint32_t i = 1; i < engine->slot_count; i++) {
        struct fs_slot *slot = &engine->slots[i];
        if (slot->peer != peer) continue;
        struct fs_request *request = slot->request;
        fs_slot_give(engine, i);
        if (request) fs_complete(engine, request, ending(engine, request, failed, error));
    }
    fs_lose_messages(engine, peer, failed);
    for (uint32_t i = 0; i < FS_BUCKETS; i++) fail_posted(engine, &engine->buckets[i].posted, peer, failed, error);
    fail_posted(engine, &engine->posted_any, peer, failed, error);
    for (struct fs_collective *each = engine->collectives; each && failed; each = each->next) doom(engine, each, peer);
    if (failed) fs_doom_later(engine);
    atomic_fetch_add(&engine->arrivals, 1); /* probes look again */
    fs_wake(engine);
}

void fs_link_ended(struct fs_engine *engine, struct fs_link *link)
{
    if (link->leaving) fs_peer_lost(engine, link->peer, FS_CLOSED, FS_CLOSED_HERE); /* it heard the goodbye */
    else fs_peer_lost(engine, link->peer, FS_PEER_FAILED, "the peer died or closed its end without a goodbye");
}

void fs_link_broken(struct fs_engine *engine, struct fs_link *link, const char *what)
{
    fs_peer_lost(engine, link->peer, FS_PROTOCOL, what);
}
