/* Death at any moment: of the other end, and of one of several processes that share an end. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection.h"

/* The other end streams, or takes what we stream, until it is killed. */
static void run_killed_peer(uint64_t salt, int it_sends)
{
    struct random random = random_from(salt);
    struct connection c = connection_make(4096);
    int watched = (int)random_below(&random, 4);
    pid_t other = start_process();
    int side = other == 0;
    connection_forget(&c, !side);
    connection_open(&c, side, 20);
    if (watched >> side & 1) fs_end_watch(c.end[side], c.bell[side]);
    struct flow flow = {c.end[side], c.bell[side], 3, UINT64_MAX, salt + 5, 5000};
    if (other == 0) {
        if (it_sends) flow_send(&flow);
        else flow_receive(&flow);
        exit(0);
    }
    uint64_t moment = random_below(&random, 1500);
    if (it_sends) {
        pthread_t receiver = start_thread(flow_receive, &flow); /* ends with the stream, checked up to there */
        exact_sleep_us(moment);
        kill(other, SIGKILL);
        join_thread(receiver);
    } else {
        pid_t killer = start_process();
        if (killer == 0) {
            exact_sleep_us(moment);
            kill(other, SIGKILL);
            _exit(0);
        }
        unsigned char block[5000];
        ssize_t sent = 0;
        for (uint64_t position = 0; sent >= 0; position += (uint64_t)sent) {
            size_t size = random_size(&random, sizeof block);
            stream_fill(3, position, block, size);
            sent = send_some(c.end[0], c.bell[0], block, size);
        }
        CHECK(sent == -ECONNRESET || sent == -EPIPE);
        CHECK_EQUAL(send_some(c.end[0], c.bell[0], block, 1), -EPIPE);
        join_process(killer);
    }
    waitpid(other, NULL, 0);
    connection_close(&c, 0);
}

TEST(sending_peer_is_killed_at_any_moment, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(500); i++) run_killed_peer(10000 + (uint64_t)i, 1);
}

TEST(receiving_peer_is_killed_at_any_moment, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(500); i++) run_killed_peer(20000 + (uint64_t)i, 0);
}

/* ---- death inside a system call of the doorbell, with a brother that goes on ---- */

static short events_of(int descriptor, short wanted)
{
    struct pollfd one = {descriptor, wanted, 0};
    CHECK(poll(&one, 1, 0) >= 0);
    return one.revents;
}

static void send_and_die(struct connection *c, int side, const char *data, size_t length, enum fault_point point)
{
    pid_t brother = start_process();
    if (brother == 0) {
        die_in(IN_SEND, 1, point);
        for (;;) fs_end_send(c->end[side], c->bell[side], data, length, FS_NO_SIGNAL);
    }
    int status = 0;
    CHECK_EQUAL(waitpid(brother, &status, 0), brother);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The dead one's byte was published, its token sent or not: everything that follows arrives and nothing is accused. */
static void run_death_while_ringing(enum fault_point point, int watched)
{
    struct connection c = connection_both(4096, 0);
    char got[16];
    if (watched) fs_end_watch(c.end[1], c.bell[1]);
    send_and_die(&c, 0, "a", 1, point);
    CHECK_EQUAL(receive_some(c.end[1], c.bell[1], got, sizeof got), 1);
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 1), -EAGAIN);
    for (int i = 0; i < 20; i++) {
        CHECK_EQUAL(send_some(c.end[0], c.bell[0], "b", 1), 1);
        if (watched) CHECK(events_of(c.bell[1], POLLIN) == POLLIN);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 1), 1);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 1), -EAGAIN);
        if (watched) CHECK_EQUAL(events_of(c.bell[1], POLLIN), 0);
    }
    connection_close(&c, 0);
    CHECK_EQUAL(receive_some(c.end[1], c.bell[1], got, sizeof got), 0);
    connection_close(&c, 1);
}

