/* What each call does at each carrier, step by step. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.h"

static int is_readable(int fd)
{
    struct pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, 0) > 0 && (one.revents & POLLIN) != 0;
}

static void close_both(struct pair *pair)
{
    for (int side = 0; side < 2; side++)
        if (pair->fd[side] >= 0) pair_close(pair, side);
    pair_done(pair);
}

TEST(plain_connection_carries_over_tcp, 0)
{
    struct pair pair = pair_both(4096);
    char got[8];
    CHECK_EQUAL(receive_now(&pair, 0, got, sizeof got, 0), -EAGAIN);
    CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
    CHECK_EQUAL(receive_now(&pair, 0, got, 2, FS_PEEK), 2);
    CHECK_EQUAL(receive_now(&pair, 0, got, sizeof got, 0), 5);
    CHECK(!fs_carry_is_attached(pair.end[0]) && !fs_carry_is_attached(pair.end[1]));
    CHECK_EQUAL(fs_moved(&pair.end[0]->record->received), 5);
    CHECK_EQUAL(fs_moved(&pair.end[1]->record->sent), 5);
    close_both(&pair);
}

TEST(attached_connection_carries_through_the_ring, 0)
{
    struct pair pair = pair_attached(4096);
    for (int i = 0; i < 100; i++) {
        CHECK_EQUAL(send_now(&pair, i & 1, "hello", 5, 0), 5);
        expect_bytes(&pair, !(i & 1), "hello");
    }
    struct fs_carriers carriers;
    fs_connection_report(pair.end[0], pair.fd[0], &carriers);
    CHECK_EQUAL(carriers.ring_out, 250);
    CHECK_EQUAL(carriers.ring_in, 250);
    close_both(&pair);
}

TEST(receive_that_looks_finds_what_comes_and_lets_go_of_the_lock, 0)
{
    struct pair pair = pair_attached(4096);
    const int looks = FS_AT_ONCE | FS_WILL_WAIT | FS_LOOKS;
    char got[8];
    for (int i = 0; i < 100; i++) {
        CHECK_EQUAL(receive_now(&pair, i & 1, got, sizeof got, looks), -EAGAIN);
        CHECK_EQUAL(atomic_load(&pair.end[i & 1]->record->receiver), 0);
        CHECK_EQUAL(send_now(&pair, !(i & 1), "hello", 5, 0), 5);
        CHECK_EQUAL(receive_now(&pair, i & 1, got, sizeof got, looks), 5);
    }
    pair_close(&pair, 1);
    for (int i = 0; i < 1000 && receive_now(&pair, 0, got, sizeof got, looks) == -EAGAIN; i++) sched_yield();
    CHECK_EQUAL(receive_now(&pair, 0, got, sizeof got, FS_AT_ONCE), 0);
    close_both(&pair);
}

TEST(bytes_on_their_way_at_the_attach_come_first, 0)
{
    struct pair pair = pair_both(4096);
    CHECK_EQUAL(send_now(&pair, 0, "one ", 4, 0), 4);
    CHECK_EQUAL(send_now(&pair, 1, "two ", 4, 0), 4);
    pair_attach(&pair);
    CHECK_EQUAL(send_now(&pair, 0, "three", 5, 0), 5);
    CHECK_EQUAL(send_now(&pair, 1, "four", 4, 0), 4);
    expect_bytes(&pair, 1, "one three");
    expect_bytes(&pair, 0, "two four");
    close_both(&pair);
}

TEST(offer_that_is_withdrawn_changes_nothing, 0)
{
    struct pair pair = pair_both(4096);
    for (int i = 0; i < OFFERS - 1; i++) {
        CHECK_EQUAL(pair_offer(&pair), 0);
        CHECK_EQUAL(send_now(&pair, 1, "a", 1, 0), 1);
        CHECK_EQUAL(send_now(&pair, 0, "b", 1, 0), 1);
        expect_bytes(&pair, 1, "b");
        CHECK_EQUAL(fs_attach_withdraw(pair.end[1], pair.fd[1]), 1);
        CHECK_EQUAL(pair_join(&pair), -ECONNREFUSED);
        expect_bytes(&pair, 0, "a");
    }
    pair_attach(&pair);
    CHECK_EQUAL(send_now(&pair, 1, "c", 1, 0), 1);
    expect_bytes(&pair, 0, "c");
    CHECK_EQUAL(fs_attach_withdraw(pair.end[1], pair.fd[1]), 0);
    close_both(&pair);
}

TEST(watcher_sees_exactly_what_is_unread, 0)
{
    struct pair pair = pair_attached(4096);
    char got[8];
    fs_connection_watch(pair.end[0], pair.fd[0]);
    for (int i = 0; i < 50; i++) {
        CHECK(!is_readable(pair.fd[0]));
        CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
        CHECK(is_readable(pair.fd[0]));
        CHECK_EQUAL(receive_now(&pair, 0, got, 2, 0), 2);
        CHECK(is_readable(pair.fd[0]));
        if (i & 1) CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        if (i & 1) CHECK_EQUAL(receive_now(&pair, 0, got, 3, 0), 3);
        CHECK(is_readable(pair.fd[0]));
        CHECK_EQUAL(receive_now(&pair, 0, got, 3, 0), 3);
        CHECK_EQUAL(receive_now(&pair, 0, got, 3, 0), -EAGAIN);
    }
    close_both(&pair);
}

TEST(whoever_begins_to_watch_sees_what_is_unread, 0)
{
    for (int i = 0; i < 20; i++) {
        struct pair pair = pair_attached(4096);
        char got[8];
        for (int k = 0; k < i; k++) {
            CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
            CHECK_EQUAL(receive_now(&pair, 0, got, 5 - k % 2, 0), 5 - k % 2);
            if (k % 2) CHECK_EQUAL(receive_now(&pair, 0, got, 5, 0), 1);
        }
        if (i % 3) CHECK_EQUAL(send_now(&pair, 1, "x", 1, 0), 1);
        fs_connection_watch(pair.end[0], pair.fd[0]);
        CHECK_EQUAL(is_readable(pair.fd[0]), i % 3 != 0);
        close_both(&pair);
    }
}

TEST(full_ring_is_spilled_to_tcp_and_the_ring_serves_again, 0)
{
    struct pair pair = pair_attached(4096);
    static unsigned char block[1 << 20], got[1 << 20];
    fs_connection_watch(pair.end[0], pair.fd[0]);
    uint64_t put = 0, taken = 0;
    for (int round = 0; round < 10; round++) {
        for (;;) {
            stream_fill(1, put, block, 10000);
            ssize_t sent = send_now(&pair, 1, block, 10000, 0);
            if (sent == -EAGAIN) break;
            CHECK(sent > 0);
            put += (uint64_t)sent;
        }
        struct pollfd one = {pair.fd[1], POLLOUT, 0};
        CHECK_EQUAL(poll(&one, 1, 0), 0); /* exactly not writable */
        while (taken < put) {
            struct pollfd in = {pair.fd[0], POLLIN, 0};
            CHECK_EQUAL(poll(&in, 1, 20000), 1);
            ssize_t part = receive_now(&pair, 0, got, 1 + taken % 30000, 0);
            if (part == -EAGAIN) continue;
            CHECK(part > 0);
            stream_check(1, taken, got, (size_t)part);
            taken += (uint64_t)part;
        }
        CHECK_EQUAL(poll(&one, 1, 20000), 1);
    }
    struct fs_carriers carriers;
    fs_connection_report(pair.end[1], pair.fd[1], &carriers);
    CHECK(carriers.spills >= 5);
    close_both(&pair);
}

