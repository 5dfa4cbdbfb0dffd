/* The epoll objects of this process, and what is registered with each.
 *
 * The kernel has all registrations as the program made them.  So an object whose words cannot be told from one another, or
 * whose own number is watched, is left to the kernel alone: its connections are exact then (fs_connection_watch()).
 */
#ifndef FASTSOCK_PRELOAD_WATCHED_H
#define FASTSOCK_PRELOAD_WATCHED_H

#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "numbers.h"
#include "switch/polling.h"

struct fs_registered {
    uint64_t word;
    uint32_t mask;
    int is_there;
    int is_unmapped; /* another number, no stream either, has its word */
};

/* What the kernel tells once for each time that it is armed is told by it alone, whatever the edges. */
static inline int fs_registered_by_edges(const struct fs_registered *one)
{
    return (one->mask & (EPOLLET | EPOLLONESHOT)) == EPOLLET;
}

struct fs_watch {
    pthread_mutex_t lock;
    int descriptor; /* -1: none: the place is free */
    int is_exact;   /* the kernel alone tells */
    int writers;    /* registrations that want to hear of room */
    struct fs_poller poller;
    struct fs_registered *registered; /* by numbers */
    int room;
    struct fs_numbers numbers;
    int unmapped; /* registrations */
    struct fs_watch *next;
};

enum {
    FS_READABLE_EVENTS = EPOLLIN | EPOLLRDNORM,
    FS_WRITABLE_EVENTS = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND,
};

/* Held; NULL: no such object is known, or the caller is a signal handler in its own holder's way. */
struct fs_watch *fs_watch_hold(int epoll);
void fs_watch_release(struct fs_watch *watch);
void fs_watch_take(struct fs_watch *watch); /* again, by who has released it; it may be another object's by then */
struct fs_watch *
fs_watch_find(int epoll);         /* without holding it: it may be another object's at any time; -1: a free one */
int fs_watch_is_known(int epoll); /* without holding it */

void fs_watch_made(int epoll);
/* epoll_ctl().  With the lock: who re-arms a number, because what the kernel told of it was left over, must have the mask
 * that the kernel has. */
int fs_watch_control(int epoll, int operation, int descriptor, struct epoll_event *event);
void fs_watch_be_exact(int epoll); /* others watch its number */

/* Of an object that is held. */
struct fs_registered *fs_watch_registration(struct fs_watch *watch, int descriptor); /* or NULL */
void fs_watch_leave_seat(struct fs_watch *watch, int descriptor);
int fs_watch_number_of(const struct fs_watch *watch, uint64_t word); /* or FS_NUMBER_NONE */
void fs_watch_drop_loop(struct fs_watch *watch);
void fs_watch_make_loop(struct fs_watch *watch);
void fs_watch_show_all(struct fs_watch *watch);
uint64_t fs_watch_bell_word(const struct fs_watch *watch);

/* Of numbers in general. */
void fs_watched_closes(int descriptor);
void fs_watched_close_range(int first, int last);
void fs_watched_copied(int descriptor);  /* an epoll object that has two numbers is left to the kernel */
void fs_watched_entered(int descriptor); /* its stream has come into the table */
void fs_watched_give_back(void);         /* the numbers of their loops: all hear by tokens */

#endif
