/* Bytes of an announced message that are not read in the sender's memory: they are asked for. */
#include "link.h"

size_t fs_accept_announced(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id)
{
    int failure = fs_accept_envelope(request, &request->envelope);
    size_t wanted = failure == FS_NO_MEMORY ? 0 : fs_wanted(request, request->envelope.length);
    request->error = failure;
    if (wanted != 0) return wanted;
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, id, 0, 0));
    fs_complete(engine, request, failure);
    return 0;
}

void fs_rndv_rtr(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id, size_t wanted)
{
    request->state = FS_EXPECTING;
    if (!fs_slot_take(engine, request, link->peer)) {
        fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, id, 0, 0));
        fs_complete(engine, request, FS_NO_MEMORY);
        return;
    }
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_READY_TO_RECEIVE, id, wanted, request->id));
}

void fs_rndv_rtr_instead(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id)
{
    size_t wanted = fs_accept_announced(engine, link, request, id);
    if (wanted != 0) fs_rndv_rtr(engine, link, request, id, wanted);
}