TEST(peek_leaves_the_bytes_on_each_carrier, 0)
{
    struct pair pair = pair_both(4096);
    char got[16];
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    CHECK_EQUAL(pair_offer(&pair), 0);
    CHECK_EQUAL(receive_now(&pair, 0, got, 16, FS_PEEK), 3);
    CHECK_EQUAL(pair_join(&pair), 0);
    CHECK_EQUAL(fs_attach_progress(pair.end[1], pair.fd[1]), 1);
    CHECK_EQUAL(send_now(&pair, 1, "def", 3, 0), 3);
    CHECK_EQUAL(receive_now(&pair, 0, got, 16, FS_PEEK), 6);
    CHECK(memcmp(got, "abcdef", 6) == 0);
    CHECK_EQUAL(receive_now(&pair, 0, got, 5, FS_PEEK), 5);
    CHECK_EQUAL(receive_now(&pair, 0, got, 2, 0), 2);
    CHECK_EQUAL(receive_now(&pair, 0, got, 1, 0), 1);
    CHECK_EQUAL(receive_now(&pair, 0, got, 16, FS_PEEK), 3);
    CHECK(memcmp(got, "def", 3) == 0);
    CHECK_EQUAL(receive_now(&pair, 0, got, 16, 0), 3);
    CHECK_EQUAL(receive_now(&pair, 0, got, 16, FS_PEEK), -EAGAIN);
    close_both(&pair);
}

