/* Buffers for pieces whose memory the device does not know: short ones are copied faster than memory is registered.
 *
 * A piece has the buffer of its number, in turn.  The pair ends its pieces in order, and no more are under way than there are
 * buffers: so the buffer is free. */
#define _GNU_SOURCE
#include "ibvx_internal.h"

#ifdef FS_HAS_VERBS

#include <string.h>
#include <sys/mman.h>

#define BYTES ((size_t)FS_IBVX_PIECES * FS_IBVX_BUFFER)

int fs_ibvx_has_buffers(struct fs_ibvx_pair *pair)
{
    struct fs_ibvx *device = pair->device;
    if (pair->buffers_region) return 1;
    fs_ibvx_lock(device);
    unsigned char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        pair->buffers_region = device->library->ibv_reg_mr(device->domain, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
        if (pair->buffers_region) pair->buffers = memory;
        else munmap(memory, BYTES);
    }
    fs_ibvx_unlock(device);
    return pair->buffers_region != NULL;
}

unsigned char *fs_ibvx_buffer_of(struct fs_ibvx_pair *pair, uint32_t piece)
{
    return pair->buffers + (size_t)(piece % FS_IBVX_PIECES) * FS_IBVX_BUFFER;
}

void fs_ibvx_land(struct fs_ibvx_pair *pair, uint32_t piece)
{
    struct iovec *landing = &pair->landings[piece % FS_IBVX_PIECES];
    if (landing->iov_len) memcpy(landing->iov_base, fs_ibvx_buffer_of(pair, piece), landing->iov_len);
    landing->iov_len = 0;
}

/* The device uses them no more. */
void fs_ibvx_buffers_close(struct fs_ibvx_pair *pair)
{
    if (pair->buffers_region) pair->device->library->ibv_dereg_mr(pair->buffers_region);
    pair->buffers_region = NULL;
}

void fs_ibvx_buffers_free(struct fs_ibvx_pair *pair)
{
    if (pair->buffers) munmap(pair->buffers, BYTES);
    pair->buffers = NULL;
}

#endif
