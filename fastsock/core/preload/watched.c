#define _GNU_SOURCE
#include "watched.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "borrowed.h"
#include "next.h"
#include "process.h"
#include "switch/carry.h"
#include "switch/table.h"

#define FEWEST 64

static struct fs_watch *_Atomic watches; /* places are never given back */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

/* ---- forks ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&making);
    for (struct fs_watch *watch = watches; watch != NULL; watch = watch->next) pthread_mutex_lock(&watch->lock);
}

static void after_fork(void)
{
    for (struct fs_watch *watch = watches; watch != NULL; watch = watch->next) pthread_mutex_unlock(&watch->lock);
    pthread_mutex_unlock(&making);
}

/* ---- objects ---- */

struct fs_watch *fs_watch_find(int epoll)
{
    for (struct fs_watch *watch = watches; watch != NULL; watch = watch->next)
        if (__atomic_load_n(&watch->descriptor, __ATOMIC_ACQUIRE) == epoll) return watch;
    return NULL;
}

int fs_watch_is_known(int epoll) { return epoll >= 0 && fs_watch_find(epoll) != NULL; }

struct fs_watch *fs_watch_hold(int epoll)
{
    struct fs_watch *watch = epoll < 0 ? NULL : fs_watch_find(epoll);
    if (watch == NULL || fs_is_within > 0) return NULL;
    fs_watch_take(watch);
    if (watch->descriptor == epoll) return watch;
    fs_watch_release(watch);
    return NULL;
}

void fs_watch_take(struct fs_watch *watch)
{
    fs_is_within++;
    pthread_mutex_lock(&watch->lock);
}

void fs_watch_release(struct fs_watch *watch)
{
    pthread_mutex_unlock(&watch->lock);
    fs_is_within--;
}

uint64_t fs_watch_bell_word(const struct fs_watch *watch) { return (uint64_t)(uintptr_t)watch; }

/* With the lock. */
static void clear(struct fs_watch *watch)
{
    fs_seats_end(&watch->poller.seats);
    free(watch->registered);
    watch->registered = NULL;
    watch->room = watch->writers = watch->is_exact = watch->unmapped = 0;
    fs_numbers_clear(&watch->numbers);
    fs_poller_begin_anew(&watch->poller);
}

void fs_watch_made(int epoll)
{
    if (atomic_load(&fs_stands_aside) || fs_is_within > 0 || fs_is_borrowed()) return;
    fs_is_within++;
    pthread_mutex_lock(&making);
    struct fs_watch *watch = fs_watch_find(epoll); /* that one was closed without a word */
    if (watch == NULL) watch = fs_watch_find(-1);
    if (watch == NULL && (watch = calloc(1, sizeof *watch)) != NULL) {
        if (watches == NULL) pthread_atfork(before_fork, after_fork, after_fork);
        pthread_mutex_init(&watch->lock, NULL);
        watch->descriptor = -1;
        watch->poller = FS_POLLER_NEW;
        watch->next = watches;
        atomic_store(&watches, watch);
    }
    if (watch != NULL) {
        pthread_mutex_lock(&watch->lock);
        clear(watch);
        fs_numbers_put(&watch->numbers, fs_watch_bell_word(watch), INT32_MAX - 1);
        __atomic_store_n(&watch->descriptor, epoll, __ATOMIC_RELEASE);
        pthread_mutex_unlock(&watch->lock);
    }
    pthread_mutex_unlock(&making);
    fs_is_within--;
}

static void end(struct fs_watch *watch)
{
    clear(watch);
    __atomic_store_n(&watch->descriptor, -1, __ATOMIC_RELEASE);
}

/* ---- the loop ---- */

void fs_watch_show_all(struct fs_watch *watch)
{
    for (int i = 0; (i = fs_seats_next(&watch->poller.seats, i)) >= 0; i++) {
        struct fs_connection *connection = fs_table_find(i);
        if (connection != NULL) fs_carry_show(connection, i);
    }
}

void fs_watch_make_loop(struct fs_watch *watch)
{
    int bell = fs_seats_make_loop(&watch->poller.seats);
    if (bell < 0) return; /* tokens do */
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = fs_watch_bell_word(watch)};
    if (fs_next.epoll_ctl(watch->descriptor, EPOLL_CTL_ADD, bell, &event) != 0) fs_watch_drop_loop(watch);
}

