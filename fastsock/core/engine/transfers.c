/* What the device moves, in either way: begun in order, piece by piece, and done in that order. */
#include "verbs/ibvx.h"
#include "verbs/library.h"
#include "link.h"
#include "strided.h"

#ifdef FS_HAS_VERBS

/* `sequence`: in its lower half the number of the request over there; in its upper half, once all pieces are begun, how
 * many the pair has begun by then. */
static uint32_t other_of(const struct fs_request *request) { return (uint32_t)request->sequence; }

static int is_read(const struct fs_request *request)
{
    return request->state == FS_GETTING || request->state == FS_READING;
}

/* Its memory may change as soon as all of it is begun. */
static int is_copied(const struct fs_request *request) { return request->state == FS_WRITING && !request->region; }

static size_t length_of(const struct fs_request *request)
{
    const size_t length = request->envelope.length;
    return request->state == FS_GETTING ? fs_wanted(request, length) : length;
}

void fs_transfer(struct fs_link *link, struct fs_request *request, int state, uint32_t other)
{
    request->sequence = other;
    request->moved = 0;
    request->state = (uint8_t)state;
    fs_queue_add(&link->transfers, request);
    atomic_store_explicit(&link->pending, 1, memory_order_relaxed);
}

/* Where the bytes to be moved next lie over there, and how many of `together` follow each other. */
static uint64_t next_place(const struct fs_request *request, size_t *together)
{
    struct iovec place;
    int64_t listed;
    if (!request->layout_there) return request->there + request->moved;
    fs_list(&place, 1, (unsigned char *)(uintptr_t)request->there, request->layout_there, request->extent_there,
            (int64_t)request->moved, (int64_t)*together, &listed);
    *together = place.iov_len;
    return (uintptr_t)place.iov_base;
}

static int transfer_more(struct fs_engine *engine, struct fs_link *link, struct fs_request *request)
{
    const int way = is_read(request) ? FS_IBVX_READ : FS_IBVX_WRITE;
    int done = 0;
    while (request->moved < length_of(request)) {
        struct iovec part[1];
        size_t together = length_of(request) - request->moved;
        const uint64_t there = next_place(request, &together);
        if (fs_parts_from(request, request->moved, together, part, 1) != 1) return done;
        size_t begun =
            fs_ibvx_transfer(link->pair, way, request->region, part[0].iov_base, together, there, request->key);
        request->moved += begun;
        done += begun != 0;
        if (begun < together) return done;
    }
    request->sequence = (uint64_t)fs_ibvx_pieces_begun(link->pair) << 32 | other_of(request);
    if (request->state == FS_PUTTING)
        fs_link_control(engine, link, fs_frame_of(FS_FRAME_PUT_DONE, other_of(request), 0, 0));
    return 1;
}

static void end(struct fs_engine *engine, struct fs_link *link, struct fs_request *request)
{
    fs_queue_remove(&link->transfers, request);
    fs_slot_give(engine, request->id);
    if (request->state == FS_GETTING)
        fs_link_control(engine, link, fs_frame_of(FS_FRAME_ACKNOWLEDGE, other_of(request), 0, 0));
    fs_complete(engine, request, request->state == FS_GETTING ? request->error : FS_FINE);
}

/* Ends what is done, and begins what there is room for: how much was done. */
int fs_transfer_some(struct fs_engine *engine, struct fs_link *link)
{
    int done = 0;
    uint32_t pieces = fs_ibvx_pieces_done(link->pair);
    while (link->transfers.first && fs_link_is_open(link)) {
        struct fs_request *request = link->transfers.first;
        int begun = request->moved == length_of(request);
        if (!begun || (int32_t)(pieces - (uint32_t)(request->sequence >> 32)) < 0) break;
        end(engine, link, request);
        done++;
    }
    if (!fs_link_is_open(link)) return done;
    for (struct fs_request *request = link->transfers.first, *next; request; request = next) {
        next = request->next;
        if (request->moved == length_of(request)) continue;
        done += transfer_more(engine, link, request);
        if (!fs_link_is_open(link) || request->moved < length_of(request)) break;
        if (is_copied(request)) end(engine, link, request);
    }
    return done;
}

#else

int fs_transfer_some(struct fs_engine *engine, struct fs_link *link)
{
    (void)engine, (void)link;
    return 0;
}

#endif
