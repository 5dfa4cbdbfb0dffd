/* What an end does next to get memory that its other end has too: listen, look, offer, take, join.
 *
 * Each step is a few system calls and never waits.  candidates.c says when, and keeps others out meanwhile.
 */
#ifndef FASTSOCK_SEEKING_H
#define FASTSOCK_SEEKING_H

#include "candidates.h"

/* RESTING: nothing is open.  The listening end: LISTENING at its name, TAKING an offer from a stream, JOINING with its
 * memory.  The other one: SENDING to a stream, OFFERED. */
enum fs_stage { FS_RESTING, FS_LISTENING, FS_TAKING, FS_JOINING, FS_SENDING, FS_OFFERING };

struct fs_seeking {
    enum fs_stage stage;
    uint32_t guesses;
    uint32_t named_in;  /* the generation of process in which its name is counted, 0: it is not */
    int met_other_user; /* who was found at the name, or came there, runs as another user */
    int is_local;       /* and `tuple` is known, of the socket of that name (identity.h) */
    uint64_t identity;
    pid_t process; /* the other end's */
    struct fs_tuple tuple;
    struct fs_counters counters, theirs;
    struct fs_descriptor listener, stream, memory;
    struct fs_segment *segment;
};

void fs_seeking_clear(struct fs_seeking *seeking); /* at first */
void fs_seeking_stop(struct fs_seeking *seeking);  /* closes all that is open: RESTING */

/* Both addresses, into `tuple`.  ATTACHED: the other end may be found; else why it cannot be, or not yet. */
enum fs_why fs_seeking_know(struct fs_seeking *seeking, int descriptor);

/* The next step, and as many more as can be done now.  ATTACHED: this end is, or will be with its next call.  LISTENING,
 * OFFERED: the other end is next.  NOBODY, of the end that looks: it may look again soon.  BUSY: so too.  Others: it is over,
 * and the caller stops. */
enum fs_why fs_seek(struct fs_seeking *seeking, struct fs_connection *connection, int descriptor,
                    const struct fs_candidate_settings *settings);
/* Ends an offer that nobody has taken.  ATTACHED: it was taken; UNANSWERED: it will never be; OFFERED: not now. */
enum fs_why fs_seeking_withdraw(struct fs_connection *connection, int descriptor);

#endif
