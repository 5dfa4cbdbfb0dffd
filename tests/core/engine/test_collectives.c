/* Collectives that go on by themselves: any number at a time, over every kind of link, whoever makes progress; and how
 * they end when a rank fails or leaves. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engines.h"

enum path { LOCAL, RING, TINY_RING, STREAM, PATHS };
enum { WINDOW = 5, ROUNDS = 100, CONTEXT = 7 };
enum { SCRATCH, OWN, RESULT, BUFFERS };

static void join(struct fs_engine *engines[2], enum path path)
{
    int pair[2];
    if (path == LOCAL) {
        for (int i = 0; i < 2; i++) CHECK_EQUAL(fs_engine_attach_local(engines[i], !i, engines[!i]), 0);
    } else if (path == STREAM) {
        CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        for (int i = 0; i < 2; i++) CHECK_EQUAL(fs_engine_attach_descriptor(engines[i], !i, pair[i]), 0);
    } else {
        struct connection c = connection_make(path == RING ? 65536 : 4096);
        c.holder[0] = c.holder[1] = getpid();
        for (int side = 0; side < 2; side++) {
            connection_open(&c, side, 20);
            CHECK_EQUAL(fs_engine_attach_end(engines[side], !side, c.end[side], c.bell[side]), 0);
            fs_end_free(c.end[side]);
        }
        close(c.memory);
    }
}

static void await(struct fs_engine *engine, struct fs_request *request)
{
    struct fs_wait wait;
    fs_wait_prepare(&wait, engine, &request, 1, 1, fs_now_ns() + STALL_NS);
    int result;
    do result = fs_wait(&wait);
    while (result == FS_LOOK_UP || result == -EINTR);
    CHECK_EQUAL(result, FS_SATISFIED);
}

static void add(const void *left, const void *right, void *target, size_t count)
{
    const unsigned char *a = left, *b = right;
    unsigned char *c = target;
    for (size_t i = 0; i < count; i++) c[i] = (unsigned char)(a[i] + b[i]);
}

/* ---- a sum of both ranks' bytes: the second half is exchanged after the first ---- */

struct sum {
    struct fs_schedule schedule;
    struct fs_step steps[12];
    struct fs_part parts[16];
    uint32_t awaited[4];
    struct fs_collective *collective;
    struct fs_request whole;
    unsigned char *buffers[BUFFERS];
    size_t length;
    uint32_t number;
};

static void add_step(struct sum *sum, int kind, int peer, uint32_t request, uint32_t first, uint32_t count)
{
    sum->steps[sum->schedule.step_count++] = (struct fs_step){(uint8_t)kind, 0, peer, request, first, count};
}

static uint32_t add_part(struct sum *sum, uint32_t buffer, size_t offset, size_t length)
{
    sum->parts[sum->schedule.part_count] = (struct fs_part){buffer, offset, length};
    return (uint32_t)sum->schedule.part_count++;
}

static void describe(struct sum *sum, int peer, size_t length)
{
    size_t half = length / 2, rest = length - half;
    sum->length = length;
    sum->schedule = (struct fs_schedule){.steps = sum->steps,
                                         .parts = sum->parts,
                                         .awaited = sum->awaited,
                                         .request_count = 4,
                                         .buffer_count = BUFFERS,
                                         .contexts = {CONTEXT},
                                         .channel_count = 1,
                                         .combine = add,
                                         .element = 1};
    for (uint32_t i = 0; i < 4; i++) sum->awaited[i] = i;
    uint32_t in = add_part(sum, SCRATCH, 0, half), out = add_part(sum, OWN, 0, half);
    add_step(sum, FS_STEP_RECEIVE, peer, 0, in, 1);
    add_step(sum, FS_STEP_SEND, peer, 1, out, 1);
    uint32_t copied = add_part(sum, OWN, 0, length);
    add_part(sum, RESULT, 0, length);
    add_step(sum, FS_STEP_COPY, 0, 0, copied, 2);
    add_step(sum, FS_STEP_WAIT, 0, 0, 0, 2);
    in = add_part(sum, SCRATCH, half, rest / 3); /* a message in two parts */
    add_part(sum, SCRATCH, half + rest / 3, rest - rest / 3);
    out = add_part(sum, OWN, half, rest);
    add_step(sum, FS_STEP_SEND, peer, 2, out, 1);
    add_step(sum, FS_STEP_RECEIVE, peer, 3, in, 2);
    add_step(sum, FS_STEP_WAIT, 0, 0, 2, 2);
    uint32_t combined = add_part(sum, SCRATCH, 0, length);
    add_part(sum, RESULT, 0, length);
    add_step(sum, FS_STEP_COMBINE, 0, 0, combined, 2);
}

static void make(struct sum *sum, int peer, size_t length)
{
    memset(sum, 0, sizeof *sum);
    describe(sum, peer, length);
    for (int i = 0; i < BUFFERS; i++) CHECK((sum->buffers[i] = malloc(length + 1)) != NULL);
    CHECK((sum->collective = fs_collective_new(&sum->schedule)) != NULL);
    fs_collective_bind(sum->collective, (void *const *)sum->buffers);
}

static void start(struct sum *sum, struct fs_engine *engine, uint32_t number)
{
    int tag = (int)number;
    sum->number = number;
    for (size_t i = 0; i < sum->length; i++)
        sum->buffers[OWN][i] = (unsigned char)(number + i * (size_t)(2 + engine->rank));
    fs_engine_begin_user_request(engine, &sum->whole);
    fs_collective_start(engine, sum->collective, &sum->whole, &tag);
}

static void check_sum(const struct sum *sum)
{
    CHECK_EQUAL(sum->whole.error, FS_FINE);
    for (size_t i = 0; i < sum->length; i++)
        CHECK_EQUAL(sum->buffers[RESULT][i], (unsigned char)(2 * sum->number + i * 5));
}

