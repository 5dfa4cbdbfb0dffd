/* A poller of edges, as an epoll object of a program has one: each arrival is told, however much the program leaves unread.
 * The reader goes on only when it is told: an arrival of which nobody tells stops the test. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.h"
#include "switch/edge.h"
#include "switch/polling.h"
#include "switch/seats.h"

#define TOTAL 50000 /* less than the ring takes: nobody waits for room */
#define LARGEST 700
#define PRESSING_MS 5
#define LIMIT_MS 20000
#define MOST 8

struct watcher {
    struct pair *pair;
    int epoll, number;
    struct fs_poller poller;
    int told; /* times */
};

static void close_both(struct pair *pair)
{
    pair_close(pair, 0);
    pair_close(pair, 1);
    pair_done(pair);
}

static void make_loop(struct watcher *watcher)
{
    int bell = fs_seats_make_loop(&watcher->poller.seats);
    struct epoll_event event = {EPOLLIN, {.fd = bell}};
    CHECK(bell > 0);
    CHECK_EQUAL(epoll_ctl(watcher->epoll, EPOLL_CTL_ADD, bell, &event), 0);
}

static void begin(struct watcher *watcher, struct pair *pair, int by_bits)
{
    *watcher = (struct watcher){.pair = pair, .epoll = epoll_create1(EPOLL_CLOEXEC), .number = pair->fd[0]};
    watcher->poller = FS_POLLER_NEW;
    struct epoll_event event = {EPOLLIN | EPOLLET, {.fd = watcher->number}};
    CHECK(watcher->epoll >= 0);
    if (by_bits) make_loop(watcher);
    CHECK_EQUAL(epoll_ctl(watcher->epoll, EPOLL_CTL_ADD, watcher->number, &event), 0);
    if (fs_seats_take(&watcher->poller.seats, watcher->number, FS_HEARS_EDGES) > 0)
        fs_carry_show(pair->end[0], watcher->number);
    CHECK(fs_seats_edge(&watcher->poller.seats, watcher->number) != NULL);
}

static void end(struct watcher *watcher)
{
    fs_seats_end(&watcher->poller.seats);
    close(watcher->epoll);
}

/* What the kernel tells and is so. */
static int ask(struct watcher *watcher, int limit_ms, struct fs_loop *asleep)
{
    struct epoll_event events[MOST];
    struct fs_seats *seats = &watcher->poller.seats;
    fs_seats_ask(seats, 1);
    int count = epoll_wait(watcher->epoll, events, MOST, limit_ms), rung = 0, told = 0;
    fs_seats_ask(seats, -1);
    for (int i = 0; i < count; i++) rung |= events[i].data.fd == seats->bell;
    fs_seats_awake(seats, asleep, rung);
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd != watcher->number) continue;
        told |= fs_poller_is_edge_stale(&watcher->poller, watcher->number) != 1;
        if (fs_seats_reported(seats, watcher->number)) {
            make_loop(watcher);
            fs_seats_reported(seats, watcher->number);
        }
    }
    return told;
}

static void await_edge(struct watcher *watcher)
{
    struct fs_poller *poller = &watcher->poller;
    int ready[FS_POLLED_MOST], told = 0;
    uint64_t began = fs_now_ns();
    for (poller->turn++; !told;) {
        struct fs_loop *asleep = NULL;
        told = fs_poller_look(poller, ready) > 0 || fs_poller_settle(poller, ready) > 0;
        int count = told ? 1 : fs_seats_sleep(&poller->seats, ready, MOST, 0, &asleep);
        told |= count > 0;
        if (told) break;
        if (fs_now_ns() - began > LIMIT_MS * 1000000ull) fail(__FILE__, __LINE__, "an edge was not told");
        told = ask(watcher, count < 0 || poller->pressing ? PRESSING_MS : LIMIT_MS, asleep);
    }
    fs_poller_report_edge(poller, watcher->number, 0);
    watcher->told++;
}

static void read_some(struct watcher *watcher, struct random *random, uint64_t stream, uint64_t *position)
{
    unsigned char piece[2 * LARGEST];
    ssize_t got = receive_now(watcher->pair, 0, piece, random_size(random, sizeof piece), 0);
    CHECK(got > 0 || got == -EAGAIN);
    if (got <= 0) return;
    stream_check(stream, *position, piece, (size_t)got);
    *position += (uint64_t)got;
}

