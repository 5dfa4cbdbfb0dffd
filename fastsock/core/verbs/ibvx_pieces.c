/* What the device writes to, and reads from, the other end's memory: in pieces, in order. */
#define _GNU_SOURCE
#include "ibvx_internal.h"

#ifdef FS_HAS_VERBS

#include <string.h>

#define PIECE (1u << 20)

static uint32_t most_of_piece(const struct fs_ibvx_pair *pair, const struct fs_ibvx_region *region)
{
    const uint32_t most = region ? PIECE : FS_IBVX_BUFFER;
    return pair->device->port.max_msg_sz < most ? pair->device->port.max_msg_sz : most;
}

/* Where the device finds the bytes of a piece, or leaves them. */
static void find_place(struct fs_ibvx_pair *pair, struct ibv_send_wr *request, const struct fs_ibvx_region *region,
                       uint32_t number)
{
    struct ibv_sge *where = request->sg_list;
    void *memory = (void *)(uintptr_t)where->addr;
    if (region) {
        where->lkey = region->known->lkey;
    } else if (request->opcode == IBV_WR_RDMA_WRITE && where->length <= pair->most_inline) {
        request->send_flags |= IBV_SEND_INLINE;
    } else {
        unsigned char *buffer = fs_ibvx_buffer_of(pair, number);
        where->addr = (uintptr_t)buffer;
        where->lkey = pair->buffers_region->lkey;
        if (request->opcode == IBV_WR_RDMA_WRITE) memcpy(buffer, memory, where->length);
        else pair->landings[number % FS_IBVX_PIECES] = (struct iovec){memory, where->length};
    }
}

size_t fs_ibvx_transfer(struct fs_ibvx_pair *pair, enum fs_ibvx_way way, const struct fs_ibvx_region *region,
                        void *memory, size_t length, uint64_t address, uint32_t key)
{
    size_t done = 0;
    const uint32_t most = most_of_piece(pair, region);
    if (!atomic_load(&pair->begun)) return 0;
    fs_ibvx_lock(pair->device);
    /* a piece that is done, and not seen, has its buffer still */
    while (done < length && pair->pieces_begun - pair->pieces_seen < FS_IBVX_PIECES && !atomic_load(&pair->failed)) {
        const uint32_t piece = length - done < most ? (uint32_t)(length - done) : most;
        struct ibv_sge where = {(uintptr_t)memory + done, piece, 0};
        struct ibv_send_wr request = {.wr_id = FS_IBVX_NUMBER(FS_IBVX_MOVED, 0),
                                      .sg_list = &where,
                                      .num_sge = 1,
                                      .opcode = way == FS_IBVX_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                                      .send_flags = IBV_SEND_SIGNALED,
                                      .wr.rdma = {address + done, key}};
        struct ibv_send_wr *bad;
        find_place(pair, &request, region, pair->pieces_begun);
        if (ibv_post_send(pair->queue, &request, &bad) != 0) {
            fs_ibvx_fail(pair, IBV_WC_LOC_QP_OP_ERR);
            break;
        }
        atomic_fetch_add_explicit(&pair->pieces_begun, 1, memory_order_relaxed);
        done += piece;
    }
    *(way == FS_IBVX_READ ? &pair->counts.fetched : &pair->counts.placed) += done;
    fs_ibvx_unlock(pair->device);
    return done;
}

uint32_t fs_ibvx_pieces_begun(const struct fs_ibvx_pair *pair) { return atomic_load(&pair->pieces_begun); }

uint32_t fs_ibvx_pieces_done(struct fs_ibvx_pair *pair)
{
    const uint32_t done = atomic_load_explicit(&pair->pieces_done, memory_order_acquire);
    while (pair->pieces_seen != done) fs_ibvx_land(pair, pair->pieces_seen++);
    return done;
}

#endif
