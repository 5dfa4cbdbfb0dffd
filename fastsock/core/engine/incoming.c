/* What comes in on a link. Every field of a frame is checked: the other end may be anything. */
#include <errno.h>
#include <stdlib.h>

#include "link.h"

#define FRAMES 64 /* of one round, then others have a turn */
#define BYTES (1024u * 1024)
#define LONGEST (1ull << 48)

/* ---- frames ---- */

static int take_greeting(struct fs_engine *engine, struct fs_link *link)
{
    const struct fs_greeting *greeting = &link->greeting;
    if (greeting->byte_order != FS_FRAME_ORDER || greeting->version != FS_FRAME_VERSION) {
        fs_link_broken(engine, link, "it speaks another version, or has another byte order");
        return 0;
    }
    if (greeting->rank != engine->peers[link->peer].calls_itself) {
        fs_link_broken(engine, link, "it says that it is another rank");
        return 0;
    }
    link->credit = greeting->credit < FS_MOST_CREDIT ? greeting->credit : FS_MOST_CREDIT;
    link->greeted = 1;
    fs_link_set_pending(link); /* what waited for this may go */
    return 1;
}

static int begin_eager(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame)
{
    struct fs_envelope envelope = {link->peer, frame->tag, frame->length};
    uint64_t cost = fs_cost(frame->length);
    if (frame->length > LONGEST || link->received - link->consumed + cost > fs_most_unconsumed(engine)) {
        fs_link_broken(engine, link, "it sent more than its credit");
        return 0;
    }
    if (!fs_link_credited(link, frame->word)) {
        fs_link_broken(engine, link, "it consumed more than was sent");
        return 0;
    }
    link->received += cost;
    struct fs_request *request = fs_find_posted(engine, frame->context, link->peer, frame->tag);
    if (request) {
        request->error = fs_accept_envelope(request, &envelope);
        request->state = FS_ARRIVING;
        link->in_request = request;
        link->in_wanted = request->error == FS_NO_MEMORY ? 0 : fs_wanted(request, frame->length);
        return 1;
    }
    if (frame->id == 0 && fs_is_revoked(engine, frame->context)) return 1; /* its bytes go nowhere */
    struct fs_message *message = fs_message_new(frame->context, link->peer, frame->tag, frame->length);
    if (message) message->payload = aligned_alloc(64, ((frame->length + 63) & ~(size_t)63) + 64);
    if (!message || !message->payload) {
        if (message) fs_message_free(message);
        fs_peer_lost(engine, link->peer, FS_NO_MEMORY, "no memory for a message of its");
        return 0;
    }
    message->id = frame->id;
    message->charged = 1;
    link->in_message = message;
    return 1;
}

static int take_ready_to_send(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame)
{
    if (frame->length > LONGEST || frame->id == 0 || frame->keyed != link->next_key.keyed) {
        fs_link_broken(engine, link, "an impossible announcement");
        return 0;
    }
    if (link->received - link->consumed + fs_cost(0) > fs_most_unconsumed(engine) + link->granted) {
        fs_link_broken(engine, link, "it announced more than its credit");
        return 0;
    }
    link->received += fs_cost(0);
    struct fs_source source = {.address = frame->word};
    if (frame->keyed) source = link->next_key;
    link->next_key = (struct fs_source){0};
    struct fs_request *request = fs_find_posted(engine, frame->context, link->peer, frame->tag);
    if (request) {
        request->envelope = (struct fs_envelope){link->peer, frame->tag, frame->length};
        fs_rendezvous(engine, link, request, frame->id, &source);
        fs_link_consumed(engine, link, 0);
        return 1;
    }
    struct fs_message *message = fs_message_new(frame->context, link->peer, frame->tag, frame->length);
    if (!message) {
        fs_peer_lost(engine, link->peer, FS_NO_MEMORY, "no memory for a message of its");
        return 0;
    }
    message->id = frame->id;
    message->announced = message->charged = 1;
    message->source = source;
    fs_unexpected(engine, link, message);
    return 1;
}

