#define _GNU_SOURCE
#include "custody.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "sockets/abstract.h"
#include "sockets/accepted.h"
#include "end.h"
#include "relay.h"
#include "system.h"

#define EVENTS 64
#define BUFFER (64u * 1024)
#define DESCRIPTORS 4             /* that one entry holds */
#define SHARE 2                   /* all of them: at most one of so many parts of what the program has not opened */
#define FIRST_LOOK_NS 20000000ull /* then ever more rarely */
#define RAREST_LOOK_NS 1000000000ull
#define BETWEEN_LOOKS_NS 10000000ull /* however many connections are looked at: each look at them passes all of them */
#define MOST_LOOKS 128               /* in one of these */
#define SILENT_PATIENCE 25  /* times the patience, for one who accepted and neither speaks nor lets data pile up */
#define SIGNED_PATIENCE 100 /* for one who will connect back: its thread may wait for an interpreter's lock */

/* What an event belongs to, in the low bits of its pointer. */
enum { STREAM, LISTENER, DOORBELL, ASKER, KINDS };

struct entry {
    struct fs_custody shown; /* to the connecting end */
    _Alignas(64) pthread_mutex_t lock;
    _Atomic int holders; /* the end, and the thread */
    _Atomic int accepted, stuck;
    int shut; /* halves that the connecting end shut */
    _Atomic pid_t joined_by;
    struct entry *next, *before, *ended_next; /* lists of the keeper */
    struct fs_custody_terms terms;
    struct fs_end *connecting;     /* valid until it is closed */
    int descriptor[KINDS], memory; /* or -1 */
    uint32_t watched[KINDS];
    int registered[KINDS];
    struct fs_relay relay; /* its end is the accepting one's, opened where it must be */
    uint64_t passed;       /* bytes that TCP got */
    uint64_t accepted_at, next_look, look_after;
    int held;        /* TCP's descriptor once it is done with, for its port; or -1 */
    ino_t held_file; /* a program may close every number that it does not know, and use it again */
    uint64_t began;
    _Atomic uint64_t lasted; /* until it was known what becomes of it, in nanoseconds; 0: it is not */
};

static struct entry *entry_of(const struct fs_custody *shown) { return (struct entry *)(uintptr_t)shown; }

/* Everything of the process's one thread.  `lock` guards the lists; an entry's lock is never taken with it held. */
static struct {
    pthread_mutex_t lock;
    struct entry *first, *ended;
    int count, events, timer;
    uint64_t timer_at; /* 0: not set */
    pthread_t thread;
    int runs, asked_to_end;
    pid_t ended_number;      /* of the thread that was asked, or 0: it goes on */
    pthread_cond_t answered; /* to whoever asked */
    pthread_mutex_t asking;  /* one at a time */
} keeper = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .events = -1,
            .timer = -1,
            .answered = PTHREAD_COND_INITIALIZER,
            .asking = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t fork_watch = PTHREAD_ONCE_INIT;

/* ---- entries ---- */

static void decide(struct entry *custody, int state)
{
    uint64_t unknown = 0;
    atomic_compare_exchange_strong(&custody->lasted, &unknown, fs_now_ns() - custody->began + 1);
    atomic_store(&custody->shown.state, state);
}

static void watch(struct entry *custody, int kind, uint32_t wanted)
{
    struct epoll_event event = {wanted, {.u64 = (uint64_t)(uintptr_t)custody | (uint64_t)kind}};
    if (custody->registered[kind] && custody->watched[kind] == wanted) return;
    int how = custody->registered[kind] ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(keeper.events, how, custody->descriptor[kind], &event) != 0) return;
    custody->registered[kind] = 1;
    custody->watched[kind] = wanted;
}

/* Explicitly: a copy of the file in another process would keep its registration. */
static void unwatch(struct entry *custody, int kind)
{
    if (custody->registered[kind]) epoll_ctl(keeper.events, EPOLL_CTL_DEL, custody->descriptor[kind], NULL);
    custody->registered[kind] = 0;
}