/* The ring's bytes, then tokens, then TCP's. */
TEST(peek_sees_past_the_tokens, 0)
{
    struct pair pair = pair_by_ring(4096);
    struct fs_record *within;
    char got[16];
    CHECK_EQUAL(send_now(&pair, 1, "a", 1, 0), 1);
    CHECK_EQUAL(receive_now(&pair, 0, got, 16, FS_PEEK), 1);
    CHECK_EQUAL(send_now(&pair, 1, "bc", 2, 0), 2);
    CHECK_EQUAL(receive_now(&pair, 0, got, 16, FS_PEEK), 3);
    CHECK_EQUAL(fs_carry_send_begins(pair.end[1], pair.fd[1], 0, &within), 0);
    fs_carry_send_ended(pair.end[1], pair.fd[1], within, send(pair.fd[1], "def", 3, MSG_NOSIGNAL));
    CHECK_EQUAL(receive_now(&pair, 0, got, 3, FS_PEEK), 3);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(receive_now(&pair, 0, got, 16, FS_PEEK), 6);
        CHECK(memcmp(got, "abcdef", 6) == 0);
    }
    CHECK_EQUAL(receive_now(&pair, 0, got, 5, FS_PEEK), 5);
    expect_bytes(&pair, 0, "abcdef");
    close_both(&pair);
}

TEST(discarded_bytes_are_gone_on_each_carrier, 0)
{
    struct pair pair = pair_both(4096);
    char got[16];
    CHECK_EQUAL(send_now(&pair, 1, "abcd", 4, 0), 4);
    pair_attach(&pair);
    CHECK_EQUAL(send_now(&pair, 1, "efgh", 4, 0), 4);
    CHECK_EQUAL(fs_carry_receive(pair.end[0], pair.fd[0], NULL, 3, 0, MSG_TRUNC | MSG_DONTWAIT), 3);
    CHECK_EQUAL(fs_carry_receive(pair.end[0], pair.fd[0], got, 3, 0, MSG_TRUNC | MSG_DONTWAIT), 3);
    expect_bytes(&pair, 0, "gh");
    close_both(&pair);
}

TEST(calls_without_bytes_answer_as_tcp_does, 0)
{
    struct pair pair = pair_attached(4096);
    char got[4];
    CHECK_EQUAL(send_now(&pair, 1, "", 0, 0), 0);
    CHECK_EQUAL(receive_now(&pair, 0, got, 0, 0), -EAGAIN);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    CHECK_EQUAL(receive_now(&pair, 0, got, 0, 0), 0);
    expect_bytes(&pair, 0, "abc");
    pair_close(&pair, 1);
    CHECK_EQUAL(receive_now(&pair, 0, got, 0, 0), 0);
    CHECK_EQUAL(receive_now(&pair, 0, got, 1, 0), 0);
    close_both(&pair);
}

TEST(urgent_byte_travels_over_tcp_between_the_others, 0)
{
    struct pair pair = pair_attached(4096);
    char got[8];
    CHECK_EQUAL(send_now(&pair, 1, "ab", 2, 0), 2);
    struct iovec part = {"!", 1};
    struct fs_parts parts = fs_parts_of(&part, 1);
    CHECK_EQUAL(fs_carry_send(pair.end[1], pair.fd[1], &parts, 0, MSG_OOB | MSG_NOSIGNAL), 1);
    CHECK_EQUAL(send_now(&pair, 1, "cd", 2, 0), 2);
    struct pollfd one = {pair.fd[0], POLLPRI, 0};
    CHECK_EQUAL(poll(&one, 1, 20000), 1);
    CHECK_EQUAL(fs_carry_receive(pair.end[0], pair.fd[0], got, 8, 0, MSG_OOB), 1);
    CHECK_EQUAL(got[0], '!');
    expect_bytes(&pair, 0, "abcd");
    for (int i = 0; i < 10; i++) {
        CHECK_EQUAL(send_now(&pair, 1, "ef", 2, 0), 2);
        expect_bytes(&pair, 0, "ef");
        CHECK_EQUAL(send_now(&pair, 0, "gh", 2, 0), 2);
        expect_bytes(&pair, 1, "gh");
    }
    close_both(&pair);
}

