/* One-sided: the device moves bytes between this rank's memory and memory that a peer has exposed.  The peer does nothing. */
#include <errno.h>

#include "verbs/ibvx.h"
#include "verbs/library.h"
#include "link.h"
#include "strided.h"

#ifdef FS_HAS_VERBS

int fs_engine_expose(struct fs_engine *engine, void *memory, size_t length, uint32_t *key)
{
    fs_engine_lock(engine);
    int error = engine->verbs ? fs_ibvx_expose(engine->verbs, memory, length, key) : -ENODEV;
    fs_engine_unlock(engine);
    return error;
}

void fs_engine_conceal(struct fs_engine *engine, uint32_t key)
{
    if (!fs_engine_is_usable(engine)) return; /* the device is forgotten, or the parent's */
    fs_engine_lock(engine);
    if (engine->verbs) fs_ibvx_conceal(engine->verbs, key);
    fs_engine_unlock(engine);
}

#define FEW 16
#define LEAST_PLACE 4096 /* bytes: a message is packed faster than so many shorter pieces go */

/* The items over there are in more pieces than the device is good for. */
static int is_in_shreds(const struct fs_request *request)
{
    struct iovec places[FEW];
    int64_t listed;
    if (!request->layout_there) return 0;
    fs_list(places, FEW, (unsigned char *)(uintptr_t)request->there, request->layout_there, request->extent_there, 0,
            (int64_t)request->length, &listed);
    return listed < (int64_t)request->length && listed < (int64_t)FEW * LEAST_PLACE;
}

/* 1: it is under way, or done. */
static int begin(struct fs_engine *engine, struct fs_link *link, struct fs_request *request)
{
    const int writes = request->kind == FS_REMOTE_WRITE;
    void *memory = fs_in_one_piece(request, request->length);
    if (!link || !link->pair || !memory || is_in_shreds(request)) return 0;
    if (request->length >= FS_LEAST_TRANSFER)
        request->region = fs_ibvx_know(link->pair, memory, request->length, writes ? FS_IBVX_SOURCE : FS_IBVX_TARGET);
    if (!request->region && !fs_ibvx_has_buffers(link->pair)) return 0;
    /* nobody hears of this number: by it the request ends with the link */
    if (!fs_slot_take(engine, request, link->peer)) {
        fs_complete(engine, request, FS_NO_MEMORY);
        return 1;
    }
    fs_transfer(link, request, writes ? FS_WRITING : FS_READING, 0);
    fs_transfer_some(engine, link);
    /* there may be room, once what is done is heard of */
    if (!fs_request_is_done(request) && request->moved < request->length) fs_links_progress(engine);
    return 1;
}

int fs_engine_reach(struct fs_engine *engine, struct fs_request *request, int peer, uint32_t context, uint64_t address,
                    uint32_t key, const struct fs_layout *layout, int64_t extent)
{
    request->engine = engine;
    request->peer = peer;
    request->tag = 0;
    request->context = context;
    request->envelope = (struct fs_envelope){peer, 0, request->length};
    request->there = address;
    request->key = key;
    request->layout_there = layout;
    request->extent_there = extent;
    fs_engine_lock(engine);
    int begun = 1;
    if (!fs_engine_is_usable(engine)) fs_complete(engine, request, FS_CLOSED);
    else if (fs_is_revoked(engine, context)) fs_complete(engine, request, FS_CONTEXT_REVOKED);
    else if (!fs_is_peer(engine, peer) || fs_has_failed(engine, peer)) fs_complete(engine, request, FS_PEER_FAILED);
    else begun = begin(engine, engine->peers[peer].link, request);
    const int result = !begun ? FS_UNREACHED : fs_request_is_done(request) ? FS_DONE : FS_PENDING;
    if (result == FS_PENDING) request->tracked = request->owner != NULL;
    fs_engine_unlock(engine);
    return result;
}

#else

int fs_engine_expose(struct fs_engine *engine, void *memory, size_t length, uint32_t *key)
{
    (void)engine, (void)memory, (void)length, (void)key;
    return -ENODEV;
}

void fs_engine_conceal(struct fs_engine *engine, uint32_t key) { (void)engine, (void)key; }

int fs_engine_reach(struct fs_engine *engine, struct fs_request *request, int peer, uint32_t context, uint64_t address,
                    uint32_t key, const struct fs_layout *layout, int64_t extent)
{
    (void)engine, (void)request, (void)peer, (void)context, (void)address, (void)key, (void)layout, (void)extent;
    return FS_UNREACHED;
}

#endif
