/* A reliable-connected queue pair as the carrier of one connection. */
#ifndef FASTSOCK_REMOTE_QUEUE_PAIR_H
#define FASTSOCK_REMOTE_QUEUE_PAIR_H

#include "carrier.h"
#include "verbs/library.h"

#ifdef FS_HAS_VERBS

struct fs_ring_memory {
    unsigned char *out, *in; /* this end's rings: read, and written to, by the device */
    size_t out_bytes, in_bytes;
    int offers; /* the other end's device may read `out` */
};

struct fs_window { /* where the other end may write */
    uint64_t address;
    uint32_t key, bytes;
};

/* On an identifier that has a device.  Registers the rings and FS_FRAMES buffers each way.  NULL: -errno in `error`. */
struct fs_carrier *fs_queue_pair_make(const struct fs_verbs_library *verbs, struct rdma_cm_id *id,
                                      const struct fs_ring_memory *memory, int *error);
struct fs_window fs_queue_pair_window(const struct fs_carrier *carrier);
void fs_queue_pair_connected(struct fs_carrier *carrier, const struct fs_window *other);
size_t fs_queue_pair_registered(const struct fs_carrier *carrier); /* bytes */

#endif
#endif
