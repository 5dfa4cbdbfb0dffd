#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "system.h"
#include "tcp_carrier.h"

#define EVENTS 64
#define MOST_WATCHED 8
#define LEAVING_NS 60000000000ull  /* as the kernel's for TCP that nobody holds any more */
#define GRACE_NS 20000000ull       /* from the end of TCP to the last frames on their way */
#define LOOKED_AFTER_NS 1000000ull /* by a program's thread that looked so lately: it will come back */

enum { OF_DOORBELL, OF_CARRIER, OF_TCP, OF_WAKER, OF_WATCHED };

struct served {
    struct fs_span *span;
    void (*ended)(struct fs_span *span);
    struct served *next;
    uint32_t doorbell_events, tcp_events;
    int has_carrier, over;
    int unarmed;           /* a thread of the program looks after it: the carrier makes no news */
    uint64_t tcp_ended_at; /* 0: it has not */
};

static struct {
    pthread_mutex_t lock; /* guards all below, and the spans' own state: the thread gives it up only to sleep */
    int runs, events, waker;
    uint32_t generation;
    void (*sleep)(int events, int timeout_ms); /* or NULL */
    struct served *first;
    struct watched {
        int descriptor;
        void (*news)(void);
    } watched[MOST_WATCHED];
    unsigned watched_count;
    /* Without the lock. */
    _Atomic int awake;       /* the thread will look at `relied` once more before it sleeps */
    _Atomic uint64_t relied; /* how often somebody began to rely on it */
} agent = {.lock = PTHREAD_MUTEX_INITIALIZER, .events = -1, .waker = -1};

static pthread_once_t process_watch = PTHREAD_ONCE_INIT;

/* ---- forks ---- */

static void before_fork(void) { pthread_mutex_lock(&agent.lock); }
static void in_parent(void) { pthread_mutex_unlock(&agent.lock); }

