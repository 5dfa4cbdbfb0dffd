/* The way out: foreign code takes a descriptor, and TCP carries both directions. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "switch/answering.h"
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

/* The other end's program makes no call. */
TEST(unread_bytes_are_sent_again_by_the_other_end_s_thread, 0)
{
    for (int i = 0; i < scaled(200); i++) {
        struct pair pair = pair_attached(4096);
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        expect_bytes(&pair, 0, "abc");
        CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
        CHECK_EQUAL(send_now(&pair, 1, " bytes", 6, 0), 6);
        CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
        raw_expect(pair.fd[0], "unread bytes");
        talk_raw(&pair);
        close_both(&pair);
    }
}

/* Other threads of its process are where they were, and a fork finds none of it. */
TEST(thread_that_answers_rests_for_a_fork, NEEDS_PROCESSES)
{
    for (int i = 0; i < 20; i++) {
        struct pair pair = pair_attached(4096);
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        expect_bytes(&pair, 0, "abc");
        CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
        fs_answering_rest();
        fs_answering_rest();
        CHECK_EQUAL(count_threads(), 1);
        pid_t child = start_process();
        if (child == 0) {
            fs_answering_go_on(); /* it is the parent's thread */
            pair_close(&pair, 0);
            CHECK_EQUAL(send_now(&pair, 1, " bytes", 6, 0), 6); /* it answers for this itself from now on */
            pair_close(&pair, 1);
            exit(0);
        }
        fs_answering_go_on();
        fs_answering_go_on();
        join_process(child);
        CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
        raw_expect(pair.fd[0], "unread bytes");
        talk_raw(&pair);
        close_both(&pair);
    }
}

/* What the parent's end sent is still unread when it closes: a forked process that has sent, too, answers. */
TEST(thread_of_a_forked_process_answers, NEEDS_PROCESSES)
{
    struct pair pair = pair_attached(4096);
    int sent[2], over[2];
    char byte;
    CHECK(pipe(sent) == 0 && pipe(over) == 0);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc");
    CHECK_EQUAL(send_now(&pair, 1, "parent", 6, 0), 6);
    pid_t child = start_process();
    if (child == 0) {
        close(over[1]);
        pair_close(&pair, 0);
        CHECK_EQUAL(send_now(&pair, 1, " child", 6, 0), 6);
        CHECK_EQUAL(write(sent[1], "", 1), 1);
        CHECK_EQUAL(read(over[0], &byte, 1), 0); /* as a program that makes no call there */
        pair_close(&pair, 1);
        exit(0);
    }
    CHECK_EQUAL(read(sent[0], &byte, 1), 1);
    pair_close(&pair, 1);
    CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
    raw_expect(pair.fd[0], "parent child");
    close(over[1]);
    join_process(child);
    CHECK_EQUAL(recv(pair.fd[0], &byte, 1, 0), 0);
    for (int i = 0; i < 2; i++) close(sent[i]);
    close(over[0]);
    pair_close(&pair, 0);
    pair_done(&pair);
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

/* ---- past bytes that nobody sends again ---- */

static void detour_expect(struct pair *pair, const char *text)
{
    CHECK_EQUAL(fs_leave_release(pair->end[0], pair->fd[0]), 0);
    CHECK(!fs_carry_is_attached(pair->end[0]));
    raw_expect(pair->fd[0], text);
}

static void expect_end(int fd)
{
    char byte;
    CHECK_EQUAL(recv(fd, &byte, 1, 0), 0);
}

/* As where the other end's process is stopped. */
TEST(unread_bytes_go_round_where_nobody_answers, NEEDS_PROCESSES)
{
    for (int i = 0; i < 3; i++) {
        struct pair pair = pair_attached(4096);
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        expect_bytes(&pair, 0, "abc");
        if (i == 1) CHECK_EQUAL(send_now(&pair, 0, "out", 3, 0), 3);
        CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
        fs_answering_rest();
        detour_expect(&pair, "unread");
        if (i == 1) expect_bytes(&pair, 1, "out");
        talk_raw(&pair);
        fs_answering_go_on();
        if (i == 2) {
            CHECK_EQUAL(fs_leave_shutdown(pair.end[0], pair.fd[0], SHUT_WR), 0);
            expect_end(pair.fd[1]);
            CHECK_EQUAL(send_now(&pair, 1, "late", 4, 0), 4);
            raw_expect(pair.fd[0], "late");
        }
        close_both(&pair);
    }
}

TEST(unread_bytes_go_round_before_a_half_close, NEEDS_PROCESSES)
{
    struct pair pair = pair_attached(4096);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc");
    CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
    CHECK_EQUAL(fs_leave_shutdown(pair.end[1], pair.fd[1], SHUT_WR), 0);
    detour_expect(&pair, "unread");
    expect_end(pair.fd[0]);
    CHECK_EQUAL(send(pair.fd[0], "answer", 6, 0), 6);
    expect_bytes(&pair, 1, "answer");
    pair_close(&pair, 0);
    expect_end(pair.fd[1]);
    pair_close(&pair, 1);
    pair_done(&pair);
}

TEST(unread_bytes_go_round_before_a_close, NEEDS_PROCESSES)
{
    for (int unread_there = 0; unread_there < 2; unread_there++) {
        struct pair pair = pair_attached(4096);
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        expect_bytes(&pair, 0, "abc");
        if (unread_there) CHECK_EQUAL(send_now(&pair, 0, "lost", 4, 0), 4);
        CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
        pair_close(&pair, 1);
        detour_expect(&pair, "unread");
        char byte;
        ssize_t got = recv(pair.fd[0], &byte, 1, 0);
        if (unread_there) CHECK(got < 0 && errno == ECONNRESET);
        else CHECK_EQUAL(got, 0);
        pair_close(&pair, 0);
        pair_done(&pair);
    }
}

static void raw_expect_reset(int fd)
{
    char byte;
    CHECK_EQUAL(recv(fd, &byte, 1, 0), -1);
    CHECK_EQUAL(errno, ECONNRESET);
}

/* What the other end had not read makes its close a reset.  Foreign code hears of it, whoever took the kernel's word. */
TEST(way_out_behind_a_reset_shows_the_reset, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(100); i++) {
        struct pair pair = pair_by_ring(4096);
        CHECK_EQUAL(send_now(&pair, 0, "lost", 4, 0), 4);
        if (i & 1) CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
        if (i & 2) CHECK_EQUAL(send_now(&pair, 0, "lost", 4, 0), 4);
        pair_close(&pair, 1);
        CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
        if (i & 1) raw_expect(pair.fd[0], "unread");
        raw_expect_reset(pair.fd[0]);
        pair_close(&pair, 0);
        pair_done(&pair);
    }
}

