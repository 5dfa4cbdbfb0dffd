#define _GNU_SOURCE
#include "rsocket_accepting.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "system.h"

#define QUIET_MS 100           /* an event may have been taken away before this thread saw it */
#define COMING_MS 1            /* a connection is on its way */
#define COMING_NS 300000000ull /* and so long it may take */
#define PATIENCE_NS 1000000000ull

struct fs_rsocket_listener {
    int number;
    void (*accepted)(int number);
    _Atomic int holders; /* the thread, and who made it */
    _Atomic int gone;
    _Atomic uint32_t closed; /* a futex word */
    struct fs_rsocket_listener *next;
};

static struct {
    const struct fs_rsocket_library *library;
    pthread_mutex_t lock; /* never held in a call of the library */
    struct fs_rsocket_listener *added;
    int events, waker; /* events: an epoll of the listeners and the waker */
    int runs;
} accepting = {.lock = PTHREAD_MUTEX_INITIALIZER, .events = -1, .waker = -1};

static void drop(struct fs_rsocket_listener *listener)
{
    if (atomic_fetch_sub(&listener->holders, 1) == 1) free(listener);
}

static void wake(void)
{
    const uint64_t one = 1;
    if (write(accepting.waker, &one, sizeof one) < 0) return; /* it is awake already */
}

/* ---- the thread ---- */

static void take_added(struct fs_rsocket_listener **first)
{
    struct epoll_event event = {EPOLLIN | EPOLLET, {.fd = 0}};
    pthread_mutex_lock(&accepting.lock);
    for (struct fs_rsocket_listener *each; (each = accepting.added) != NULL;) {
        accepting.added = each->next;
        each->next = *first;
        *first = each;
        event.data.fd = each->number;
        epoll_ctl(accepting.events, EPOLL_CTL_ADD, each->number, &event); /* else the time alone tells */
    }
    pthread_mutex_unlock(&accepting.lock);
}

static void close_gone(struct fs_rsocket_listener **place)
{
    while (*place != NULL) {
        struct fs_rsocket_listener *listener = *place;
        if (!atomic_load(&listener->gone)) {
            place = &listener->next;
            continue;
        }
        *place = listener->next;
        epoll_ctl(accepting.events, EPOLL_CTL_DEL, listener->number, NULL);
        accepting.library->rclose(listener->number);
        atomic_store(&listener->closed, 1);
        fs_futex_wake_all(&listener->closed);
        drop(listener);
    }
}

static void accept_all(struct fs_rsocket_listener *first)
{
    for (; first != NULL; first = first->next)
        for (int number; (number = accepting.library->raccept(first->number, NULL, NULL)) >= 0;)
            first->accepted(number);
}

static void *accept_for_ever(void *unused)
{
    struct fs_rsocket_listener *first = NULL;
    uint64_t coming_until = 0, drop_it;
    (void)unused;
    for (;;) {
        struct epoll_event found[8];
        take_added(&first);
        close_gone(&first);
        accept_all(first);
        const int timeout = first == NULL ? -1 : fs_now_ns() < coming_until ? COMING_MS : QUIET_MS;
        const int count = epoll_wait(accepting.events, found, 8, timeout);
        if (count < 0 && errno != EINTR) return NULL; /* the program closed every number, and with them this thread's */
        for (int i = 0; i < count; i++) {
            if (found[i].data.fd != accepting.waker) coming_until = fs_now_ns() + COMING_NS;
            else if (read(accepting.waker, &drop_it, sizeof drop_it) < 0) continue;
        }
    }
}

static int start_locked(const struct fs_rsocket_library *library)
{
    pthread_t thread;
    struct epoll_event event = {EPOLLIN, {.fd = 0}};
    if (accepting.runs) return 0;
    accepting.library = library;
    if (accepting.events < 0) accepting.events = epoll_create1(EPOLL_CLOEXEC);
    if (accepting.waker < 0) accepting.waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    event.data.fd = accepting.waker;
    if (accepting.events < 0 || accepting.waker < 0) return -errno;
    if (epoll_ctl(accepting.events, EPOLL_CTL_ADD, accepting.waker, &event) != 0 && errno != EEXIST) return -errno;
    int error = fs_start_thread(&thread, accept_for_ever, NULL);
    if (error != 0) return error;
    pthread_detach(thread);
    accepting.runs = 1;
    return 0;
}

/* ---- what others ask for ---- */

struct fs_rsocket_listener *fs_rsocket_accept_on(const struct fs_rsocket_library *library, int number,
                                                 void (*accepted)(int), int *error)
{
    struct fs_rsocket_listener *listener = calloc(1, sizeof *listener);
    *error = -ENOMEM;
    if (listener == NULL) return NULL;
    listener->number = number;
    listener->accepted = accepted;
    listener->holders = 2;
    pthread_mutex_lock(&accepting.lock);
    *error = start_locked(library);
    if (*error == 0) {
        listener->next = accepting.added;
        accepting.added = listener;
    }
    pthread_mutex_unlock(&accepting.lock);
    if (*error == 0) {
        wake();
        return listener;
    }
    free(listener);
    return NULL;
}

void fs_rsocket_accept_no_more(struct fs_rsocket_listener *listener)
{
    const uint64_t limit = fs_now_ns() + PATIENCE_NS;
    atomic_store(&listener->gone, 1);
    wake();
    for (uint64_t now; !atomic_load(&listener->closed) && (now = fs_now_ns()) < limit;)
        fs_futex_wait(&listener->closed, 0, limit - now);
    drop(listener);
}
