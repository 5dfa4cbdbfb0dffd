/* Short segments that the other end's device writes into memory here, which is looked at: no receive queue, no completion.
 *
 * Each slot of the ring ends in a word that says which segment lies there.  The word goes in a write of its own behind the
 * segment's, so it is not seen before all of the segment is there.  (The paper on ibdev, section 4, has it in the same write,
 * over a random number.)  Credits are counted as for the receive queue.  Nobody who sleeps is told: so nobody sleeps. */
#define _GNU_SOURCE
#include "ibvx_internal.h"

#ifdef FS_HAS_VERBS

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BYTES ((size_t)FS_IBVX_CREDITS * FS_IBVX_SEGMENT)

int fs_ibvx_ring_new(struct fs_ibvx_pair *pair)
{
    struct fs_ibvx *device = pair->device;
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct fs_ibvx_ring *ring = calloc(1, sizeof *ring);
    if (!ring) return -ENOMEM;
    ring->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring->memory == MAP_FAILED) {
        free(ring);
        return -ENOMEM;
    }
    pair->ring = ring;
    ring->region = device->library->ibv_reg_mr(device->domain, ring->memory, BYTES, access);
    for (uint32_t i = 0; i < FS_IBVX_CREDITS; i++) ring->buffers[i].data = ring->memory + (size_t)i * FS_IBVX_SEGMENT;
    return ring->region ? 0 : -errno;
}

/* Nothing writes there any more. */
void fs_ibvx_ring_close(struct fs_ibvx_pair *pair)
{
    if (!pair->ring || !pair->ring->region) return;
    pair->device->library->ibv_dereg_mr(pair->ring->region);
    pair->ring->region = NULL;
}

void fs_ibvx_ring_free(struct fs_ibvx_pair *pair)
{
    if (!pair->ring) return;
    munmap(pair->ring->memory, BYTES);
    free(pair->ring);
    pair->ring = NULL;
}

static _Atomic uint64_t *word_of(unsigned char *slot)
{
    return (_Atomic uint64_t *)(void *)(slot + FS_IBVX_SEGMENT - FS_IBVX_WORD);
}

void fs_ibvx_set_word(unsigned char *slot, uint32_t position)
{
    atomic_store_explicit(word_of(slot), (uint64_t)position + 1, memory_order_relaxed);
}

struct fs_ibvx_buffer *fs_ibvx_ring_next(struct fs_ibvx_pair *pair)
{
    struct fs_ibvx_buffer *buffer = &pair->ring->buffers[pair->ring->next % FS_IBVX_CREDITS];
    uint64_t word = atomic_load_explicit(word_of(buffer->data), memory_order_acquire);
    /* equal only once each byte of the word is there, in whatever order the device brings them */
    if (word != (uint64_t)pair->ring->next + 1) return NULL;
    pair->ring->next++;
    return buffer;
}

#endif
