/* Long messages on one host: the receiver reads them in the sender's memory. */
#include "link.h"

#define PIECE (1024u * 1024) /* then others have a turn */
#define PARTS 8
#define SHORTEST_TIMED (16u * 1024)

int fs_fetch_is_possible(const struct fs_link *link, const struct fs_request *request, uint32_t id, uint64_t address)
{
    return link->process > 0 && address != 0 && (id & FS_INDEX_MASK) < FS_STAMPS && request->length != 0 &&
           !request->layout;
}

/* `sequence`: the number of the send. */
void fs_fetch_begin(struct fs_link *link, struct fs_request *request, uint32_t id, uint64_t address)
{
    request->sequence = id;
    request->there = address;
    request->state = FS_FETCHING;
    request->moved = 0;
    fs_queue_add(&link->fetches, request);
    atomic_store_explicit(&link->pending, 1, memory_order_relaxed);
}

/* A piece of the oldest one: how much was done. */
int fs_fetch_some(struct fs_engine *engine, struct fs_link *link)
{
    struct fs_request *request = link->fetches.first;
    uint32_t id = (uint32_t)request->sequence;
    if (link->sharing) return 0; /* that one first */
    size_t all = fs_wanted(request, request->envelope.length);
    if (request->moved == 0 && fs_share_begin(engine, link, request, id)) return 1;
    struct iovec parts[PARTS + 1];
    size_t left = all - request->moved, length = 0;
    int count = fs_parts_from(request, request->moved, left < PIECE ? left : PIECE, parts, PARTS);
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    uint64_t start = fs_ticks();
    if (!fs_pull(link, id, request->there, request->moved, parts, count)) {
        /* not permitted, or withdrawn: whatever it is, the sender says so when it is asked for the bytes */
        link->process = 0;
        fs_queue_remove(&link->fetches, request);
        fs_rndv_rtr_instead(engine, link, request, id);
        return 1;
    }
    if (length >= SHORTEST_TIMED) fs_note_pull(link, all, length, fs_ticks() - start);
    request->moved += length;
    if (length < left) return 1;
    fs_queue_remove(&link->fetches, request);
    fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, id, 0, 0));
    fs_complete(engine, request, request->error);
    return 1;
}
