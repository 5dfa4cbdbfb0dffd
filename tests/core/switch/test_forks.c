/* One end that several processes hold: they share its locks, its counts, and what comes in. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static void close_both(struct pair *pair)
{
    for (int side = 0; side < 2; side++)
        if (pair->fd[side] >= 0) pair_close(pair, side);
    pair_done(pair);
}

TEST(candidate_that_several_processes_hold_is_not_attached, NEEDS_PROCESSES)
{
    struct pair pair = pair_both(4096);
    int hold[2];
    CHECK(pipe(hold) == 0);
    pid_t child = start_process();
    if (child == 0) {
        char end;
        close(hold[1]);
        CHECK_EQUAL(read(hold[0], &end, 1), 0);
        pair_close(&pair, 0);
        pair_close(&pair, 1);
        exit(0);
    }
    CHECK_EQUAL(pair_offer(&pair), -EAGAIN);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc");
    close(hold[1]);
    join_process(child);
    pair_attach(&pair);
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc");
    close(hold[0]);
    close_both(&pair);
}

TEST(forked_process_goes_on_with_an_attached_connection, NEEDS_PROCESSES)
{
    for (int offers = 0; offers < 2; offers++) {
        struct pair pair = pair_both(4096);
        if (offers) CHECK_EQUAL(pair_offer(&pair), 0); /* the fork comes between the offer and the join */
        else pair_attach(&pair);
        pid_t child = start_process();
        if (child == 0) {
            pair_close(&pair, 0);
            struct waiter waiter = waiter_make(&pair, 1, FS_WRITABLE, BLOCKING);
            for (int i = 0; i < 1000; i++) CHECK_EQUAL(pair_send(&pair, &waiter, "from the child", 14, 0), 14);
            pair_close(&pair, 1);
            exit(0);
        }
        if (offers) {
            int joined = -EAGAIN;
            while (joined == -EAGAIN) {
                joined = pair_join(&pair);
                CHECK(joined == 0 || joined == -EAGAIN);
                if (fs_holders_is_alone(&pair.end[0]->record->holders)) break;
            }
        }
        char got[16];
        struct waiter waiter = waiter_make(&pair, 0, FS_READABLE, BLOCKING);
        for (int left = 14000; left > 0;) {
            ssize_t part = pair_receive(&pair, &waiter, got, (size_t)left < sizeof got ? (size_t)left : sizeof got, 0);
            CHECK(part > 0);
            left -= (int)part;
        }
        join_process(child);
        CHECK_EQUAL(send_now(&pair, 1, "parent", 6, 0), 6); /* the child's close ended nothing */
        expect_bytes(&pair, 0, "parent");
        pair_close(&pair, 1);
        CHECK_EQUAL(pair_receive(&pair, &waiter, got, sizeof got, 0), 0);
        close_both(&pair);
    }
}

/* Whoever is the last to close resets for unread bytes, and nobody else does. */
TEST(last_holder_decides_how_the_connection_ends, NEEDS_PROCESSES)
{
    for (int parent_first = 0; parent_first < 2; parent_first++) {
        struct pair pair = pair_attached(4096);
        int hold[2];
        char got[16];
        CHECK(pipe(hold) == 0);
        CHECK_EQUAL(send_now(&pair, 0, "unread", 6, 0), 6);
        pid_t child = start_process();
        if (child == 0) {
            close(hold[1]);
            pair_close(&pair, 0);
            if (parent_first) CHECK_EQUAL(read(hold[0], got, 1), 0);
            pair_close(&pair, 1);
            exit(0);
        }
        if (!parent_first) join_process(child);
        CHECK_EQUAL(receive_now(&pair, 0, got, 1, 0), -EAGAIN);
        pair_close(&pair, 1);
        if (parent_first) CHECK_EQUAL(receive_now(&pair, 0, got, 1, 0), -EAGAIN);
        close(hold[1]);
        if (parent_first) join_process(child);
        struct pollfd one = {pair.fd[0], POLLRDHUP, 0};
        CHECK_EQUAL(poll(&one, 1, 20000), 1);
        CHECK_EQUAL(receive_now(&pair, 0, got, 1, 0), -ECONNRESET);
        CHECK_EQUAL(receive_now(&pair, 0, got, 1, 0), 0);
        close(hold[0]);
        close_both(&pair);
    }
}

/* ---- death of one of them, with a brother that goes on ---- */

struct tally {
    _Atomic uint64_t bytes;
};

