/* Which processes hold a connection, however they end. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

enum ending { BY_EXIT, BY_UNDERSCORE_EXIT, BY_KILL, BY_EXEC, ENDINGS };

static _Noreturn void end_by(enum ending ending, int kept)
{
    switch (ending) {
    case BY_EXIT: fs_leave_all(); exit(0);
    case BY_UNDERSCORE_EXIT: _exit(0);
    case BY_KILL: kill(getpid(), SIGKILL); abort();
    default:
        dup2(kept, 0);
        execl("/bin/sh", "sh", "-c", "read line", (char *)NULL);
        abort();
    }
}

static void bury(pid_t child)
{
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
}

TEST(process_that_ended_holds_nothing, NEEDS_PROCESSES)
{
    for (int ending = 0; ending < ENDINGS; ending++) {
        struct pair pair = pair_both(4096);
        int hold[2];
        CHECK(pipe(hold) == 0);
        pid_t child = start_process();
        if (child == 0) {
            char byte;
            close(hold[1]);
            if (ending != BY_EXEC) CHECK_EQUAL(read(hold[0], &byte, 1), 0);
            end_by((enum ending)ending, hold[0]);
        }
        close(hold[0]);
        if (ending != BY_EXEC) {
            CHECK(!fs_holders_is_alone(&pair.end[1]->record->holders));
            CHECK_EQUAL(pair_offer(&pair), -EAGAIN);
            close(hold[1]);
        }
        /* the program that it has become still runs */
        for (int side = 0; side < 2; side++)
            while (!fs_holders_is_alone(&pair.end[side]->record->holders)) sched_yield();
        pair_attach(&pair);
        if (ending == BY_EXEC) close(hold[1]);
        bury(child);
        CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
        expect_bytes(&pair, 0, "abc");
        for (int side = 0; side < 2; side++) pair_close(&pair, side);
        pair_done(&pair);
    }
}

/* Its close is the last one: unread bytes are told by a reset, and no token is left. */
TEST(close_is_the_last_one_once_the_others_have_ended, NEEDS_PROCESSES)
{
    for (int ending = BY_UNDERSCORE_EXIT; ending <= BY_KILL; ending++) {
        struct pair pair = pair_attached(4096);
        pid_t child = start_process();
        if (child == 0) end_by((enum ending)ending, -1);
        bury(child);
        CHECK_EQUAL(send_now(&pair, 0, "unread", 6, 0), 6);
        struct fs_connection *end = pair.end[1];
        pair_close(&pair, 1);
        CHECK(end->is_last);
        char byte;
        ssize_t got = -EAGAIN;
        while (got == -EAGAIN) got = receive_now(&pair, 0, &byte, 1, 0);
        CHECK_EQUAL(got, -ECONNRESET);
        pair_close(&pair, 0);
        pair_done(&pair);
    }
}

/* More processes one after the other than there are places, and more at once. */
TEST(places_serve_again, NEEDS_PROCESSES)
{
    struct pair pair = pair_both(4096);
    for (int i = 0; i < 200; i++) {
        pid_t child = start_process();
        if (child == 0) _exit(0);
        bury(child);
    }
    CHECK(fs_holders_is_alone(&pair.end[0]->record->holders));
    pair_attach(&pair);
    for (int side = 0; side < 2; side++) pair_close(&pair, side);
    pair_done(&pair);
}

TEST(crowd_of_processes_is_never_alone, NEEDS_PROCESSES)
{
    enum { MANY = 60 };
    struct pair pair = pair_both(4096);
    int hold[2];
    pid_t children[MANY];
    CHECK(pipe(hold) == 0);
    for (int i = 0; i < MANY; i++) {
        children[i] = start_process();
        if (children[i] != 0) continue;
        char byte;
        close(hold[1]);
        struct pair mine = pair_both(4096); /* its own are its own */
        pair_attach(&mine);
        CHECK(!fs_holders_is_alone(&pair.end[0]->record->holders));
        CHECK_EQUAL(read(hold[0], &byte, 1), 0);
        for (int side = 0; side < 2; side++) pair_close(&mine, side);
        exit(0);
    }
    CHECK_EQUAL(pair_offer(&pair), -EAGAIN);
    close(hold[1]);
    for (int i = 0; i < MANY; i++) join_process(children[i]);
    CHECK_EQUAL(pair_offer(&pair), -EAGAIN); /* who found no place may be there still */
    close(hold[0]);
    struct pair next = pair_both(4096);
    pair_attach(&next);
    for (int side = 0; side < 2; side++) pair_close(&next, side), pair_close(&pair, side);
    pair_done(&pair);
    pair_done(&next);
}

/* Processes come and go, and each finds itself alone only if it is. */
TEST(holders_while_processes_come_and_go, NEEDS_PROCESSES)
{
    struct random random = random_from(1);
    for (int i = 0; i < scaled(60); i++) {
        struct pair pair = pair_both(4096);
        struct fs_record *record = pair.end[0]->record;
        int hold[2];
        CHECK(pipe(hold) == 0);
        pid_t stays = start_process();
        if (stays == 0) {
            char byte;
            close(hold[1]);
            CHECK_EQUAL(read(hold[0], &byte, 1), 0);
            _exit(0);
        }
        for (uint64_t more = random_below(&random, 6); more > 0; more--) {
            pid_t child = start_process();
            if (child == 0) { /* and its own child, which comes where a place is just being found empty */
                if (fork() == 0) _exit(0);
                CHECK(!fs_holders_is_alone(&record->holders));
                _exit(0);
            }
            CHECK(!fs_holders_is_alone(&record->holders));
            join_process(child);
        }
        CHECK(!fs_holders_is_alone(&record->holders));
        close(hold[1]), close(hold[0]);
        join_process(stays);
        for (int side = 0; side < 2; side++) pair_close(&pair, side);
        pair_done(&pair);
    }
}