static int detach(struct entry *custody, int kind)
{
    int descriptor = custody->descriptor[kind];
    unwatch(custody, kind);
    custody->descriptor[kind] = -1;
    return descriptor;
}

static void drop(struct entry *custody, int kind)
{
    int descriptor = detach(custody, kind);
    if (descriptor >= 0) close(descriptor);
}

static void drop_memory(struct entry *custody)
{
    if (custody->memory >= 0) close(custody->memory);
    custody->memory = -1;
}

static void release(struct entry *custody)
{
    if (atomic_fetch_sub(&custody->holders, 1) != 1) return;
    pthread_mutex_destroy(&custody->lock);
    free(custody);
}

/* The accepting side's end, where this process must act as it. */
static struct fs_end *accepting_end(struct entry *custody)
{
    const struct fs_limits limits = {0, 0, 0};
    int error = 0;
    if (custody->relay.end == NULL && custody->connecting != NULL)
        custody->relay.end = fs_end_open_on(custody->connecting->segment, FS_SIDE_ACCEPTED, &limits, &error);
    if (custody->relay.end != NULL) custody->relay.end->abrupt = 1;
    return custody->relay.end;
}

/* The port is the connection's as long as its end is open. */
static void hold_port(struct entry *custody)
{
    struct stat status;
    if (custody->connecting == NULL || fstat(custody->descriptor[STREAM], &status) != 0) return;
    custody->held = detach(custody, STREAM);
    custody->held_file = status.st_ino;
}

static int take_port(struct entry *custody)
{
    struct stat status;
    int held = custody->held;
    custody->held = -1;
    return held >= 0 && fstat(held, &status) == 0 && status.st_ino == custody->held_file ? held : -1;
}

static void let_port_go(struct entry *custody)
{
    int held = take_port(custody);
    if (held >= 0) close(held);
}

/* From now on nothing of the entry is in custody; only the thread drops its hold, when it knows no event of it. */
static void finish(struct entry *custody, int state)
{
    for (int kind = 0; kind < KINDS; kind++) drop(custody, kind);
    drop_memory(custody);
    if (custody->relay.end != NULL) fs_end_free(custody->relay.end);
    custody->relay.end = NULL;
    if (state == FS_CUSTODY_ENDED || state == FS_CUSTODY_JOINED) decide(custody, state);
    atomic_store(&custody->shown.full, 0);
    pthread_mutex_lock(&keeper.lock);
    if (custody->before != NULL) custody->before->next = custody->next;
    else keeper.first = custody->next;
    if (custody->next != NULL) custody->next->before = custody->before;
    keeper.count--;
    custody->ended_next = keeper.ended;
    keeper.ended = custody;
    pthread_mutex_unlock(&keeper.lock);
}

