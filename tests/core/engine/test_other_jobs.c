/* Ranks of other jobs: they come late, each side knows the other by a number of its own, and their failure is theirs. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "engines.h"

static void prepare(struct fs_request *request, int kind, void *data, size_t length)
{
    request->one = (struct iovec){data, length};
    fs_request_prepare(request, kind, NULL, 1);
}

static void pump(struct fs_engine *engines[2], const struct fs_request *request)
{
    uint64_t limit = fs_now_ns() + STALL_NS;
    while (!fs_request_is_done(request)) {
        for (int side = 0; side < 2; side++) fs_engine_progress(engines[side]);
        CHECK(fs_now_ns() < limit);
    }
}

/* Rank 2 of 3, and rank 1 of 2. */
static void meet(struct fs_engine *engines[2], int numbers[2], int claimed)
{
    const int first[] = {0, 1}, second[] = {7, claimed};
    int pair[2];
    engines[0] = engine_of(2, 3);
    engines[1] = engine_of(1, 2);
    numbers[0] = fs_engine_add_peers(engines[0], first, 2) + 1; /* whom the first one sends to */
    numbers[1] = fs_engine_add_peers(engines[1], second, 2) + 1;
    CHECK_EQUAL(numbers[0], 4);
    CHECK_EQUAL(numbers[1], 3);
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int side = 0; side < 2; side++)
        CHECK_EQUAL(fs_engine_attach_descriptor(engines[side], numbers[side], pair[side]), 0);
}

static void part(struct fs_engine *engines[2])
{
    for (int side = 0; side < 2; side++) fs_engine_close(engines[side]);
    for (int side = 0; side < 2; side++) fs_engine_release(engines[side]);
}

TEST(ranks_of_two_jobs_send_each_other_messages, 0)
{
    struct fs_engine *engines[2];
    int numbers[2];
    meet(engines, numbers, 2);
    for (int round = 0; round < 20; round++) {
        static unsigned char from[9000], into[9000];
        size_t length = round % 2 ? sizeof from : 100;
        struct fs_request send, receive;
        const int side = round / 2 % 2;
        memset(from, round + 1, length);
        prepare(&send, FS_SENDING, from, length);
        prepare(&receive, FS_RECEIVING, into, length);
        fs_engine_receive(engines[!side], &receive, round % 3 ? numbers[!side] : FS_ANY, FS_ANY, 6);
        fs_engine_send(engines[side], &send, numbers[side], round, 6, FS_STANDARD);
        pump(engines, &receive);
        pump(engines, &send);
        CHECK_EQUAL(receive.error, FS_FINE);
        CHECK_EQUAL(receive.envelope.source, numbers[!side]);
        CHECK_EQUAL(receive.envelope.tag, round);
        CHECK_EQUAL(memcmp(into, from, length), 0);
    }
    part(engines);
}

TEST(who_says_that_it_is_another_rank_of_its_job_is_refused, 0)
{
    struct fs_engine *engines[2];
    struct fs_request receive;
    int numbers[2];
    meet(engines, numbers, 1); /* it is rank 2 */
    prepare(&receive, FS_RECEIVING, NULL, 0);
    fs_engine_receive(engines[1], &receive, numbers[1], 0, 6);
    pump(engines, &receive);
    CHECK_EQUAL(receive.error, FS_PROTOCOL);
    part(engines);
}

TEST(the_failure_of_another_jobs_rank_ends_what_waits_for_it_alone, 0)
{
    struct fs_engine *engines[2];
    struct fs_request own, shared;
    int numbers[2];
    meet(engines, numbers, 2);
    const int members[] = {0, 2, numbers[0]};
    CHECK_EQUAL(fs_engine_set_members(engines[0], 6, members, 3), 0);
    prepare(&own, FS_RECEIVING, NULL, 0);
    prepare(&shared, FS_RECEIVING, NULL, 0);
    fs_engine_receive(engines[0], &own, FS_ANY, 0, 0); /* of the job: nobody of another one is a member */
    fs_engine_receive(engines[0], &shared, FS_ANY, 0, 6);
    fs_engine_fail(engines[0], numbers[0], "for the test");
    CHECK(fs_request_is_done(&shared));
    CHECK(shared.error != FS_FINE);
    CHECK(!fs_request_is_done(&own));
    fs_engine_abandon(engines[0], &own);
    part(engines);
}

TEST(a_rank_knows_no_more_others_than_there_is_room_for, 0)
{
    struct fs_engine *engine = engine_of(0, 1);
    static int ranks[FS_MOST_OTHERS + 1];
    CHECK_EQUAL(fs_engine_add_peers(engine, ranks, FS_MOST_OTHERS + 1), -ENOSPC);
    CHECK_EQUAL(fs_engine_add_peers(engine, ranks, FS_MOST_OTHERS), 1);
    CHECK_EQUAL(fs_engine_add_peers(engine, ranks, 1), -ENOSPC);
    CHECK_EQUAL(fs_engine_add_peers(engine, ranks, 0), 1 + FS_MOST_OTHERS);
    fs_engine_fail(engine, FS_MOST_OTHERS, "the last one");
    fs_engine_close(engine);
    fs_engine_release(engine);
}
