/* Streams both ways at once while memory is offered, withdrawn, joined, spilled: each byte is checked. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

#define BYTES 400000u

/* Small buffers make TCP refuse often; and a ring that may not grow is spilled often. */
static void choose_buffers(struct pair *pair, int side, struct random *random)
{
    int size = (int)(2048 << random_below(random, 6));
    if (random_below(random, 2)) setsockopt(pair->fd[side], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

/* What the connections of a test went through. */
static _Atomic uint64_t attached, spilled, direct;

static void count(const struct pair *pair, int side)
{
    struct fs_carriers carriers;
    fs_connection_report(pair->end[side], pair->fd[side], &carriers);
    attached += carriers.state == FS_ATTACHED;
    spilled += carriers.spills;
}

static void close_half(struct pair *pair, int side)
{
    CHECK_EQUAL(fs_leave_shutdown(pair->end[side], pair->fd[side], SHUT_WR), 0);
}

/* All that one end does: a thread that sends, and this one reads until the end. */
static void run_end(struct pair *pair, int side, uint64_t salt, enum style sends, enum style reads, uint64_t bytes)
{
    struct random random = random_from(salt + (uint64_t)side);
    choose_buffers(pair, side, &random);
    uint64_t largest = 1 + random_below(&random, bytes / 20), total = random_below(&random, bytes);
    struct traffic out = {pair, side, sends, salt * 2 + (uint64_t)side, total, salt + 7, largest, 1, 0};
    struct traffic in = {pair, side, reads, salt * 2 + !side, UINT64_MAX, salt + 9, largest, 1, 0};
    pthread_t sender = start_thread(traffic_send, &out), reader = start_thread(traffic_receive, &in);
    join_thread(sender);
    CHECK_EQUAL(out.error, 0);
    close_half(pair, side);
    join_thread(reader);
    CHECK_EQUAL(in.error, 0);
}

struct side_of {
    struct pair *pair;
    int side;
    uint64_t salt;
    enum style sends, reads;
    uint64_t bytes;
};

static void *run_side(void *argument)
{
    struct side_of *of = argument;
    run_end(of->pair, of->side, of->salt, of->sends, of->reads, of->bytes);
    return NULL;
}

static void run_in_threads(uint64_t salt, enum style sends, enum style reads)
{
    struct pair pair = pair_both(4096);
    struct side_of sides[2] = {{&pair, 0, salt, sends, reads, BYTES}, {&pair, 1, salt, sends, reads, BYTES}};
    pthread_t other = start_thread(run_side, &sides[0]);
    run_side(&sides[1]);
    join_thread(other);
    for (int side = 0; side < 2; side++) count(&pair, side);
    for (int side = 0; side < 2; side++) pair_close(&pair, side);
    pair_done(&pair);
}

static void run_in_processes(uint64_t salt, enum style sends, enum style reads)
{
    struct pair pair = pair_make(4096);
    pid_t other = start_process();
    int side = other == 0;
    pair_forget(&pair, !side);
    pair_enter(&pair, side);
    run_end(&pair, side, salt, sends, reads, BYTES);
    count(&pair, side);
    pair_close(&pair, side);
    if (other == 0) exit(0);
    join_process(other);
    pair_done(&pair);
}

static void went_through(void)
{
    printf("%lu ends were attached, %lu spills\n", (unsigned long)attached, (unsigned long)spilled);
}

#define STREAMS(name, sends, reads)                                                                         \
    TEST(switching_in_threads_##name, 0)                                                                    \
    {                                                                                                       \
        for (int i = 0; i < scaled(150); i++) run_in_threads(1000 * (sends) + (uint64_t)i, sends, reads);   \
        went_through();                                                                                     \
    }                                                                                                       \
    TEST(switching_in_processes_##name, NEEDS_PROCESSES)                                                    \
    {                                                                                                       \
        for (int i = 0; i < scaled(150); i++) run_in_processes(5000 * (sends) + (uint64_t)i, sends, reads); \
        went_through();                                                                                     \
    }

STREAMS(blocking, BLOCKING, BLOCKING)
STREAMS(poll, POLL, POLL)
STREAMS(select, SELECT, SELECT)
STREAMS(epoll, EPOLL, EPOLL)
STREAMS(epoll_edge, EPOLL_EDGE, EPOLL_EDGE)
STREAMS(blocking_reader, EPOLL, BLOCKING)
STREAMS(blocking_writer, BLOCKING, EPOLL)
STREAMS(writer_of_edges, EPOLL_EDGE, BLOCKING)

/* ---- many short lives: the begin, the change and the end of each come close together ---- */

#define SHORT_BYTES 6000u

static void live_shortly(struct pair *pair, int side, uint64_t salt)
{
    struct random random = random_from(salt * 4 + (uint64_t)side);
    enum style sends = random_below(&random, STYLES), reads = random_below(&random, STYLES);
    if (salt % 4 != 0 && side == 1) CHECK_EQUAL(pair_offer(pair), 0); /* else some find each other on the way */
    if (salt % 4 != 0 && side == 0)
        while (pair_join(pair) == -EAGAIN) sched_yield();
    run_end(pair, side, salt, sends, reads, SHORT_BYTES);
    count(pair, side);
    pair_close(pair, side);
}

struct short_life {
    struct pair *pair;
    uint64_t salt;
};

static void *live_shortly_too(void *argument)
{
    struct short_life *life = argument;
    live_shortly(life->pair, 0, life->salt);
    return NULL;
}

TEST(short_lives_in_threads, 0)
{
    for (int i = 0; i < scaled(400); i++) {
        struct pair pair = pair_both(4096);
        struct short_life life = {&pair, 20000 + (uint64_t)i};
        pthread_t other = start_thread(live_shortly_too, &life);
        live_shortly(&pair, 1, life.salt);
        join_thread(other);
        pair_done(&pair);
    }
    went_through();
}

TEST(short_lives_in_processes, NEEDS_PROCESSES)
{
    enum { TOGETHER = 50 };
    for (int i = 0; i < scaled(8); i++) {
        struct pair pairs[TOGETHER];
        for (int k = 0; k < TOGETHER; k++) pairs[k] = pair_make(4096);
        pid_t other = start_process();
        int side = other == 0;
        for (int k = 0; k < TOGETHER; k++) pair_forget(&pairs[k], !side);
        for (int k = 0; k < TOGETHER; k++) {
            pair_enter(&pairs[k], side);
            live_shortly(&pairs[k], side, 30000 + (uint64_t)(TOGETHER * i + k));
        }
        if (other == 0) exit(0);
        join_process(other);
        for (int k = 0; k < TOGETHER; k++) pair_done(&pairs[k]);
    }
    went_through();
}

/* ---- a reader in recv() since before the attach, which does not come out for a while ---- */

static void *receive_all(void *argument)
{
    traffic_receive(argument);
    return NULL;
}

/* Its sender finds the ring full and may not go back to TCP, which has room: no edge of the kernel's tells of it. */
TEST(watcher_of_edges_hears_of_room_behind_a_stopped_reader, NEEDS_PROCESSES)
{
    enum { TOTAL = 50000 };
    for (int i = 0; i < scaled(20); i++) {
        struct pair pair = pair_make(4096);
        pid_t other = start_process();
        int side = other == 0 ? 0 : 1;
        pair_forget(&pair, !side);
        pair_enter(&pair, side);
        if (other == 0) {
            struct traffic reader = {&pair, 0, BLOCKING, 1, TOTAL, 1, 100, 0, 0};
            pthread_t thread = start_thread(receive_all, &reader);
            while (fs_traffic_inside(atomic_load(&pair.end[0]->record->received)) == 0) exact_sleep_us(100);
            while (pair_join(&pair) != 0) exact_sleep_us(100);
            join_thread(thread);
            CHECK_EQUAL(reader.error, 0);
            pair_close(&pair, 0);
            exit(0);
        }
        CHECK_EQUAL(pair_offer(&pair), 0);
        while (fs_attach_progress(pair.end[1], pair.fd[1]) != 1) exact_sleep_us(100);
        int status;
        CHECK_EQUAL(kill(other, SIGSTOP), 0);
        CHECK_EQUAL(waitpid(other, &status, WUNTRACED), other);
        CHECK(WIFSTOPPED(status));
        struct waiter waiter = waiter_make(&pair, 1, FS_WRITABLE, EPOLL_EDGE);
        waiter_wait(&waiter); /* the first edge is of the registration */
        unsigned char block[1000];
        for (uint64_t sent = 0, refused = 0; sent < TOTAL;) {
            size_t size = TOTAL - sent < sizeof block ? (size_t)(TOTAL - sent) : sizeof block;
            stream_fill(1, sent, block, size);
            ssize_t part = send_now(&pair, 1, block, size, 0);
            if (part > 0) sent += (uint64_t)part;
            else CHECK_EQUAL(part, -EAGAIN);
            if (part == (ssize_t)size) continue;
            if (part < 0 && refused++ == 0) CHECK_EQUAL(kill(other, SIGCONT), 0);
            waiter_wait(&waiter);
        }
        waiter_drop(&waiter);
        join_process(other);
        pair_close(&pair, 1);
        pair_done(&pair);
    }
}

/* ---- large blocks, past the ring where both ends copy ---- */

static void run_large(uint64_t salt, enum style sends, enum style reads)
{
    struct pair pair = pair_make(65536);
    pid_t parent = getpid(), other = start_process();
    int side = other == 0;
    pair.limits.direct_min = 65536;
    pair.limits.peer = other == 0 ? (int)parent : (int)other;
    pair_forget(&pair, !side);
    pair_enter(&pair, side);
    always_direct = 1;
    struct traffic flow = {&pair, side, side ? sends : reads, salt, 6u << 20, salt, 256u << 10, 1, 0};
    (side ? traffic_send : traffic_receive)(&flow);
    CHECK_EQUAL(flow.error, 0);
    struct fs_end *end = pair.end[side]->end;
    if (!side && end != NULL) direct += atomic_load(&end->statistics.bytes_direct);
    pair_close(&pair, side);
    if (other == 0) exit(0);
    join_process(other);
    pair_done(&pair);
}

TEST(large_blocks_through_each_carrier_and_past_the_ring, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(40); i++) run_large(90 + (uint64_t)i, i % 2 ? BLOCKING : POLL, i % 3 ? BLOCKING : EPOLL);
    printf("%lu bytes went past the ring\n", (unsigned long)direct);
}

/* ---- several threads at one end ---- */

struct shared_reader {
    struct pair *pair;
    enum style style;
    _Atomic uint64_t *sum, *count;
};

/* Which bytes each of them gets is chance: together they get them all. */
static void *read_some(void *argument)
{
    struct shared_reader *reader = argument;
    struct waiter waiter = waiter_make(reader->pair, 0, FS_READABLE, reader->style);
    struct random random = random_from((uint64_t)(uintptr_t)&waiter);
    unsigned char piece[3000];
    for (;;) {
        pair_step(reader->pair, 0, &random);
        ssize_t got = pair_receive(reader->pair, &waiter, piece, random_size(&random, sizeof piece), 0);
        if (got <= 0) break;
        uint64_t sum = 0;
        for (ssize_t i = 0; i < got; i++) sum += piece[i];
        atomic_fetch_add(reader->sum, sum);
        atomic_fetch_add(reader->count, (uint64_t)got);
    }
    waiter_drop(&waiter);
    return NULL;
}

static void *write_some(void *argument)
{
    struct shared_reader *writer = argument;
    struct waiter waiter = waiter_make(writer->pair, 1, FS_WRITABLE, writer->style);
    struct random random = random_from((uint64_t)(uintptr_t)&waiter);
    unsigned char piece[3000];
    for (int left = 40000; left > 0;) {
        size_t size = random_size(&random, sizeof piece);
        for (size_t i = 0; i < size; i++) piece[i] = (unsigned char)random_next(&random);
        pair_step(writer->pair, 1, &random);
        ssize_t sent = pair_send(writer->pair, &waiter, piece, size, 0);
        CHECK(sent > 0);
        uint64_t sum = 0;
        for (ssize_t i = 0; i < sent; i++) sum += piece[i];
        atomic_fetch_add(writer->sum, sum);
        atomic_fetch_add(writer->count, (uint64_t)sent);
        left -= (int)sent;
    }
    waiter_drop(&waiter);
    return NULL;
}

TEST(two_writers_and_two_readers_lose_and_gain_nothing, 0)
{
    for (int i = 0; i < scaled(150); i++) {
        struct pair pair = pair_both(4096);
        _Atomic uint64_t put = 0, got = 0, put_count = 0, got_count = 0;
        enum style reads = i % 3 ? BLOCKING : POLL, writes = i % 2 ? BLOCKING : EPOLL;
        struct shared_reader readers[2] = {{&pair, reads, &got, &got_count},
                                           {&pair, i % 5 ? reads : EPOLL, &got, &got_count}};
        struct shared_reader writers[2] = {{&pair, writes, &put, &put_count}, {&pair, BLOCKING, &put, &put_count}};
        pthread_t threads[4];
        for (int k = 0; k < 2; k++) threads[k] = start_thread(read_some, &readers[k]);
        for (int k = 0; k < 2; k++) threads[2 + k] = start_thread(write_some, &writers[k]);
        join_thread(threads[2]);
        join_thread(threads[3]);
        close_half(&pair, 1);
        join_thread(threads[0]);
        join_thread(threads[1]);
        CHECK_EQUAL(got_count, put_count);
        CHECK_EQUAL(got, put);
        for (int side = 0; side < 2; side++) pair_close(&pair, side);
        pair_done(&pair);
    }
}