static void reset_on_close(int stream)
{
    struct linger at_once = {1, 0};
    setsockopt(stream, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/* Whoever waited for room may go on. */
static void let_senders_on(struct entry *custody)
{
    _Atomic uint32_t *word = custody->connecting != NULL ? &custody->connecting->out.shared->writer_sleeps : NULL;
    atomic_store(&custody->shown.full, 0);
    if (word != NULL && atomic_exchange(word, 0) != 0) fs_futex_wake_all(word);
}

/* ---- the thread's part ---- */

static void set_timer(uint64_t at)
{
    if (keeper.timer_at != 0 && keeper.timer_at <= at) return;
    uint64_t now = fs_now_ns(), left = at > now ? at - now : 1;
    struct itimerspec when = {{0, 0}, {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)}};
    keeper.timer_at = at;
    timerfd_settime(keeper.timer, 0, &when, NULL);
}

static void look_at(struct entry *custody, uint64_t at)
{
    custody->next_look = at;
    pthread_mutex_lock(&keeper.lock);
    set_timer(at);
    pthread_mutex_unlock(&keeper.lock);
}

static void relay_turn(struct entry *custody, char *buffer)
{
    struct fs_relay *relay = &custody->relay;
    if (fs_relay_turn(relay, buffer, BUFFER)) {
        detach(custody, STREAM);
        detach(custody, DOORBELL);
        fs_relay_end(relay);
        relay->end = NULL;
        finish(custody, FS_CUSTODY_RELAYED);
        return;
    }
    /* a hang-up is shown whether it is asked for or not: who waits for the other side only must not be woken by it */
    if (relay->stream_wants == 0) unwatch(custody, STREAM);
    else watch(custody, STREAM, (uint32_t)relay->stream_wants);
    if (relay->doorbell_wants == 0 && !relay->outwards_over) unwatch(custody, DOORBELL);
    else watch(custody, DOORBELL, (uint32_t)relay->doorbell_wants);
}

/* The other end is on TCP: the ring and it are joined by a pump. */
static void start_relay(struct entry *custody)
{
    struct fs_end *end = accepting_end(custody);
    drop(custody, LISTENER);
    drop(custody, ASKER);
    drop_memory(custody);
    if (end == NULL) { /* no memory for it: the program hears of a reset */
        finish(custody, FS_CUSTODY_RELAYED);
        return;
    }
    decide(custody, FS_CUSTODY_RELAYED);
    custody->relay.doorbell = custody->descriptor[DOORBELL];
    custody->relay.stream = custody->descriptor[STREAM];
    custody->relay.skip = custody->passed;
    fs_end_watch(end, custody->relay.doorbell);
    let_senders_on(custody);
    watch(custody, DOORBELL, EPOLLIN);
    watch(custody, STREAM, EPOLLIN);
}

/* Both descriptors to one who connected back.  The answer decides: until then nothing here is changed. */
static int hand_over(struct entry *custody, int asker)
{
    int rights[2] = {custody->memory, custody->descriptor[DOORBELL]};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof rights)];
    } control;
    struct iovec hello = {custody->terms.hello, custody->terms.hello_length};
    struct msghdr message = {
        .msg_iov = &hello, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memset(&control, 0, sizeof control);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof rights);
    memcpy(CMSG_DATA(header), rights, sizeof rights);
    return sendmsg(asker, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)custody->terms.hello_length;
}

/* Somebody connects back: 1, and is told everything; 0 where nobody does. */
static int meet(struct entry *custody)
{
    for (;;) {
        pid_t process = 0;
        uid_t user = 0;
        int asker = fs_abstract_accept(custody->descriptor[LISTENER]);
        if (asker < 0) return 0;
        if (fs_abstract_peer(asker, &process, &user) == 0 && (custody->terms.any_user || fs_is_own_user(user)) &&
            hand_over(custody, asker)) {
            atomic_store(&custody->joined_by, process);
            atomic_store(&custody->shown.state, FS_CUSTODY_HANDED);
            custody->descriptor[ASKER] = asker;
            watch(custody, ASKER, EPOLLIN);
            unwatch(custody, STREAM); /* a reset by one who joined is not news before the answer */
            unwatch(custody, LISTENER);
            unwatch(custody, DOORBELL);
            return 1;
        }
        close(asker);
    }
}

static void hear_answer(struct entry *custody)
{
    char answer;
    ssize_t got = recv(custody->descriptor[ASKER], &answer, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got == 1) {
        if (custody->connecting != NULL) atomic_store(&custody->connecting->peer, (int)custody->joined_by);
        reset_on_close(custody->descriptor[STREAM]);
        hold_port(custody);
        decide(custody, FS_CUSTODY_JOINED);
        let_senders_on(custody);
        finish(custody, FS_CUSTODY_JOINED);
        return;
    }
    start_relay(custody); /* it declined */
}

static void close_unmet(struct entry *custody, int reset)
{
    if (reset) reset_on_close(custody->descriptor[STREAM]);
    finish(custody, FS_CUSTODY_ENDED);
}

static void make_room(struct entry *custody)
{
    struct fs_end *end;
    watch(custody, STREAM, EPOLLIN | EPOLLRDHUP);
    let_senders_on(custody);
    if (custody->connecting == NULL || !atomic_load(&custody->connecting->out.shared->stuffed)) return;
    end = accepting_end(custody);
    if (end != NULL) fs_doorbell_unstuff(end, custody->descriptor[DOORBELL]);
}

