/* Long messages over RDMA: the receiver opens its memory, and the sender's device writes it.
 *
 * The paper on ibvdev calls the frames RNDZ_START (READY_TO_SEND), RNDZ_REPLY (PUT) and RNDZ_END (PUT_DONE).  PUT_DONE
 * comes behind the bytes, as a queue pair keeps the order.  Memory that the device does not take, on either side, goes in
 * segments. */
#include "verbs/ibvx.h"
#include "verbs/library.h"
#include "link.h"

#ifdef FS_HAS_VERBS

/* ---- the receiver ---- */

int fs_rndv_put_ask(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id,
                    size_t wanted)
{
    if (!link->pair || wanted < FS_LEAST_TRANSFER) return 0;
    void *memory = fs_in_one_piece(request, wanted);
    if (memory) request->region = fs_ibvx_know(link->pair, memory, wanted, FS_IBVX_WRITTEN_BY_OTHERS);
    if (!request->region) return 0;
    if (!fs_slot_take(engine, request, link->peer)) {
        fs_ibvx_forget(request->region);
        request->region = NULL;
        return 0;
    }
    request->state = FS_OPENED;
    request->moved = 0;
    struct fs_frame frame = fs_frame_of(FS_FRAME_PUT, id, wanted, (uint64_t)(uintptr_t)memory);
    frame.context = request->id;
    frame.tag = (int32_t)fs_ibvx_key(request->region);
    fs_link_control(engine, link, frame);
    return 1;
}

int fs_rndv_take_put_done(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame,
                          struct fs_slot *slot)
{
    struct fs_request *request = slot->request;
    if (!link->pair || (request && request->moved != 0)) {
        fs_link_broken(engine, link, "it has put what it was not asked to");
        return 0;
    }
    fs_slot_give(engine, frame->id);
    if (!request) return 1; /* abandoned meanwhile */
    request->moved = fs_wanted(request, request->envelope.length);
    fs_complete(engine, request, request->error);
    return 1;
}

/* ---- the sender ---- */

int fs_rndv_take_put(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot)
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
    request->there = frame->word;
    request->key = (uint32_t)frame->tag;
    void *memory = fs_in_one_piece(request, frame->length);
    if (memory && !request->region) request->region = fs_ibvx_know(link->pair, memory, frame->length, FS_IBVX_SOURCE);
    if (request->region) fs_transfer(link, request, FS_PUTTING, frame->context);
    else fs_stream(link, request, frame->context);
    return 1;
}

#else

int fs_rndv_put_ask(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id,
                    size_t wanted)
{
    (void)engine, (void)link, (void)request, (void)id, (void)wanted;
    return 0;
}

int fs_rndv_take_put_done(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame,
                          struct fs_slot *slot)
{
    (void)frame, (void)slot;
    fs_link_broken(engine, link, "it has put what it was not asked to");
    return 0;
}

int fs_rndv_take_put(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame, struct fs_slot *slot)
{
    (void)frame, (void)slot;
    fs_link_broken(engine, link, "it opens its memory to a device that is not there");
    return 0;
}

#endif
