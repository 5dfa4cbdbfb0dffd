/* Where data lie in a file, and how they come there: against a byte at a time, for random ordered layouts. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "files/places.h"
#include "files/pointer.h"
#include "files/transfer.h"

enum { MOST_BYTES = 400, MOST_PARTS = 5, DEPTH = 6, ITEMS = 3, FILE_BYTES = 1 << 17 };

/* A layout, and the place of each of its bytes in order. */
struct model {
    struct fs_layout layout;
    int64_t places[MOST_BYTES];
    int64_t size;
};

/* What layouts point to, until the round ends. */
struct store {
    struct model models[DEPTH];
    struct fs_run runs[DEPTH][MOST_PARTS];
    struct fs_piece pieces[DEPTH][MOST_PARTS];
};

static int64_t below(struct random *random, int64_t limit) { return (int64_t)random_below(random, (uint64_t)limit); }

static void add(struct model *model, const int64_t *places, int64_t size, int64_t offset)
{
    for (int64_t i = 0; i < size; i++) model->places[model->size++] = places[i] + offset;
}

static int64_t span_of(const struct model *model) { return model->places[model->size - 1] + 1 - model->places[0]; }

static void make_runs(struct random *random, struct model *made, struct fs_run *runs)
{
    int64_t count = below(random, MOST_PARTS) + 1, place = below(random, 30);
    for (int64_t i = 0; i < count; i++) {
        runs[i] = (struct fs_run){place, below(random, 9) + (i == 0)};
        for (int64_t byte = 0; byte < runs[i].length; byte++) add(made, &byte, 1, place);
        place += runs[i].length + below(random, 20);
    }
    CHECK_EQUAL(fs_layout_runs(&made->layout, runs, count), FS_LAYOUT_FINE);
}

static void make_loop(struct random *random, struct model *made)
{
    const int64_t size = made->size, count = below(random, 4) + 1, stride = span_of(made) + below(random, 25);
    if (size * count > MOST_BYTES || fs_layout_repeat(&made->layout, count, stride) == FS_LAYOUT_FULL) return;
    for (int64_t i = 1; i < count; i++) add(made, made->places, size, i * stride);
}

static void make_pieces(struct random *random, struct store *store, int used, struct model *made)
{
    struct fs_piece *pieces = store->pieces[used];
    int64_t count = 0, place = below(random, 30);
    for (int64_t wanted = below(random, MOST_PARTS) + 1; wanted > 0; wanted--) {
        const struct model *part = &store->models[below(random, used)];
        const int64_t items = below(random, 3) + (count == 0), step = span_of(part) + below(random, 9);
        if (made->size + part->size * items > MOST_BYTES) continue;
        const int64_t offset = place - part->places[0];
        pieces[count++] = (struct fs_piece){offset, items, step, &part->layout};
        for (int64_t item = 0; item < items; item++) add(made, part->places, part->size, offset + item * step);
        place += items * step + below(random, 9);
    }
    CHECK_EQUAL(fs_layout_pieces(&made->layout, pieces, count), FS_LAYOUT_FINE);
}

static const struct model *random_layout(struct random *random, struct store *store)
{
    const int wanted = (int)below(random, DEPTH) + 1;
    for (int used = 0; used < wanted; used++) {
        struct model *made = &store->models[used];
        made->size = 0;
        if (used && below(random, 2)) make_pieces(random, store, used, made);
        else if (used && below(random, 2)) *made = store->models[used - 1];
        if (made->size == 0) make_runs(random, made, store->runs[used]);
        for (int64_t loops = below(random, 4); loops > 0; loops--) make_loop(random, made);
        CHECK_EQUAL(made->layout.size, made->size);
    }
    return &store->models[wanted - 1];
}

static int64_t place(const struct model *model, int64_t extent, int64_t from)
{
    return from / model->size * extent + model->places[from % model->size];
}

struct walked {
    const struct model *model;
    int64_t extent, from;
};

static int on_run(void *context, int64_t offset, int64_t length)
{
    struct walked *walked = context;
    for (int64_t i = 0; i < length; i++) CHECK_EQUAL(offset + i, place(walked->model, walked->extent, walked->from++));
    return 0;
}