static int take_ready_to_receive(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame,
                                 struct fs_slot *slot)
{
    struct fs_request *request = slot->request;
    if (frame->word > UINT32_MAX || (request && (frame->length == 0 || frame->length > request->length))) {
        fs_link_broken(engine, link, "it is ready for what was not announced");
        return 0;
    }
    if (!request) { /* abandoned meanwhile */
        fs_slot_give(engine, frame->id);
        fs_link_control(engine, link, fs_frame_of(FS_FRAME_WITHDRAWN, (uint32_t)frame->word, 0, 0));
        return 1;
    }
    if (request->state == FS_HELPING) link->pushing = NULL; /* all pieces are the other end's */
    request->envelope.length = frame->length;
    fs_stream(link, request, (uint32_t)frame->word);
    return 1;
}

static int begin_data(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame,
                      struct fs_slot *slot)
{
    struct fs_request *request = slot->request;
    size_t left = request ? fs_wanted(request, request->envelope.length) - request->moved : slot->left;
    if (frame->length == 0 || frame->length > left) {
        fs_link_broken(engine, link, "bytes that nobody asked for");
        return 0;
    }
    link->in_request = request;
    link->in_wanted = frame->length;
    if (!request) slot->left -= frame->length;
    if (!request && slot->left == 0) fs_slot_give(engine, frame->id);
    return 1;
}

static int take_acknowledgement(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame,
                                struct fs_slot *slot)
{
    struct fs_request *request = slot->request;
    fs_slot_give(engine, frame->id);
    if (!request) return 1;
    if (request->state == FS_HELPING) link->pushing = NULL;
    const int back = frame->kind == FS_FRAME_CANCELLED, ending = back ? fs_ending(engine, request->context) : FS_FINE;
    request->cancelled = back && ending == FS_FINE;
    fs_complete(engine, request, ending);
    return 1;
}

static int take_cancelled(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame,
                          struct fs_slot *slot)
{
    if (link->cancels == 0) {
        fs_link_broken(engine, link, "it cancels what nobody asked it to");
        return 0;
    }
    link->cancels--;
    return frame->length == 0 || take_acknowledgement(engine, link, frame, slot);
}

static int take_cancel(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame)
{
    struct fs_message *message = engine->oldest;
    while (message && (message->envelope.source != link->peer || message->id != frame->id || message->id == 0))
        message = message->newer;
    int found = message != NULL && (message->announced || message->received == message->envelope.length);
    if (found) {
        fs_message_remove(engine, message);
        if (message->charged) fs_link_consumed(engine, link, fs_charged_length(message));
        fs_message_free(message);
    }
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_CANCELLED, frame->id, (uint64_t)found, 0));
    return 1;
}

static int take_withdrawn(struct fs_engine *engine, const struct fs_frame *frame, struct fs_slot *slot)
{
    struct fs_request *request = slot->request;
    fs_slot_give(engine, frame->id);
    if (request) fs_complete(engine, request, FS_CANCELLED);
    return 1;
}

static int take_credit(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame)
{
    if (fs_link_credited(link, frame->word)) {
        link->extra = frame->length < FS_MOST_CREDIT ? frame->length : FS_MOST_CREDIT;
        fs_link_set_pending(link);
        return 1;
    }
    fs_link_broken(engine, link, "it consumed more than was sent");
    return 0;
}

static int begin_greeting(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame)
{
    if (frame->length == sizeof link->greeting) return 1;
    fs_link_broken(engine, link, "it speaks another version");
    return 0;
}

