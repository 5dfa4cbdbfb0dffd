/* When the two ends of a TCP connection look for each other, and what came of it.
 *
 * A connection is a candidate once it has carried so many calls or bytes: as many as is best by the lives of the last
 * connections of its listener (lives.h), or a fixed number.  Then its accepting end listens for a while at
 * the connection's name and its connecting end looks there.  Who finds nobody tries again at four times as many calls, a
 * few times.  All this is done in the program's own calls, a few system calls each.  Nobody waits, and there is no thread.
 */
#ifndef FASTSOCK_CANDIDATES_H
#define FASTSOCK_CANDIDATES_H

#include <stdint.h>

#include "connection.h"
#include "lives.h"
#include "names.h"

struct fs_candidate_settings {
    int never;           /* nobody looks, but for fs_candidate_attach() */
    uint32_t calls;      /* of one direction, from which on a connection is a candidate; 0: from the first one on */
    uint64_t bytes;      /* likewise; UINT64_MAX: they do not count */
    int learns;          /* as lives.h says; `calls` and `bytes` do not count then */
    uint32_t ring_bytes; /* as of fs_segment_make() */
    enum fs_name_peers peers;
    int hides;               /* no counts for `fastsock top` */
    struct fs_limits limits; /* of the end; its `peer` is not used */
};

/* For this process, from now on.  Connections that are open keep when they are asked next. */
void fs_candidates_set(const struct fs_candidate_settings *settings);

/* Why a connection has no memory, by what was found last. */
enum fs_why {
    FS_WHY_YOUNG,      /* it has not carried as much yet */
    FS_WHY_LISTENING,  /* this end listens at the name: the other one has not come yet */
    FS_WHY_OFFERED,    /* this end has offered memory: the other one has not taken it yet */
    FS_WHY_ATTACHED,   /* it has */
    FS_WHY_NOBODY,     /* nobody listens at the name, or came there: the other end does not run fastsock, or is young */
    FS_WHY_UNANSWERED, /* nobody took what was offered */
    FS_WHY_BUSY,       /* several threads send or receive */
    FS_WHY_SHARED,     /* several processes hold this end */
    FS_WHY_WATCHED,    /* somebody watches the descriptor whom fastsock does not see */
    FS_WHY_MANY,      /* so many connections are looked for that their names take an eighth of this process's numbers */
    FS_WHY_RESOURCES, /* no memory, or no number, was free */
    FS_WHY_TAKEN,     /* another process has the connection's name */
    FS_WHY_STRANGE,   /* what came was no offer, or of another version */
    FS_WHY_DISAGREE,  /* both ends' counters are not those of one connection */
    FS_WHY_OTHER_USER, /* the other end runs as another user */
    /* from here on for good: */
    FS_WHY_OTHER_HOST, /* an address is another host's, or another network namespace's */
    FS_WHY_ITSELF,     /* the socket is connected to itself */
    FS_WHY_DECLINED,   /* so many offers were in vain that no further one is made */
    FS_WHY_ENDED,      /* an end has shut down a direction */
    FS_WHY_FOREIGN, /* other code has sent or received on the socket, or something went over it that only TCP carries */
    FS_WHY_OPTIONS, /* it has options that only TCP serves */
    FS_WHY_UNCOUNTED, /* the kernel does not tell how many bytes went over it */
    FS_WHY_REFUSED,   /* the kernel refuses this process calls that memory needs */
    FS_WHY_LEFT       /* the number is not this connection's any more */
};

enum fs_why fs_candidate_why(struct fs_connection *connection);

/* From how many calls on it looks, or has looked, and what that number comes from.  0 calls: it is not known yet. */
struct fs_threshold fs_candidate_threshold(struct fs_connection *connection);

/* It never looks by itself: a rule of the settings keeps it on TCP. */
void fs_candidate_never(struct fs_connection *connection);

/* For who knows that the other end's process calls this too, or will send and receive: looks for it until then, on
 * fs_now_ns()'s clock.  Called without the interpreter's lock.  0: this end is attached, or will be with its next call.
 * -ETIMEDOUT, -EINTR; -ECANCELED: it cannot be, or not now.  fs_candidate_why() has the reason. */
int fs_candidate_attach(struct fs_connection *connection, int descriptor, uint64_t deadline_ns);

#endif
