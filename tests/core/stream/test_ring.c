/* One direction's bytes against a reference: every wrap, growth at every phase, both sides' views. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "copy.h"
#include "connection.h"

#define SMALL 64u /* smaller than a segment allows, so that every position is met */
#define LARGE (SMALL * FS_GROWTH)

struct fixture {
    struct fs_direction shared;
    struct fs_ring producer, consumer;
    unsigned char before[64], data[LARGE], after[64];
    uint64_t sent, received;
};

static struct fixture *ring_at(uint64_t start)
{
    struct fixture *f = aligned_alloc(FS_LINE, (sizeof *f + FS_LINE - 1) / FS_LINE * FS_LINE);
    CHECK(f != NULL);
    memset(f, 0xEE, sizeof *f);
    memset(&f->shared, 0, sizeof f->shared);
    f->shared.grown_at = FS_NOT_GROWN;
    f->shared.head = f->shared.tail = f->sent = f->received = start;
    f->producer = f->consumer = (struct fs_ring){&f->shared, f->data, SMALL, LARGE, start, 0};
    return f;
}

static void put(struct fixture *f, size_t length)
{
    unsigned char block[LARGE];
    stream_fill(1, f->sent, block, length);
    fs_ring_put(&f->producer, block, length);
    f->sent += length;
}

static void take(struct fixture *f, size_t length)
{
    unsigned char block[LARGE];
    fs_ring_copy_out(&f->consumer, 0, block, length);
    stream_check(1, f->received, block, length);
    fs_ring_consume(&f->consumer, length);
    f->received += length;
}

static void check_views(struct fixture *f)
{
    uint64_t unread = f->sent - f->received, grown_at = f->shared.grown_at;
    CHECK_EQUAL(fs_ring_unread(&f->producer), unread);
    CHECK_EQUAL(fs_ring_unread(&f->consumer), unread);
    uint64_t room = grown_at == FS_NOT_GROWN  ? SMALL - unread
                    : f->received >= grown_at ? LARGE - unread
                                              : LARGE - SMALL - (f->sent - grown_at);
    CHECK_EQUAL(fs_ring_room(&f->producer), room);
    CHECK_EQUAL(fs_ring_space(&f->producer, LARGE), room); /* asks for all, so nothing remembered will do */
    CHECK(fs_ring_space(&f->producer, 1) <= (ssize_t)room && (room == 0 || fs_ring_space(&f->producer, 1) > 0));
    ssize_t used = fs_ring_used(&f->consumer);
    CHECK(used <= (ssize_t)unread && (unread == 0 || used > 0));
    CHECK_EQUAL(fs_ring_capacity(&f->producer), grown_at == FS_NOT_GROWN ? SMALL : LARGE);
    for (int i = 0; i < 64; i++) CHECK(f->before[i] == 0xEE && f->after[i] == 0xEE);
}

/* Its memory is made page by page otherwise; what lies there stays, and so does what lies around it. */
TEST(ring_is_touched_without_a_change, 0)
{
    const size_t pages = 8, size = pages * 4096;
    unsigned char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), made[8];
    CHECK(memory != MAP_FAILED);
    memory[3 * 4096] = 7;
    struct fs_direction shared = {.grown_at = FS_NOT_GROWN};
    struct fs_ring ring = {&shared, memory + 4096 + 64, 4096 * 4, 4096 * 4 * FS_GROWTH, 0, 0};
    fs_ring_touch(&ring);
    CHECK_EQUAL(memory[3 * 4096], 7);
    CHECK_EQUAL(mincore(memory, size, made), 0);
    CHECK_EQUAL(made[0] & 1, 0);
    CHECK_EQUAL(made[6] & 1, 0);
    struct fs_ring tiny = {&shared, memory + 4096 + 64, SMALL, LARGE, 0, 0};
    fs_ring_touch(&tiny); /* no whole page: nothing to do */
    munmap(memory, size);
}

/* Memory that this end meets for the first time is slow once: what it took tells nothing. */
TEST(ring_knows_what_it_has_touched, 0)
{
    struct fixture *f = ring_at(0);
    for (uint64_t lap = 0; lap < 2; lap++)
        for (int i = 0; i < 4; i++) {
            CHECK_EQUAL(fs_ring_is_touched(&f->producer, f->sent, SMALL / 4), lap != 0);
            put(f, SMALL / 4);
            CHECK_EQUAL(fs_ring_is_touched(&f->consumer, f->received, SMALL / 4), lap != 0);
            take(f, SMALL / 4);
        }
    CHECK_EQUAL(fs_ring_is_touched(&f->producer, f->sent + SMALL - 1, 2), 0); /* in two parts: uncertain */
    put(f, SMALL);
    CHECK_EQUAL(fs_ring_grow(&f->producer), 1);
    CHECK_EQUAL(fs_ring_is_touched(&f->producer, f->sent, SMALL / 4), 0);
    put(f, SMALL / 4);
    take(f, SMALL + SMALL / 4);
    fs_ring_shrink(&f->producer);
    put(f, SMALL);
    CHECK_EQUAL(fs_ring_grow(&f->producer), 1);
    CHECK_EQUAL(fs_ring_is_touched(&f->producer, f->sent, SMALL / 4), 1);
    CHECK_EQUAL(fs_ring_is_touched(&f->producer, f->sent, SMALL / 2), 0);
    free(f);
}

