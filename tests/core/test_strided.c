/* Gathering and scattering against a byte at a time, for random layouts and parts of messages. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "strided.h"

enum { MOST_BYTES = 600, MOST_RUNS = 6, MOST_PIECES = 4, DEPTH = 9, ROOM = MOST_PIECES * DEPTH + 1 };

/* A layout, and the place of each of its bytes in order. */
struct model {
    struct fs_layout layout;
    int64_t places[MOST_BYTES];
    int64_t size;
};

/* What layouts point to, until the round ends. */
struct store {
    struct model models[ROOM];
    struct fs_run runs[ROOM][MOST_RUNS];
    struct fs_piece pieces[ROOM][MOST_PIECES];
    int used;
};

static int64_t random_place(struct random *random) { return (int64_t)random_below(random, 80) - 40; }

static int64_t random_length(struct random *random)
{
    static const int64_t usual[] = {1, 2, 4, 8, 12, 16, 24, 32};
    return random_below(random, 2) ? usual[random_below(random, 8)] : (int64_t)random_below(random, 20);
}

static bool room_for(const struct model *model, int64_t size) { return model->size + size <= MOST_BYTES; }

static void add(struct model *model, const int64_t *places, int64_t size, int64_t offset)
{
    for (int64_t i = 0; i < size; i++) model->places[model->size++] = places[i] + offset;
}

static void make_runs(struct random *random, struct store *store, struct model *made)
{
    struct fs_run *runs = store->runs[store->used];
    int64_t count = (int64_t)random_below(random, MOST_RUNS) + 1, next = 0;
    const bool regular = random_below(random, 3) == 0;
    const int64_t length = random_length(random), stride = random_place(random);
    for (int64_t i = 0; i < count; i++) {
        /* neighbours are frequent */
        int64_t place = random_below(random, 3) ? random_place(random) : next;
        runs[i] = (struct fs_run){regular ? i * stride : place, regular ? length : random_length(random)};
        next = runs[i].offset + runs[i].length;
        for (int64_t byte = 0; byte < runs[i].length; byte++) add(made, &byte, 1, runs[i].offset);
    }
    CHECK_EQUAL(fs_layout_runs(&made->layout, runs, count), FS_LAYOUT_FINE);
}

static void make_loop(struct random *random, struct model *made)
{
    int64_t count = (int64_t)random_below(random, 4), stride = random_place(random);
    if (random_below(random, 3) == 0) stride = made->layout.size; /* what may join its neighbours */
    const int64_t size = made->size;
    if (size * count > MOST_BYTES) count = 1;
    const struct fs_layout before = made->layout;
    int result = fs_layout_repeat(&made->layout, count, stride);
    if (result == FS_LAYOUT_FULL) {
        CHECK(before.loops == FS_LOOPS);
        CHECK(memcmp(&before, &made->layout, sizeof(before)) == 0);
        return;
    }
    CHECK_EQUAL(result, FS_LAYOUT_FINE);
    if (count == 0) made->size = 0;
    for (int64_t i = 1; i < count; i++) add(made, made->places, size, i * stride);
}

static void make_pieces(struct random *random, struct store *store, struct model *made)
{
    struct fs_piece *pieces = store->pieces[store->used];
    int64_t count = (int64_t)random_below(random, MOST_PIECES) + 1;
    for (int64_t i = 0; i < count; i++) {
        const struct model *part = &store->models[random_below(random, (uint64_t)store->used)];
        struct fs_piece piece = {random_place(random), (int64_t)random_below(random, 3), random_place(random),
                                 &part->layout};
        if (!room_for(made, part->size * piece.count)) piece.count = 0;
        for (int64_t item = 0; item < piece.count; item++)
            add(made, part->places, part->size, piece.offset + item * piece.step);
        pieces[i] = piece;
    }
    CHECK_EQUAL(fs_layout_pieces(&made->layout, pieces, count), FS_LAYOUT_FINE);
}

/* The last one made: of earlier ones, so that they nest. */
static const struct model *random_layout(struct random *random, struct store *store)
{
    int wanted = (int)random_below(random, DEPTH) + 1;
    for (store->used = 0; store->used < wanted; store->used++) {
        struct model *made = &store->models[store->used];
        made->size = 0;
        if (store->used && random_below(random, 3)) {
            if (random_below(random, 2)) {
                make_pieces(random, store, made);
            } else {
                *made = store->models[store->used - 1];
                for (uint64_t loops = random_below(random, 8); loops > 0; loops--) make_loop(random, made);
            }
        } else if (random_below(random, 2)) {
            make_runs(random, store, made);
        } else {
            int64_t length = random_length(random);
            fs_layout_block(&made->layout, length);
            for (int64_t byte = 0; byte < length; byte++) add(made, &byte, 1, 0);
        }
        int64_t offset = random_place(random);
        made->layout.offset += offset;
        for (int64_t i = 0; i < made->size; i++) made->places[i] += offset;
        CHECK_EQUAL(made->layout.size, made->size);
    }
    return &store->models[wanted - 1];
}

/* All bytes in order, however many places fit in a list at a time. */
static void check_list(struct random *random, const struct model *model, unsigned char *origin, int64_t extent,
                       int64_t from, const int64_t *places, int64_t bytes)
{
    struct iovec list[7];
    const int most = (int)random_below(random, 7) + 1;
    for (int64_t at = 0; at < bytes;) {
        int64_t listed = 0, seen = 0;
        int count = fs_list(list, most, origin, &model->layout, extent, from + at, bytes - at, &listed);
        CHECK(count >= 1 && count <= most && listed >= 1 && listed <= bytes - at);
        for (int i = 0; i < count; i++) {
            const unsigned char *place = list[i].iov_base;
            CHECK(i == 0 || place != (unsigned char *)list[i - 1].iov_base + list[i - 1].iov_len);
            for (size_t byte = 0; byte < list[i].iov_len; byte++, seen++)
                CHECK(place + byte == origin + places[at + seen]);
        }
        CHECK_EQUAL(seen, listed);
        CHECK(at + listed == bytes || count == most);
        at += listed;
    }
}

