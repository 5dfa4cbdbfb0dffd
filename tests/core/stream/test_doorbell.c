/* What pollers that know nothing of fastsock see at the descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"

static int shows(int descriptor, short wanted)
{
    struct pollfd one = {descriptor, wanted, 0};
    CHECK(poll(&one, 1, 0) >= 0);
    return (one.revents & wanted) != 0;
}

/* One thread, random calls that do not block: after each the descriptors tell what a model knows. */
static void run_exactness(uint64_t salt, int steps)
{
    struct random random = random_from(salt);
    struct connection c = connection_both(4096, 0);
    uint64_t sent[2] = {0}, received[2] = {0}; /* by direction */
    int refused[2] = {0}, looked[2] = {1, 1};
    static unsigned char block[70000];
    for (int side = 0; side < 2; side++) fs_end_watch(c.end[side], c.bell[side]);
    uint64_t most = random_below(&random, 2) ? sizeof block : 300;
    for (int i = 0; i < steps; i++) {
        int side = (int)random_below(&random, 2), other = !side;
        size_t size = random_size(&random, most);
        if (random_below(&random, 2)) {
            stream_fill((uint64_t)side, sent[side], block, size);
            ssize_t done = fs_end_send(c.end[side], c.bell[side], block, size, FS_NO_SIGNAL);
            CHECK(done > 0 || done == -EAGAIN);
            refused[side] = done < (ssize_t)size;
            if (done > 0) sent[side] += (uint64_t)done, looked[side] = 0;
        } else {
            int peek = random_below(&random, 8) == 0;
            ssize_t done = fs_end_receive(c.end[side], c.bell[side], block, size, peek, (int)random_below(&random, 2));
            CHECK(done > 0 || done == -EAGAIN);
            CHECK((done == -EAGAIN) == (sent[other] == received[other]));
            if (done > 0) stream_check((uint64_t)other, received[other], block, (size_t)done);
            if (done > 0 && !peek) received[other] += (uint64_t)done, refused[other] = 0;
            looked[other] = !peek;
        }
        for (int d = 0; d < 2; d++) {
            uint64_t unread = sent[d] - received[d];
            CHECK_EQUAL(fs_end_unread(c.end[!d], c.bell[!d]), unread);
            if (unread > 0) CHECK(shows(c.bell[!d], POLLIN));
            else if (looked[d]) CHECK(!shows(c.bell[!d], POLLIN));
            if (refused[d]) CHECK(!shows(c.bell[d], POLLOUT));
            else if (unread <= fs_ring_capacity(&c.end[d]->out) / 2) CHECK(shows(c.bell[d], POLLOUT));
        }
    }
    connection_close(&c, 0);
    connection_close(&c, 1);
}

TEST(readiness_is_exact_under_random_schedules, 0)
{
    for (int i = 0; i < scaled(200); i++) run_exactness(30000 + (uint64_t)i, 400);
}

static int edge_at(int poller)
{
    struct epoll_event event;
    int count = epoll_wait(poller, &event, 1, 0);
    CHECK(count >= 0);
    return count == 1 && event.events & EPOLLIN;
}

TEST(each_arrival_gives_an_edge_while_few_are_unread, 0)
{
    struct connection c = connection_both(4096, 0);
    char got[16];
    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    fs_end_watch(c.end[1], c.bell[1]);
    CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, c.bell[1], &event) == 0);
    CHECK(!edge_at(poller));
    for (int round = 0; round < 100; round++) {
        int arrivals = 1 + round % 3;
        for (int i = 0; i < arrivals; i++) {
            CHECK_EQUAL(fs_end_send(c.end[0], c.bell[0], "abc", 3, FS_NO_SIGNAL), 3);
            CHECK(edge_at(poller));
            CHECK(!edge_at(poller));
        }
        for (int i = 0; i < arrivals; i++) CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, 3, 0, 0), 3);
        if (round % 2) CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, 3, 0, 1), -EAGAIN);
        CHECK(!edge_at(poller));
    }
    close(poller);
    connection_close(&c, 0);
    connection_close(&c, 1);
}

static int tokens_at(int descriptor)
{
    int there = -1;
    CHECK(ioctl(descriptor, FIONREAD, &there) == 0);
    return there;
}

