/* A TCP connection within this host whose ends may gain memory. */
#ifndef PAIR_H
#define PAIR_H

#include "connection.h"
#include "switch/attach.h"
#include "switch/carry.h"
#include "switch/leave.h"
#include "switch/options.h"
#include "switch/table.h"
#include "switch/waiting.h"

#define OFFERS 4 /* memory is there for as many */

/* What both ends know, also as two processes. */
struct meeting {
    _Atomic int offered; /* memory[offered - 1] is offered, or was */
    _Atomic int joined;
};

struct pair {
    int fd[2]; /* side 0 joins, side 1 offers */
    struct fs_connection *end[2];
    int memory[OFFERS];
    struct meeting *meeting;
    struct fs_limits limits;
};

struct pair pair_make(uint32_t small_bytes); /* connected; not in the table yet */
void pair_enter(struct pair *pair, int side);
struct pair pair_both(uint32_t small_bytes); /* both ends in the table */
struct pair pair_attached(uint32_t small_bytes);
struct pair pair_by_ring(uint32_t small_bytes); /* and each reader follows the other end into the ring */
void pair_forget(struct pair *pair, int side);  /* this process does not hold that end */
void pair_close(struct pair *pair, int side);   /* as close() */
void pair_done(struct pair *pair);              /* the rest, after both ends were closed or forgotten */

int pair_offer(struct pair *pair); /* what fs_attach_offer() and fs_attach_join() answer */
int pair_join(struct pair *pair);
void pair_attach(struct pair *pair);                                /* in one process: both, to the end */
void pair_step(struct pair *pair, int side, struct random *random); /* now and then a step towards it, or back */

/* How a program waits.  All but BLOCKING: by calls of the kernel alone, which fastsock does not see. */
enum style { BLOCKING, POLL, SELECT, EPOLL, EPOLL_EDGE, STYLES };

struct waiter {
    struct pair *pair;
    int side, what, epoll;
    enum style style;
    uint32_t shown; /* by epoll, last */
};
struct waiter waiter_make(struct pair *pair, int side, int what, enum style style);
void waiter_wait(struct waiter *waiter); /* fails the test if it takes too long */
void waiter_drop(struct waiter *waiter);

/* One call that waits as the style says.  flags: of MSG_*. */
ssize_t pair_send(struct pair *pair, struct waiter *waiter, const void *data, size_t length, int kernel_flags);
ssize_t pair_receive(struct pair *pair, struct waiter *waiter, void *target, size_t length, int kernel_flags);
/* Without waiting. */
ssize_t send_now(struct pair *pair, int side, const void *data, size_t length, int flags);
ssize_t receive_now(struct pair *pair, int side, void *target, size_t length, int flags);
void expect_bytes(struct pair *pair, int side, const char *text); /* they are there, and nothing else */

struct traffic {
    struct pair *pair;
    int side;
    enum style style;
    uint64_t stream, total, salt, largest; /* UINT64_MAX, of a reader: until the end, and stored there */
    int steps;                             /* towards the attach, on the way */
    int error;                             /* stored: what ended it */
};
void *traffic_send(void *traffic);
void *traffic_receive(void *traffic);

#endif
