/* Through the ring or past it: what was measured decides, and is measured anew. */
#include <unistd.h>

#include <stdlib.h>

#include "connection.h"
#include "stream/cma_choice.h"

#define MIB (1u << 20)
#define LEAST (64u * 1024)
#define SENDER 0
#define RECEIVER 1

static struct connection open_here(void)
{
    map_same_memory_once = 1;
    struct connection c = connection_make(65536);
    c.direct_min = LEAST;
    c.holder[0] = c.holder[1] = getpid();
    for (int side = 0; side < 2; side++) {
        connection_open(&c, side, 20);
        atomic_store(&c.end[side]->header->cpu[side], 1 + (uint32_t)side);
    }
    return c;
}

static void close_both(struct connection *c)
{
    connection_close(c, 0);
    connection_close(c, 1);
}

static size_t asked(struct connection *c, size_t buffer) { return fs_cma_worth_asking(c->end[RECEIVER], buffer); }

/* What it takes for a unit, through the ring and past it. */
static void learn(struct connection *c, uint64_t ring, uint64_t direct, size_t buffer)
{
    fs_cma_note_put(c->end[SENDER], FS_COST_UNIT, ring);
    fs_cma_note_take(c->end[RECEIVER], FS_COST_UNIT, ring);
    asked(c, buffer);
    fs_cma_note_direct(c->end[RECEIVER], FS_COST_UNIT, direct);
}

static void pass(struct connection *c, uint64_t bytes)
{
    atomic_fetch_add(&c->end[RECEIVER]->statistics.bytes_received, bytes);
}

TEST(choice_measures_both_ways_within_a_mebibyte, 0)
{
    struct connection c = open_here();
    size_t probe = asked(&c, 16 * MIB);
    CHECK(probe > 0 && probe <= MIB / 2);
    fs_cma_note_direct(c.end[RECEIVER], probe, 1000);
    CHECK_EQUAL(asked(&c, 16 * MIB), 0); /* now the ring */
    fs_cma_note_take(c.end[RECEIVER], FS_COST_UNIT, 1000000);
    CHECK_EQUAL(asked(&c, 16 * MIB), 0); /* what the sender's half costs is not known yet */
    fs_cma_note_put(c.end[SENDER], FS_COST_UNIT, 1000000);
    CHECK_EQUAL(asked(&c, 16 * MIB), 16 * MIB);
    CHECK_EQUAL(asked(&c, LEAST - 1), 0);
    close_both(&c);
}

TEST(choice_is_the_cheaper_one_for_buffers_of_that_size, 0)
{
    struct connection c = open_here();
    asked(&c, MIB);
    learn(&c, 1000000, 500000, MIB);
    learn(&c, 1000000, 2000000, LEAST);
    CHECK_EQUAL(asked(&c, MIB), MIB);
    CHECK_EQUAL(asked(&c, LEAST), 0);
    CHECK(asked(&c, MIB / 2) > 0); /* not measured yet */
    close_both(&c);
}

TEST(choice_that_lost_is_tried_again, 0)
{
    struct connection c = open_here();
    asked(&c, MIB);
    learn(&c, 1000000, 2000000, MIB);
    CHECK_EQUAL(asked(&c, MIB), 0);
    pass(&c, 100 * MIB);
    CHECK_EQUAL(asked(&c, MIB), MIB); /* the whole of it: a part would say too little */
    for (int i = 0; i < 10; i++) learn(&c, 1000000, 500000, MIB);
    CHECK_EQUAL(asked(&c, MIB), MIB);
    pass(&c, 100 * MIB);
    CHECK_EQUAL(asked(&c, MIB), 0); /* the ring's turn */
    close_both(&c);
}

/* Bytes that go through the ring before the direct way is tried again. */
static uint64_t until_a_trial(struct connection *c, size_t buffer)
{
    uint64_t bytes = 0;
    for (; asked(c, buffer) == 0; bytes += buffer) pass(c, buffer);
    learn(c, 1000000, 5000000, buffer);
    return bytes;
}