TEST(each_byte_of_data_has_its_place_in_the_file, 0)
{
    struct random random = random_from(71);
    static struct store store;
    for (int round = 0; round < scaled(3000); round++) {
        const struct model *model = random_layout(&random, &store);
        const struct fs_layout *layout = &model->layout;
        const int64_t extent = span_of(model) + below(&random, 12), all = ITEMS * model->size;
        struct fs_reach reach;
        CHECK(fs_layout_reach(layout, &reach));
        CHECK_EQUAL(reach.first, model->places[0]);
        CHECK_EQUAL(reach.end, model->places[model->size - 1] + 1);
        CHECK(reach.runs >= 1 && reach.runs <= model->size);
        for (int64_t from = 0; from < all; from++)
            CHECK_EQUAL(fs_layout_place(layout, extent, from), place(model, extent, from));
        for (int64_t offset = -3, bytes = 0; bytes < all; offset++) {
            CHECK_EQUAL(fs_layout_below(layout, extent, offset), bytes);
            bytes += place(model, extent, bytes) == offset;
        }
        struct walked walked = {model, extent, below(&random, all)};
        const int64_t from = walked.from, bytes = below(&random, all - from) + 1;
        CHECK_EQUAL(fs_layout_walk(layout, extent, from, bytes, on_run, &walked), 0);
        CHECK_EQUAL(walked.from, from + bytes);
    }
}

TEST(layouts_whose_data_do_not_follow_each_other_are_refused, 0)
{
    struct fs_run runs[] = {{8, 4}, {0, 4}}, overlapping[] = {{0, 4}, {3, 4}};
    struct fs_layout layout;
    struct fs_reach reach;
    CHECK_EQUAL(fs_layout_runs(&layout, runs, 2), FS_LAYOUT_FINE);
    CHECK(!fs_layout_reach(&layout, &reach));
    CHECK_EQUAL(fs_layout_runs(&layout, overlapping, 2), FS_LAYOUT_FINE);
    CHECK(!fs_layout_reach(&layout, &reach));
    fs_layout_block(&layout, 8);
    CHECK_EQUAL(fs_layout_repeat(&layout, 3, 7), FS_LAYOUT_FINE);
    CHECK(!fs_layout_reach(&layout, &reach));
}

/* One write and one read, with every way of crossing the gaps; the file is `bytes` long before. */
static void check_transfer(struct random *random, const struct model *model, int file, int64_t extent, int how)
{
    static unsigned char wanted[FILE_BYTES], found[FILE_BYTES], data[ITEMS * MOST_BYTES], back[ITEMS * MOST_BYTES];
    struct fs_file_view view = {.start = below(random, 5000), .extent = extent, .layout = &model->layout};
    CHECK(fs_layout_reach(&model->layout, &view.reach));
    const int64_t all = ITEMS * model->size, from = below(random, all), bytes = below(random, all - from) + 1;
    int64_t length = below(random, 6000);
    memset(wanted, 0, sizeof wanted);
    for (int64_t i = 0; i < length; i++) wanted[i] = (unsigned char)random_next(random);
    CHECK(ftruncate(file, 0) == 0 && pwrite(file, wanted, (size_t)length, 0) == length);
    for (int64_t i = 0; i < bytes; i++) {
        const int64_t offset = view.start + place(model, extent, from + i);
        data[i] = wanted[offset] = (unsigned char)random_next(random);
        if (offset >= length) length = offset + 1;
    }
    CHECK_EQUAL(fs_file_write(file, &view, from, data, bytes, how), bytes);
    memset(found, 0, sizeof found);
    CHECK_EQUAL(pread(file, found, sizeof found, 0), length);
    CHECK(memcmp(found, wanted, sizeof found) == 0);
    const int64_t cut = below(random, length + 1);
    CHECK(ftruncate(file, cut) == 0);
    int64_t there = 0;
    while (there < bytes && view.start + place(model, extent, from + there) < cut) there++;
    memset(back, 0, sizeof back);
    CHECK_EQUAL(fs_file_read(file, &view, from, back, bytes, how), there);
    CHECK(memcmp(back, data, (size_t)there) == 0);
    for (int64_t i = there; i < bytes; i++) CHECK_EQUAL(back[i], 0);
}