static void heed_pending(struct entry *custody, int kind, uint32_t events)
{
    if (meet(custody)) return;
    if (kind == DOORBELL && events & (EPOLLHUP | EPOLLERR)) { /* closed without a word, by its number */
        int reset = custody->connecting != NULL && atomic_load(&custody->connecting->header->reset[FS_SIDE_CONNECTED]);
        close_unmet(custody, reset);
    } else if (kind == STREAM && events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        start_relay(custody); /* whoever speaks on TCP, or leaves it, did not come by us */
    } else if (kind == STREAM && events & EPOLLOUT) {
        make_room(custody);
    }
}

/* Until when one who accepted may connect back.  Nothing waits for it unless data piles up: then one whose listener has
 * the sign may take its time. */
static uint64_t waits_until(const struct entry *custody, const struct fs_acceptance *found)
{
    const uint64_t patience = custody->terms.patience_ns;
    if (found->state != FS_ACCEPTED) return custody->accepted_at + patience;
    if (!atomic_load(&custody->stuck))
        return found->is_signed ? UINT64_MAX : custody->accepted_at + patience * SILENT_PATIENCE;
    return custody->accepted_at + patience * (found->is_signed ? SIGNED_PATIENCE : 1);
}

/* Bytes that TCP passed on before and that lie there no more.  One who will connect back reads nothing before. */
static int has_read(const struct entry *custody, int unacknowledged, const struct fs_acceptance *found)
{
    return found->state == FS_ACCEPTED && custody->passed > (uint64_t)unacknowledged + found->unread;
}

static void look_again_after(struct entry *custody, uint64_t now)
{
    custody->look_after = custody->look_after * 2 < RAREST_LOOK_NS ? custody->look_after * 2 : RAREST_LOOK_NS;
    if (atomic_load(&custody->stuck)) custody->look_after = FIRST_LOOK_NS;
    custody->next_look = now + custody->look_after;
}

static void look(struct entry *custody, int netlink, uint64_t now)
{
    const struct fs_custody_terms *terms = &custody->terms;
    const struct sockaddr *connecting = (const struct sockaddr *)&terms->connecting;
    int unacknowledged = 0; /* asked for first: what is acknowledged later can only be more */
    if (ioctl(custody->descriptor[STREAM], SIOCOUTQ, &unacknowledged) != 0) unacknowledged = INT_MAX;
    struct fs_acceptance found = fs_accepted_ask(netlink, connecting, (const struct sockaddr *)&terms->listening);
    look_again_after(custody, now);
    if (found.state == FS_ACCEPTED_NOT_YET) return;
    if (custody->accepted_at == 0) custody->accepted_at = now;
    atomic_store(&custody->accepted, found.state == FS_ACCEPTED);
    uint64_t until = waits_until(custody, &found);
    if (until < custody->next_look) custody->next_look = until;
    if ((now >= until || has_read(custody, unacknowledged, &found)) && !meet(custody)) start_relay(custody);
}

static void look_at_all(void)
{
    uint64_t drop_count, now = fs_now_ns(), next = UINT64_MAX;
    ssize_t ignored = read(keeper.timer, &drop_count, sizeof drop_count);
    int netlink = -1, looks = 0;
    (void)ignored;
    /* entries leave the list only after they ended, and are freed by this thread alone */
    pthread_mutex_lock(&keeper.lock);
    keeper.timer_at = 0;
    struct entry *custody = keeper.first;
    pthread_mutex_unlock(&keeper.lock);
    while (custody != NULL) {
        pthread_mutex_lock(&custody->lock);
        if (atomic_load(&custody->shown.state) == FS_CUSTODY_PENDING && custody->next_look <= now &&
            looks < MOST_LOOKS) {
            if (looks++ == 0) netlink = fs_accepted_open();
            look(custody, netlink, now);
        }
        if (atomic_load(&custody->shown.state) == FS_CUSTODY_PENDING && custody->next_look < next)
            next = custody->next_look;
        pthread_mutex_unlock(&custody->lock);
        pthread_mutex_lock(&keeper.lock);
        custody = custody->next;
        pthread_mutex_unlock(&keeper.lock);
    }
    if (netlink >= 0) close(netlink);
    if (next == UINT64_MAX) return;
    now = fs_now_ns();
    pthread_mutex_lock(&keeper.lock);
    set_timer(next > now + BETWEEN_LOOKS_NS ? next : now + BETWEEN_LOOKS_NS);
    pthread_mutex_unlock(&keeper.lock);
}