TEST(unread_bytes_are_counted_on_each_carrier, 0)
{
    struct pair pair = pair_both(4096);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    CHECK_EQUAL(fs_carry_unread(pair.end[0], pair.fd[0]), 3);
    pair_attach(&pair);
    CHECK_EQUAL(fs_carry_unread(pair.end[0], pair.fd[0]), 3);
    CHECK_EQUAL(send_now(&pair, 1, "defg", 4, 0), 4);
    CHECK_EQUAL(fs_carry_unread(pair.end[0], pair.fd[0]), 7);
    expect_bytes(&pair, 0, "abcdefg");
    CHECK_EQUAL(fs_carry_unread(pair.end[0], pair.fd[0]), 0);
    CHECK_EQUAL(send_now(&pair, 1, "hi", 2, 0), 2);
    CHECK_EQUAL(fs_carry_unread(pair.end[0], pair.fd[0]), 2);
    close_both(&pair);
}

TEST(numbers_that_are_no_connections_are_left_alone, 0)
{
    struct pair pair = pair_attached(4096);
    struct fs_connection *before = pair.end[0];
    int fd = pair.fd[0];
    char got[4];
    CHECK(fs_table_find(-1) == NULL && fs_table_find(1 << 30) == NULL && fs_table_find(0) == NULL);
    pair_close(&pair, 0);
    CHECK(fs_table_find(fd) == NULL);
    CHECK_EQUAL(fs_carry_receive(before, fd, got, 4, 0, MSG_DONTWAIT), -EBADF);
    fs_leave_descriptor(fd);
    CHECK_EQUAL(fs_table_enter(1 << 30, FS_ROLE_UNKNOWN), -EMFILE);
    close_both(&pair);
}

TEST(duplicates_are_one_connection, 0)
{
    struct pair pair = pair_attached(4096);
    int other = dup(pair.fd[0]);
    char got[8];
    CHECK_EQUAL(fs_table_duplicate(pair.fd[0], other), 0);
    CHECK(fs_table_find(other) == pair.end[0]);
    fs_leave_descriptor(pair.fd[0]);
    close(pair.fd[0]);
    pair.fd[0] = other;
    CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
    CHECK_EQUAL(receive_now(&pair, 0, got, 8, 0), 5);
    CHECK_EQUAL(send_now(&pair, 0, "back", 4, 0), 4);
    expect_bytes(&pair, 1, "back");
    close_both(&pair);
}

/* ---- who is told of edges alone ---- */

static int has_edge(int epoll)
{
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, 0);
}

TEST(edge_comes_with_each_arrival_that_tcp_would_tell_of, 0)
{
    struct pair pair = pair_attached(4096);
    char got[8];
    fs_connection_watch(pair.end[0], pair.fd[0]);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    CHECK_EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, pair.fd[0], &event), 0);
    CHECK(!has_edge(epoll));
    for (int i = 0; i < 30; i++) {
        CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
        CHECK(has_edge(epoll));
        CHECK(!has_edge(epoll));
        CHECK_EQUAL(send_now(&pair, 1, "ab", 2, 0), 2); /* nothing was read meanwhile */
        CHECK(has_edge(epoll));
        CHECK_EQUAL(receive_now(&pair, 0, got, 3, 0), 3);
        CHECK_EQUAL(send_now(&pair, 1, "cd", 2, 0), 2); /* not all was read */
        CHECK(has_edge(epoll));
        CHECK_EQUAL(receive_now(&pair, 0, got, 8, 0), 6);
        if (i & 1) CHECK_EQUAL(receive_now(&pair, 0, got, 8, 0), -EAGAIN);
        CHECK(!has_edge(epoll));
    }
    pair_close(&pair, 1);
    CHECK_EQUAL(epoll_wait(epoll, &event, 1, 20000), 1);
    CHECK_EQUAL(receive_now(&pair, 0, got, 8, 0), 0);
    close(epoll);
    close_both(&pair);
}

