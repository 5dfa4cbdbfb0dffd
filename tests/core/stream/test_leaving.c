/* The ways out: release to the raw descriptor, bridge, half-close, close, reset. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"

static const _Atomic int never_leaving;

/* A user of one end that sends and receives without blocking and at some moment takes the descriptor itself. */
struct leaver {
    struct fs_end *end;
    int bell, side;
    uint64_t total, salt;
    enum { STAYS, RELEASES, BRIDGES } how;
    uint64_t leave_after; /* bytes moved both ways */
};

struct progress {
    uint64_t sent, received;
    struct random random;
    unsigned char block[30000];
};

static int move_ring(struct leaver *l, struct progress *p)
{
    int moved = 0;
    size_t size = random_size(&p->random, sizeof p->block);
    if (p->sent < l->total) {
        if (size > l->total - p->sent) size = (size_t)(l->total - p->sent);
        stream_fill((uint64_t)l->side, p->sent, p->block, size);
        ssize_t done = fs_end_send(l->end, l->bell, p->block, size, FS_PATIENT | FS_NO_SIGNAL);
        CHECK(done > 0 || done == -EAGAIN);
        if (done > 0) p->sent += (uint64_t)done, moved = 1;
    }
    if (p->received < l->total) {
        size = random_size(&p->random, sizeof p->block);
        ssize_t done = fs_end_receive(l->end, l->bell, p->block, size, 0, 1);
        CHECK(done > 0 || done == -EAGAIN);
        if (done > 0) {
            stream_check((uint64_t)!l->side, p->received, p->block, (size_t)done);
            p->received += (uint64_t)done, moved = 1;
        }
    }
    return moved;
}

static void rest_over_descriptor(struct leaver *l, struct progress *p, int descriptor)
{
    while (p->sent < l->total || p->received < l->total) {
        struct pollfd one = {descriptor, (short)(POLLIN | (p->sent < l->total ? POLLOUT : 0)), 0};
        if (poll(&one, 1, (int)(STALL_NS / 1000000)) == 0)
            fail(__FILE__, __LINE__, "side %d stalled on the raw descriptor: sent %llu received %llu of %llu", l->side,
                 (unsigned long long)p->sent, (unsigned long long)p->received, (unsigned long long)l->total);
        size_t size = random_size(&p->random, sizeof p->block);
        if (one.revents & POLLOUT && p->sent < l->total) {
            if (size > l->total - p->sent) size = (size_t)(l->total - p->sent);
            stream_fill((uint64_t)l->side, p->sent, p->block, size);
            ssize_t done = send(descriptor, p->block, size, MSG_DONTWAIT | MSG_NOSIGNAL);
            CHECK(done > 0 || errno == EAGAIN);
            if (done > 0) p->sent += (uint64_t)done;
        }
        if (one.revents & POLLIN && p->received < l->total) {
            size = random_size(&p->random, sizeof p->block);
            ssize_t done = recv(descriptor, p->block, size, MSG_DONTWAIT);
            CHECK(done > 0 || errno == EAGAIN);
            if (done > 0) {
                stream_check((uint64_t)!l->side, p->received, p->block, (size_t)done);
                p->received += (uint64_t)done;
            }
        }
    }
}

static void finish(int descriptor) /* half-close, then the other end's */
{
    char byte;
    CHECK(shutdown(descriptor, SHUT_WR) == 0);
    struct pollfd one = {descriptor, POLLIN, 0};
    CHECK(poll(&one, 1, (int)(STALL_NS / 1000000)) == 1);
    CHECK_EQUAL(recv(descriptor, &byte, 1, 0), 0);
    close(descriptor);
}