TEST(what_is_written_is_read_again_and_nothing_else_changes, 0)
{
    static const int ways[] = {0, FS_FILE_READS, FS_FILE_READS | FS_FILE_LOCKED};
    struct random random = random_from(72);
    static struct store store;
    int file = memfd_create("files", MFD_CLOEXEC);
    CHECK(file >= 0);
    for (int round = 0; round < scaled(3000); round++) {
        const struct model *model = random_layout(&random, &store);
        const int64_t extent = span_of(model) + (below(&random, 3) ? below(&random, 12) : below(&random, 9000));
        check_transfer(&random, model, file, extent, ways[round % 3]);
    }
    close(file);
}

TEST(what_no_file_has_is_refused, 0)
{
    unsigned char data[16] = {0};
    struct fs_layout layout;
    fs_layout_block(&layout, 8);
    struct fs_file_view view = {.start = 100, .extent = 8, .layout = &layout};
    CHECK(fs_layout_reach(&layout, &view.reach));
    int file = memfd_create("files", MFD_CLOEXEC);
    const int64_t places[] = {INT64_MAX, INT64_MAX - 16, INT64_MAX - 107};
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(fs_file_write(file, &view, places[i], data, 16, FS_FILE_READS), -EFBIG);
        CHECK_EQUAL(fs_file_read(file, &view, places[i], data, 16, FS_FILE_READS), -EFBIG);
    }
    view.extent = 1ll << 40;
    CHECK_EQUAL(fs_file_write(file, &view, 1ll << 60, data, 16, FS_FILE_READS), -EFBIG);
    CHECK_EQUAL(fs_file_read(file, &view, 0, data, 16, FS_FILE_READS), 0);
    close(file);
}

struct mover {
    struct fs_file_pointer *pointer;
    int64_t taken;
};

enum { MOVES = 20000 };

static void *move(void *argument)
{
    struct mover *mover = argument;
    for (int64_t last = -1, i = 0; i < MOVES; i++) {
        const int64_t place = fs_file_pointer_take(mover->pointer, 3);
        CHECK(place > last && place % 3 == 0);
        last = place, mover->taken++;
    }
    return NULL;
}

TEST(a_shared_pointer_gives_each_place_once, 0)
{
    struct fs_file_pointer pointer = {0};
    struct mover movers[2] = {{&pointer, 0}, {&pointer, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, move, &movers[i]), 0);
    for (int i = 0; i < 2; i++) CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK_EQUAL(movers[0].taken + movers[1].taken, 2 * MOVES);
    CHECK_EQUAL(fs_file_pointer_read(&pointer), 3 * 2 * MOVES);
}

TEST(a_shared_pointer_that_another_process_spoilt_is_refused, 0)
{
    struct fs_file_pointer pointer;
    fs_file_pointer_set(&pointer, -5);
    CHECK_EQUAL(fs_file_pointer_read(&pointer), -EOVERFLOW);
    CHECK_EQUAL(fs_file_pointer_take(&pointer, 1), -EOVERFLOW);
    fs_file_pointer_set(&pointer, INT64_MAX - 1);
    CHECK_EQUAL(fs_file_pointer_take(&pointer, 2), -EOVERFLOW);
    CHECK_EQUAL(fs_file_pointer_take(&pointer, 1), INT64_MAX - 1);
    CHECK_EQUAL(fs_file_pointer_read(&pointer), INT64_MAX);
}

TEST(items_that_lie_within_each_other_are_moved_one_by_one, 0)
{
    static unsigned char data[] = "abcdefgh", found[12];
    struct fs_run runs[] = {{0, 1}, {8, 1}};
    struct fs_layout layout;
    CHECK_EQUAL(fs_layout_runs(&layout, runs, 2), FS_LAYOUT_FINE);
    struct fs_file_view view = {.extent = 1, .layout = &layout};
    CHECK(fs_layout_reach(&layout, &view.reach));
    CHECK(!fs_file_view_is_ordered(&view));
    int file = memfd_create("files", MFD_CLOEXEC);
    CHECK_EQUAL(fs_file_write(file, &view, 1, data, 7, FS_FILE_READS), 7); /* b: 8; c, d: 1, 9; ... */
    CHECK_EQUAL(pread(file, found, sizeof found, 0), 12);
    CHECK(memcmp(found, "\0bdf\0\0\0\0aceg", 12) == 0);
    memset(data, 0, sizeof data);
    CHECK_EQUAL(fs_file_read(file, &view, 1, data, 7, FS_FILE_READS), 7);
    CHECK(memcmp(data, "abcdefg", 7) == 0);
    close(file);
}