static void let_go(int *descriptor)
{
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

/* The parent's end must end with the parent, so a child keeps no copy of its descriptors.  The structures stay: the
 * libraries' own parts of them belong to the parent, and no call of theirs is made here. */
static void in_child(void)
{
    for (struct served *served = agent.first; served != NULL; served = served->next) {
        int tcp = atomic_exchange(&served->span->tcp, -1);
        let_go(&tcp);
        let_go(&served->span->doorbell);
        if (served->span->carrier != NULL) let_go(&served->span->carrier->descriptor);
        served->span->carrier = NULL;
        fs_end_is_last(served->span->end); /* the parent's agent goes on */
        served->span->end->closed = 1;
    }
    agent.first = NULL;
    for (unsigned i = 0; i < agent.watched_count; i++) let_go(&agent.watched[i].descriptor);
    agent.watched_count = 0;
    let_go(&agent.events);
    let_go(&agent.waker);
    agent.runs = 0;
    pthread_mutex_unlock(&agent.lock);
}

static void leave_at_exit(void) { fs_agent_leave(LEAVING_NS); }

static void heed_process(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
    atexit(leave_at_exit);
}

/* ---- what the thread waits for ---- */

static void *tagged(void *pointer, uintptr_t kind) { return (void *)((uintptr_t)pointer | kind); }

static void watch(int descriptor, uint32_t *now, uint32_t wanted, void *tag)
{
    struct epoll_event event = {wanted, {.ptr = tag}};
    if (descriptor < 0 || *now == wanted) return;
    int how = *now == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    if (epoll_ctl(agent.events, how, descriptor, &event) == 0) *now = wanted;
}

static void unwatch_all(struct served *served)
{
    struct fs_span *span = served->span;
    watch(span->doorbell, &served->doorbell_events, 0, NULL);
    watch(atomic_load(&span->tcp), &served->tcp_events, 0, NULL);
    if (served->has_carrier && span->carrier != NULL)
        epoll_ctl(agent.events, EPOLL_CTL_DEL, span->carrier->descriptor, NULL);
    served->has_carrier = 0;
}

/* ---- spans ---- */

static void finish(struct served *served)
{
    unwatch_all(served);
    fs_span_finish(served->span);
    served->ended(served->span);
    served->over = 1;
}

static int watch_carrier(struct served *served)
{
    struct epoll_event event = {EPOLLIN, {.ptr = tagged(served, OF_CARRIER)}};
    if (epoll_ctl(agent.events, EPOLL_CTL_ADD, served->span->carrier->descriptor, &event) != 0) return -errno;
    served->has_carrier = 1;
    return 0;
}

static void close_tcp_carrier(struct fs_span *span)
{
    if (span->carrier != NULL) span->carrier->calls->close(span->carrier);
    span->carrier = NULL;
}

/* The carrier is broken.  Both ends chose to go on over the connection beside it. */
static void resume(struct served *served)
{
    struct fs_span *span = served->span;
    const uint64_t window_bytes = span->carrier->window_bytes;
    int error = fs_span_leave_carrier(span, GRACE_NS);
    unwatch_all(served);
    served->ended(span);
    served->ended = close_tcp_carrier;
    struct fs_carrier *next = error == 0 ? fs_tcp_carrier_make(atomic_load(&span->tcp), window_bytes, &error) : NULL;
    if (next != NULL) fs_span_resume(span, next);
    if (next == NULL || watch_carrier(served) != 0) finish(served);
}

/* The other end goes on over TCP already: it has said the first word there. */
static int is_resumed_there(const struct fs_span *span)
{
    char first;
    return span->resumes && !span->resumed && recv(atomic_load(&span->tcp), &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The other process is gone, and no frame said so.  What it had sent may still be arriving. */
static void heed_tcp(struct served *served)
{
    if (served->tcp_ended_at == 0 || served->span->heard_shut || served->span->resumed) return;
    served->span->resumes = 0; /* there is nothing to go on over */
    if (fs_now_ns() - served->tcp_ended_at >= GRACE_NS) fs_span_other_ended(served->span, ECONNRESET);
}

/* 1: it is over, or goes on over another carrier. */
static int turned(struct served *served, short *wants)
{
    switch (fs_span_turn(served->span, wants)) {
    case FS_SPAN_OVER: finish(served); return 1;
    case FS_SPAN_LEAVES_CARRIER: resume(served); return 1;
    default: return 0;
    }
}

/* Whether threads of the program may turn it. */
static int can_assist(const struct fs_span *span)
{
    return agent.runs && agent.generation == fs_generation() && span->doorbell >= 0 && span->carrier != NULL &&
           !span->carrier->of_one_thread && !span->resumed;
}

/* A thread of the program finds the news by itself, and nothing of it waits for some. */
static int is_looked_after(const struct fs_span *span)
{
    if (!can_assist(span) || span->held_up || span->taking != 0 || atomic_load(&span->relying) > 0) return 0;
    return fs_now_ns() < atomic_load(&span->looked_at) + LOOKED_AFTER_NS;
}

/* Whatever comes from now on is told by the carrier's descriptor, and what came before is taken.  1: as turned(). */
static int arm(struct served *served, short *wants)
{
    struct fs_carrier *carrier = served->span->carrier;
    return carrier->calls->arm(carrier) < 0 || turned(served, wants);
}

/* 1: there may be more to do at once. */
static int turn(struct served *served)
{
    struct fs_span *span = served->span;
    uint64_t heard = span->heard, frames = span->frames;
    short wants = 0;
    heed_tcp(served);
    if (turned(served, &wants)) return 1;
    int moved = span->heard != heard || span->frames != frames;
    if (moved) return 1;
    served->unarmed = is_looked_after(span);
    if (!served->unarmed && arm(served, &wants)) return 1;
    if (span->heard != heard || span->frames != frames) return 1;
    if (wants & POLLIN && span->doorbell >= 0 && fs_end_settle(span->end, span->doorbell, 0)) return 1;
    uint32_t doorbell = (wants & POLLIN ? EPOLLIN | EPOLLRDHUP : 0u) | (wants & POLLOUT ? EPOLLOUT : 0u) | EPOLLHUP;
    if (span->program_left) { /* its doorbell would wake the thread for ever, and tells nothing more */
        doorbell = 0;
        span->looks_seldom |= (wants & POLLIN) != 0;
    }
    span->awaited = wants;
    watch(span->doorbell, &served->doorbell_events, doorbell, tagged(served, OF_DOORBELL));
    span->doorbell_is_quiet = (served->doorbell_events & EPOLLIN) != 0;
    int tcp = atomic_load(&span->tcp);
    const int is_beside = served->tcp_ended_at == 0 && !span->resumed;
    watch(tcp, &served->tcp_events, is_beside ? EPOLLRDHUP | EPOLLIN : 0, tagged(served, OF_TCP));
    return 0;
}

static void note_event(struct served *served, unsigned kind, uint32_t events)
{
    if (served->over) return;
    struct fs_carrier *carrier = served->span->carrier;
    if (kind == OF_CARRIER && carrier->calls->disarm != NULL) carrier->calls->disarm(carrier);
    if (kind == OF_DOORBELL) served->span->doorbell_is_quiet = 0;
    if (kind == OF_DOORBELL && events & (EPOLLHUP | EPOLLERR)) served->span->program_left = 1;
    if (kind != OF_TCP || served->tcp_ended_at != 0 || served->span->resumed) return;
    if (is_resumed_there(served->span)) fs_span_other_ended(served->span, ENETDOWN);
    else served->tcp_ended_at = fs_now_ns();
}

static void drop_those_over(void)
{
    for (struct served **place = &agent.first; *place != NULL;) {
        struct served *served = *place;
        if (!served->over) {
            place = &served->next;
            continue;
        }
        *place = served->next;
        fs_span_drop(served->span);
        free(served);
    }
}

/* How long the thread may sleep, in milliseconds: -1 for ever. */
static int patience(void)
{
    int longest = -1;
    for (struct served *served = agent.first; served != NULL; served = served->next) {
        if (served->unarmed) return (int)(LOOKED_AFTER_NS / 1000000ull);
        if (served->span->looks_seldom ||
            (served->tcp_ended_at != 0 && !served->span->heard_shut && !served->span->resumed))
            longest = (int)(GRACE_NS / 1000000ull);
    }
    return longest;
}

static void *serve(void *unused)
{
    struct epoll_event found[EVENTS];
    const uint32_t generation = fs_generation();
    (void)unused;
    pthread_mutex_lock(&agent.lock);
    while (agent.generation == generation) {
        const uint64_t relied = atomic_load(&agent.relied);
        int more = 0;
        for (struct served *served = agent.first; served != NULL; served = served->next)
            if (!served->over) more |= turn(served);
        drop_those_over();
        int timeout = more ? 0 : patience(), events = agent.events;
        void (*sleep)(int, int) = agent.sleep;
        pthread_mutex_unlock(&agent.lock);
        atomic_store(&agent.awake, 0);
        if (atomic_load(&agent.relied) != relied) timeout = 0;
        if (sleep != NULL) {
            sleep(events, timeout);
            timeout = 0;
        }
        int count = epoll_wait(events, found, EVENTS, timeout), error = errno;
        atomic_store(&agent.awake, 1);
        pthread_mutex_lock(&agent.lock);
        if (count < 0 && error != EINTR) break; /* the program closed every number, and with them this thread's */
        for (int i = 0; i < count; i++) {
            unsigned kind = (unsigned)((uintptr_t)found[i].data.ptr & 7);
            void *tag = (void *)((uintptr_t)found[i].data.ptr & ~(uintptr_t)7);
            uint64_t drop;
            if (kind == OF_WAKER && read(agent.waker, &drop, sizeof drop) < 0) continue;
            if (kind == OF_WATCHED) ((struct watched *)tag)->news();
            if (kind <= OF_TCP) note_event(tag, kind, found[i].events);
        }
    }
    agent.runs = 0;
    pthread_mutex_unlock(&agent.lock);
    return NULL;
}

/* ---- what others ask for ---- */

static int start_locked(void)
{
    pthread_t thread;
    uint32_t unwatched = 0;
    if (agent.runs) return 0;
    agent.events = epoll_create1(EPOLL_CLOEXEC);
    agent.waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    agent.generation = fs_generation();
    int error = agent.events < 0 || agent.waker < 0 ? -errno : fs_start_thread(&thread, serve, NULL);
    if (error != 0) {
        let_go(&agent.events);
        let_go(&agent.waker);
        return error;
    }
    watch(agent.waker, &unwatched, EPOLLIN, tagged(NULL, OF_WAKER));
    pthread_detach(thread);
    agent.runs = 1;
    return 0;
}

int fs_agent_start(void)
{
    pthread_once(&process_watch, heed_process);
    pthread_mutex_lock(&agent.lock);
    int error = start_locked();
    pthread_mutex_unlock(&agent.lock);
    return error;
}

void fs_agent_wake(void)
{
    const uint64_t one = 1;
    if (agent.waker >= 0 && write(agent.waker, &one, sizeof one) < 0) return; /* it is awake already */
}

/* With the lock held: by the thread's own callbacks, or by fs_agent_serve(). */
static int serve_locked(struct fs_span *span, void (*ended)(struct fs_span *))
{
    struct served *served = calloc(1, sizeof *served);
    if (served == NULL) return -ENOMEM;
    served->span = span;
    int error = watch_carrier(served);
    if (error != 0) {
        free(served);
        return error;
    }
    served->ended = ended;
    served->next = agent.first;
    agent.first = served;
    return 0;
}

int fs_agent_serve(struct fs_span *span, void (*ended)(struct fs_span *))
{
    pthread_mutex_lock(&agent.lock);
    int error = serve_locked(span, ended);
    pthread_mutex_unlock(&agent.lock);
    fs_agent_wake();
    return error;
}

int fs_agent_serve_here(struct fs_span *span, void (*ended)(struct fs_span *)) { return serve_locked(span, ended); }

int fs_agent_watch(int descriptor, void (*news)(void))
{
    uint32_t unwatched = 0;
    pthread_mutex_lock(&agent.lock);
    int error = agent.watched_count == MOST_WATCHED ? -ENOSPC : 0;
    if (error == 0) {
        struct watched *place = &agent.watched[agent.watched_count++];
        *place = (struct watched){descriptor, news};
        watch(descriptor, &unwatched, EPOLLIN, tagged(place, OF_WATCHED));
    }
    pthread_mutex_unlock(&agent.lock);
    return error;
}

void fs_agent_sleep_by(void (*sleep)(int, int))
{
    pthread_mutex_lock(&agent.lock);
    agent.sleep = sleep;
    pthread_mutex_unlock(&agent.lock);
    fs_agent_wake();
}

struct fs_span *fs_agent_find(int (*is_it)(struct fs_span *, const void *), const void *key)
{
    struct fs_span *found = NULL;
    pthread_mutex_lock(&agent.lock);
    for (struct served *served = agent.first; served != NULL && found == NULL; served = served->next)
        if (!served->over && is_it(served->span, key)) found = fs_span_hold(served->span);
    pthread_mutex_unlock(&agent.lock);
    return found;
}

int fs_agent_begin(struct fs_span *span, int doorbell, int tcp)
{
    const struct linger no_reset = {0, 0}; /* what is said there at the end must arrive */
    if (span->resumes) setsockopt(tcp, SOL_SOCKET, SO_LINGER, &no_reset, sizeof no_reset);
    pthread_mutex_lock(&agent.lock);
    int error = fs_span_begin(span, doorbell);
    if (error == 0) atomic_store(&span->tcp, tcp);
    pthread_mutex_unlock(&agent.lock);
    fs_agent_wake();
    return error;
}

static void turn_for(struct fs_span *span)
{
    short wants = 0;
    span->lent = 1;
    int is_over = fs_span_turn(span, &wants) != FS_SPAN_GOES_ON;
    span->lent = 0;
    if (is_over || (wants & ~span->awaited) != 0) fs_agent_wake();
}

static void assist(void *of)
{
    struct fs_span *span = of;
    if (pthread_mutex_trylock(&agent.lock) != 0) return; /* the thread is at it */
    if (can_assist(span)) turn_for(span);
    pthread_mutex_unlock(&agent.lock);
}

static void look(void *of)
{
    struct fs_span *span = of;
    atomic_store(&span->looked_at, fs_now_ns());
    assist(span);
}

/* Whatever came before the carrier was armed is taken here, and the thread hears of the rest.  Or the thread is awake:
 * then it does both. */
static void rely(void *of)
{
    struct fs_span *span = of;
    atomic_fetch_add(&span->relying, 1);
    atomic_store(&span->looked_at, 0);
    atomic_fetch_add(&agent.relied, 1);
    if (pthread_mutex_trylock(&agent.lock) != 0) {
        if (atomic_load(&agent.awake)) return;
        pthread_mutex_lock(&agent.lock); /* another one of the program has it */
    }
    if (can_assist(span)) {
        if (span->carrier->calls->arm(span->carrier) < 0) fs_agent_wake();
        turn_for(span);
    }
    pthread_mutex_unlock(&agent.lock);
}

static void rely_no_more(void *of) { atomic_fetch_sub(&((struct fs_span *)of)->relying, 1); }

static void drop(void *of) { fs_span_drop(of); }

void fs_agent_lend(struct fs_span *span, struct fs_end *end)
{
    end->assistant = (struct fs_assistant){assist, look, rely, rely_no_more, drop, fs_span_hold(span)};
}

static int is_delivered(const struct fs_span *span)
{
    return span->lost != 0 || span->said_reset ||
           (span->said_shut && span->carrier->calls->done(span->carrier) >= span->shut_ticket);
}

static unsigned begin_to_leave(void)
{
    unsigned left = 0;
    pthread_mutex_lock(&agent.lock);
    for (struct served *served = agent.first; served != NULL; served = served->next) {
        if (served->over || served->span->doorbell < 0) continue;
        served->span->leaving = 1;
        left += !is_delivered(served->span);
    }
    pthread_mutex_unlock(&agent.lock);
    return left;
}

unsigned fs_agent_leave(uint64_t patience_ns)
{
    const struct timespec pause = {0, 200000};
    uint64_t limit = fs_now_ns() + patience_ns;
    unsigned left = agent.runs ? begin_to_leave() : 0;
    while (left > 0 && fs_now_ns() < limit) {
        fs_agent_wake();
        nanosleep(&pause, NULL);
        left = begin_to_leave();
    }
    return left;
}
