/* The numbers that a poller watches for reading, and how it hears of each: by the bit of its loop (loop.h), or by tokens.
 *
 * All are counted as listeners while they hear by tokens.  So a loop that has the bit asks for a token too where others
 * watch the same connection.  A loop is made when the kernel has told of connections with memory often enough for it to pay.
 * From then on a number gets the bit when it comes with memory, or when the kernel tells it.
 *
 * A forked child takes the seats over: it has no loop of its parent's, and hears by tokens.
 */
#ifndef FASTSOCK_SEATS_H
#define FASTSOCK_SEATS_H

#include "connection.h"

struct fs_edge;
struct fs_loop;

/* TOKENS: this one stays without a bit, for the kernel alone must tell it.  EDGES: it is told of what comes, and not of what is
 * there (edge.h). */
enum fs_hearing { FS_HEARS_EDGES = -3, FS_HEARS_TOKENS = -2, FS_HEARS_ANY = -1 };

struct fs_seat {
    struct fs_connection *connection; /* NULL: it is free */
    uint32_t generation;
    int slot;             /* of the loop, or TOKENS, or ANY */
    struct fs_edge *edge; /* of who watches edges */
};

/* Its owner keeps other threads out. */
struct fs_seats {
    struct fs_seat *places; /* by numbers */
    int room;
    uint32_t process, reported;
    struct fs_loop *loop, *dropped; /* dropped: others sleep in it still */
    int bell;                       /* its number; 0: there is no loop */
    int sleepers;                   /* in the loop */
    _Atomic int asking;             /* threads within the kernel's wait, in the loop or not: fs_seats_ask() */
    int never;                      /* no loop is made */
    int unshown;                    /* all hear by tokens since a fork, and nobody was told so */
};

/* The number is watched from now on.  1: it was attached before, has no bit, and what is unread may have no token: the
 * caller, without the interpreter's lock, calls fs_carry_show(). */
int fs_seats_take(struct fs_seats *seats, int descriptor, enum fs_hearing hearing); /* -ENOMEM: of EDGES */
void fs_seats_leave(struct fs_seats *seats, int descriptor);
void fs_seats_end(struct fs_seats *seats); /* of all */

/* Of a number that is watched by edges; else NULL. */
const struct fs_edge *fs_seats_edge(const struct fs_seats *seats, int descriptor);
void fs_seats_report_edge(struct fs_seats *seats, int descriptor); /* before the program hears of it */

/* Of fs_carry_settle(), for that number. */
int fs_seats_flags(const struct fs_seats *seats, int descriptor);
static inline int fs_seats_has(const struct fs_seats *seats, int descriptor)
{
    return descriptor < seats->room && seats->places[descriptor].connection != NULL;
}
static inline int fs_seats_has_bit(const struct fs_seats *seats, int descriptor)
{
    return fs_seats_has(seats, descriptor) && seats->places[descriptor].slot >= 0;
}

/* Around each call of the kernel's wait: 1, then -1.  Without the lock, too. */
static inline void fs_seats_ask(struct fs_seats *seats, int change) { atomic_fetch_add(&seats->asking, change); }

/* The kernel has told the number, or its ring has something.  It gets a bit if there is a loop.  1: none is there, one would
 * pay, and no thread sleeps that it could not wake: fs_seats_make_loop(). */
int fs_seats_reported(struct fs_seats *seats, int descriptor);
int fs_seats_make_loop(struct fs_seats *seats); /* the bell's number, or -errno: then there will be none */
/* The loop is no more; all hear by tokens.  Also where the program has closed the bell.  How many are to be shown
 * (fs_carry_show()): all that fs_seats_next() tells. */
void fs_seats_drop_loop(struct fs_seats *seats);
int fs_seats_next(const struct fs_seats *seats, int descriptor); /* the first that is watched from there on, or -1 */

/* 1, once: the process is another one than before: all hear by tokens from now on, and are to be shown. */
int fs_seats_moved(struct fs_seats *seats);

/* As fs_loop_look(), fs_loop_sleep(), fs_loop_awake(): without a loop 0, and nobody sleeps in it.  -ESTALE: the loop was
 * dropped meanwhile, and all are to be shown.  asleep: the loop, if the caller sleeps in it now. */
int fs_seats_look(struct fs_seats *seats, int *numbers, int most, int flags);
int fs_seats_sleep(struct fs_seats *seats, int *numbers, int most, int flags, struct fs_loop **asleep);
void fs_seats_awake(struct fs_seats *seats, struct fs_loop *asleep, int rung);
void fs_seats_pass_on(struct fs_seats *seats); /* as fs_loop_pass_on() */

#endif