TEST(edge_comes_with_each_arrival_at_a_program_that_reads_nothing, 0)
{
    enum { MESSAGES = 20, BEFORE = 3 };
    for (int before = 0; before <= BEFORE; before++) { /* bytes that TCP has carried are unread, too */
        struct pair pair = pair_both(4096);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};
        unsigned char got[BEFORE + MESSAGES + 1];
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        fs_connection_watch(pair.end[0], pair.fd[0]);
        CHECK_EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, pair.fd[0], &event), 0);
        for (int i = 0; i < before + MESSAGES; i++) {
            unsigned char number = (unsigned char)i;
            if (i == before) pair_attach(&pair);
            CHECK_EQUAL(send_now(&pair, 1, &number, 1, 0), 1);
            CHECK(has_edge(epoll));
            CHECK(!has_edge(epoll));
        }
        CHECK_EQUAL(receive_now(&pair, 0, got, sizeof got, 0), before + MESSAGES);
        for (int i = 0; i < before + MESSAGES; i++) CHECK_EQUAL(got[i], i);
        for (int i = 0; i < 100; i++) { /* TCP carries for a while, and then the ring again */
            CHECK_EQUAL(send_now(&pair, 1, "more", 4, 0), 4);
            CHECK(has_edge(epoll));
            expect_bytes(&pair, 0, "more");
            if (i == 0) CHECK_EQUAL(atomic_load(&pair.end[1]->record->out_ring), 0);
        }
        CHECK_EQUAL(atomic_load(&pair.end[1]->record->out_ring), 1);
        close(epoll);
        close_both(&pair);
    }
}

/* ---- a thread that sleeps in recv() since before the offer ---- */

static void *sleep_in_receive(void *argument)
{
    struct pair *pair = argument;
    char got[16];
    ssize_t count;
    do count = fs_carry_receive(pair->end[0], pair->fd[0], got, sizeof got, FS_MAY_SLEEP, 0);
    while (count == -EAGAIN);
    CHECK_EQUAL(count, 5);
    CHECK(memcmp(got, "hello", 5) == 0);
    return NULL;
}

static void await_sleepers(const struct pair *pair, uint32_t count)
{
    while (fs_traffic_inside(atomic_load(&pair->end[0]->record->received)) != count) sched_yield();
}

TEST(sleeper_since_before_the_attach_gets_no_token_as_a_byte, 0)
{
    for (int i = 0; i < scaled(200); i++) {
        struct pair pair = pair_both(4096);
        char got[8];
        pthread_t thread = start_thread(sleep_in_receive, &pair);
        await_sleepers(&pair, 1);
        pair_attach(&pair);
        CHECK_EQUAL(receive_now(&pair, 0, got, 8, 0), -EAGAIN); /* it waits for nobody */
        CHECK_EQUAL(fs_carry_receive(pair.end[0], pair.fd[0], got, 8, FS_AT_ONCE, 0), -EAGAIN);
        CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
        join_thread(thread);
        CHECK_EQUAL(send_now(&pair, 1, "more", 4, 0), 4);
        expect_bytes(&pair, 0, "more");
        close_both(&pair);
    }
}

TEST(nothing_is_attached_while_two_threads_sleep_in_recv, 0)
{
    struct pair pair = pair_both(4096);
    pthread_t threads[2] = {start_thread(sleep_in_receive, &pair), start_thread(sleep_in_receive, &pair)};
    await_sleepers(&pair, 2);
    CHECK_EQUAL(pair_offer(&pair), 0);
    CHECK_EQUAL(pair_join(&pair), -EAGAIN);
    CHECK_EQUAL(fs_record_state(pair.end[0]->record), FS_CANDIDATE);
    CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
    await_sleepers(&pair, 1);
    CHECK_EQUAL(pair_join(&pair), 0);
    CHECK_EQUAL(fs_attach_progress(pair.end[1], pair.fd[1]), 1);
    CHECK_EQUAL(send_now(&pair, 1, "hello", 5, 0), 5);
    join_thread(threads[0]);
    join_thread(threads[1]);
    close_both(&pair);
}

TEST(call_that_must_not_wait_answers_while_another_one_works, 0)
{
    struct pair pair = pair_attached(4096);
    struct fs_record *record = pair.end[0]->record;
    char got[8];
    CHECK_EQUAL(fs_lock(&record->receiver, 0), 0);
    CHECK_EQUAL(fs_lock(&record->sender, 0), 0);
    CHECK_EQUAL(fs_carry_receive(pair.end[0], pair.fd[0], got, 8, FS_AT_ONCE, 0), -EBUSY);
    CHECK_EQUAL(send_now(&pair, 0, "x", 1, FS_AT_ONCE), -EBUSY);
    CHECK_EQUAL(fs_carry_settle(pair.end[0], pair.fd[0], FS_AT_ONCE), -EBUSY);
    fs_unlock(&record->sender);
    fs_unlock(&record->receiver);
    CHECK_EQUAL(send_now(&pair, 0, "x", 1, FS_AT_ONCE), 1);
    expect_bytes(&pair, 1, "x");
    close_both(&pair);
}