/* Reads as it likes after each edge, till it was told of the last byte; then the rest. */
static void read_by_edges(struct watcher *watcher, struct random *random, uint64_t stream, int steps)
{
    uint64_t position = 0, known = 0;
    while (known < TOTAL) {
        await_edge(watcher);
        ssize_t unread = fs_carry_unread(watcher->pair->end[0], watcher->number);
        CHECK(unread >= 0);
        known = position + (uint64_t)unread;
        uint64_t left = random_below(random, 4);
        for (uint64_t i = 0; i < left; i++) {
            if (steps) pair_step(watcher->pair, 0, random);
            read_some(watcher, random, stream, &position);
        }
        while (left == 0 && fs_carry_unread(watcher->pair->end[0], watcher->number) > 0)
            read_some(watcher, random, stream, &position);
        if (position > known) known = position; /* what it has read nobody needs to tell */
    }
    while (position < TOTAL) read_some(watcher, random, stream, &position);
}

static void run(struct pair *pair, int by_bits, int steps, uint64_t salt)
{
    struct watcher watcher;
    struct random random = random_from(salt);
    struct traffic traffic = {
        .pair = pair, .side = 1, .stream = salt, .total = TOTAL, .salt = salt + 1, .largest = LARGEST, .steps = steps};
    begin(&watcher, pair, by_bits);
    pthread_t thread = start_thread(traffic_send, &traffic);
    read_by_edges(&watcher, &random, salt, steps);
    join_thread(thread);
    CHECK_EQUAL(traffic.error, 0);
    end(&watcher);
}

TEST(each_arrival_in_the_ring_is_told_by_edges, 0)
{
    for (int i = 0; i < scaled(60); i++) {
        struct pair pair = pair_by_ring(1 << 16);
        run(&pair, i & 1, 0, (uint64_t)i);
        close_both(&pair);
    }
}

TEST(each_arrival_is_told_by_edges_while_memory_comes, 0)
{
    for (int i = 0; i < scaled(60); i++) {
        struct pair pair = pair_both(1 << 16);
        run(&pair, i & 1, 1, (uint64_t)i + 1000);
        close_both(&pair);
    }
}

TEST(what_is_told_is_not_told_again, 0)
{
    for (int by_bits = 0; by_bits < 2; by_bits++) {
        struct pair pair = pair_by_ring(4096);
        struct watcher watcher;
        begin(&watcher, &pair, by_bits);
        for (int i = 1; i <= 50; i++) {
            CHECK_EQUAL(send_now(&pair, 1, "x", 1, 0), 1);
            await_edge(&watcher);
            int ready[FS_POLLED_MOST];
            struct fs_loop *asleep = NULL;
            CHECK_EQUAL(fs_poller_look(&watcher.poller, ready), 0);
            CHECK_EQUAL(fs_poller_settle(&watcher.poller, ready), 0);
            CHECK_EQUAL(fs_seats_sleep(&watcher.poller.seats, ready, MOST, 0, &asleep), 0);
            CHECK_EQUAL(ask(&watcher, 0, asleep), 0);
        }
        CHECK_EQUAL(watcher.told, 50);
        /* registered anew: what is unread is told once more */
        struct epoll_event event = {EPOLLIN | EPOLLET, {.fd = watcher.number}};
        CHECK_EQUAL(epoll_ctl(watcher.epoll, EPOLL_CTL_MOD, watcher.number, &event), 0);
        if (fs_seats_take(&watcher.poller.seats, watcher.number, FS_HEARS_EDGES) > 0)
            fs_carry_show(pair.end[0], watcher.number);
        await_edge(&watcher);
        end(&watcher);
        close_both(&pair);
    }
}

static int kernel_tells(const struct watcher *watcher)
{
    struct epoll_event events[MOST];
    return epoll_wait(watcher->epoll, events, MOST, 0);
}

/* The poller sleeps by the kernel alone meanwhile, as before any memory; another thread reads. */
TEST(the_first_token_is_told_with_bytes_on_tcp_and_the_next_arrival_is_told, 0)
{
    struct pair pair = pair_both(4096);
    struct watcher watcher;
    begin(&watcher, &pair, 0);
    CHECK_EQUAL(send_now(&pair, 1, "a", 1, 0), 1);
    pair_attach(&pair);
    CHECK_EQUAL(send_now(&pair, 1, "b", 1, 0), 1);
    CHECK_EQUAL(kernel_tells(&watcher), 1);
    expect_bytes(&pair, 0, "ab");
    CHECK_EQUAL(kernel_tells(&watcher), 0);
    CHECK_EQUAL(send_now(&pair, 1, "c", 1, 0), 1);
    CHECK_EQUAL(kernel_tells(&watcher), 1);
    expect_bytes(&pair, 0, "c");
    end(&watcher);
    close_both(&pair);
}