static void heed(struct entry *custody, int kind, uint32_t events, char *buffer)
{
    pthread_mutex_lock(&custody->lock);
    if (custody->registered[kind]) { /* else it ended, or was taken back, after the event */
        switch (atomic_load(&custody->shown.state)) {
        case FS_CUSTODY_PENDING: heed_pending(custody, kind, events); break;
        case FS_CUSTODY_HANDED: hear_answer(custody); break;
        case FS_CUSTODY_RELAYED: relay_turn(custody, buffer); break;
        }
    }
    pthread_mutex_unlock(&custody->lock);
}

static void bury(void)
{
    pthread_mutex_lock(&keeper.lock);
    struct entry *ended = keeper.ended;
    keeper.ended = NULL;
    pthread_mutex_unlock(&keeper.lock);
    while (ended != NULL) {
        struct entry *next = ended->ended_next;
        release(ended);
        ended = next;
    }
}

static void forget_thread(void)
{
    if (keeper.events >= 0) close(keeper.events);
    if (keeper.timer >= 0) close(keeper.timer);
    keeper.events = keeper.timer = -1;
    keeper.timer_at = 0;
    keeper.runs = 0;
}

/* Whether the thread is to end, and may.  One whose numbers a program closed may still run: it is not meant. */
static int ends(void)
{
    int over = 0;
    pthread_mutex_lock(&keeper.lock);
    if (keeper.asked_to_end && pthread_equal(pthread_self(), keeper.thread)) {
        over = keeper.count == 0;
        if (over) forget_thread();
        keeper.ended_number = over ? (pid_t)syscall(SYS_gettid) : 0;
        keeper.asked_to_end = 0;
        pthread_cond_broadcast(&keeper.answered);
    }
    pthread_mutex_unlock(&keeper.lock);
    return over;
}

/* Somebody closed every number: nobody will join this thread. */
static void end_without_numbers(void)
{
    pthread_mutex_lock(&keeper.lock);
    if (keeper.runs && pthread_equal(pthread_self(), keeper.thread)) {
        pthread_detach(keeper.thread);
        keeper.runs = 0;
    }
    pthread_mutex_unlock(&keeper.lock);
}

static void *serve(void *argument)
{
    struct epoll_event events[EVENTS];
    char *buffer = argument;
    pthread_mutex_lock(&keeper.lock);
    int descriptor = keeper.events;
    pthread_mutex_unlock(&keeper.lock);
    for (;;) {
        int count = epoll_wait(descriptor, events, EVENTS, -1);
        if (count < 0 && errno != EINTR) {
            end_without_numbers();
            break;
        }
        for (int i = 0; i < count; i++) {
            uint64_t word = events[i].data.u64;
            if (word == 0) look_at_all();
            else heed((struct entry *)(uintptr_t)(word & ~(uint64_t)63), (int)(word & 63), events[i].events, buffer);
        }
        bury();
        if (ends()) break;
    }
    free(buffer);
    return NULL;
}

/* ---- the process's part ---- */

static void before_fork(void) { pthread_mutex_lock(&keeper.lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&keeper.lock); }

