/* Long messages over RDMA: the receiver opens its memory, and the sender's device writes it.
 *
 * The paper on ibvdev calls the frames RNDZ_START (READY_TO_SEND), RNDZ_REPLY (PLACE) and RNDZ_END (PLACED).  PLACED comes
 * behind the bytes, as a queue pair keeps the order.  Memory that the device does not take, on either side, goes in
 * segments. */
#include "verbs/ibvx.h"
#include "verbs/library.h"
#include "link.h"

#ifdef FS_HAS_VERBS

#define LEAST (16u * 1024) /* shorter ones are copied in less time than memory is registered */

/* ---- the receiver ---- */

int fs_place_ask(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id, size_t wanted)
{
    struct iovec part[1];
    if (!link->pair || wanted < LEAST || fs_parts_from(request, 0, wanted, part, 1) != 1 || part[0].iov_len < wanted)
        return 0;
    request->region = fs_ibvx_know(link->pair, part[0].iov_base, wanted, 1);
    if (!request->region) return 0;
    if (!fs_slot_take(engine, request, link->peer)) {
        fs_ibvx_forget(request->region);
        request->region = NULL;
        return 0;
    }
    request->state = FS_OPENED;
    request->moved = 0;
    struct fs_frame frame = fs_frame_of(FS_FRAME_PLACE, id, wanted, (uint64_t)(uintptr_t)part[0].iov_base);
    frame.context = request->id;
    frame.tag = (int32_t)fs_ibvx_key(request->region);
    fs_link_control(engine, link, frame);
    return 1;
}

int fs_take_placed(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot)
{
    struct fs_request *request = slot->request;
    if (!link->pair || (request && request->moved != 0)) {
        fs_link_broken(engine, link, "it has placed what it was not asked to");
        return 0;
    }
    fs_slot_give(engine, frame->id);
    if (!request) return 1; /* abandoned meanwhile */
    request->moved = fs_wanted(request, request->envelope.length);
    fs_complete(engine, request, request->error);
    return 1;
}

/* ---- the sender ---- */

/* `sequence`: in its lower half the number of the receive; in its upper half, once all pieces are begun, how many the
 * pair has begun by then. */
static uint32_t receive_of(const struct fs_request *request) { return (uint32_t)request->sequence; }

int fs_take_place(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot)
{
    struct fs_request *request = slot->request;
    if (!link->pair) {
        fs_link_broken(engine, link, "it opens its memory to a device that is not there");
        return 0;
    }
    if (request && (frame->length == 0 || frame->length > request->length)) {
        fs_link_broken(engine, link, "it opens its memory for what was not announced");
        return 0;
    }
    if (!request) { /* abandoned meanwhile */
        fs_slot_give(engine, frame->id);
        fs_link_control(engine, link, fs_frame_of(FS_FRAME_WITHDRAWN, frame->context, 0, 0));
        return 1;
    }
    request->envelope.length = frame->length;
    request->sequence = frame->context;
    request->moved = 0;
    request->there = frame->word;
    request->key = (uint32_t)frame->tag;
    struct iovec part[1];
    int whole = fs_parts_from(request, 0, frame->length, part, 1) == 1 && part[0].iov_len >= frame->length;
    if (whole) request->region = fs_ibvx_know(link->pair, part[0].iov_base, frame->length, 0);
    request->state = request->region ? FS_PLACING : FS_STREAMING;
    fs_queue_add(request->region ? &link->places : &link->streams, request);
    atomic_store_explicit(&link->pending, 1, memory_order_relaxed);
    return 1;
}

static int place_more(struct fs_engine *engine, struct fs_link *link, struct fs_request *request)
{
    struct iovec part[1];
    size_t left = request->envelope.length - request->moved;
    if (left == 0 || fs_parts_from(request, request->moved, left, part, 1) != 1) return 0;
    size_t begun = fs_ibvx_place(link->pair, request->region, part[0].iov_base, left, request->there + request->moved,
                                 request->key);
    request->moved += begun;
    if (begun < left) return begun != 0;
    request->sequence = (uint64_t)fs_ibvx_places(link->pair) << 32 | receive_of(request);
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_PLACED, receive_of(request), 0, 0));
    return 1;
}

/* Begins what there is room for, and ends what is done: how much was done. */
int fs_place_some(struct fs_engine *engine, struct fs_link *link)
{
    int done = 0;
    uint32_t placed = fs_ibvx_placed(link->pair);
    while (link->places.first) {
        struct fs_request *request = link->places.first;
        int begun = request->moved == request->envelope.length;
        if (!begun || (int32_t)(placed - (uint32_t)(request->sequence >> 32)) < 0) break;
        fs_queue_remove(&link->places, request);
        fs_slot_give(engine, request->id);
        fs_complete(engine, request, FS_FINE);
        done++;
    }
    for (struct fs_request *request = link->places.first; request; request = request->next) {
        if (request->moved == request->envelope.length) continue;
        done += place_more(engine, link, request);
        if (!fs_link_is_open(link) || request->moved < request->envelope.length) break;
    }
    return done;
}

#else

int fs_place_ask(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id, size_t wanted)
{
    (void)engine, (void)link, (void)request, (void)id, (void)wanted;
    return 0;
}

int fs_take_placed(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot)
{
    (void)frame, (void)slot;
    fs_link_broken(engine, link, "it has placed what it was not asked to");
    return 0;
}

int fs_take_place(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot)
{
    (void)frame, (void)slot;
    fs_link_broken(engine, link, "it opens its memory to a device that is not there");
    return 0;
}

int fs_place_some(struct fs_engine *engine, struct fs_link *link)
{
    (void)engine, (void)link;
    return 0;
}

#endif
