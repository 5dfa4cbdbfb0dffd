/* Long messages over RDMA that the receiver's device reads: the sender opens its memory as it announces them.
 *
 * The other end may read them from then on until it acknowledges them.  So a send whose memory is about to go is
 * cancelled first; where no answer comes in time, the memory is closed to the other end. */
#include "verbs/ibvx.h"
#include "verbs/library.h"
#include "link.h"

#ifdef FS_HAS_VERBS

int fs_rndv_key(struct fs_engine *engine, struct fs_link *link, struct fs_request *request)
{
    if (!link->pair || !engine->opens_keys || request->length < FS_LEAST_TRANSFER) return 0;
    void *memory = fs_in_one_piece(request, request->length);
    if (memory) request->region = fs_ibvx_know(link->pair, memory, request->length, FS_IBVX_READ_BY_OTHERS);
    if (!request->region) return 0;
    link->out_key = fs_frame_of(FS_FRAME_KEY, 0, 0, (uint64_t)(uintptr_t)memory);
    link->out_key.tag = (int32_t)fs_ibvx_key(request->region);
    return 1;
}

#else

int fs_rndv_key(struct fs_engine *engine, struct fs_link *link, struct fs_request *request)
{
    (void)engine, (void)link, (void)request;
    return 0;
}

#endif

int fs_rndv_key_end(struct fs_request *request, int patient)
{
    if (!request->region) return 1;
    if (request->state == FS_STREAMING) fs_ibvx_forget(request->region); /* the other end asked for the bytes instead */
    else if (patient) return 0;
    else fs_ibvx_revoke(request->region);
    request->region = NULL;
    return 1;
}