/* The thread is the parent's, and so is all that it holds. */
static void after_fork_in_child(void)
{
    for (struct entry *custody = keeper.first; custody != NULL; custody = custody->next) {
        for (int kind = 0; kind < KINDS; kind++) {
            if (custody->descriptor[kind] >= 0) close(custody->descriptor[kind]);
            custody->descriptor[kind] = -1;
            custody->registered[kind] = 0;
        }
        drop_memory(custody);
        if (custody->relay.end != NULL) fs_end_is_last(custody->relay.end); /* it was counted for us */
        if (atomic_load(&custody->shown.state) <= FS_CUSTODY_HANDED)
            atomic_store(&custody->shown.state, FS_CUSTODY_ENDED);
        atomic_store(&custody->shown.full, 0);
        pthread_mutex_init(&custody->lock, NULL);
    }
    forget_thread();
    keeper.first = keeper.ended = NULL;
    keeper.count = keeper.asked_to_end = 0;
    pthread_mutex_init(&keeper.lock, NULL);
    pthread_mutex_init(&keeper.asking, NULL);
    pthread_cond_init(&keeper.answered, NULL);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

/* With the keeper's lock. */
static int start_thread(void)
{
    struct epoll_event due = {EPOLLIN, {.u64 = 0}};
    char *buffer = malloc(BUFFER);
    int error = buffer == NULL ? -ENOMEM : 0;
    keeper.timer_at = 0;
    if (keeper.runs) pthread_detach(keeper.thread); /* its numbers were closed */
    keeper.runs = 0;
    keeper.events = epoll_create1(EPOLL_CLOEXEC);
    keeper.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (error == 0 &&
        (keeper.events < 0 || keeper.timer < 0 || epoll_ctl(keeper.events, EPOLL_CTL_ADD, keeper.timer, &due) != 0))
        error = -errno;
    if (error == 0) error = fs_start_thread(&keeper.thread, serve, buffer);
    if (error == 0) {
        keeper.runs = 1;
        return 0;
    }
    forget_thread();
    free(buffer);
    return error;
}

/* A new number is the lowest that is free: so many are open at least. */
static rlim_t open_ones(const struct entry *custody)
{
    int newest = custody->memory;
    for (int kind = 0; kind < KINDS; kind++)
        if (custody->descriptor[kind] > newest) newest = custody->descriptor[kind];
    return (rlim_t)newest + 1;
}

/* What is in custody must not use up what the program may open: it leaves a part of what the program has not opened. */
static int has_room(const struct entry *custody)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    const rlim_t kept = (rlim_t)(keeper.count + 1) * DESCRIPTORS, open = open_ones(custody);
    return kept * SHARE + (open > kept ? open - kept : 0) <= limit.rlim_cur;
}

/* A program that closes every number may have given these two to others: in nobody else's set is that timer. */
static int has_thread(void)
{
    struct epoll_event due = {EPOLLIN, {.u64 = 0}};
    return keeper.events >= 0 && epoll_ctl(keeper.events, EPOLL_CTL_MOD, keeper.timer, &due) == 0;
}

static int enter(struct entry *custody)
{
    pthread_mutex_lock(&keeper.lock);
    int error = has_room(custody) ? 0 : -EMFILE;
    if (error == 0 && !has_thread()) error = start_thread();
    if (error == 0) {
        custody->next = keeper.first;
        if (keeper.first != NULL) keeper.first->before = custody;
        keeper.first = custody;
        keeper.count++;
        set_timer(custody->next_look);
    }
    pthread_mutex_unlock(&keeper.lock);
    return error;
}

int fs_custody_take_back(struct fs_custody *shown)
{
    struct entry *custody = entry_of(shown);
    int stream = -EBUSY;
    pthread_mutex_lock(&custody->lock);
    if (atomic_load(&custody->shown.state) == FS_CUSTODY_PENDING && !meet(custody)) {
        stream = detach(custody, STREAM);
        finish(custody, FS_CUSTODY_ENDED);
    }
    pthread_mutex_unlock(&custody->lock);
    return stream;
}

int fs_custody_take_port(struct fs_custody *shown)
{
    struct entry *custody = entry_of(shown);
    pthread_mutex_lock(&custody->lock);
    int held = take_port(custody);
    pthread_mutex_unlock(&custody->lock);
    return held;
}

