/* Who may write where: claims are made and given back, and nothing is lost between those who write and those who change. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "files/locks.h"
#include "files/transfer.h"

enum { SHORT_WRITES = 12, LENGTH = 1 << 13, PLACES = 4, FOREIGN = 1 << 20 };

/* The same file, opened otherwise. */
static int opened(int file)
{
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    int found = open(name, O_RDWR | O_CLOEXEC);
    CHECK(found >= 0);
    return found;
}

static int short_writes(int file, int64_t start)
{
    int held = 0;
    for (int i = 0; i < SHORT_WRITES; i++) {
        held = fs_file_hold_to_write(file, start + i, 1, 1);
        CHECK(held & FS_FILE_TURN);
        fs_file_let_go(file, start + i, 1, held);
    }
    return held;
}

static int holds_all(int file, int64_t start, int64_t length)
{
    const int held = fs_file_hold_to_change(file, start, length, 1);
    fs_file_let_go(file, start, length, held);
    return (held & FS_FILE_WHOLE) != 0;
}

TEST(short_writes_that_follow_each_other_claim_what_comes_next, 0)
{
    int file = memfd_create("locks", MFD_CLOEXEC), other = opened(file);
    CHECK(holds_all(other, 0, FOREIGN));
    CHECK_EQUAL(short_writes(file, 100), FS_FILE_TURN);
    CHECK(!holds_all(other, 0, FOREIGN));
    CHECK(holds_all(other, 0, 100));
    CHECK(holds_all(other, FOREIGN, FOREIGN));
    CHECK_EQUAL(short_writes(file, FOREIGN), FS_FILE_TURN); /* the claim moves */
    CHECK(holds_all(other, 0, FOREIGN / 2));
    CHECK(!holds_all(other, FOREIGN, FOREIGN));
    fs_file_forget_claims(file);
    CHECK(holds_all(other, 0, 4 * FOREIGN));
    CHECK_EQUAL(short_writes(file, 0), FS_FILE_TURN);
    CHECK(holds_all(file, 0, FOREIGN)); /* its own it gives back */
    CHECK(holds_all(other, 0, FOREIGN));
    close(other);
    close(file);
}

TEST(nobody_claims_what_somebody_changes, 0)
{
    int file = memfd_create("locks", MFD_CLOEXEC), other = opened(file);
    int held = fs_file_hold_to_change(other, 0, FOREIGN, 1);
    CHECK(held & FS_FILE_WHOLE);
    CHECK_EQUAL(short_writes(file, 0), FS_FILE_TURN | FS_FILE_PART);
    fs_file_let_go(other, 0, FOREIGN, held);
    CHECK_EQUAL(short_writes(file, 0), FS_FILE_TURN | FS_FILE_PART); /* it was in vain a moment ago */
    fs_file_forget_claims(file);
    CHECK_EQUAL(short_writes(file, 0), FS_FILE_TURN);
    fs_file_forget_claims(file);
    for (int i = 0; i < SHORT_WRITES; i++) { /* long ones, and those far from each other, claim nothing */
        held = fs_file_hold_to_write(file, 0, FOREIGN, 1);
        CHECK_EQUAL(held, FS_FILE_TURN | FS_FILE_PART);
        fs_file_let_go(file, 0, FOREIGN, held);
        held = fs_file_hold_to_write(file, (int64_t)i * FOREIGN, 1, 1);
        CHECK_EQUAL(held, FS_FILE_TURN | FS_FILE_PART);
        fs_file_let_go(file, (int64_t)i * FOREIGN, 1, held);
        held = fs_file_hold_to_write(file, i, 1, 0);
        CHECK_EQUAL(held, FS_FILE_TURN | FS_FILE_PART);
        fs_file_let_go(file, i, 1, held);
    }
    close(other);
    close(file);
}

TEST(who_has_the_lock_of_a_part_waits_for_no_turn, 0)
{
    int file = memfd_create("locks", MFD_CLOEXEC);
    const int held = fs_file_hold_to_write(file, 0, 1, 0);
    CHECK_EQUAL(fs_file_hold_to_change(file, 100, 100, 1), 0);
    fs_file_let_go(file, 0, 1, held);
    CHECK(holds_all(file, 100, 100));
    close(file);
}

TEST(places_beyond_all_files_are_never_claimed, 0)
{
    int file = memfd_create("locks", MFD_CLOEXEC), other = opened(file);
    CHECK_EQUAL(short_writes(file, INT64_MAX - 100), FS_FILE_TURN | FS_FILE_PART);
    CHECK(!holds_all(other, INT64_MAX - 100, 50));
    close(other);
    close(file);
}

/* One of every four bytes is its own: it writes these one by one, or all together with what lies between. */
struct writer {
    int file, place, changes;
    const struct fs_layout *byte;
};

static _Atomic int writing; /* how many write one by one */

static void check_own(const struct writer *writer, int round)
{
    static unsigned char found[PLACES][LENGTH * PLACES];
    unsigned char *all = found[writer->place];
    CHECK_EQUAL(pread(writer->file, all, LENGTH * PLACES, 0), LENGTH * PLACES);
    for (int64_t i = 0; i < LENGTH; i++) CHECK_EQUAL(all[i * PLACES + writer->place], round % 256);
}

static void write_round(const struct writer *writer, int round)
{
    static unsigned char all[PLACES][LENGTH];
    unsigned char *data = all[writer->place];
    const int how = FS_FILE_READS | FS_FILE_CLAIMS;
    struct fs_file_view view = {.start = writer->place, .extent = PLACES, .layout = writer->byte};
    CHECK(fs_layout_reach(writer->byte, &view.reach));
    memset(data, round, LENGTH);
    if (writer->changes) {
        CHECK_EQUAL(fs_file_write(writer->file, &view, 0, data, LENGTH, how), LENGTH);
        return;
    }
    for (int64_t i = 0; i < LENGTH; i++) CHECK_EQUAL(fs_file_write(writer->file, &view, i, data, 1, how), 1);
    if (round % 3 == 0) fs_file_forget_claims(writer->file);
}

static void *write_own(void *argument)
{
    const struct writer *writer = argument;
    for (int round = 1; writer->changes ? atomic_load(&writing) > 0 : round <= scaled(8); round++) {
        write_round(writer, round);
        check_own(writer, round);
    }
    if (!writer->changes) atomic_fetch_sub(&writing, 1);
    return NULL;
}

TEST(nothing_is_lost_between_short_writes_and_changes, 0)
{
    struct fs_layout byte;
    fs_layout_block(&byte, 1);
    int file = memfd_create("locks", MFD_CLOEXEC), second = opened(file), third = opened(file);
    CHECK_EQUAL(ftruncate(file, LENGTH * PLACES), 0);
    struct writer writers[PLACES] = {
        {file, 0, 0, &byte}, {file, 1, 1, &byte}, {second, 2, 1, &byte}, {third, 3, 0, &byte}};
    pthread_t threads[PLACES];
    atomic_store(&writing, 2);
    for (int i = 0; i < PLACES; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, write_own, &writers[i]), 0);
    for (int i = 0; i < PLACES; i++) CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    close(third);
    close(second);
    close(file);
}