/* The same of an end that is killed: the kernel knows nothing of what lies unread in the ring. */
TEST(way_out_behind_a_death_shows_a_reset_where_bytes_were_unread, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(30); i++) {
        struct pair pair = pair_by_ring(4096);
        CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
        if (i & 1) CHECK_EQUAL(send_now(&pair, 0, "lost", 4, 0), 4);
        pair_forget(&pair, 1); /* as the kernel does at a death: without a word in memory */
        CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
        raw_expect(pair.fd[0], "unread");
        if (i & 1) raw_expect_reset(pair.fd[0]);
        else expect_end(pair.fd[0]);
        pair_close(&pair, 0);
        pair_done(&pair);
    }
}

/* The number means the pair of the process that copies.  It is closed before that process has begun, or later. */
TEST(close_of_what_goes_round_is_a_reset_where_bytes_are_unread, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(60); i++) {
        struct pair pair = pair_by_ring(4096);
        CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
        CHECK_EQUAL(fs_leave_release(pair.end[1], pair.fd[1]), 0);
        CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
        if (i % 3 == 1) raw_expect(pair.fd[0], "unre");
        if (i % 3 == 2) raw_expect(pair.fd[0], "unread");
        pair_forget(&pair, 0); /* foreign code closes it */
        if (i % 3 == 2) expect_end(pair.fd[1]);
        else raw_expect_reset(pair.fd[1]);
        pair_close(&pair, 1);
        pair_done(&pair);
    }
}

/* Payload on TCP before the ring's, and behind it. */
TEST(unread_bytes_of_all_carriers_go_round_in_order, NEEDS_PROCESSES)
{
    struct pair pair = pair_both(4096);
    static char block[20000];
    CHECK_EQUAL(send_now(&pair, 1, "tcp ", 4, 0), 4);
    pair_attach(&pair);
    CHECK_EQUAL(send_now(&pair, 1, "ring ", 5, 0), 5);
    fs_answering_rest();
    detour_expect(&pair, "tcp ring ");
    talk_raw(&pair);
    close_both(&pair);

    pair = pair_attached(4096);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc");
    size_t sent = 0;
    stream_fill(1, 0, (unsigned char *)block, sizeof block);
    while (sent < sizeof block) { /* a full ring is spilled */
        ssize_t part = send_now(&pair, 1, block + sent, sizeof block - sent < 3000 ? sizeof block - sent : 3000, 0);
        CHECK(part > 0);
        sent += (size_t)part;
    }
    CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
    CHECK_EQUAL(recv(pair.fd[0], block, sizeof block, MSG_WAITALL), sizeof block);
    stream_check(1, 0, (unsigned char *)block, sizeof block);
    talk_raw(&pair);
    fs_answering_go_on();
    close_both(&pair);
}

