#define _GNU_SOURCE
#include "detour.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "orphan.h"
#include "stream/end.h"
#include "system.h"
#include "table.h"

#define MOST_ROOM (64u << 20)
#define LEAST_ROOM (4u << 20)
#define BUFFER (256u * 1024)
#define MOST_DROPPED (4u << 20) /* what TCP takes of a sender who is not told yet that nobody reads */
#define NAP_NS 100000
#define REFUSAL_PATIENCE_NS 250000000ull /* as long as TCP puts off to acknowledge */
#define LIFE_SIGN_S 60 /* whoever has the other end of the pair may have closed it without a word to us */

struct begin {
    uint64_t length;
    uint32_t reset;
};

/* ---- the process that copies ---- */

struct flow {
    int from, to;
    unsigned char *bytes;
    size_t have, done;
    int ended;    /* nothing more comes from there */
    int reported; /* and the other side knows */
};

struct pump {
    struct flow in, out; /* from the connection, and to it */
    int reset;           /* what ended the connection was no orderly end */
    int lost;            /* the connection took no more: what the program sends goes to nobody */
    int silent;          /* and it sends no more */
    size_t dropped;
};

static void reset_at_close(int descriptor)
{
    const struct linger now = {1, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static int is_pending(const struct flow *flow) { return flow->done < flow->have; }
static int is_over(const struct flow *flow) { return flow->ended && !is_pending(flow); }

/* What can be done now.  0, or -errno of the side that failed: `failed`. */
static int move(struct flow *flow, unsigned char *buffer, int *failed)
{
    while (!is_over(flow)) {
        *failed = flow->to;
        if (is_pending(flow)) {
            ssize_t sent =
                send(flow->to, flow->bytes + flow->done, flow->have - flow->done, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0) return errno == EAGAIN || errno == EINTR ? 0 : -errno;
            flow->done += (size_t)sent;
            continue;
        }
        *failed = flow->from;
        ssize_t got = recv(flow->from, buffer, BUFFER, MSG_DONTWAIT);
        if (got < 0) return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        flow->bytes = buffer;
        flow->have = (size_t)got;
        flow->done = 0;
        flow->ended = got == 0;
    }
    return 0;
}

/* The program sends no more: has it closed the number, with bytes before it that it has not read?  Those on their way to it
 * tell: they are acknowledged, or refused.  One that reads on, and is full, is waited for a moment. */
static int was_refused(int pair)
{
    const struct timespec nap = {0, NAP_NS};
    for (uint64_t deadline = fs_now_ns() + REFUSAL_PATIENCE_NS;; nanosleep(&nap, NULL)) {
        struct pollfd one = {pair, 0, 0};
        int left = 0;
        if (poll(&one, 1, 0) > 0 && (one.revents & POLLERR) != 0) return 1;
        if (ioctl(pair, SIOCOUTQ, &left) != 0 || left == 0 || fs_now_ns() >= deadline) return 0;
    }
}

static void pass_end_on(struct flow *flow, int reset)
{
    if (!is_over(flow) || flow->reported) return;
    flow->reported = 1;
    if (!reset) shutdown(flow->to, SHUT_WR);
}

/* As TCP: what came before a reset is still read. */
static void lose_connection(struct pump *pump)
{
    pump->reset = 1;
    pump->lost = 1;
    pump->out.ended = 1;
    pump->out.done = pump->out.have;
}

/* A sender must not wait for nobody, nor be told of nothing.  0: it is told now, though what came may be unread. */
static int drop(struct pump *pump, unsigned char *buffer)
{
    while (pump->lost && !pump->silent) {
        ssize_t got = recv(pump->out.from, buffer, BUFFER, MSG_DONTWAIT);
        if (got < 0) return errno == EAGAIN || errno == EINTR;
        pump->silent = got == 0;
        pump->dropped += (size_t)got;
        if (pump->dropped > MOST_DROPPED) return 0;
    }
    return 1;
}

static short wanted(const struct flow *reads, const struct flow *writes)
{
    return (short)((!reads->ended && !is_pending(reads) ? POLLIN : 0) | (is_pending(writes) ? POLLOUT : 0));
}

/* 0: the pair's other end is gone, and not in good order. */
static int copy(struct pump *pump)
{
    static unsigned char inwards[BUFFER], outwards[BUFFER];
    const int connection = pump->in.from, pair = pump->in.to;
    for (;;) {
        int failed, error = move(&pump->in, inwards, &failed);
        if (error != 0 && failed == pair) return 0;
        if (error != 0) {
            pump->in.ended = 1;
            lose_connection(pump);
        }
        const int ended = pump->out.ended;
        error = move(&pump->out, outwards, &failed);
        if (error != 0 && failed == pair) return 0;
        if (error != 0) lose_connection(pump);
        else if (!ended && pump->out.ended && was_refused(pair)) return 0;
        pass_end_on(&pump->in, pump->reset);
        pass_end_on(&pump->out, pump->reset);
        if (is_over(&pump->in) && is_over(&pump->out)) return 1;
        if (!drop(pump, outwards)) return 1;
        struct pollfd list[2] = {{connection, wanted(&pump->in, &pump->out), 0},
                                 {pair, wanted(&pump->out, &pump->in), 0}};
        if (pump->lost && !pump->silent) list[1].events |= POLLIN;
        /* an error shows itself always: where nobody would look into it, it would be told again and again */
        if (list[0].events == 0) list[0].fd = -1;
        if (list[1].events == 0 && !pump->out.ended) list[1].fd = -1;
        if (poll(list, 2, -1) > 0 && list[1].events == 0 && list[1].revents != 0) return 0;
    }
}

static void carry(int connection, int pair, unsigned char *first, size_t length, int reset)
{
    struct pump pump = {.in = {connection, pair, first, length, 0, reset, 0},
                        .out = {pair, connection, NULL, 0, 0, reset, 0},
                        .reset = reset,
                        .lost = reset};
    int orderly = copy(&pump);
    if (!orderly) reset_at_close(connection);
    if (pump.reset) reset_at_close(pair);
}

/* A child that uses no connection was counted at each. */
static void let_go_of_all(int is_alone)
{
    (void)is_alone;
    fs_table_abandon();
    fs_ends_leave(NULL);
}

struct pumped {
    struct fs_detour *detour;
    int connection, pair, starting;
};

static _Noreturn void be_pump(void *given, int answers)
{
    const struct pumped *own = given;
    sigset_t all;
    struct begin begin;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    let_go_of_all(0);
    setsid();
    fs_close_all_but((const int[]){own->connection, own->pair, own->starting, answers}, 4);
    fs_orphan_answer(answers, 0);
    ssize_t got;
    do got = read(own->starting, &begin, sizeof begin);
    while (got < 0 && errno == EINTR);
    close(own->starting);
    if (got == (ssize_t)sizeof begin)
        carry(own->connection, own->pair, own->detour->bytes, begin.length, (int)begin.reset);
    _exit(0);
}

/* ---- who needs it ---- */

static int loopback(sa_family_t family, struct sockaddr_storage *address, socklen_t *size)
{
    *address = (struct sockaddr_storage){.ss_family = family};
    if (family == AF_INET) {
        ((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *size = sizeof(struct sockaddr_in);
    } else if (family == AF_INET6) {
        ((struct sockaddr_in6 *)address)->sin6_addr = in6addr_loopback;
        *size = sizeof(struct sockaddr_in6);
    } else {
        return -EAFNOSUPPORT;
    }
    return 0;
}

static int is_same_address(const struct sockaddr_storage *left, const struct sockaddr_storage *right)
{
    if (left->ss_family != right->ss_family) return 0;
    if (left->ss_family == AF_INET)
        return ((const struct sockaddr_in *)left)->sin_port == ((const struct sockaddr_in *)right)->sin_port;
    return ((const struct sockaddr_in6 *)left)->sin6_port == ((const struct sockaddr_in6 *)right)->sin6_port;
}

/* Who has connected to the listener: only what comes from our own port is ours. */
static int accept_own(int listener, int outer)
{
    struct sockaddr_storage own, came;
    socklen_t size = sizeof own;
    if (getsockname(outer, (struct sockaddr *)&own, &size) != 0) return -errno;
    for (;;) {
        size = sizeof came;
        int inner = accept4(listener, (struct sockaddr *)&came, &size, SOCK_CLOEXEC);
        if (inner < 0 && errno == EINTR) continue;
        if (inner < 0) return -errno;
        if (is_same_address(&own, &came)) return inner;
        close(inner);
    }
}

static int connected(int listener, sa_family_t family, int *outer)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (listen(listener, 8) != 0 || getsockname(listener, (struct sockaddr *)&address, &size) != 0) return -errno;
    *outer = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*outer < 0) return -errno;
    int error = connect(*outer, (struct sockaddr *)&address, size) == 0 ? 0 : -errno;
    int inner = error == 0 ? accept_own(listener, *outer) : error;
    if (inner < 0) close(*outer);
    return inner;
}

/* What the program set, as far as it holds for the file. */
static void take_after(int outer, int descriptor)
{
    static const int options[][2] = {{IPPROTO_TCP, TCP_NODELAY}, {SOL_SOCKET, SO_KEEPALIVE}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        int value = 0;
        socklen_t size = sizeof value;
        if (getsockopt(descriptor, options[i][0], options[i][1], &value, &size) == 0)
            setsockopt(outer, options[i][0], options[i][1], &value, sizeof value);
    }
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0) fcntl(outer, F_SETFL, flags);
}

/* Two ends of one connection: the inner one, or -errno. */
static int make_pair(int descriptor, int *outer)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (getsockname(descriptor, (struct sockaddr *)&address, &size) != 0) return -errno;
    sa_family_t family = address.ss_family;
    int error = loopback(family, &address, &size);
    if (error != 0) return error;
    int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), inner = -1;
    if (listener < 0) return -errno;
    if (bind(listener, (struct sockaddr *)&address, size) != 0) inner = -errno;
    else inner = connected(listener, family, outer);
    close(listener);
    if (inner < 0) return inner;
    const int yes = 1, rest = LIFE_SIGN_S;
    setsockopt(inner, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(inner, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(inner, IPPROTO_TCP, TCP_KEEPIDLE, &rest, sizeof rest);
    take_after(*outer, descriptor);
    return inner;
}

static int map_room(struct fs_detour *detour)
{
    for (detour->room = MOST_ROOM; detour->room >= LEAST_ROOM; detour->room /= 4) {
        if (!fs_may_map(detour->room)) continue;
        void *memory =
            mmap(NULL, detour->room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        detour->bytes = memory;
        if (memory != MAP_FAILED) return 0;
    }
    detour->bytes = NULL;
    return -ENOMEM;
}

int fs_detour_prepare(struct fs_detour *detour, int descriptor)
{
    *detour = (struct fs_detour){.outer = -1, .start = -1};
    int start[2], error = map_room(detour);
    int inner = error == 0 ? make_pair(descriptor, &detour->outer) : error;
    if (inner < 0) detour->outer = -1;
    error = inner < 0 ? inner : pipe2(start, O_CLOEXEC) != 0 ? -errno : 0;
    if (error == 0) {
        detour->start = start[1];
        error = fs_orphan_start(be_pump, &(struct pumped){detour, descriptor, inner, start[0]}, let_go_of_all);
        close(start[0]);
    }
    if (inner >= 0) close(inner);
    if (error != 0) fs_detour_close(detour);
    return error;
}

int fs_detour_begin(struct fs_detour *detour, size_t length, int reset)
{
    struct begin begin = {length, (uint32_t)reset};
    sigset_t pipes, before;
    struct timespec at_once = {0, 0};
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipes, &before);
    int begun = write(detour->start, &begin, sizeof begin) == (ssize_t)sizeof begin;
    if (!begun) sigtimedwait(&pipes, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return begun ? 0 : -EPIPE;
}

void fs_detour_close(struct fs_detour *detour)
{
    if (detour->outer >= 0) close(detour->outer);
    if (detour->start >= 0) close(detour->start);
    if (detour->bytes != NULL) munmap(detour->bytes, detour->room);
    *detour = (struct fs_detour){.outer = -1, .start = -1};
}