TEST(ring_wraps_at_every_position, 0)
{
    for (uint64_t start = 0; start < 2 * SMALL; start++)
        for (size_t length = 1; length <= SMALL; length++) {
            struct fixture *f = ring_at(start);
            put(f, length);
            check_views(f);
            take(f, length);
            check_views(f);
            free(f);
        }
}

/* Grown at each fill and each position; filled to the last byte; read in pieces across the border. */
TEST(ring_grows_at_every_phase, 0)
{
    for (uint64_t start = 0; start < SMALL; start++)
        for (size_t fill = 0; fill <= SMALL; fill++)
            for (size_t piece = 1; piece <= SMALL; piece += 9) {
                struct fixture *f = ring_at(start);
                if (fill > 0) put(f, fill);
                CHECK_EQUAL(fs_ring_grow(&f->producer), 1);
                CHECK_EQUAL(fs_ring_grow(&f->producer), 0);
                for (int round = 0; round < 3; round++) {
                    check_views(f);
                    ssize_t space = fs_ring_space(&f->producer, LARGE);
                    CHECK(space > 0 || fill == 0 || round > 0);
                    if (space > 0) put(f, (size_t)space);
                    check_views(f);
                    CHECK_EQUAL(fs_ring_room(&f->producer), 0);
                    for (size_t left = f->sent - f->received; left > piece; left -= piece) take(f, piece);
                }
                free(f);
            }
}

TEST(ring_follows_the_model_under_random_schedules, 0)
{
    for (int i = 0; i < scaled(3000); i++) {
        struct random random = random_from(100 + (uint64_t)i);
        struct fixture *f = ring_at(random_next(&random) >> random_below(&random, 60) >> 3);
        for (int step = 0; step < 300; step++) {
            if (random_below(&random, 2)) {
                ssize_t space = fs_ring_space(&f->producer, 1 + random_below(&random, LARGE));
                CHECK(space >= 0);
                if (space > 0) put(f, 1 + random_below(&random, (uint64_t)space));
                else if (random_below(&random, 4) == 0) fs_ring_grow(&f->producer);
            } else {
                ssize_t used = fs_ring_used(&f->consumer);
                CHECK(used >= 0);
                if (used > 0) take(f, 1 + random_below(&random, (uint64_t)used));
            }
            if (random_below(&random, 300) == 0) fs_ring_grow(&f->producer);
            if (random_below(&random, 2)) check_views(f);
        }
        free(f);
    }
}

/* A second process of the producing or consuming side remembers something old, which must only make it cautious. */
TEST(ring_remembered_index_is_only_cautious, 0)
{
    for (int i = 0; i < scaled(3000); i++) {
        struct random random = random_from(200 + (uint64_t)i);
        struct fixture *f = ring_at(random_below(&random, 1000));
        struct fs_ring producers[3] = {f->producer, f->producer, f->producer};
        struct fs_ring consumers[3] = {f->consumer, f->consumer, f->consumer};
        for (int step = 0; step < 300; step++) {
            f->producer = producers[random_below(&random, 3)];
            f->consumer = consumers[random_below(&random, 3)];
            struct fs_ring *producer = &producers[random_below(&random, 3)],
                           *consumer = &consumers[random_below(&random, 3)];
            f->producer = *producer, f->consumer = *consumer;
            if (random_below(&random, 2)) {
                ssize_t space = fs_ring_space(&f->producer, 1 + random_below(&random, 16));
                CHECK(space >= 0 && space <= fs_ring_room(&f->producer));
                if (space > 0) put(f, 1 + random_below(&random, (uint64_t)space));
                else if (random_below(&random, 40) == 0) fs_ring_grow(&f->producer);
            } else {
                ssize_t used = fs_ring_used(&f->consumer);
                CHECK(used >= 0 && used <= fs_ring_unread(&f->consumer));
                CHECK((used == 0) == (fs_ring_unread(&f->consumer) == 0));
                if (used > 0) take(f, 1 + random_below(&random, (uint64_t)used));
            }
            *producer = f->producer, *consumer = f->consumer;
        }
        free(f);
    }
}