/* 1: go on. */
static int take_frame(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame,
                      struct fs_slot *slot)
{
    switch (frame->kind) {
    case FS_FRAME_GREETING: return begin_greeting(engine, link, frame);
    case FS_FRAME_EAGER: return begin_eager(engine, link, frame);
    case FS_FRAME_DATA: return begin_data(engine, link, frame, slot);
    case FS_FRAME_KEY: return fs_rndv_take_key(engine, link, frame);
    case FS_FRAME_READY_TO_SEND: return take_ready_to_send(engine, link, frame);
    case FS_FRAME_READY_TO_RECEIVE: return take_ready_to_receive(engine, link, frame, slot);
    case FS_FRAME_ACKNOWLEDGE: return take_acknowledgement(engine, link, frame, slot);
    case FS_FRAME_CREDIT: return take_credit(engine, link, frame);
    case FS_FRAME_CANCEL: return take_cancel(engine, link, frame);
    case FS_FRAME_CANCELLED: return take_cancelled(engine, link, frame, slot);
    case FS_FRAME_WITHDRAWN: return take_withdrawn(engine, frame, slot);
    case FS_FRAME_SHARE: return fs_take_share(engine, link, frame, slot);
    case FS_FRAME_PUT: return fs_rndv_take_put(engine, link, frame, slot);
    case FS_FRAME_PUT_DONE: return fs_rndv_take_put_done(engine, link, frame, slot);
    case FS_FRAME_SHARED: return fs_take_shared(engine, link, frame, slot);
    default: /* GOODBYE */ fs_peer_lost(engine, link->peer, FS_FINE, "it has finished"); return 0;
    }
}

static int has_payload(const struct fs_frame *frame)
{
    return frame->kind == FS_FRAME_GREETING || frame->kind == FS_FRAME_EAGER || frame->kind == FS_FRAME_DATA;
}

static int begin_frame(struct fs_engine *engine, struct fs_link *link)
{
    const struct fs_frame *frame = &link->frame;
    if (frame->magic != FS_FRAME_MAGIC || frame->kind == 0 || frame->kind >= FS_FRAME_KINDS) {
        fs_link_broken(engine, link, "these are not its frames");
        return 0;
    }
    struct fs_slot *slot;
    int turn = fs_turn_of(frame), state = fs_state_named(engine, link, turn, frame->id, &slot);
    if (!fs_is_in_turn(turn, state)) {
        fs_out_of_turn(engine, link, turn, state);
        return 0;
    }
    link->fetch_from = frame->limit != 0 && frame->limit < 63 ? (size_t)1 << frame->limit : SIZE_MAX;
    link->in_request = NULL;
    link->in_message = NULL;
    link->in_wanted = 0;
    link->in_left = 0;
    if (!take_frame(engine, link, frame, slot)) return 0;
    if (!atomic_load_explicit(&link->open, memory_order_relaxed)) return 0; /* by the answer to it */
    if (!has_payload(frame)) return 1;
    link->in_left = frame->length;
    link->in_payload = 1;
    if (link->in_message) fs_unexpected(engine, link, link->in_message);
    return atomic_load_explicit(&link->open, memory_order_relaxed);
}

/* ---- payload ---- */

static void end_of_eager(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_request *request = link->in_request;
    struct fs_message *message = link->in_message;
    link->in_request = NULL;
    link->in_message = NULL;
    if (message) {
        struct fs_request *claimed = message->claimed;
        if (!claimed) return;
        message->claimed = NULL;
        claimed->message = NULL;
        fs_receive_message(engine, claimed, message);
        return;
    }
    fs_link_consumed(engine, link, link->frame.length);
    if (link->frame.id) fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, link->frame.id, 0, 0));
    if (request) fs_complete(engine, request, request->error);
}

static void end_of_data(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_request *request = link->in_request;
    link->in_request = NULL;
    if (!request || request->moved < fs_wanted(request, request->envelope.length)) return;
    fs_slot_give(engine, request->id);
    fs_complete(engine, request, request->error);
}

