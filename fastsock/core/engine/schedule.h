/* Collectives that go on by themselves: what one rank does is a list of steps, and whoever makes progress on the engine
 * takes the next ones.
 *
 * A schedule never changes: any number of calls may follow it, each with memory and tags of its own.  It belongs to the
 * caller, as a collective does, and outlives what follows it.
 */
#ifndef FASTSOCK_SCHEDULE_H
#define FASTSOCK_SCHEDULE_H

#include "engine.h"

enum { FS_CHANNELS = 2 }; /* an intercommunicator has one in the group and one between the groups */

enum fs_step_kind {
    FS_STEP_SEND,
    FS_STEP_RECEIVE,
    FS_STEP_WAIT,    /* until these requests are complete */
    FS_STEP_COPY,    /* two parts: from, to */
    FS_STEP_COMBINE, /* two parts: second = first operation second */
};

struct fs_step {
    uint8_t kind, channel;
    int peer;
    uint32_t request;      /* of a message */
    uint32_t first, count; /* parts; or requests, in `awaited` */
};

/* Bytes of one of the buffers that a call gives. */
struct fs_part {
    uint32_t buffer;
    size_t offset, length;
};

/* target = left operation right, element by element; the target may be one of them. */
typedef void fs_combine(const void *left, const void *right, void *target, size_t count);

struct fs_schedule {
    const struct fs_step *steps;
    const struct fs_part *parts;
    const uint32_t *awaited;
    size_t step_count, part_count, request_count, buffer_count;
    uint32_t contexts[FS_CHANNELS];
    size_t channel_count;
    fs_combine *combine; /* NULL where no step combines */
    size_t element;      /* bytes of what it combines */
};

struct fs_collective;

/* One place in which that schedule may be followed, again and again but once at a time; NULL without memory. */
struct fs_collective *fs_collective_new(const struct fs_schedule *schedule);
void fs_collective_free(struct fs_collective *collective); /* none of it is under way */
/* Where its buffers are from now on.  They stay as they are until it is complete. */
void fs_collective_bind(struct fs_collective *collective, void *const *buffers);
/* Follows the schedule as far as possible.  `whole` is prepared as a user request; it completes with the last step, or
 * with the error of the request that failed.  As fs_engine_send(): FS_DONE or FS_PENDING.  All peers were asked for
 * before. */
int fs_collective_start(struct fs_engine *engine, struct fs_collective *collective, struct fs_request *whole,
                        const int *tags);

/* First need of a peer that is not attached: 1, connect to it. */
int fs_engine_ask_for(struct fs_engine *engine, int peer);

#endif