static void *leave_midway(void *argument)
{
    struct leaver *l = argument;
    struct progress *p = calloc(1, sizeof *p);
    CHECK(p != NULL);
    p->random = random_from(l->salt);
    if (random_below(&p->random, 2)) fs_end_watch(l->end, l->bell);
    uint64_t limit = fs_now_ns() + STALL_NS;
    int released = 0;
    while (p->sent < l->total || p->received < l->total) {
        if (!move_ring(l, p)) fs_end_wait(l->end, l->bell, FS_READABLE, fs_now_ns() + 200000, &never_leaving);
        CHECK(fs_now_ns() < limit);
        if (l->how == STAYS || p->sent + p->received < l->leave_after) continue;
        if (l->how == BRIDGES) break;
        int result = fs_end_release(l->end, l->bell);
        CHECK(result == 0 || result == -EAGAIN);
        released = result == 0;
        if (released) break;
    }
    if (l->how == BRIDGES) {
        int inner[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, inner) == 0);
        CHECK_EQUAL(fs_bridge_start(l->end, l->bell, inner[1]), 0);
        fs_end_free(l->end); /* the bridge holds it now */
        rest_over_descriptor(l, p, inner[0]);
        finish(inner[0]);
    } else {
        if (released) rest_over_descriptor(l, p, l->bell);
        else CHECK_EQUAL(fs_end_shutdown(l->end, l->bell, SHUT_WR), 0);
        if (released) CHECK(shutdown(l->bell, SHUT_WR) == 0);
        ssize_t got = receive_some(l->end, l->bell, p->block, 1);
        CHECK_EQUAL(got, 0);
        fs_end_closing(l->end, l->bell, 0);
        close(l->bell);
        fs_end_closed(l->end);
        fs_end_free(l->end);
    }
    free(p);
    return NULL;
}

static void run_leavers(int first, int second, uint64_t salt)
{
    struct random random = random_from(salt);
    uint64_t total = 200000 + random_below(&random, 400000);
    struct connection c = connection_both(4096, random_below(&random, 2) ? 20 : 0);
    struct leaver leavers[2];
    pthread_t threads[2];
    for (int side = 0; side < 2; side++) {
        leavers[side] = (struct leaver){c.end[side],
                                        c.bell[side],
                                        side,
                                        total,
                                        salt + (uint64_t)side,
                                        side ? second : first,
                                        random_below(&random, 2 * total)};
        threads[side] = start_thread(leave_midway, &leavers[side]);
    }
    for (int side = 0; side < 2; side++) join_thread(threads[side]);
    close(c.memory);
}

TEST(release_at_random_moments, 0)
{
    for (int i = 0; i < scaled(300); i++) run_leavers(RELEASES, STAYS, 80000 + 3 * (uint64_t)i);
}

TEST(release_by_both_ends_at_random_moments, 0)
{
    for (int i = 0; i < scaled(300); i++) run_leavers(RELEASES, RELEASES, 81000 + 3 * (uint64_t)i);
}

TEST(bridge_at_random_moments, 0)
{
    for (int i = 0; i < scaled(300); i++) run_leavers(BRIDGES, STAYS, 82000 + 3 * (uint64_t)i);
}

TEST(bridge_by_both_ends_at_random_moments, 0)
{
    for (int i = 0; i < scaled(200); i++) run_leavers(BRIDGES, BRIDGES, 83000 + 3 * (uint64_t)i);
}

TEST(bridge_against_release_at_random_moments, 0)
{
    for (int i = 0; i < scaled(200); i++) run_leavers(BRIDGES, RELEASES, 84000 + 3 * (uint64_t)i);
}

/* One end leaves while the other blocks: sender in one thread, receiver in another. */
struct blocking_flows {
    struct flow out, in;
};

static void *block_both_ways(void *argument)
{
    struct blocking_flows *b = argument;
    char byte;
    pthread_t sender = start_thread(flow_send, &b->out);
    flow_receive(&b->in);
    join_thread(sender);
    CHECK_EQUAL(fs_end_shutdown(b->out.end, b->out.bell, SHUT_WR), 0);
    CHECK_EQUAL(receive_some(b->out.end, b->out.bell, &byte, 1), 0);
    return NULL;
}

TEST(leaving_while_the_other_end_blocks, 0)
{
    for (int i = 0; i < scaled(300); i++) {
        struct random random = random_from(85000 + (uint64_t)i);
        struct connection c = connection_both(4096, i % 3 ? 20 : 0);
        uint64_t total = 200000 + random_below(&random, 200000);
        struct leaver leaver = {c.end[0],
                                c.bell[0],
                                0,
                                total,
                                85500 + (uint64_t)i,
                                i % 2 ? RELEASES : BRIDGES,
                                random_below(&random, 2 * total)};
        struct blocking_flows flows = {{c.end[1], c.bell[1], 1, total, 86000 + (uint64_t)i, 9000},
                                       {c.end[1], c.bell[1], 0, total, 86500 + (uint64_t)i, 9000}};
        pthread_t first = start_thread(leave_midway, &leaver), second = start_thread(block_both_ways, &flows);
        join_thread(first);
        join_thread(second);
        connection_close(&c, 1);
    }
}

/* ---- the same short story told to the core and to TCP ---- */