TEST(death_before_the_token_is_sent, NEEDS_FAULTS) { run_death_while_ringing(BEFORE_CALL, 0); }
TEST(death_before_the_token_is_sent_watched, NEEDS_FAULTS) { run_death_while_ringing(BEFORE_CALL, 1); }
TEST(death_after_the_token_is_sent, NEEDS_FAULTS) { run_death_while_ringing(AFTER_CALL, 0); }
TEST(death_after_the_token_is_sent_watched, NEEDS_FAULTS) { run_death_while_ringing(AFTER_CALL, 1); }

/* A reader that dies while it takes tokens off: its brother is still woken and shown. */
static void run_death_while_eating(enum fault_point point, size_t length)
{
    struct connection c = connection_both(4096, 0);
    static char block[80000], got[80000];
    for (int side = 0; side < 2; side++) fs_end_watch(c.end[side], c.bell[side]);
    while (fs_end_send(c.end[0], c.bell[0], block, length, FS_NO_SIGNAL) == (ssize_t)length && length > 1) {}
    pid_t brother = start_process();
    if (brother == 0) {
        die_in(IN_RECV, 1, point);
        for (;;) fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 1);
    }
    int status = 0;
    CHECK_EQUAL(waitpid(brother, &status, 0), brother);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 1) > 0) {}
    for (int i = 0; i < 20; i++) {
        CHECK_EQUAL(send_some(c.end[0], c.bell[0], "b", 1), 1);
        CHECK_EQUAL(events_of(c.bell[1], POLLIN), POLLIN);
        CHECK_EQUAL(events_of(c.bell[0], POLLOUT), POLLOUT);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 1), 1);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 1), -EAGAIN);
        CHECK_EQUAL(events_of(c.bell[1], POLLIN), 0);
        /* once full and drained to a little: tokens that are taken off must leave one */
        while (fs_end_send(c.end[0], c.bell[0], block, 3000, FS_NO_SIGNAL) > 0) {}
        CHECK_EQUAL(events_of(c.bell[0], POLLOUT), 0);
        while (fs_end_unread(c.end[1], c.bell[1]) > 100)
            CHECK(fs_end_receive(c.end[1], c.bell[1], got, (size_t)fs_end_unread(c.end[1], c.bell[1]) - 100, 0, 1) > 0);
        CHECK_EQUAL(events_of(c.bell[0], POLLOUT), POLLOUT);
        CHECK_EQUAL(events_of(c.bell[1], POLLIN), POLLIN);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], got, sizeof got, 0, 1), 100);
        CHECK_EQUAL(events_of(c.bell[1], POLLIN), 0);
    }
    connection_close(&c, 0);
    CHECK_EQUAL(receive_some(c.end[1], c.bell[1], got, sizeof got), 0);
    connection_close(&c, 1);
}

TEST(death_before_a_token_is_taken, NEEDS_FAULTS) { run_death_while_eating(BEFORE_CALL, 1); }
TEST(death_after_a_token_is_taken, NEEDS_FAULTS) { run_death_while_eating(AFTER_CALL, 1); }
TEST(death_before_the_stuffing_is_taken, NEEDS_FAULTS) { run_death_while_eating(BEFORE_CALL, 3000); }
TEST(death_after_the_stuffing_is_taken, NEEDS_FAULTS) { run_death_while_eating(AFTER_CALL, 3000); }

/* A lock whose owner died is taken over, at once and also while nobody buried the owner. */
static void run_lock_of_the_dead(int buried)
{
    struct connection c = connection_both(4096, 0);
    fs_lock_word *lock = c.end[0]->exclusion.sender;
    pid_t brother = start_process();
    if (brother == 0) {
        CHECK_EQUAL(fs_lock(lock, 1000000), 0);
        kill(getpid(), SIGKILL);
    }
    siginfo_t information;
    CHECK_EQUAL(waitid(P_PID, (id_t)brother, &information, WEXITED | (buried ? 0 : WNOWAIT)), 0);
    CHECK_EQUAL((uint32_t)*lock, brother);
    uint64_t start = fs_now_ns();
    CHECK_EQUAL(send_some(c.end[0], c.bell[0], "a", 1), 1);
    CHECK(fs_now_ns() - start < 1000000000ull); /* not the lock's patience */
    if (!buried) waitpid(brother, NULL, 0);
    connection_close(&c, 0);
    connection_close(&c, 1);
}