void fs_custody_relay(struct fs_custody *shown)
{
    struct entry *custody = entry_of(shown);
    pthread_mutex_lock(&custody->lock);
    if (atomic_load(&custody->shown.state) == FS_CUSTODY_PENDING && !meet(custody)) start_relay(custody);
    pthread_mutex_unlock(&custody->lock);
}

int fs_custody_fork(struct fs_custody *shown)
{
    struct entry *custody = entry_of(shown);
    int error = -EBUSY;
    fs_custody_relay(shown);
    pthread_mutex_lock(&custody->lock);
    struct fs_relay *relay = &custody->relay;
    char *buffer = malloc(BUFFER);
    if (buffer != NULL && atomic_load(&custody->shown.state) == FS_CUSTODY_RELAYED && relay->end != NULL)
        relay_turn(custody, buffer); /* what TCP has already is taken out of the ring */
    free(buffer);
    if (atomic_load(&custody->shown.state) == FS_CUSTODY_RELAYED && relay->end != NULL && relay->skip == 0) {
        int doorbell = detach(custody, DOORBELL), stream = detach(custody, STREAM);
        struct fs_end *end = relay->end;
        relay->end = NULL;
        fcntl(stream, F_SETFL, fcntl(stream, F_GETFL) & ~O_NONBLOCK);
        finish(custody, FS_CUSTODY_RELAYED);
        error = fs_bridge_fork(end, doorbell, stream);
        fs_end_free(end);
    }
    pthread_mutex_unlock(&custody->lock);
    return error;
}

int fs_custody_hear(struct fs_custody *shown)
{
    struct entry *custody = entry_of(shown);
    if (fs_custody_state(shown) == FS_CUSTODY_HANDED) {
        pthread_mutex_lock(&custody->lock);
        if (fs_custody_state(shown) == FS_CUSTODY_HANDED) hear_answer(custody);
        pthread_mutex_unlock(&custody->lock);
    }
    return fs_custody_state(shown);
}

int fs_custody_is_accepted(const struct fs_custody *shown) { return atomic_load(&entry_of(shown)->accepted); }

uint64_t fs_custody_lasted_ns(const struct fs_custody *shown)
{
    const struct entry *custody = entry_of(shown);
    uint64_t lasted = atomic_load(&custody->lasted);
    return lasted != 0 ? lasted : fs_now_ns() - custody->began;
}

pid_t fs_custody_joined_by(const struct fs_custody *shown)
{
    const struct entry *custody = entry_of(shown);
    return atomic_load(&custody->shown.state) == FS_CUSTODY_JOINED ? atomic_load(&custody->joined_by) : 0;
}

/* ---- what the connecting end calls ---- */

static ssize_t pass(struct fs_custody *shown, const struct fs_parts *parts, size_t most, int flags)
{
    struct entry *custody = entry_of(shown);
    ssize_t result = 0;
    pthread_mutex_lock(&custody->lock);
    if (fs_custody_is_pending(shown)) {
        result = fs_parts_send(custody->descriptor[STREAM], parts, most,
                               MSG_DONTWAIT | (flags & FS_NO_SIGNAL ? MSG_NOSIGNAL : 0));
        if (result > 0) custody->passed += (uint64_t)result;
        else result = -errno;
        if (result == -EAGAIN) atomic_store(&custody->shown.full, 1);
        else if (result < 0 && atomic_load(&custody->shown.state) == FS_CUSTODY_HANDED) {
            hear_answer(custody); /* who has joined resets TCP: the thread may not have come to that */
            result = 0;
        }
    }
    pthread_mutex_unlock(&custody->lock);
    return result;
}

