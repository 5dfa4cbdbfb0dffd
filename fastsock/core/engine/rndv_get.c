/* Long messages over RDMA, the other way: the sender opens its memory, and the receiver's device reads it.
 *
 * The paper on ibvdev has this as its second protocol: RNDZ_START (KEY and READY_TO_SEND) brings address and key, and
 * RNDZ_END (ACKNOWLEDGE) goes once the bytes are here, as a queue pair does not keep the order of a read and a later
 * message. */
#include "verbs/ibvx.h"
#include "verbs/library.h"
#include "link.h"

int fs_rndv_take_key(struct fs_engine *engine, struct fs_link *link, const struct fs_frame *frame)
{
    if (!link->pair) {
        fs_link_broken(engine, link, "it opens its memory to a device that is not there");
        return 0;
    }
    if (link->next_key.keyed) {
        fs_link_broken(engine, link, "it opens its memory for no message");
        return 0;
    }
    link->next_key = (struct fs_source){.address = frame->word, .key = (uint32_t)frame->tag, .keyed = 1};
    return 1;
}

#ifdef FS_HAS_VERBS

int fs_rndv_get(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id, size_t wanted,
                const struct fs_source *source)
{
    if (!link->pair || !source->keyed || wanted < FS_LEAST_TRANSFER) return 0;
    void *memory = fs_in_one_piece(request, wanted);
    if (memory) request->region = fs_ibvx_know(link->pair, memory, wanted, FS_IBVX_TARGET);
    if (!request->region) return 0;
    /* nobody hears of this number: by it the receive ends with the link */
    if (!fs_slot_take(engine, request, link->peer)) {
        fs_ibvx_forget(request->region);
        request->region = NULL;
        return 0;
    }
    request->there = source->address;
    request->key = source->key;
    fs_transfer(link, request, FS_GETTING, id);
    return 1;
}

#else

int fs_rndv_get(struct fs_engine *engine, struct fs_link *link, struct fs_request *request, uint32_t id, size_t wanted,
                const struct fs_source *source)
{
    (void)engine, (void)link, (void)request, (void)id, (void)wanted, (void)source;
    return 0;
}

#endif