TEST(choice_is_tried_soon_and_then_seldom, 0)
{
    struct connection c = open_here();
    asked(&c, LEAST);
    learn(&c, 1000000, 5000000, LEAST);
    uint64_t first = until_a_trial(&c, LEAST), last = 0;
    CHECK(first <= 2 * MIB);
    for (int i = 0; i < 10; i++) last = until_a_trial(&c, LEAST);
    CHECK(last > 8 * first && last <= 65 * MIB);
    close_both(&c);
}

/* A program that offers a long buffer need not receive as much. */
TEST(choice_tries_a_part_of_a_long_buffer, 0)
{
    struct connection c = open_here();
    asked(&c, 256 * MIB);
    learn(&c, 1000000, 5000000, 256 * MIB);
    for (int i = 0; i < 10; i++) {
        uint64_t bytes = 0;
        for (; asked(&c, 256 * MIB) == 0; bytes += MIB) pass(&c, MIB);
        CHECK(bytes <= 80 * MIB);
        CHECK(asked(&c, 256 * MIB) <= 4 * MIB);
        learn(&c, 1000000, 5000000, 256 * MIB);
    }
    close_both(&c);
}

/* One end fills the ring while the other empties it, but not within the first unit. */
TEST(choice_counts_both_copies_of_a_unit, 0)
{
    struct connection c = open_here();
    asked(&c, LEAST);
    learn(&c, 1000000, 1300000, LEAST);
    learn(&c, 1000000, 1300000, 16 * MIB);
    CHECK_EQUAL(asked(&c, LEAST), LEAST);
    CHECK_EQUAL(asked(&c, 16 * MIB), 0);
    close_both(&c);
}

/* What is asked for is offered and begun before it is copied: short blocks do not win that back. */
TEST(choice_counts_what_an_offer_costs, 0)
{
    struct connection c = open_here();
    uint64_t microsecond = (uint64_t)fs_ticks_per_us() + 1;
    asked(&c, LEAST);
    learn(&c, 2 * microsecond, microsecond, LEAST);
    learn(&c, 2 * microsecond, microsecond, 16 * MIB);
    CHECK_EQUAL(asked(&c, LEAST), 0);
    CHECK_EQUAL(asked(&c, 16 * MIB), 16 * MIB);
    close_both(&c);
}

/* The first lap through the ring meets memory that nobody has touched. */
TEST(choice_does_not_learn_from_fresh_memory, 0)
{
    struct connection c = open_here();
    unsigned char *block = calloc(1, LEAST);
    CHECK(block != NULL);
    for (int lap = 0; lap < 2; lap++) {
        CHECK_EQUAL(send_everything(c.end[SENDER], c.bell[SENDER], block, LEAST), LEAST);
        CHECK_EQUAL(receive_some(c.end[RECEIVER], c.bell[RECEIVER], block, LEAST), LEAST);
        CHECK_EQUAL(atomic_load(&c.end[RECEIVER]->in.shared->costs[0].put) != 0, lap != 0);
        CHECK_EQUAL(c.end[RECEIVER]->costs.take != 0, lap != 0);
    }
    free(block);
    close_both(&c);
}

TEST(choice_is_made_anew_when_an_end_moves, 0)
{
    struct connection c = open_here();
    for (int side = 0; side < 2; side++) {
        asked(&c, 16 * MIB);
        learn(&c, 1000, 2000, 16 * MIB);
        CHECK_EQUAL(asked(&c, 16 * MIB), 0);
        atomic_fetch_add(&c.end[side]->header->cpu[side], 10);
        size_t probe = asked(&c, 16 * MIB);
        CHECK(probe > 0 && probe <= MIB / 2);
        fs_cma_note_put(c.end[SENDER], FS_COST_UNIT, 9);
        CHECK_EQUAL(atomic_load(&c.end[RECEIVER]->in.shared->costs[0].put), 10); /* nothing is left of 1000 */
    }
    close_both(&c);
}