static void send_one(struct connection *c) { CHECK_EQUAL(fs_end_send(c->end[0], c->bell[0], "a", 1, FS_NO_SIGNAL), 1); }

TEST(a_lazy_loop_gets_one_token_until_it_settles, 0)
{
    struct connection c = connection_both(4096, 0);
    struct fs_end *end = c.end[1];
    char got[16];
    fs_end_set_lazy(end, 1); /* of no meaning before somebody watches */
    fs_end_watch(end, c.bell[1]);
    fs_end_set_lazy(end, 1);
    CHECK(!fs_end_has_stale_token(end));
    send_one(&c);
    send_one(&c);
    CHECK_EQUAL(tokens_at(c.bell[1]), 1);
    CHECK(!fs_end_has_stale_token(end));
    CHECK_EQUAL(fs_end_receive(end, c.bell[1], got, sizeof got, 0, 0), 2);
    CHECK(fs_end_has_stale_token(end));
    send_one(&c);
    CHECK_EQUAL(tokens_at(c.bell[1]), 1);
    CHECK_EQUAL(fs_end_receive(end, c.bell[1], got, sizeof got, 0, 0), 1);
    CHECK_EQUAL(fs_end_settle(end, c.bell[1], 0), 0);
    CHECK(!fs_end_has_stale_token(end));
    CHECK_EQUAL(tokens_at(c.bell[1]), 0);
    send_one(&c);
    CHECK_EQUAL(tokens_at(c.bell[1]), 1);
    fs_end_set_lazy(end, 0);
    send_one(&c); /* others may watch from now on: an edge for each */
    CHECK_EQUAL(tokens_at(c.bell[1]), 2);
    CHECK_EQUAL(fs_end_receive(end, c.bell[1], got, sizeof got, 0, 0), 2);
    connection_close(&c, 0);
    CHECK(!fs_end_has_stale_token(end));
    connection_close(&c, 1);
}

/* ---- two watchers that only trust their descriptor ---- */

enum way { BY_POLL, BY_LEVEL, BY_EDGE, WAYS };

struct watcher {
    struct connection *c;
    int side;
    enum way way;
    uint64_t total, salt;
    int lazy;
};

static int await(const struct watcher *w, int poller, int descriptor, int want_write)
{
    struct fs_end *end = w->c->end[w->side];
    short wanted = (short)(POLLIN | (want_write ? POLLOUT : 0));
    int count, seen = 0;
    if (w->lazy && fs_end_settle(end, descriptor, 0)) return POLLIN;
    if (w->way == BY_POLL) {
        struct pollfd one = {descriptor, wanted, 0};
        count = poll(&one, 1, (int)(STALL_NS / 1000000));
        seen = one.revents;
    } else {
        struct epoll_event event = {.events = EPOLLIN | (want_write ? EPOLLOUT : 0)};
        if (w->way == BY_LEVEL) CHECK(epoll_ctl(poller, EPOLL_CTL_MOD, descriptor, &event) == 0);
        count = epoll_wait(poller, &event, 1, (int)(STALL_NS / 1000000));
        seen = (event.events & EPOLLIN ? POLLIN : 0) | (event.events & EPOLLOUT ? POLLOUT : 0);
    }
    if (count == 0)
        fail(__FILE__, __LINE__,
             "side %d, way %d: no event; unread %zd, room %zd, in bell %llx eaten %llu, out bell %llx eaten %llu "
             "stuffed %u",
             w->side, (int)w->way, fs_ring_unread(&end->in), fs_ring_room(&end->out),
             (unsigned long long)end->in.shared->bell, (unsigned long long)end->in.shared->eaten,
             (unsigned long long)end->out.shared->bell, (unsigned long long)end->out.shared->eaten,
             end->out.shared->stuffed);
    return seen;
}

