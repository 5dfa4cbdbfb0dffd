/* Requests that end before their time: cancelled, or abandoned by a caller whose memory is about to go. */
#include <stdlib.h>

#include "link.h"
#include "verbs/ibvx.h"

/* ---- sends ---- */

static void ask_to_cancel(struct fs_engine *engine, struct fs_link *link, uint32_t id)
{
    link->cancels++;
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_CANCEL, id, 0, 0));
}

int fs_protocol_cancel(struct fs_engine *engine, struct fs_request *request, struct fs_link *link)
{
    if (request->state == FS_QUEUED) {
        fs_queue_remove(&link->sends, request);
        fs_link_set_pending(link);
        return 1;
    }
    if (request->state != FS_SENT && request->state != FS_ANNOUNCED) return 0; /* matched already */
    ask_to_cancel(engine, link, request->id);
    fs_link_flush(engine, link);
    return 2;
}

/* The rest of its bytes must go all the same: the other end counts on them. */
static int copy_rest(struct fs_link *link)
{
    struct fs_request *request = link->out_request;
    unsigned char *copy = NULL;
    if (link->out_left) {
        copy = malloc(link->out_left);
        if (!copy) return 0;
        fs_copy_out(request, request->moved, copy, link->out_left);
    }
    link->out_copy = copy;
    link->out_copied = 0;
    link->packed = 0;
    link->out_request = NULL;
    return 1;
}

int fs_protocol_abandon_send(struct fs_engine *engine, struct fs_request *request, struct fs_link *link, int patient)
{
    if (request->state == FS_QUEUED) {
        fs_queue_remove(&link->sends, request);
        fs_link_set_pending(link);
        return 1;
    }
    if (request->state == FS_PUTTING) return 0; /* the device has its memory until it is done, or the link is lost */
    if (!fs_rndv_key_end(request, patient)) {
        ask_to_cancel(engine, link, request->id);
        fs_link_flush(engine, link);
        return 0;
    }
    if (link->pushing == request) fs_push_stop(engine, link);
    int under_way = link->out_request == request;
    if (under_way && !copy_rest(link)) return 0;
    if (request->id != 0) {
        uint32_t id = request->id;
        fs_unstamp(engine, id);
        if (request->state == FS_STREAMING) { /* `sequence` is the number of the receive */
            if (!under_way) fs_queue_remove(&link->streams, request);
            int complete = request->moved + (under_way ? link->out_left : 0) == request->envelope.length;
            fs_slot_give(engine, id);
            if (!complete)
                fs_link_control(engine, link, fs_frame_of(FS_FRAME_WITHDRAWN, (uint32_t)request->sequence, 0, 0));
        } else {
            fs_slot_abandon(engine, id, FS_SEND_GONE, 0); /* until the other end answers */
            ask_to_cancel(engine, link, id);
        }
    }
    fs_link_flush(engine, link);
    return 1;
}

/* ---- receives ---- */

int fs_protocol_abandon_receive(struct fs_engine *engine, struct fs_request *request, int patient)
{
    struct fs_link *link = NULL;
    if (request->message) { /* the rest of it is still on its way */
        struct fs_message *message = request->message;
        link = engine->peers[message->envelope.source].link;
        link->in_message = NULL;
        fs_message_free(message);
        return 1;
    }
    link = engine->peers[request->envelope.source].link;
    if (!link) return 0;
    if (request->state == FS_OPENED && patient) return 0; /* the sender's device may be writing */
    if (request->state == FS_GETTING) return 0;           /* ours is */
    if (link->in_request == request) link->in_request = NULL;
    if (request->state == FS_SHARING || request->state == FS_SHARED) {
        if (!fs_share_abandon(engine, link, patient)) return 0;
        fs_link_flush(engine, link);
    } else if (request->state == FS_FETCHING) {
        fs_queue_remove(&link->fetches, request);
        fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, (uint32_t)request->sequence, 0, 0));
        fs_link_flush(engine, link);
    } else if (request->state == FS_EXPECTING || request->state == FS_OPENED) {
        if (request->region) fs_ibvx_revoke(request->region);
        request->region = NULL;
        uint32_t id = request->id;
        size_t left = fs_wanted(request, request->envelope.length) - request->moved;
        if (link->frame.kind == FS_FRAME_DATA && link->in_payload && link->frame.id == id)
            left -= link->in_left < left ? link->in_left : left;
        fs_slot_abandon(engine, id, FS_RECEIVE_GONE, left);
        if (left == 0) fs_slot_give(engine, id);
    }
    return 1;
}
