/* What is left in the memory of both ends for later, and ends that somebody looks at for longer than a call. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "switch/importers.h"

static void close_both(struct pair *pair)
{
    for (int side = 0; side < 2; side++)
        if (pair->fd[side] >= 0) pair_close(pair, side);
    pair_done(pair);
}

static void expect_importers(const struct pair *pair, int side, uint64_t own, uint64_t other)
{
    CHECK(fs_importer_own(pair->end[side], pair->fd[side]) == own);
    CHECK(fs_importer_other(pair->end[side], pair->fd[side]) == other);
}

TEST(connection_without_memory_has_no_importers, 0)
{
    struct pair pair = pair_both(4096);
    for (int offered = 0; offered < 2; offered++) {
        if (offered) CHECK_EQUAL(pair_offer(&pair), 0); /* nobody has joined */
        for (int side = 0; side < 2; side++) {
            CHECK_EQUAL(fs_importer_show(pair.end[side], pair.fd[side], 7), -EAGAIN);
            expect_importers(&pair, side, 0, 0);
        }
    }
    close_both(&pair);
}

TEST(each_end_sees_the_other_ones_importer, 0)
{
    struct pair pair = pair_attached(4096);
    uint64_t shown[2] = {0, 0};
    struct random random = random_from(1);
    for (int i = 0; i < 1000; i++) {
        int side = (int)random_below(&random, 2);
        shown[side] = i % 5 == 0 ? 0 : random_next(&random);
        CHECK_EQUAL(fs_importer_show(pair.end[side], pair.fd[side], shown[side]), 0);
        for (int looks = 0; looks < 2; looks++) expect_importers(&pair, looks, shown[looks], shown[!looks]);
    }
    close_both(&pair);
}

TEST(forked_process_shows_an_importer_for_its_family, NEEDS_PROCESSES)
{
    struct pair pair = pair_attached(4096);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(fs_importer_show(pair.end[0], pair.fd[0], 77) != 0);
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    expect_importers(&pair, 0, 77, 0);
    expect_importers(&pair, 1, 0, 77);
    close_both(&pair);
}

TEST(importer_of_a_number_that_was_closed_is_nowhere, 0)
{
    struct pair pair = pair_attached(4096);
    int number = pair.fd[0];
    CHECK_EQUAL(fs_importer_show(pair.end[0], number, 9), 0);
    pair_close(&pair, 0);
    CHECK_EQUAL(fs_importer_show(pair.end[0], number, 10), -EBADF);
    CHECK(fs_importer_own(pair.end[0], number) == 0);
    CHECK(fs_importer_other(pair.end[0], number) == 0);
    close_both(&pair);
}

TEST(only_the_last_number_of_a_connection_closes_its_importer, 0)
{
    struct pair pair = pair_attached(4096);
    CHECK(fs_importer_closes(pair.end[0]));
    int other = dup(pair.fd[0]);
    CHECK_EQUAL(fs_table_duplicate(pair.fd[0], other), 0);
    CHECK(!fs_importer_closes(pair.end[0]));
    fs_leave_descriptor(other);
    close(other);
    CHECK(fs_importer_closes(pair.end[0]));
    close_both(&pair);
}

/* ---- ends that are held ---- */

TEST(nothing_is_held_of_a_connection_without_memory, 0)
{
    struct pair pair = pair_both(4096);
    struct fs_record *record = NULL;
    CHECK(fs_carry_hold(pair.end[0], pair.fd[0], &record) == NULL);
    CHECK_EQUAL(pair_offer(&pair), 0);
    CHECK(fs_carry_hold(pair.end[1], pair.fd[1], &record) == NULL);
    int number = pair.fd[0];
    pair_close(&pair, 0);
    CHECK(fs_carry_hold(pair.end[0], number, &record) == NULL);
    close_both(&pair);
}

TEST(held_end_shows_what_comes_and_who_leaves, 0)
{
    struct pair pair = pair_attached(4096);
    struct fs_record *record = NULL;
    struct fs_end *end = fs_carry_hold(pair.end[0], pair.fd[0], &record);
    CHECK(end != NULL && record == pair.end[0]->record);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc"); /* this end has carried out the change */
    CHECK(fs_carry_is_by_ring(record, end));
    CHECK(!fs_end_has_data(end));
    CHECK_EQUAL(send_now(&pair, 1, "def", 3, 0), 3);
    CHECK(fs_end_has_data(end));
    expect_bytes(&pair, 0, "def");
    pair_close(&pair, 1);
    CHECK(fs_end_other_left(end));
    CHECK(!fs_carry_is_by_ring(record, end)); /* TCP tells of the end */
    fs_end_free(end);
    close_both(&pair);
}

TEST(held_end_outlives_its_number, 0)
{
    struct pair pair = pair_attached(4096);
    struct fs_record *record;
    struct fs_end *end = fs_carry_hold(pair.end[0], pair.fd[0], &record);
    struct fs_end *again = fs_carry_hold(pair.end[0], pair.fd[0], &record);
    CHECK(end != NULL && end == again);
    close_both(&pair);
    for (int holder = 0; holder < 2; holder++) {
        CHECK(fs_end_other_left(end)); /* its memory is there */
        CHECK(!fs_end_has_data(end));
        fs_end_free(end);
    }
}

struct looker {
    struct fs_connection *connection;
    int number;
    _Atomic int looks;
};

static void *look_until_it_has_left(void *argument)
{
    struct looker *looker = argument;
    struct fs_record *record;
    struct fs_end *end;
    uint64_t importer = 0;
    while ((end = fs_carry_hold(looker->connection, looker->number, &record)) != NULL) {
        fs_carry_is_by_ring(record, end);
        fs_end_has_data(end);
        fs_importer_show(looker->connection, looker->number, ++importer);
        fs_importer_other(looker->connection, looker->number);
        fs_end_free(end);
        atomic_fetch_add(&looker->looks, 1);
    }
    return NULL;
}

TEST(threads_that_hold_an_end_do_not_mind_its_close, 0)
{
    enum { LOOKERS = 3 };
    struct random random = random_from(2);
    int before = 0;
    for (int i = 0; i < scaled(1000); i++) {
        struct pair pair = pair_attached(4096);
        struct looker lookers[LOOKERS];
        pthread_t threads[LOOKERS];
        for (int k = 0; k < LOOKERS; k++) {
            lookers[k] = (struct looker){.connection = pair.end[0], .number = pair.fd[0]};
            threads[k] = start_thread(look_until_it_has_left, &lookers[k]);
        }
        while (atomic_load(&lookers[0].looks) < (int)random_below(&random, 50)) sched_yield();
        int first = (int)random_below(&random, 2);
        if (first == 1) pair_close(&pair, 1);
        /* the number is not closed before they have seen that it left: another socket would have it */
        fs_leave_descriptor(pair.fd[0]);
        for (int k = 0; k < LOOKERS; k++) join_thread(threads[k]);
        close(pair.fd[0]);
        pair.fd[0] = -1;
        close_both(&pair);
        if (i == 0) before = count_descriptors();
        else CHECK_EQUAL(count_descriptors(), before);
    }
}