static int end_of_payload(struct fs_engine *engine, struct fs_link *link)
{
    link->in_payload = 0;
    link->frame_bytes = 0;
    if (link->frame.kind == FS_FRAME_GREETING) return take_greeting(engine, link);
    if (link->frame.kind == FS_FRAME_EAGER) end_of_eager(engine, link);
    else end_of_data(engine, link);
    return atomic_load_explicit(&link->open, memory_order_relaxed);
}

static ssize_t read_part(struct fs_link *link, const struct fs_request *request, size_t wanted)
{
    struct iovec part;
    if (fs_parts_from(request, request->moved, wanted, &part, 1) == 0) return -EPROTO;
    return link->calls->read(link, part.iov_base, part.iov_len);
}

static ssize_t read_into_request(struct fs_link *link, struct fs_request *request)
{
    size_t wanted = link->in_wanted < link->in_left ? link->in_wanted : link->in_left;
    ssize_t got = request->layout ? fs_read_items(link, request, wanted) : read_part(link, request, wanted);
    if (got > 0) {
        request->moved += (size_t)got;
        link->in_wanted -= (size_t)got;
    }
    return got;
}

static ssize_t read_payload(struct fs_link *link)
{
    if (link->frame.kind == FS_FRAME_GREETING)
        return link->calls->read(link, (char *)(&link->greeting + 1) - link->in_left, link->in_left);
    if (link->in_request && link->in_wanted) return read_into_request(link, link->in_request);
    if (link->in_message) {
        struct fs_message *message = link->in_message;
        ssize_t got = link->calls->read(link, message->payload + message->received, link->in_left);
        if (got > 0) message->received += (size_t)got;
        return got;
    }
    return link->calls->read(link, NULL, link->in_left);
}

static void read_failed(struct fs_engine *engine, struct fs_link *link, int error)
{
    const char *why = link->calls->failure ? link->calls->failure(link) : NULL;
    if (why) fs_peer_lost(engine, link->peer, FS_PEER_FAILED, why);
    else if (error == -EPROTO) fs_link_broken(engine, link, "impossible values in the shared memory");
    else fs_link_ended(engine, link);
}

/* Whoever leaves takes no message any more.  What comes is read all the same: unread, it would make TCP's close a reset. */
static int discard(struct fs_engine *engine, struct fs_link *link)
{
    ssize_t got, done = 0;
    do done += got = link->calls->read(link, NULL, BYTES);
    while (got > 0 && done < BYTES);
    if (got < 0) read_failed(engine, link, (int)got);
    else link->calls->taken(link);
    return got < 0 || done != 0;
}

/* A round of reading: how much was done. */
int fs_link_take(struct fs_engine *engine, struct fs_link *link)
{
    if (link->leaving) return discard(engine, link);
    size_t bytes = 0;
    int frames = 0;
    while (frames < FRAMES && bytes < BYTES) {
        ssize_t got = 0;
        if (!link->in_payload) {
            got = link->calls->read(link, (char *)&link->frame + link->frame_bytes,
                                    sizeof link->frame - link->frame_bytes);
            if (got > 0) link->frame_bytes += (size_t)got;
            if (link->frame_bytes == sizeof link->frame) {
                frames++;
                if (!begin_frame(engine, link)) break;
                if (!link->in_payload) link->frame_bytes = 0;
            }
        }
        if (got >= 0 && link->in_payload && link->in_left) {
            ssize_t more = read_payload(link);
            if (more > 0) link->in_left -= (size_t)more;
            got = more < 0 ? more : got + more;
        }
        if (got < 0) {
            read_failed(engine, link, (int)got);
            break;
        }
        if (got == 0 && !(link->in_payload && link->in_left == 0)) break;
        bytes += (size_t)got;
        if (link->in_payload && link->in_left == 0 && !end_of_payload(engine, link)) break;
    }
    if (!atomic_load_explicit(&link->open, memory_order_relaxed)) return 1;
    link->calls->taken(link);
    return frames + (bytes != 0);
}