static void *watch_and_transfer(void *argument)
{
    struct watcher *w = argument;
    struct fs_end *end = w->c->end[w->side];
    int bell = w->c->bell[w->side], poller = epoll_create1(EPOLL_CLOEXEC);
    struct random random = random_from(w->salt);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | (w->way == BY_EDGE ? EPOLLET : 0)};
    static _Thread_local unsigned char block[40000];
    uint64_t sent = 0, received = 0;
    fs_end_watch(end, bell);
    if (w->lazy) fs_end_set_lazy(end, 1);
    CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, bell, &event) == 0);
    while (sent < w->total || received < w->total) {
        int seen = await(w, poller, bell, sent < w->total);
        int all = w->way == BY_EDGE || random_below(&random, 4) == 0; /* an edge asks for everything */
        for (int more = seen & POLLIN; more && received < w->total;) {
            size_t size = random_size(&random, sizeof block);
            ssize_t got = fs_end_receive(end, bell, block, size, 0, 1);
            CHECK(got > 0 || got == -EAGAIN);
            if (got > 0) {
                stream_check((uint64_t)!w->side, received, block, (size_t)got);
                received += (uint64_t)got;
            }
            more = all && got > 0;
        }
        for (int more = seen & POLLOUT; more && sent < w->total;) {
            size_t size = random_size(&random, sizeof block);
            if (size > w->total - sent) size = (size_t)(w->total - sent);
            stream_fill((uint64_t)w->side, sent, block, size);
            ssize_t done = fs_end_send(end, bell, block, size, FS_NO_SIGNAL);
            CHECK(done > 0 || done == -EAGAIN);
            if (done > 0) sent += (uint64_t)done;
            more = all && done > 0;
        }
        if (random_below(&random, 50) == 0) sched_yield();
        if (random_below(&random, 400) == 0) exact_sleep_us(random_below(&random, 200));
    }
    close(poller);
    return NULL;
}

static void run_watchers(enum way first, enum way second, int lazy, int processes, uint64_t total, uint64_t salt)
{
    struct connection c = processes ? connection_make(4096) : connection_both(4096, 0);
    struct watcher watchers[2] = {{&c, 0, first, total, salt, lazy}, {&c, 1, second, total, salt + 1, lazy}};
    if (processes) {
        pid_t other = start_process();
        int side = other == 0;
        connection_forget(&c, !side);
        connection_open(&c, side, 0);
        watch_and_transfer(&watchers[side]);
        if (other == 0) exit(0);
        join_process(other);
        connection_close(&c, 0);
        return;
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) threads[i] = start_thread(watch_and_transfer, &watchers[i]);
    for (int i = 0; i < 2; i++) join_thread(threads[i]);
    for (int i = 0; i < 2; i++) connection_close(&c, i);
}

#define MATRIX(processes, salt, lazy)                                                                 \
    for (int round = 0; round < scaled(8); round++)                                                   \
        for (int ways = 0; ways < WAYS * WAYS; ways++)                                                \
            run_watchers((enum way)(ways / WAYS), (enum way)(ways % WAYS), lazy, processes, 3u << 20, \
                         (salt) + (uint64_t)(round * 100 + ways * 2));

TEST(watchers_in_two_threads_lose_no_wake,
     0){MATRIX(0, 40000, 0)} TEST(watchers_in_two_processes_lose_no_wake,
                                  NEEDS_PROCESSES){MATRIX(1, 50000, 0)} TEST(lazy_watchers_lose_no_wake, 0)
{
    for (int round = 0; round < scaled(20); round++)
        run_watchers(BY_POLL, BY_LEVEL, 1, 0, 3u << 20, 60000 + 2 * (uint64_t)round);
}

/* A watcher on one side, a blocking caller on the other. */
struct blocking_side {
    struct connection *c;
    uint64_t total, salt;
};

static void *block_and_transfer(void *argument)
{
    struct blocking_side *b = argument;
    struct flow out = {b->c->end[1], b->c->bell[1], 1, b->total, b->salt, 20000};
    struct flow in = {b->c->end[1], b->c->bell[1], 0, b->total, b->salt + 1, 20000};
    pthread_t sender = start_thread(flow_send, &out);
    flow_receive(&in);
    join_thread(sender);
    return NULL;
}

TEST(watcher_against_blocking_caller, 0)
{
    for (int i = 0; i < scaled(30); i++) {
        struct connection c = connection_both(4096, i % 2 ? 30 : 0);
        struct watcher watcher = {&c, 0, (enum way)(i % WAYS), 4u << 20, 70000 + (uint64_t)i, 0};
        struct blocking_side blocking = {&c, watcher.total, 71000 + (uint64_t)i};
        pthread_t first = start_thread(watch_and_transfer, &watcher),
                  second = start_thread(block_and_transfer, &blocking);
        join_thread(first);
        join_thread(second);
        for (int side = 0; side < 2; side++) connection_close(&c, side);
    }
}