static void await_room(struct fs_custody *shown, int ring_is_full)
{
    struct entry *custody = entry_of(shown);
    pthread_mutex_lock(&custody->lock);
    if (fs_custody_is_pending(shown)) {
        if (ring_is_full) { /* nothing but the decision makes room */
            if (!atomic_exchange(&custody->stuck, 1)) look_at(custody, fs_now_ns());
        } else if (custody->registered[STREAM]) {
            watch(custody, STREAM, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
        }
    }
    pthread_mutex_unlock(&custody->lock);
}

static void shut(struct fs_custody *shown, int how)
{
    struct entry *custody = entry_of(shown);
    pthread_mutex_lock(&custody->lock);
    if (fs_custody_is_pending(shown)) {
        if (how != SHUT_RD) shutdown(custody->descriptor[STREAM], SHUT_WR);
        custody->shut |= how == SHUT_RDWR ? 3 : 1 << how;
        if (custody->shut == 3) unwatch(custody, DOORBELL); /* which looks as if it were closed */
    }
    pthread_mutex_unlock(&custody->lock);
}

static void closed(struct fs_custody *shown, int reset)
{
    struct entry *custody = entry_of(shown);
    pthread_mutex_lock(&custody->lock);
    if (atomic_load(&custody->shown.state) == FS_CUSTODY_PENDING && custody->descriptor[STREAM] >= 0 && !meet(custody))
        close_unmet(custody, reset);
    let_port_go(custody);
    custody->connecting = NULL;
    pthread_mutex_unlock(&custody->lock);
}

static void let_go(struct fs_custody *shown)
{
    struct entry *custody = entry_of(shown);
    pthread_mutex_lock(&custody->lock);
    let_port_go(custody);
    custody->connecting = NULL;
    pthread_mutex_unlock(&custody->lock);
    release(custody);
}

static const struct fs_custody_calls calls = {
    .pass = pass,
    .await_room = await_room,
    .shutdown = shut,
    .closed = closed,
    .drop = let_go,
};

void fs_custody_rest(void)
{
    pid_t number = 0;
    pthread_mutex_lock(&keeper.asking);
    pthread_mutex_lock(&keeper.lock);
    pthread_t thread = keeper.thread;
    if (keeper.runs && keeper.count == 0 && has_thread()) {
        keeper.asked_to_end = 1;
        keeper.timer_at = 0;
        set_timer(fs_now_ns());
        while (keeper.asked_to_end) pthread_cond_wait(&keeper.answered, &keeper.lock);
        number = keeper.ended_number;
    }
    pthread_mutex_unlock(&keeper.lock);
    if (number != 0) fs_join_thread(thread, number);
    pthread_mutex_unlock(&keeper.asking);
}

int fs_custody_begin(struct fs_end *end, int doorbell, int memory, int stream, int listener,
                     const struct fs_custody_terms *terms)
{
    struct entry *custody = NULL;
    if (terms->hello_length > sizeof terms->hello) return -EINVAL;
    pthread_once(&fork_watch, watch_forks);
    if (posix_memalign((void **)&custody, _Alignof(struct entry), sizeof *custody) != 0) return -ENOMEM;
    memset(custody, 0, sizeof *custody);
    pthread_mutex_init(&custody->lock, NULL);
    custody->shown.calls = &calls;
    custody->holders = 2;
    custody->terms = *terms;
    custody->connecting = end;
    custody->memory = memory;
    custody->descriptor[STREAM] = stream;
    custody->descriptor[LISTENER] = listener;
    custody->descriptor[DOORBELL] = doorbell;
    custody->descriptor[ASKER] = custody->held = -1;
    custody->look_after = FIRST_LOOK_NS;
    custody->began = fs_now_ns();
    custody->next_look = custody->began + FIRST_LOOK_NS;
    pthread_mutex_lock(&custody->lock);
    int error = enter(custody);
    if (error == 0) {
        end->custody = &custody->shown;
        watch(custody, LISTENER, EPOLLIN);
        watch(custody, STREAM, EPOLLIN | EPOLLRDHUP);
        watch(custody, DOORBELL, 0);
    }
    pthread_mutex_unlock(&custody->lock);
    if (error != 0) {
        pthread_mutex_destroy(&custody->lock);
        free(custody);
    }
    return error;
}
