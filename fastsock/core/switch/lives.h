/* How long the connections of a listener live, and so from which call on the next one had best look for memory.
 *
 * An attach costs about as much as some calls on TCP.  For each threshold there may be, what the last connections would have
 * cost with it is summed up, the older ones counting less and less.  The one with the least sum holds for the next.  So
 * where connections end early none is attached in vain, and where they live long they gain from their first call on.
 *
 * It is a process's own, a bounded table: a listener may take the place of another one.  Both ends see the same lives.
 */
#ifndef FASTSOCK_LIVES_H
#define FASTSOCK_LIVES_H

#include <stdint.h>

#include "tuple.h"

enum { FS_LIVES_FIRST = 8, FS_LIVES_LAST = 1024 }; /* where nothing is known; at the latest */
#define FS_LIVES_CALL_BYTES (8u * 1024)            /* as many bytes of a direction count as a call */

/* What came of it.  NEAR, FAR: memory, whose other end ran on the same core, or elsewhere.  UNTRIED: it ended before it
 * looked.  CUT_OFF: while it did.  IN_VAIN: it looked for as long as it does, and nobody came. */
enum fs_outcome { FS_LIFE_NEAR, FS_LIFE_FAR, FS_LIFE_UNTRIED, FS_LIFE_CUT_OFF, FS_LIFE_IN_VAIN };

struct fs_life {
    enum fs_outcome outcome;
    uint64_t calls; /* of a direction, on either carrier */
    uint64_t late;  /* NEAR, FAR: how many of them went over TCP after it had begun to look */
};

enum fs_lesson {
    FS_LESSON_NONE,  /* nothing is known of the listener */
    FS_LESSON_LIVES, /* the last lives */
    FS_LESSON_VAIN   /* nobody came last: only one in some looks as early as where nothing is known */
};

struct fs_threshold {
    uint32_t calls;
    enum fs_lesson lesson;
};

/* Of a connection to `listener` from the port `from`.  Both ends choose the same ones to look in spite of FS_LESSON_VAIN. */
struct fs_threshold fs_lives_threshold(const struct fs_place *listener, uint16_t from);
void fs_lives_learn(const struct fs_place *listener, const struct fs_life *life);
uint32_t fs_lives_least(void); /* of all thresholds, and FS_LIVES_FIRST */
void fs_lives_clear(void);

#endif