void fs_watch_drop_loop(struct fs_watch *watch)
{
    int bell = watch->poller.seats.bell;
    struct epoll_event unused = {0, {0}};
    if (bell > 0) fs_next.epoll_ctl(watch->descriptor, EPOLL_CTL_DEL, bell, &unused);
    fs_seats_drop_loop(&watch->poller.seats);
    fs_watch_show_all(watch);
}

/* ---- what is registered ---- */

struct fs_registered *fs_watch_registration(struct fs_watch *watch, int descriptor)
{
    return descriptor >= 0 && descriptor < watch->room && watch->registered[descriptor].is_there
               ? &watch->registered[descriptor]
               : NULL;
}

int fs_watch_number_of(const struct fs_watch *watch, uint64_t word) { return fs_numbers_find(&watch->numbers, word); }

static void watch_exactly(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection != NULL) fs_connection_watch(connection, descriptor);
}

static void be_exact(struct fs_watch *watch)
{
    if (watch->is_exact) return;
    watch->is_exact = 1;
    fs_watch_drop_loop(watch);
    for (int i = 0; i < watch->room; i++)
        if (watch->registered[i].is_there) watch_exactly(i);
}

void fs_watch_be_exact(int epoll)
{
    struct fs_watch *watch = fs_watch_hold(epoll);
    if (watch == NULL) return;
    be_exact(watch);
    fs_watch_release(watch);
}

static int make_room(struct fs_watch *watch, int descriptor)
{
    if (descriptor < watch->room) return 1;
    int room = watch->room < FEWEST ? FEWEST : watch->room;
    while (room <= descriptor && room < FS_TABLE_CHUNKS << FS_TABLE_CHUNK_BITS) room *= 2;
    struct fs_registered *all = room > descriptor ? realloc(watch->registered, (size_t)room * sizeof *all) : NULL;
    if (all == NULL) return 0;
    memset(all + watch->room, 0, (size_t)(room - watch->room) * sizeof *all);
    watch->registered = all;
    watch->room = room;
    return 1;
}

/* Edges of room are told with those of bytes. */
static int is_writer(const struct fs_registered *one)
{
    return (one->mask & FS_WRITABLE_EVENTS) != 0 && !fs_registered_by_edges(one);
}

/* Another number that is registered with the same word; -1: none. */
static int sharer_of(struct fs_watch *watch, int descriptor, uint64_t word)
{
    for (int i = 0; watch->unmapped > 0 && i < watch->room; i++)
        if (i != descriptor && watch->registered[i].is_there && watch->registered[i].word == word) return i;
    return -1;
}

static void map_again(struct fs_watch *watch, int descriptor)
{
    struct fs_registered *one = &watch->registered[descriptor];
    if (!one->is_unmapped || fs_numbers_put(&watch->numbers, one->word, descriptor) != 0) return;
    one->is_unmapped = 0;
    watch->unmapped--;
}

static void unregister(struct fs_watch *watch, int descriptor)
{
    struct fs_registered *one = fs_watch_registration(watch, descriptor);
    if (one == NULL) return;
    if (one->is_unmapped) watch->unmapped--;
    one->is_unmapped = 0;
    fs_numbers_remove(&watch->numbers, one->word, descriptor);
    int sharer = sharer_of(watch, descriptor, one->word);
    if (sharer >= 0) map_again(watch, sharer);
    watch->writers -= is_writer(one);
    one->is_there = 0;
}

void fs_watch_leave_seat(struct fs_watch *watch, int descriptor)
{
    fs_poller_drop(&watch->poller, descriptor);
    fs_seats_leave(&watch->poller.seats, descriptor);
}

/* The number's stream, if it is one, hears as its registration says.  One that is not to be heard of keeps its seat until
 * something comes: programs take a number out, and put it in again, for each answer. */
static void take_seat(struct fs_watch *watch, int descriptor, const struct fs_registered *one)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    enum fs_hearing hearing = one->mask & EPOLLONESHOT      ? FS_HEARS_TOKENS
                              : fs_registered_by_edges(one) ? FS_HEARS_EDGES
                                                            : FS_HEARS_ANY;
    int taken = one->mask & FS_READABLE_EVENTS ? fs_seats_take(&watch->poller.seats, descriptor, hearing) : 0;
    if (taken > 0 && connection != NULL) fs_carry_show(connection, descriptor);
    if (connection != NULL && (taken < 0 || watch->is_exact)) fs_connection_watch(connection, descriptor);
}