struct story_pair {
    int tcp[2];
    struct connection c;
};

static void tcp_pair(int *pair)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
          listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(pair[0], (struct sockaddr *)&address, sizeof address) == 0);
    pair[1] = accept(listener, NULL, NULL);
    CHECK(pair[1] >= 0);
    close(listener);
    for (int side = 0; side < 2; side++) CHECK(setsockopt(pair[side], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
}

static ssize_t or_errno(ssize_t result) { return result < 0 ? -errno : result; }

/* What TCP shows a moment later may come by soft interrupt: the answer is asked for until it settles. */
static ssize_t tcp_receive(int descriptor, char *block, size_t size)
{
    struct pollfd one = {descriptor, POLLIN, 0};
    poll(&one, 1, 2);
    return or_errno(recv(descriptor, block, size, MSG_DONTWAIT));
}

static void run_story(uint64_t salt)
{
    struct random random = random_from(salt);
    struct story_pair s = {.c = connection_both(4096, 0)};
    char ours[2000], theirs[2000], story[1000] = "";
    int open[2] = {1, 1};
    tcp_pair(s.tcp);
    int watched = (int)random_below(&random, 4);
    for (int side = 0; side < 2; side++)
        if (watched >> side & 1) fs_end_watch(s.c.end[side], s.c.bell[side]);
    for (int step = 0; step < 14; step++) {
        int side = (int)random_below(&random, 2);
        size_t size = 1 + random_below(&random, 100);
        if (!open[side]) continue;
        ssize_t expected = 0, result = 0;
        const char *what = "";
        switch (random_below(&random, 10)) {
        case 0:
        case 1:
        case 2:
        case 3:
            what = "send";
            memset(ours, step, size);
            expected = or_errno(send(s.tcp[side], ours, size, MSG_DONTWAIT | MSG_NOSIGNAL));
            result = fs_end_send(s.c.end[side], s.c.bell[side], ours, size, FS_NO_SIGNAL);
            break;
        case 4:
        case 5:
        case 6:
        case 7:
            what = "recv";
            expected = tcp_receive(s.tcp[side], theirs, size);
            result = fs_end_receive(s.c.end[side], s.c.bell[side], ours, size, 0, 1);
            break;
        case 8:
            what = "shutdown";
            expected = or_errno(shutdown(s.tcp[side], SHUT_WR));
            result = fs_end_shutdown(s.c.end[side], s.c.bell[side], SHUT_WR);
            break;
        default:
            what = "close";
            close(s.tcp[side]);
            fs_end_closing(s.c.end[side], s.c.bell[side], 0);
            close(s.c.bell[side]);
            fs_end_closed(s.c.end[side]);
            open[side] = 0;
        }
        /* which of the two a send gets depends on details of TCP's state that nobody relies on */
        if (strcmp(what, "send") == 0 && (expected == -EPIPE || expected == -ECONNRESET))
            if (result == -EPIPE || result == -ECONNRESET) expected = result;
        if (strcmp(what, "shutdown") == 0 && expected == -ENOTCONN) expected = result;
        size_t told = strlen(story);
        snprintf(story + told, sizeof story - told, " %d:%s(%zu)=%zd", side, what, size, expected);
        if (result != expected)
            fail(__FILE__, __LINE__, "TCP:%s, but here %zd (story %llu)", story, result, (unsigned long long)salt);
        if (strcmp(what, "recv") == 0 && result > 0) CHECK(memcmp(ours, theirs, (size_t)result) == 0);
    }
    for (int side = 0; side < 2; side++) {
        if (open[side]) {
            close(s.tcp[side]);
            fs_end_closing(s.c.end[side], s.c.bell[side], 0);
            close(s.c.bell[side]);
            fs_end_closed(s.c.end[side]);
        }
        fs_end_free(s.c.end[side]);
    }
    close(s.c.memory);
}

TEST(closing_stories_end_as_with_tcp, 0)
{
    for (int i = 0; i < scaled(1500); i++) run_story(90000 + (uint64_t)i);
}

TEST(first_send_after_close_succeeds_then_pipe_breaks, 0)
{
    struct connection c = connection_both(4096, 0);
    connection_close(&c, 0);
    CHECK(!fs_end_was_reset(c.end[1], c.bell[1]));
    CHECK_EQUAL(fs_end_send(c.end[1], c.bell[1], "a", 1, FS_NO_SIGNAL), 1);
    CHECK_EQUAL(fs_end_send(c.end[1], c.bell[1], "a", 1, FS_NO_SIGNAL), -EPIPE);
    connection_close(&c, 1);
}

TEST(reset_is_told_once, 0)
{
    struct connection c = connection_both(4096, 0);
    char got;
    fs_end_closing(c.end[0], c.bell[0], 1);
    connection_close(&c, 0);
    CHECK(fs_end_was_reset(c.end[1], c.bell[1]));
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], &got, 1, 0, 1), -ECONNRESET);
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], &got, 1, 0, 1), 0);
    CHECK_EQUAL(fs_end_send(c.end[1], c.bell[1], "a", 1, FS_NO_SIGNAL), -EPIPE);
    connection_close(&c, 1);
}

