/* The way out: foreign code takes a descriptor, and TCP carries both directions. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.h"
#include "tcp.h"

static void raw_expect(int fd, const char *text)
{
    char got[64];
    size_t length = strlen(text);
    CHECK_EQUAL(recv(fd, got, length, MSG_WAITALL), length);
    CHECK(memcmp(got, text, length) == 0);
}

static void talk_raw(struct pair *pair)
{
    for (int i = 0; i < 20; i++) {
        CHECK_EQUAL(send(pair->fd[0], "raw", 3, 0), 3);
        expect_bytes(pair, 1, "raw");
        CHECK_EQUAL(send_now(pair, 1, "answer", 6, 0), 6);
        raw_expect(pair->fd[0], "answer");
        CHECK_EQUAL(recv(pair->fd[0], &i, 1, MSG_DONTWAIT), -1);
    }
}

static void close_both(struct pair *pair)
{
    for (int side = 0; side < 2; side++) pair_close(pair, side);
    pair_done(pair);
}

TEST(way_out_of_a_quiet_connection_is_immediate, 0)
{
    for (int talked = 0; talked < 4; talked++) {
        struct pair pair = pair_attached(4096);
        for (int i = 0; i < talked; i++) {
            CHECK_EQUAL(send_now(&pair, 0, "hello", 5, 0), 5);
            expect_bytes(&pair, 1, "hello");
            CHECK_EQUAL(send_now(&pair, 1, "world", 5, 0), 5);
            expect_bytes(&pair, 0, "world");
        }
        CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
        CHECK(!fs_carry_is_attached(pair.end[0]));
        talk_raw(&pair);
        close_both(&pair);
    }
}

TEST(way_out_leaves_what_was_sent_for_the_other_end, 0)
{
    struct pair pair = pair_attached(4096);
    CHECK_EQUAL(send_now(&pair, 0, "before ", 7, 0), 7);
    CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
    CHECK_EQUAL(send(pair.fd[0], "after", 5, 0), 5);
    expect_bytes(&pair, 1, "before after");
    talk_raw(&pair);
    close_both(&pair);
}

TEST(unread_bytes_are_in_the_way_out_if_nobody_answers, 0)
{
    struct pair pair = pair_attached(4096);
    CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
    CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), -EAGAIN);
    expect_bytes(&pair, 0, "unread");
    CHECK_EQUAL(send_now(&pair, 1, "more", 4, 0), 4);
    expect_bytes(&pair, 0, "more");
    CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
    talk_raw(&pair);
    close_both(&pair);
}

static void *answer(void *argument)
{
    struct pair *pair = argument;
    char got[4];
    while (fs_carry_is_attached(pair->end[0])) {
        CHECK_EQUAL(receive_now(pair, 1, got, 4, 0), -EAGAIN);
        sched_yield();
    }
    return NULL;
}

TEST(unread_bytes_are_sent_again_by_an_end_that_answers, 0)
{
    struct pair pair = pair_attached(4096);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc");
    CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
    pthread_t thread = start_thread(answer, &pair);
    while (fs_leave_release(pair.end[0], pair.fd[0]) == -EAGAIN) {}
    join_thread(thread);
    raw_expect(pair.fd[0], "unread");
    talk_raw(&pair);
    close_both(&pair);
}

TEST(way_out_before_the_attach_and_while_an_offer_is_open, 0)
{
    for (int offers = 0; offers < 2; offers++) {
        struct pair pair = pair_both(4096);
        if (offers) CHECK_EQUAL(pair_offer(&pair), 0);
        CHECK_EQUAL(send_now(&pair, 0, "abc", 3, 0), 3);
        CHECK_EQUAL(fs_leave_release(pair.end[1], pair.fd[1]), 0);
        CHECK(pair_join(&pair) < 0);
        raw_expect(pair.fd[1], "abc");
        CHECK_EQUAL(send(pair.fd[1], "def", 3, 0), 3);
        expect_bytes(&pair, 0, "def");
        close_both(&pair);
    }
}

/* One end streams, and the other one goes over to raw calls at any moment. */
static void run_release(uint64_t salt)
{
    struct random random = random_from(salt);
    struct pair pair = pair_attached(4096);
    uint64_t total = random_below(&random, 300000), largest = 1 + random_below(&random, 10000), got = 0, sent = 0;
    enum style style = (enum style)random_below(&random, STYLES);
    struct traffic out = {&pair, 1, style, 1, total, salt + 1, largest, 0, 0};
    struct traffic in = {&pair, 1, (enum style)random_below(&random, STYLES), 2, 100000, salt + 2, largest, 0, 0};
    pthread_t threads[2] = {start_thread(traffic_send, &out), start_thread(traffic_receive, &in)};
    static _Thread_local unsigned char block[20000];
    struct waiter waiter = {&pair, 0, FS_READABLE, -1, BLOCKING, 0};
    for (int released = 0; got < total || sent < 100000;) {
        if (!released && random_below(&random, 4) == 0) released = fs_leave_release(pair.end[0], pair.fd[0]) == 0;
        if (got < total) {
            ssize_t part = released ? recv(pair.fd[0], block, sizeof block, 0)
                                    : pair_receive(&pair, &waiter, block, random_size(&random, sizeof block), 0);
            CHECK(part > 0);
            stream_check(1, got, block, (size_t)part);
            got += (uint64_t)part;
        }
        if (sent < 100000) {
            size_t size = random_size(&random, 5000);
            if (size > 100000 - sent) size = (size_t)(100000 - sent);
            stream_fill(2, sent, block, size);
            ssize_t part = released ? send(pair.fd[0], block, size, MSG_NOSIGNAL) : send_now(&pair, 0, block, size, 0);
            CHECK(part > 0 || part == -EAGAIN);
            if (part > 0) sent += (uint64_t)part;
        }
    }
    join_thread(threads[0]);
    join_thread(threads[1]);
    close_both(&pair);
}

TEST(way_out_at_any_moment, 0)
{
    for (int i = 0; i < scaled(300); i++) run_release(400 + (uint64_t)i);
}