static void note(struct fs_watch *watch, int descriptor, const struct epoll_event *event)
{
    unregister(watch, descriptor);
    if (descriptor ==
        watch->poller.seats.bell) { /* the program has closed what it did not know, and has the number now */
        watch->poller.seats.bell = 0;
        fs_watch_drop_loop(watch);
    }
    int error = make_room(watch, descriptor) ? fs_numbers_put(&watch->numbers, event->data.u64, descriptor) : -ENOMEM;
    /* which of the two an event is of matters where one is a stream */
    int shares = error == -EEXIST && fs_table_find(descriptor) == NULL &&
                 fs_table_find(fs_watch_number_of(watch, event->data.u64)) == NULL;
    if (error != 0 && !shares) {
        be_exact(watch);
        watch_exactly(descriptor);
        if (descriptor >= watch->room) return;
    }
    struct fs_registered *one = &watch->registered[descriptor];
    *one = (struct fs_registered){event->data.u64, event->events, 1, shares};
    watch->unmapped += shares;
    watch->writers += is_writer(one);
    take_seat(watch, descriptor, one);
}

static void note_change(struct fs_watch *watch, int operation, int descriptor, const struct epoll_event *event)
{
    if (watch != NULL && operation == EPOLL_CTL_DEL) unregister(watch, descriptor);
    else if (watch != NULL) note(watch, descriptor, event);
    else if (operation != EPOLL_CTL_DEL && !atomic_load_explicit(&fs_stands_aside, memory_order_relaxed))
        watch_exactly(descriptor); /* by somebody whom nobody sees; beside another core the pollers are Python's */
}

int fs_watch_control(int epoll, int operation, int descriptor, struct epoll_event *event)
{
    struct fs_watch *watch = fs_watch_hold(epoll);
    int result = fs_next.epoll_ctl(epoll, operation, descriptor, event), error = errno;
    if (result == 0) note_change(watch, operation, descriptor, event); /* which can be read: the kernel has */
    if (watch != NULL) fs_watch_release(watch);
    if (result == 0) fs_watch_be_exact(descriptor); /* an object in an object */
    errno = error;
    return result;
}

/* ---- numbers ---- */

void fs_watched_close_range(int first, int last)
{
    if (watches == NULL || fs_is_borrowed()) return;
    for (struct fs_watch *watch = watches; watch != NULL; watch = watch->next) {
        if (watch->descriptor < 0) continue;
        pthread_mutex_lock(&watch->lock);
        if (watch->descriptor >= first && watch->descriptor <= last) end(watch);
        for (int i = first; i <= last && i < watch->room; i++) {
            unregister(watch, i);
            fs_watch_leave_seat(watch, i);
        }
        pthread_mutex_unlock(&watch->lock);
    }
}

void fs_watched_closes(int descriptor)
{
    int is_watched = 0;
    for (struct fs_watch *watch = watches; watch != NULL && descriptor >= 0 && !is_watched; watch = watch->next) {
        if (watch->descriptor < 0) continue;
        pthread_mutex_lock(&watch->lock);
        is_watched = watch->descriptor == descriptor || fs_watch_registration(watch, descriptor) != NULL ||
                     fs_seats_has(&watch->poller.seats, descriptor);
        pthread_mutex_unlock(&watch->lock);
    }
    if (is_watched) fs_watched_close_range(descriptor, descriptor);
}

void fs_watched_give_back(void)
{
    for (struct fs_watch *watch = watches; watch != NULL; watch = watch->next) {
        if (watch->descriptor < 0 || pthread_mutex_trylock(&watch->lock) != 0) continue; /* it wakes, or will sleep */
        if (watch->descriptor >= 0 && watch->poller.seats.bell > 0) fs_watch_drop_loop(watch);
        pthread_mutex_unlock(&watch->lock);
    }
}

void fs_watched_copied(int descriptor) { fs_watch_be_exact(descriptor); }

void fs_watched_entered(int descriptor)
{
    for (struct fs_watch *watch = watches; watch != NULL; watch = watch->next) {
        if (watch->descriptor < 0) continue;
        pthread_mutex_lock(&watch->lock);
        const struct fs_registered *one = fs_watch_registration(watch, descriptor);
        if (one != NULL && sharer_of(watch, descriptor, one->word) >= 0) be_exact(watch);
        if (one != NULL) take_seat(watch, descriptor, one);
        pthread_mutex_unlock(&watch->lock);
    }
}