/* Whatever the indices say: a count within the data area or -EPROTO, and no access outside it. */
TEST(ring_bounds_impossible_indices, 0)
{
    struct random random = random_from(300);
    unsigned char block[LARGE];
    struct fixture *f = ring_at(0);
    memset(block, 0xEE, sizeof block);
    for (int i = 0; i < scaled(300000); i++) {
        f->shared.head = random_next(&random) >> random_below(&random, 64);
        f->shared.tail =
            random_below(&random, 2) ? random_next(&random) : f->shared.head - random_below(&random, 2 * LARGE);
        f->shared.grown_at =
            random_below(&random, 2) ? FS_NOT_GROWN : f->shared.head - LARGE + random_below(&random, 2 * LARGE);
        ssize_t space = fs_ring_space(&f->producer, 1), used = fs_ring_used(&f->consumer);
        CHECK(space == -EPROTO || (space >= 0 && space <= (ssize_t)LARGE));
        CHECK(used == -EPROTO || (used >= 0 && used <= (ssize_t)LARGE));
        fs_ring_copy_out(&f->consumer, 0, block, LARGE); /* even where nobody should */
        fs_ring_put(&f->producer, block, LARGE);
        for (int j = 0; j < 64; j++) CHECK(f->before[j] == 0xEE && f->after[j] == 0xEE);
    }
    free(f);
}

/* Targets at each small distance behind the source within a page, where large copies go by steps; and within one piece of memory. */
TEST(copies_are_exact_at_any_distance, 0)
{
    enum { LONGEST = 3 * FS_COPY_SHORT + 5 };
    unsigned char *source = malloc(3 * FS_COPY_PAGE + LONGEST), *target = malloc(3 * FS_COPY_PAGE + LONGEST);
    for (size_t i = 0; i < 3 * FS_COPY_PAGE + LONGEST; i++) source[i] = (unsigned char)(i * 7 + i / 256);
    unsigned char *from = source + (FS_COPY_PAGE - (uintptr_t)source % FS_COPY_PAGE);
    unsigned char *to = target + (FS_COPY_PAGE - (uintptr_t)target % FS_COPY_PAGE);
    for (size_t length = FS_COPY_SHORT - 1; length <= LONGEST; length += FS_COPY_SHORT / 2 + 1)
        for (size_t behind = 0; behind <= FS_COPY_NEAR + 1; behind++) {
            memset(to, 0, LONGEST + FS_COPY_PAGE);
            fs_copy(to + behind, from, length);
            CHECK(memcmp(to + behind, from, length) == 0 && to[behind + length] == 0);
            CHECK(behind == 0 || to[behind - 1] == 0);
            memcpy(to, from, length);
            fs_move(to + behind, to, length);
            CHECK(memcmp(to + behind, from, length) == 0 && memcmp(to, from, behind) == 0);
            fs_move(to, to + behind, length);
            CHECK(memcmp(to, from, length) == 0);
        }
    free(source);
    free(target);
}

/* Both programs asked for small buffers of TCP's: no more is unread than that, and the ring never grows for it. */
TEST(ring_keeps_to_the_buffers_that_both_ends_asked_for, 0)
{
    enum { AREA = 1 << 16, ASKED = 4096, MOST = 2 * (ASKED + ASKED) };
    struct fs_direction shared = {.grown_at = FS_NOT_GROWN};
    unsigned char *data = malloc(AREA * FS_GROWTH), block[MOST];
    struct fs_ring producer = {&shared, data, AREA, AREA * FS_GROWTH, 0, 0}, consumer = producer;
    memset(block, 1, sizeof block);
    fs_ring_set_buffer(&producer, FS_SEND_BUFFER, ASKED);
    CHECK_EQUAL(fs_ring_space(&producer, AREA), AREA); /* one of the two bounds nothing */
    fs_ring_set_buffer(&consumer, FS_RECEIVE_BUFFER, ASKED);
    CHECK_EQUAL(fs_ring_space(&producer, AREA), MOST);
    CHECK_EQUAL(fs_ring_capacity(&consumer), MOST);
    CHECK_EQUAL(fs_ring_put(&producer, block, MOST), 0);
    CHECK(fs_ring_space(&producer, 1) == 0 && fs_ring_room(&producer) == 0 && fs_ring_grow(&producer) == 0);
    CHECK_EQUAL(fs_ring_used(&consumer), MOST);
    fs_ring_consume(&consumer, 1000);
    CHECK_EQUAL(fs_ring_space(&producer, AREA), 1000);
    fs_ring_set_buffer(&consumer, FS_RECEIVE_BUFFER, AREA); /* asks for more while it is nearly full */
    CHECK_EQUAL(fs_ring_space(&producer, AREA), AREA - MOST + 1000);
    fs_ring_set_buffer(&consumer, FS_RECEIVE_BUFFER, 0); /* the least that TCP gives, and less than lies there */
    CHECK_EQUAL(fs_ring_space(&producer, AREA), 0);
    fs_ring_set_buffer(&consumer, FS_RECEIVE_BUFFER, UINT64_MAX);
    CHECK_EQUAL(fs_ring_space(&producer, AREA), AREA - MOST + 1000);
    free(data);
}