TEST(lock_of_a_dead_process, NEEDS_PROCESSES) { run_lock_of_the_dead(1); }
TEST(lock_of_a_dead_unburied_process, NEEDS_PROCESSES) { run_lock_of_the_dead(0); }

/* ---- death in each call of a leaving: whatever was sent arrives, and then the end ---- */

enum { AT_EACH = 40 }; /* more calls than a leaving has */

static void send_and_leave(struct connection *c, int how, size_t foreign, int dies_in, enum fault_point point)
{
    static const char payload[8192];
    CHECK_EQUAL(send_some(c->end[0], c->bell[0], payload, 5), 5);
    if (foreign > 0) CHECK_EQUAL(write(c->bell[0], payload, foreign), (ssize_t)foreign);
    die_in(IN_ANY, dies_in, point);
    if (how >= 0) fs_end_shutdown(c->end[0], c->bell[0], how);
    connection_close(c, 0);
}

static void receive_to_the_end(struct connection *c, size_t wanted, int polls)
{
    char block[8192];
    for (size_t received = 0;;) {
        struct pollfd one = {c->bell[1], POLLIN, 0};
        if (polls) CHECK_EQUAL(poll(&one, 1, (int)(STALL_NS / 1000000)), 1);
        ssize_t got = polls ? fs_end_receive(c->end[1], c->bell[1], block, sizeof block, 0, 1)
                            : receive_some(c->end[1], c->bell[1], block, sizeof block);
        if (got == -EAGAIN) continue;
        if (got == 0) {
            CHECK_EQUAL(received, wanted);
            return;
        }
        CHECK(got > 0);
        received += (size_t)got;
    }
}

/* How many processes died so before one left alive. */
static int run_deaths_while_leaving(int how, size_t foreign, int polls, enum fault_point point)
{
    for (int count = 1; count <= AT_EACH; count++) {
        struct connection c = connection_make(4096);
        pid_t other = start_process();
        connection_forget(&c, other != 0 ? 0 : 1);
        connection_open(&c, other != 0, 0);
        if (other == 0) {
            send_and_leave(&c, how, foreign, count, point);
            _exit(0);
        }
        if (polls) fs_end_watch(c.end[1], c.bell[1]);
        int status = 0;
        CHECK_EQUAL(waitpid(other, &status, 0), other);
        int died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        CHECK(died || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        receive_to_the_end(&c, 5 + foreign, polls);
        char byte = 'x';
        ssize_t sent = 0;
        for (int i = 0; i < 3 && sent >= 0; i++) sent = send_some(c.end[1], c.bell[1], &byte, 1);
        CHECK(sent == -EPIPE || sent == -ECONNRESET);
        connection_close(&c, 1);
        if (!died) return count - 1;
    }
    fail(__FILE__, __LINE__, "a leaving with more than %d calls", AT_EACH);
    return 0;
}

static void run_each_leaving(int how)
{
    static const size_t foreign[] = {0, 100, FS_FAREWELL_BYTES, 5000};
    for (int i = 0; i < 4; i++)
        for (int polls = 0; polls < 2; polls++)
            for (int point = 0; point < 2; point++)
                CHECK(run_deaths_while_leaving(how, foreign[i], polls, (enum fault_point)point) > 0);
}

TEST(death_in_each_call_of_a_close, NEEDS_FAULTS) { run_each_leaving(-1); }
TEST(death_in_each_call_of_a_shutdown_and_close, NEEDS_FAULTS) { run_each_leaving(SHUT_WR); }
TEST(death_in_each_call_of_a_shutdown_of_both_and_close, NEEDS_FAULTS) { run_each_leaving(SHUT_RDWR); }
