/* Two carriers that a device joins, which a test may break at any moment: what is under way is lost then. */
#ifndef DEVICE_H
#define DEVICE_H

#include "check.h"
#include "remote/span.h"

enum { WIRE = 2 * FS_FRAMES, ARRIVED = 2 * FS_FRAMES };

struct message {
    int64_t ticket;
    struct fs_frame frame;
    unsigned char data[FS_FRAME_PAYLOAD];
    const unsigned char *written; /* in the sender's ring, until it is delivered */
    uint64_t window_offset;
    const unsigned char *read; /* in the other end's ring, until it was read from there to `target` */
    unsigned char *target;
};

struct device_end {
    struct fs_carrier carrier;
    struct device_end *other;
    struct fs_span *span;
    struct message wire[WIRE]; /* to the other end */
    unsigned first_message, messages;
    struct message arrived[ARRIVED];
    unsigned order[ARRIVED]; /* in which they came */
    int is_held[ARRIVED];    /* they were not released */
    uint64_t came, polled, released;
    int64_t posted, delivered, done;
    int broken, stopped, last_ones; /* last_ones: may still arrive after it was told to stop */
};

struct device {
    struct device_end end[2];
};

void device_join(struct device *device, struct fs_span *one, struct fs_span *other);
void device_carry(struct device *device, struct random *random); /* some of what is under way */
struct message *device_place(struct device_end *end);            /* where what arrives lies until it is released */
void device_break(struct device *device, int side);              /* as that side sees it; the other one hears nothing */

#endif