/* The other end closes while this one is blocked: at once, not at some time limit. */
struct closing {
    struct connection c;
    _Atomic int begun;
};

static void *close_soon(void *argument)
{
    struct closing *closing = argument;
    exact_sleep_us(3000);
    atomic_store(&closing->begun, 1);
    connection_close(&closing->c, 0);
    return NULL;
}

TEST(close_ends_a_blocked_receive_and_send, 0)
{
    static char block[100000];
    for (int i = 0; i < scaled(50); i++) {
        struct closing closing = {.c = connection_both(4096, 0)};
        struct connection *c = &closing.c;
        if (i & 2) fs_end_watch(c->end[1], c->bell[1]);
        pthread_t closer = start_thread(close_soon, &closing);
        if (i & 1) CHECK_EQUAL(receive_some(c->end[1], c->bell[1], block, 1), 0);
        else {
            ssize_t result = send_some(c->end[1], c->bell[1], block, sizeof block);
            int late = atomic_load(&closing.begun); /* then nothing may have been lost, and there is no reset */
            while (result >= 0) result = send_some(c->end[1], c->bell[1], block, sizeof block);
            if (!late || result != -EPIPE) CHECK_EQUAL(result, -ECONNRESET);
        }
        join_thread(closer);
        connection_close(c, 1);
    }
}

/* ---- a close of this very end by another thread, and deadlines ---- */

struct sleeper {
    struct fs_end *end;
    int bell, what, result;
    _Atomic int leaving, waits;
    uint64_t deadline;
};

static void *sleep_at_end(void *argument)
{
    struct sleeper *s = argument;
    do {
        atomic_fetch_add(&s->waits, 1);
        s->result = fs_end_wait(s->end, s->bell, s->what, s->deadline, &s->leaving);
    } while (s->result == 0);
    return NULL;
}

TEST(leaving_ends_every_wait, 0)
{
    static char block[100000];
    for (int i = 0; i < scaled(200); i++) {
        struct connection c = connection_both(4096, i % 4 == 0 ? 50 : 0);
        struct sleeper s = {
            .end = c.end[1], .bell = c.bell[1], .what = i % 2 ? FS_READABLE : FS_WRITABLE, .deadline = UINT64_MAX};
        if (s.what == FS_WRITABLE)
            while (fs_end_send(s.end, s.bell, block, sizeof block, FS_PATIENT) > 0) {}
        pthread_t thread = start_thread(sleep_at_end, &s);
        exact_sleep_us((uint64_t)(i % 5) * 700); /* in each stage of waiting */
        atomic_store(&s.leaving, 1);
        fs_end_wake(s.end);
        fs_wake_leaving();
        join_thread(thread);
        fs_wake_leaving_done();
        CHECK_EQUAL(s.result, -EBADF);
        connection_close(&c, 0);
        connection_close(&c, 1);
    }
}

TEST(deadlines_end_every_wait, 0)
{
    static char block[100000];
    struct connection c = connection_both(4096, 20);
    while (fs_end_send(c.end[1], c.bell[1], block, sizeof block, 0) > 0) {} /* impatient: the ring has grown */
    for (int i = 0; i < 40; i++) {
        struct sleeper s = {.end = c.end[1], .bell = c.bell[1], .what = i % 2 ? FS_READABLE : FS_WRITABLE};
        s.deadline = fs_now_ns() + (uint64_t)(i / 2) * 200000;
        sleep_at_end(&s);
        CHECK_EQUAL(s.result, -ETIMEDOUT);
        CHECK(fs_now_ns() >= s.deadline);
        CHECK(s.waits < 100); /* sleeps instead of spinning on */
    }
    connection_close(&c, 0);
    connection_close(&c, 1);
}