TEST(strided_copies_are_those_of_a_byte_at_a_time, 0)
{
    struct random random = random_from(1);
    struct store *store = malloc(sizeof(*store));
    for (int round = 0; round < scaled(3000); round++) {
        const struct model *model = random_layout(&random, store);
        if (model->size == 0) continue;
        const int64_t items = (int64_t)random_below(&random, 4) + 1, whole = model->size * items;
        const int64_t extent = random_below(&random, 4) ? random_place(&random) * 4 : model->size;
        const int64_t from = (int64_t)random_below(&random, (uint64_t)whole);
        const int64_t bytes = (int64_t)random_below(&random, (uint64_t)(whole - from) + 1);
        int64_t low = INT64_MAX, high = INT64_MIN;
        int64_t *places = malloc(((size_t)bytes + 1) * sizeof(*places));
        for (int64_t i = 0; i < bytes; i++) {
            const int64_t item = (from + i) / model->size;
            places[i] = item * extent + model->places[(from + i) % model->size];
            if (places[i] < low) low = places[i];
            if (places[i] > high) high = places[i];
        }
        if (bytes == 0) low = 0, high = -1;
        /* exactly as large as must be touched, so that a sanitizer sees a byte too many */
        const size_t room = (size_t)(high - low + 1);
        unsigned char *memory = malloc(room + 1), *back = calloc(room + 1, 1), *expected = calloc(room + 1, 1);
        unsigned char *packed = malloc((size_t)bytes + 1);
        for (size_t i = 0; i < room; i++) memory[i] = (unsigned char)(random_next(&random) | 1);
        fs_pack(packed, memory - low, &model->layout, extent, from, bytes);
        for (int64_t i = 0; i < bytes; i++) CHECK_EQUAL(packed[i], memory[places[i] - low]);
        fs_unpack(packed, back - low, &model->layout, extent, from, bytes);
        for (int64_t i = 0; i < bytes; i++) expected[places[i] - low] = packed[i];
        CHECK(memcmp(back, expected, room) == 0);
        check_list(&random, model, memory - low, extent, from, places, bytes);
        free(places);
        free(memory);
        free(back);
        free(expected);
        free(packed);
    }
    free(store);
}

TEST(strided_items_may_lie_backwards, 0)
{
    const unsigned char memory[] = {1, 2, 3, 4, 5, 6};
    struct fs_layout two;
    unsigned char packed[6];
    fs_layout_block(&two, 2);
    fs_pack(packed, memory + 4, &two, -2, 0, 6);
    const unsigned char expected[] = {5, 6, 3, 4, 1, 2};
    CHECK(memcmp(packed, expected, 6) == 0);
}

TEST(strided_nothing_is_nothing, 0)
{
    struct fs_run empty = {3, 0};
    struct fs_layout layout;
    CHECK_EQUAL(fs_layout_runs(&layout, &empty, 1), FS_LAYOUT_FINE);
    CHECK_EQUAL(layout.size, 0);
    fs_pack(NULL, NULL, &layout, 8, 0, 0);
    fs_unpack(NULL, NULL, &layout, 8, 0, 5); /* no data to put anywhere */
    const struct fs_piece none = {7, 4, 3, &layout};
    struct fs_layout outer;
    CHECK_EQUAL(fs_layout_pieces(&outer, &none, 1), FS_LAYOUT_FINE);
    CHECK_EQUAL(fs_layout_repeat(&outer, 5, 8), FS_LAYOUT_FINE);
    fs_pack(NULL, NULL, &outer, 8, 0, 5);
}

TEST(strided_sizes_beyond_a_number_are_refused, 0)
{
    struct fs_layout layout;
    fs_layout_block(&layout, INT64_MAX / 2);
    const struct fs_piece pieces[] = {{0, 1, 0, &layout}, {0, 2, 0, &layout}};
    struct fs_run runs[] = {{0, INT64_MAX}, {8, 8}};
    struct fs_layout outer;
    CHECK_EQUAL(fs_layout_pieces(&outer, pieces, 2), FS_LAYOUT_HUGE);
    CHECK_EQUAL(fs_layout_runs(&outer, runs, 2), FS_LAYOUT_HUGE);
    CHECK_EQUAL(fs_layout_repeat(&layout, 3, 8), FS_LAYOUT_HUGE);
    CHECK_EQUAL(layout.size, INT64_MAX / 2);
}

TEST(strided_blocks_that_touch_are_one, 0)
{
    struct fs_layout layout;
    fs_layout_block(&layout, 8);
    for (int64_t turns = 2; turns < 6; turns++)
        CHECK_EQUAL(fs_layout_repeat(&layout, turns, layout.size), FS_LAYOUT_FINE);
    CHECK(fs_layout_is_block(&layout));
    CHECK_EQUAL(fs_layout_repeat(&layout, 4, 1000), FS_LAYOUT_FINE);
    CHECK_EQUAL(fs_layout_repeat(&layout, 3, 4000), FS_LAYOUT_FINE); /* as twelve turns */
    CHECK_EQUAL(layout.loops, 1);
    CHECK_EQUAL(layout.loop[0].count, 12);
}