/* The kernel's buffer cannot take what is unread. */
TEST(many_unread_bytes_go_round, NEEDS_PROCESSES)
{
    static char block[400000];
    struct pair pair = pair_attached(512 * 1024);
    int small = 4096;
    CHECK(setsockopt(pair.fd[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc");
    stream_fill(1, 0, (unsigned char *)block, sizeof block);
    CHECK_EQUAL(send_now(&pair, 1, block, sizeof block, 0), sizeof block);
    CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
    CHECK_EQUAL(recv(pair.fd[0], block, sizeof block, MSG_WAITALL), sizeof block);
    stream_check(1, 0, (unsigned char *)block, sizeof block);
    talk_raw(&pair);
    close_both(&pair);
}

/* What the process of the other end does after it has sent all. */
enum afterwards { NOTHING, SHUTS, CLOSES, EXITS, DIES, AFTERWARDS };

static void send_and_go(struct pair *pair, uint64_t total, uint64_t salt, enum afterwards then, int over)
{
    struct traffic out = {pair, 1, BLOCKING, 1, total, salt, 20000, 0, 0};
    char byte;
    pair_close(pair, 0);
    traffic_send(&out);
    CHECK_EQUAL(out.error, 0);
    if (then == SHUTS) CHECK_EQUAL(fs_leave_shutdown(pair->end[1], pair->fd[1], SHUT_WR), 0);
    if (then == CLOSES) pair_close(pair, 1);
    if (then == EXITS) exit(0);
    if (then == DIES) kill(getpid(), SIGKILL);
    CHECK_EQUAL(read(over, &byte, 1), 0);
    _exit(0);
}

static void run_processes(uint64_t salt)
{
    struct random random = random_from(salt);
    struct pair pair = pair_attached(16384);
    enum afterwards then = (enum afterwards)random_below(&random, AFTERWARDS);
    uint64_t total = 1 + random_size(&random, 400000), got = 0;
    static unsigned char block[50000];
    int over[2], released = 0;
    CHECK(pipe(over) == 0);
    pid_t child = start_process();
    if (child == 0) {
        close(over[1]);
        send_and_go(&pair, total, salt, then, over[0]);
    }
    pair_close(&pair, 1);
    struct waiter waiter = {&pair, 0, FS_READABLE, -1, BLOCKING, 0};
    while (got < total) {
        if (!released && random_below(&random, 5) == 0) {
            CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
            released = 1;
        }
        size_t size = random_size(&random, sizeof block);
        errno = 0;
        ssize_t part = released ? recv(pair.fd[0], block, size, 0) : pair_receive(&pair, &waiter, block, size, 0);
        if (part <= 0)
            fail(__FILE__, __LINE__, "%zd (errno %d) at byte %lu of %lu, %s, the other process: %d, salt %lu", part,
                 errno, got, total, released ? "released" : "by ring", then, salt);
        stream_check(1, got, block, (size_t)part);
        got += (uint64_t)part;
    }
    char byte;
    if (then != NOTHING) {
        ssize_t end = released ? recv(pair.fd[0], &byte, 1, 0) : pair_receive(&pair, &waiter, &byte, 1, 0);
        CHECK(end == 0 || (then == DIES && end < 0)); /* a token that it has not read makes a reset */
    }
    close(over[1]);
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) ? then == DIES : WEXITSTATUS(status) == 0);
    close(over[0]);
    pair_close(&pair, 0);
    pair_done(&pair);
}

TEST(way_out_whatever_the_other_process_does, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(300); i++) run_processes(900 + (uint64_t)i);
}

/* A reader of the other end sleeps in the kernel since before the attach. */
static void *read_one(void *argument)
{
    struct pair *pair = argument;
    struct waiter waiter = {pair, 1, FS_READABLE, -1, BLOCKING, 0};
    char byte = 0;
    CHECK_EQUAL(pair_receive(pair, &waiter, &byte, 1, 0), 1);
    CHECK_EQUAL(byte, 'x');
    return NULL;
}

TEST(way_out_wakes_a_reader_that_knows_nothing_of_memory, 0)
{
    for (int i = 0; i < scaled(100); i++) {
        struct pair pair = pair_both(4096);
        pthread_t thread = start_thread(read_one, &pair);
        while (fs_traffic_inside(pair.end[1]->record->received) == 0) sched_yield();
        CHECK_EQUAL(pair_offer(&pair), 0);
        CHECK_EQUAL(pair_join(&pair), 0);
        CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
        CHECK_EQUAL(send(pair.fd[0], "x", 1, 0), 1);
        join_thread(thread);
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