/* ---- calls of the kernel that the caller makes ---- */

TEST(callers_calls_that_last_keep_memory_away, 0)
{
    struct pair pair = pair_both(4096);
    struct fs_record *within;
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < 2; i++) CHECK_EQUAL(fs_carry_receive_begins(pair.end[side], pair.fd[side], i, &within), 0);
        if (side == 0) CHECK_EQUAL(pair_offer(&pair), 0);
        CHECK_EQUAL(side == 0 ? pair_join(&pair) : pair_offer(&pair), -EAGAIN);
        for (int i = 0; i < 2; i++)
            CHECK_EQUAL(fs_carry_receive_ended(pair.end[side], pair.fd[side], i, within, -EAGAIN, 0), -EAGAIN);
        if (side == 0) CHECK_EQUAL(fs_attach_withdraw(pair.end[1], pair.fd[1]), 1);
    }
    CHECK_EQUAL(fs_carry_receive_begins(pair.end[0], pair.fd[0], 1, &within), 0);
    CHECK_EQUAL(pair_offer(&pair), 0);
    CHECK_EQUAL(fs_carry_receive_begins(pair.end[1], pair.fd[1], 1, &within), -EBUSY);
    CHECK_EQUAL(pair_join(&pair), -EAGAIN);
    fs_carry_receive_ended(pair.end[0], pair.fd[0], 1, pair.end[0]->record, -EAGAIN, 0);
    CHECK_EQUAL(pair_join(&pair), 0);
    CHECK_EQUAL(send_now(&pair, 0, "abc", 3, 0), 3);
    expect_bytes(&pair, 1, "abc");
    close_both(&pair);
}

TEST(callers_own_kernel_calls_find_the_stream_in_order, 0)
{
    struct pair pair = pair_both(4096);
    struct fs_record *within;
    char got[8];
    for (int attached = 0; attached < 2; attached++) {
        if (attached) pair_attach(&pair);
        for (int i = 0; i < 10; i++) {
            CHECK_EQUAL(send_now(&pair, 1, "one ", 4, 0), 4);
            CHECK_EQUAL(fs_carry_send_begins(pair.end[1], pair.fd[1], 0, &within), 0);
            fs_carry_send_ended(pair.end[1], pair.fd[1], within, send(pair.fd[1], "two ", 4, MSG_NOSIGNAL));
            CHECK_EQUAL(send_now(&pair, 1, "three", 5, 0), 5);
            expect_bytes(&pair, 0, "one two three");
        }
        CHECK_EQUAL(send_now(&pair, 1, "four", 4, 0), 4);
        int error = fs_carry_receive_begins(pair.end[0], pair.fd[0], 0, &within);
        CHECK_EQUAL(error, attached ? -EBUSY : 0);
        if (!attached) {
            ssize_t count = recv(pair.fd[0], got, 8, MSG_PEEK);
            CHECK_EQUAL(fs_carry_receive_ended(pair.end[0], pair.fd[0], 0, within, count, 1), 4);
        }
        expect_bytes(&pair, 0, "four");
    }
    struct fs_carriers carriers;
    fs_connection_report(pair.end[1], pair.fd[1], &carriers);
    CHECK(carriers.out_ring && carriers.spills == 10); /* it went back each time */
    CHECK_EQUAL(fs_carry_send_begins(pair.end[1], pair.fd[1], 1, &within), 0);
    fs_carry_send_ended(pair.end[1], pair.fd[1], within, -1);
    CHECK_EQUAL(send_now(&pair, 1, "five", 4, 0), 4);
    expect_bytes(&pair, 0, "five");
    CHECK_EQUAL(send_now(&pair, 1, "six", 3, 0), 3);
    fs_connection_report(pair.end[1], pair.fd[1], &carriers);
    CHECK(!carriers.out_ring);
    expect_bytes(&pair, 0, "six");
    close_both(&pair);
}