static void drop(struct sum *sum)
{
    fs_collective_free(sum->collective);
    for (int i = 0; i < BUFFERS; i++) free(sum->buffers[i]);
}

struct rank {
    struct fs_engine *engine;
    uint64_t seed;
    _Atomic int over;
};

/* Both ranks start the same ones in the same order, again and again in the same place, and wait in any order. */
static void *take_part(void *argument)
{
    struct rank *rank = argument;
    struct random random = random_from(rank->seed + (uint64_t)rank->engine->rank), same = random_from(rank->seed);
    struct sum sums[WINDOW];
    for (int i = 0; i < WINDOW; i++) make(&sums[i], !rank->engine->rank, random_below(&same, i == 0 ? 700000 : 9000));
    for (uint32_t round = 0; round < (uint32_t)scaled(ROUNDS); round++) {
        for (uint32_t i = 0; i < WINDOW; i++) start(&sums[i], rank->engine, round * WINDOW + i);
        uint64_t first = random_below(&random, WINDOW);
        for (uint64_t i = 0; i < WINDOW; i++) await(rank->engine, &sums[(first + i) % WINDOW].whole);
        for (int i = 0; i < WINDOW; i++) check_sum(&sums[i]);
    }
    for (int i = 0; i < WINDOW; i++) drop(&sums[i]);
    return NULL;
}

static void *help(void *argument)
{
    struct rank *rank = argument;
    while (!atomic_load(&rank->over))
        if (!fs_engine_progress(rank->engine)) usleep(50);
    return NULL;
}

static void run_ranks(enum path path, int helped, uint64_t seed)
{
    struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
    join(engines, path);
    struct rank ranks[2] = {{engines[0], seed, 0}, {engines[1], seed, 0}};
    pthread_t parts[2], helpers[2];
    for (int i = 0; i < 2; i++) CHECK_EQUAL(pthread_create(&parts[i], NULL, take_part, &ranks[i]), 0);
    for (int i = 0; i < 2 && helped; i++) CHECK_EQUAL(pthread_create(&helpers[i], NULL, help, &ranks[i]), 0);
    for (int i = 0; i < 2; i++) CHECK_EQUAL(pthread_join(parts[i], NULL), 0);
    for (int i = 0; i < 2; i++) atomic_store(&ranks[i].over, 1);
    for (int i = 0; i < 2 && helped; i++) CHECK_EQUAL(pthread_join(helpers[i], NULL), 0);
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}

static void run_path(enum path path)
{
    for (int helped = 0; helped < 2; helped++) run_ranks(path, helped, 11 + (uint64_t)path);
}

TEST(collectives_go_on_by_themselves_in_a_process, 0) { run_path(LOCAL); }
TEST(collectives_go_on_by_themselves_over_a_ring, 0) { run_path(RING); }
TEST(collectives_go_on_by_themselves_over_a_tiny_ring, 0) { run_path(TINY_RING); }
TEST(collectives_go_on_by_themselves_over_a_stream, 0) { run_path(STREAM); }

/* ---- failures ---- */

TEST(a_collective_ends_with_the_rank_that_it_waits_for, 0)
{
    for (int closes = 0; closes < 2; closes++) {
        struct fs_engine *engines[2] = {engine_of(0, 2), engine_of(1, 2)};
        join(engines, STREAM);
        struct sum sum;
        make(&sum, 1, 50000);
        start(&sum, engines[0], 1);
        fs_engine_progress(engines[0]);
        CHECK(!fs_request_is_done(&sum.whole));
        if (closes) fs_engine_close(engines[0]);
        else fs_engine_fail(engines[0], 1, "it was killed");
        if (!closes) await(engines[0], &sum.whole);
        CHECK(fs_request_is_done(&sum.whole));
        CHECK_EQUAL(sum.whole.error, closes ? FS_CLOSED : FS_PEER_FAILED);
        drop(&sum);
        for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
        for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
    }
}

/* Rank 0 waits for rank 1, which lives but will not answer, since rank 2 is gone. */
TEST(a_collective_ends_where_another_member_failed, 0)
{
    struct fs_engine *engines[2] = {engine_of(0, 3), engine_of(1, 3)};
    join(engines, RING);
    struct sum sum;
    make(&sum, 1, 50000);
    start(&sum, engines[0], 1);
    fs_engine_fail(engines[0], 2, "it was killed");
    CHECK(!fs_request_is_done(&sum.whole));
    await(engines[0], &sum.whole);
    CHECK_EQUAL(sum.whole.error, FS_PEER_FAILED);
    CHECK_EQUAL(sum.whole.envelope.source, 2);
    /* nothing of it is left with the engine: its memory may go, whatever the other end does now */
    drop(&sum);
    for (int i = 0; i < 100; i++) fs_engine_progress(engines[i % 2]);
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}

TEST(a_collective_whose_failed_member_did_its_part_ends_well, 0)
{
    struct fs_engine *engines[2] = {engine_of(0, 3), engine_of(1, 3)};
    join(engines, RING);
    struct sum sums[2];
    for (int i = 0; i < 2; i++) make(&sums[i], !i, 50000);
    start(&sums[0], engines[0], 1);
    fs_engine_fail(engines[0], 2, "it was killed");
    start(&sums[1], engines[1], 1);
    while (!fs_request_is_done(&sums[0].whole) || !fs_request_is_done(&sums[1].whole))
        for (int i = 0; i < 2; i++) fs_engine_progress(engines[i]);
    for (int i = 0; i < 2; i++) {
        check_sum(&sums[i]);
        drop(&sums[i]);
    }
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}
