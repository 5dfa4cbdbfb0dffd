/* Gathering and scattering against a byte at a time, for random layouts and parts of messages. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "strided.h"

enum { MOST_RUNS = 9, MOST_ITEMS = 5, MOST_LENGTH = 40, MOST_GAP = 12 };

struct layout {
    struct fs_run runs[MOST_RUNS];
    int64_t count, extent, items, size, span;
};

/* Runs in random order that do not overlap; lengths of nothing and of what has a copy of its own are frequent. */
static struct layout random_layout(struct random *random)
{
    static const int64_t usual[] = {0, 1, 2, 4, 8, 16};
    struct layout made = {.count = (int64_t)random_below(random, MOST_RUNS) + 1};
    int64_t place = 0;
    for (int64_t i = 0; i < made.count; i++) {
        int64_t length =
            random_below(random, 2) ? usual[random_below(random, 6)] : (int64_t)random_below(random, MOST_LENGTH);
        place += (int64_t)random_below(random, MOST_GAP);
        made.runs[i] = (struct fs_run){place, length};
        place += length;
        made.size += length;
    }
    for (int64_t i = made.count - 1; i > 0; i--) {
        int64_t other = (int64_t)random_below(random, (uint64_t)i + 1);
        struct fs_run run = made.runs[i];
        made.runs[i] = made.runs[other];
        made.runs[other] = run;
    }
    made.span = place;
    made.extent = place + (int64_t)random_below(random, MOST_GAP);
    made.items = (int64_t)random_below(random, MOST_ITEMS) + 1;
    return made;
}

/* where byte `index` of the items' data lies */
static int64_t place_of(const struct layout *layout, int64_t index)
{
    int64_t item = index / layout->size;
    index %= layout->size;
    int64_t i = 0;
    while (index >= layout->runs[i].length) index -= layout->runs[i++].length;
    return item * layout->extent + layout->runs[i].offset + index;
}

TEST(strided_copies_are_those_of_a_byte_at_a_time, 0)
{
    struct random random = random_from(1);
    for (int round = 0; round < scaled(3000); round++) {
        struct layout layout = random_layout(&random);
        if (layout.size == 0) continue;
        int64_t whole = layout.size * layout.items;
        int64_t from = (int64_t)random_below(&random, (uint64_t)whole);
        int64_t bytes = (int64_t)random_below(&random, (uint64_t)(whole - from) + 1);
        /* exactly as large as must be touched, so that a sanitizer sees a byte too many */
        size_t room = (size_t)((layout.items - 1) * layout.extent + layout.span);
        unsigned char *memory = malloc(room), *back = calloc(room, 1), *packed = malloc((size_t)bytes + 1);
        for (size_t i = 0; i < room; i++) memory[i] = (unsigned char)(random_next(&random) | 1);
        fs_pack(packed, memory, layout.runs, layout.count, layout.extent, from, bytes);
        for (int64_t i = 0; i < bytes; i++) CHECK_EQUAL(packed[i], memory[place_of(&layout, from + i)]);
        fs_unpack(packed, back, layout.runs, layout.count, layout.extent, from, bytes);
        int64_t touched = 0;
        for (size_t i = 0; i < room; i++) touched += back[i] != 0;
        CHECK_EQUAL(touched, bytes);
        for (int64_t i = 0; i < bytes; i++) CHECK_EQUAL(back[place_of(&layout, from + i)], packed[i]);
        free(memory);
        free(back);
        free(packed);
    }
}

TEST(strided_items_may_lie_backwards, 0)
{
    const unsigned char memory[] = {1, 2, 3, 4, 5, 6};
    const struct fs_run run = {0, 2};
    unsigned char packed[6];
    fs_pack(packed, memory + 4, &run, 1, -2, 0, 6);
    const unsigned char expected[] = {5, 6, 3, 4, 1, 2};
    CHECK(memcmp(packed, expected, 6) == 0);
}

TEST(strided_nothing_is_nothing, 0)
{
    const struct fs_run empty = {3, 0};
    fs_pack(NULL, NULL, &empty, 1, 8, 0, 0);
    fs_pack(NULL, NULL, NULL, 0, 8, 0, 0);
    fs_unpack(NULL, NULL, &empty, 1, 8, 0, 5); /* no data to put anywhere */
}
