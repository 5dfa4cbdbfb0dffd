/* What carries the frames of a connection between two hosts: a queue pair (queue_pair.c), for example.
 *
 * One thread at a time calls it.  Frames arrive in order, each once.  Functions return -errno where they fail; then the
 * carrier is broken for good, but what had arrived is still given.
 */
#ifndef FASTSOCK_REMOTE_CARRIER_H
#define FASTSOCK_REMOTE_CARRIER_H

#include <stddef.h>
#include <stdint.h>

#include "frame.h"

#define FS_FRAMES 64u       /* that each end can hear before it has looked at one */
#define FS_FRAME_ROOM 4096u /* a frame with its bytes */
#define FS_FRAME_PAYLOAD (FS_FRAME_ROOM - FS_FRAME_BYTES)

struct fs_arrival {
    struct fs_frame frame;
    const unsigned char *data; /* behind the frame; valid until release() */
    uint32_t slot;
};

struct fs_carrier;

struct fs_carrier_calls {
    /* Frames that can be posted now. */
    unsigned (*room)(const struct fs_carrier *carrier);
    /* Posts a frame and its `length` bytes, which are copied.  A ticket > 0, or -errno.  `tell`: there is news when it is
     * done.  Else the next ticket that is told of tells of this one too. */
    int64_t (*post)(struct fs_carrier *carrier, const struct fs_frame *frame, const void *data, size_t length,
                    int signaled);
    /* Writes bytes of this end's ring into the other end's window, then posts the frame.  They must stay as they are
     * until the ticket is done: of that there is news.  NULL: it cannot. */
    int64_t (*write)(struct fs_carrier *carrier, const struct fs_frame *frame, const unsigned char *data, size_t length,
                     uint64_t window_offset);
    /* Posts a frame that says where bytes of this end's ring lie.  They must stay as they are until the other end has
     * said that it has them.  NULL: it cannot. */
    int64_t (*offer)(struct fs_carrier *carrier, const struct fs_frame *frame, const unsigned char *data);
    /* Reads what such a frame, which arrived, offers.  Done as other tickets, and of that there is news. */
    int64_t (*read)(struct fs_carrier *carrier, const struct fs_arrival *arrival, unsigned char *target);
    int64_t (*done)(const struct fs_carrier *carrier); /* the last ticket of which the other host has everything */
    /* What has arrived: how many, or -errno once everything that arrived before was given. */
    int (*poll)(struct fs_carrier *carrier, struct fs_arrival *arrivals, int most);
    /* The arrival was read.  Those that have bytes are released in their order. */
    int (*release)(struct fs_carrier *carrier, uint32_t slot);
    int (*arm)(struct fs_carrier *carrier);     /* from now on its descriptor becomes readable when there is news: 0 */
    void (*disarm)(struct fs_carrier *carrier); /* it became readable: not any more.  NULL: it tells by itself */
    /* Nothing new arrives from now on.  0: what is arriving may still come, so poll and ask again. */
    int (*stop)(struct fs_carrier *carrier);
    /* Both ends have said their last.  NULL where the other host's word for the last ticket says as much. */
    void (*farewell)(struct fs_carrier *carrier);
    void (*close)(struct fs_carrier *carrier); /* and frees it */
};

struct fs_carrier {
    const struct fs_carrier_calls *calls;
    int descriptor;
    int of_one_thread;     /* only the agent's own may call it */
    uint64_t window_bytes; /* of the other end */
};

#endif
