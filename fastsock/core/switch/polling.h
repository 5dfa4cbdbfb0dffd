/* What a poller that fastsock sees does about the connections which it watches for reading.
 *
 * The kernel tells of them as of any file: what lies in a ring has a token on TCP, or on its way, or one is asked for.  So
 * no wake-up depends on this file.  It does two things.  It looks at the rings of few connections, those that spoke of
 * late: then most waits are no system call, of either end.  And it finds out which tokens are left over: the kernel shows
 * them, but nothing is there to read.  A silent connection costs nothing.
 *
 * How the ready ones are found, and how the others are armed, is this file's alone.
 */
#ifndef FASTSOCK_POLLING_H
#define FASTSOCK_POLLING_H

#include "attach.h"
#include "connection.h"
#include "edge.h"
#include "seats.h"

enum { FS_POLLED_MOST = 32 };

/* A connection whose ring a poller looks at. */
struct fs_polled {
    struct fs_connection *connection;
    uint32_t generation;
    int descriptor;
    int unsettled; /* its program may have read since: a token may be left over, or a token or bit is to be asked for */
    int by_edges;
    struct fs_edge edge; /* as the seat had it at the last look */
    uint64_t reported;   /* the poller's turn that last found something there */
};

/* Its owner keeps other threads out, but from what the calls say. */
struct fs_poller {
    struct fs_polled among[FS_POLLED_MOST];
    int count;
    int counted;  /* FS_COUNTED: while its owner sleeps he is a listener of all that have no bit; or 0 */
    int pressing; /* there may be news that nobody will tell: it looks again soon */
    uint64_t turn;
    struct fs_spin spin;
    struct fs_yielding yield;
    struct fs_seats seats; /* empty where nothing is kept in mind: of poll() and select() */
};

#define FS_POLLER_NEW ((struct fs_poller){.spin = {.success = 1.0f}})

/* For the next object in its place, behind fs_seats_end(): threads may be within the kernel's wait still. */
static inline void fs_poller_begin_anew(struct fs_poller *poller)
{
    poller->count = poller->pressing = 0;
    poller->turn = 0;
    poller->spin.success = 1.0f;
    poller->spin.skipped = poller->spin.rest = 0;
    poller->yield.rest = 0;
}

enum {
    FS_REST_EVERY = 16,   /* turns of a poller: the others must be heard even while some are always ready */
    FS_MOST_STALE = 64,   /* times in one wait that all the kernel reported was left over */
    FS_MOST_BUSY = 3,     /* times that an epoll object looks again at once where another thread reads */
    FS_BUSY_NS = 5000000, /* later it sleeps for so long: nobody reports the other thread's end */
};

static inline int fs_poller_rest_is_due(const struct fs_poller *poller) { return poller->turn % FS_REST_EVERY == 0; }
/* When it is due.  The program may have room for some only.  So each kind comes first at times, as the kernel reports
 * all in turn. */
static inline int fs_poller_kernel_is_first(const struct fs_poller *poller)
{
    return poller->turn / FS_REST_EVERY % 2 == 0;
}

/* Whether a connection of this process ever had memory.  Before that a poller asks the kernel alone. */
static inline int fs_polling_is_due(void) { return atomic_load_explicit(&fs_attached_ever, memory_order_relaxed); }

/* The number was told as readable, or may be worth a look: from now on it is looked at, instead of the one that was silent
 * longest.  Others than connections with memory are left out.  0: it is not looked at, and a loop may have heard of what is
 * unread there (fs_carry_show()). */
int fs_poller_note(struct fs_poller *poller, int descriptor);
/* An edge is told: what comes from now on is news.  Called before the program hears of it.  at_once: other threads sleep, and
 * must hear of what comes though this one may not come back. */
void fs_poller_report_edge(struct fs_poller *poller, int descriptor, int at_once);
void fs_poller_drop(struct fs_poller *poller, int descriptor);

/* The numbers whose rings have something, at most FS_POLLED_MOST.  How many. */
int fs_poller_look(struct fs_poller *poller, int *ready);
/* Before a sleep: those that turn out to have something, or news.  The others are armed, and no token of theirs is left.  Those with
 * a bit are left to the loop. */
int fs_poller_settle(struct fs_poller *poller, int *ready);
/* Waits a moment for one of them, without the interpreter's lock: spins where the other end runs on another core, hands the
 * core over where it runs on this one.  `among` is a copy.  Whether it came. */
int fs_poller_await(struct fs_poller *poller, const struct fs_polled *among, int count, uint64_t limit_ns);

/* The kernel tells the number as readable.  1: that was a token which is gone now, and nothing is there.  0: it is so, or
 * the number is no connection with memory.  -EBUSY: with FS_AT_ONCE, another thread reads there at this moment.  `flags`:
 * those of fs_seats_flags(), too. */
int fs_polling_is_stale(int descriptor, int flags);
/* The same of an edge: the kernel's may tell of a token alone.  Where bytes are unread that it was told of, it is so. */
int fs_poller_is_edge_stale(struct fs_poller *poller, int descriptor);

/* Before an edge is told on: what comes from now on has one of its own, though the program may read nothing.  The connection
 * is watched (fs_connection_watch()). */
void fs_polling_reported_edge(int descriptor);

#endif