static void run_brothers(uint64_t salt, int they_send)
{
    struct random random = random_from(salt);
    struct pair pair = pair_attached(4096);
    int side = they_send ? 1 : 0;
    pid_t brothers[2];
    for (int i = 0; i < 2; i++) {
        brothers[i] = start_process();
        if (brothers[i] != 0) continue;
        pair_close(&pair, !side);
        unsigned char block[3000];
        struct waiter waiter = waiter_make(&pair, side, they_send ? FS_WRITABLE : FS_READABLE, BLOCKING);
        memset(block, 'x', sizeof block);
        for (;;) {
            size_t size = random_size(&random, sizeof block);
            ssize_t moved =
                they_send ? pair_send(&pair, &waiter, block, size, 0) : pair_receive(&pair, &waiter, block, size, 0);
            if (moved <= 0) exit(0);
            for (ssize_t k = 0; !they_send && k < moved; k++) CHECK_EQUAL(block[k], 'x');
        }
    }
    unsigned char block[3000];
    memset(block, 'x', sizeof block);
    fs_leave_descriptor(pair.fd[side]);
    close(pair.fd[side]);
    pair.fd[side] = -1;
    struct waiter waiter = waiter_make(&pair, !side, they_send ? FS_READABLE : FS_WRITABLE, BLOCKING);
    uint64_t until = 200000, killed_at = random_below(&random, 150000), moved = 0;
    for (int killed = 0; moved < until;) {
        if (!killed && moved >= killed_at) killed = kill(brothers[0], SIGKILL) == 0;
        ssize_t part = they_send ? pair_receive(&pair, &waiter, block, sizeof block, 0)
                                 : pair_send(&pair, &waiter, block, random_size(&random, sizeof block), 0);
        CHECK(part > 0);
        for (ssize_t k = 0; they_send && k < part; k++) CHECK_EQUAL(block[k], 'x');
        moved += (uint64_t)part;
    }
    pair_close(&pair, !side);
    for (int i = 0; i < 2; i++) waitpid(brothers[i], NULL, 0);
    pair_done(&pair);
}

TEST(brother_of_a_killed_sender_goes_on, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(100); i++) run_brothers(700 + (uint64_t)i, 1);
}

TEST(brother_of_a_killed_reader_goes_on, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(100); i++) run_brothers(1700 + (uint64_t)i, 0);
}

/* Killed around the call that sends a token, or takes one off. */
static void run_death_around_a_token(enum fault_point point, enum call_kind kind, int countdown)
{
    struct pair pair = pair_attached(4096);
    int side = kind == IN_SEND ? 1 : 0;
    char got[16];
    fs_connection_watch(pair.end[0], pair.fd[0]);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(send_now(&pair, 1, "warm", 4, 0), 4);
        CHECK_EQUAL(receive_now(&pair, 0, got, sizeof got, 0), 4);
    }
    if (side == 0) CHECK_EQUAL(send_now(&pair, 1, "lost", 4, 0), 4);
    pid_t brother = start_process();
    if (brother == 0) {
        die_in(kind, countdown, point);
        for (;;) {
            if (side == 1) send_now(&pair, 1, "b", 1, 0);
            else receive_now(&pair, 0, got, 4, 0);
        }
    }
    int status = 0;
    CHECK_EQUAL(waitpid(brother, &status, 0), brother);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    /* whatever the dead one did or did not do: from now on each byte arrives and is shown, and no token is a byte */
    char sent = 'c';
    uint64_t put = 0, taken = 0;
    static unsigned char block[20000];
    for (int round = 0; round < 200; round++) {
        memset(block, sent, sizeof block);
        ssize_t part = send_now(&pair, 1, block, round % 2 ? sizeof block : 1, 0);
        if (part > 0) put += (uint64_t)part;
        struct pollfd one = {pair.fd[0], POLLIN, 0};
        CHECK_EQUAL(poll(&one, 1, 20000), 1);
        while ((part = receive_now(&pair, 0, block, sizeof block, 0)) > 0)
            for (ssize_t k = 0; k < part; k++)
                if (block[k] == 'c') taken++;
                else CHECK(block[k] == 'b' || (side == 0 && strchr("lost", block[k]) != NULL));
        CHECK_EQUAL(part, -EAGAIN);
    }
    while (taken < put) {
        ssize_t part = receive_now(&pair, 0, block, sizeof block, 0);
        if (part == -EAGAIN) continue;
        CHECK(part > 0);
        taken += (uint64_t)part;
    }
    CHECK_EQUAL(taken, put);
    close_both(&pair);
}

TEST(death_around_the_send_of_a_token, NEEDS_FAULTS)
{
    for (int i = 1; i < 3; i++) {
        run_death_around_a_token(BEFORE_CALL, IN_SEND, i);
        run_death_around_a_token(AFTER_CALL, IN_SEND, i);
    }
}

TEST(death_around_the_taking_of_a_token, NEEDS_FAULTS)
{
    for (int i = 1; i < 5; i++) {
        run_death_around_a_token(BEFORE_CALL, IN_RECV, i);
        run_death_around_a_token(AFTER_CALL, IN_RECV, i);
    }
}

/* Each child begins connections of its own, and takes nothing of what its parent has to give. */
TEST(children_that_are_killed_use_nothing_up, NEEDS_PROCESSES)
{
    struct pair pair = pair_both(4096);
    for (int i = 0; i < 3000; i++) {
        pid_t child = start_process();
        if (child == 0) {
            int fd = dup(pair.fd[0]);
            CHECK_EQUAL(fs_table_enter(fd, FS_ROLE_UNKNOWN), 0);
            _exit(0);
        }
        join_process(child);
    }
    int fd = dup(pair.fd[0]);
    CHECK_EQUAL(fs_table_enter(fd, FS_ROLE_UNKNOWN), 0);
    fs_leave_descriptor(fd);
    close(fd);
    close_both(&pair);
}
