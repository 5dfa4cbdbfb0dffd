/* Threads that wait, leave, close and come too late. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.h"
#include "switch/identity.h"

static void close_both(struct pair *pair)
{
    for (int side = 0; side < 2; side++)
        if (pair->fd[side] >= 0) pair_close(pair, side);
    pair_done(pair);
}

struct sleeper {
    struct pair *pair;
    int what;
    _Atomic int leaving, waits, result;
};

static void *sleep_until_told(void *argument)
{
    struct sleeper *sleeper = argument;
    struct fs_connection *end = sleeper->pair->end[0];
    int fd = sleeper->pair->fd[0], result = FS_IN_VAIN;
    atomic_store(&sleeper->waits, 1);
    while (result == 0 || result == FS_IN_VAIN) {
        result = fs_carry_wait_briefly(end, fd, sleeper->what, UINT64_MAX, &sleeper->leaving);
        if (result == FS_IN_VAIN) result = fs_carry_wait_long(end, fd, sleeper->what, UINT64_MAX, &sleeper->leaving);
    }
    atomic_store(&sleeper->result, result);
    return NULL;
}

TEST(close_by_another_thread_makes_sleepers_leave, 0)
{
    for (int i = 0; i < scaled(100); i++) {
        struct pair pair = pair_both(4096);
        static unsigned char block[1 << 20];
        int what = i & 1 ? FS_READABLE : FS_WRITABLE;
        if (i % 4 != 3) pair_attach(&pair);
        while (what == FS_WRITABLE && send_now(&pair, 0, block, sizeof block, 0) > 0) {}
        struct sleeper sleeper = {.pair = &pair, .what = what};
        pthread_t thread = start_thread(sleep_until_told, &sleeper);
        while (!atomic_load(&sleeper.waits)) sched_yield();
        exact_sleep_us((uint64_t)(i % 10) * 1000);
        atomic_store(&sleeper.leaving, 1);
        fs_wake_leaving();
        if (pair.end[0]->end != NULL) fs_end_wake(pair.end[0]->end);
        join_thread(thread);
        fs_wake_leaving_done();
        CHECK_EQUAL(sleeper.result, -EBADF);
        close_both(&pair);
    }
}

/* The memory stays until the last of those who look at it has gone. */
TEST(close_under_a_sleeper_leaves_it_its_memory, 0)
{
    for (int i = 0; i < scaled(100); i++) {
        struct pair pair = pair_attached(4096);
        struct sleeper sleeper = {.pair = &pair, .what = FS_READABLE};
        pthread_t thread = start_thread(sleep_until_told, &sleeper);
        while (!atomic_load(&sleeper.waits)) sched_yield();
        exact_sleep_us((uint64_t)(i % 10) * 700);
        fs_leave_descriptor(pair.fd[0]); /* its number stays open: poll() goes on as on a closed one's file */
        CHECK_EQUAL(shutdown(pair.fd[0], SHUT_RDWR), 0);
        join_thread(thread);
        CHECK_EQUAL(sleeper.result, -EBADF);
        close(pair.fd[0]);
        pair.fd[0] = -1;
        close_both(&pair);
    }
}

struct caller {
    struct pair *pair;
    struct waiter waiter;
    ssize_t result;
};

static void *receive_one(void *argument)
{
    struct caller *caller = argument;
    char got[16];
    caller->result = pair_receive(caller->pair, &caller->waiter, got, sizeof got, 0);
    return NULL;
}

static void *send_until_told(void *argument)
{
    struct caller *caller = argument;
    static unsigned char block[100000];
    do caller->result = pair_send(caller->pair, &caller->waiter, block, sizeof block, 0);
    while (caller->result > 0);
    return NULL;
}

struct holder {
    struct pair *pair;
    _Atomic int holds;
    int has_ended; /* as the other end saw it before the lock was let go */
};

/* As a thread whose core is taken away for that long in the middle of a send. */
static void *hold_the_sender(void *argument)
{
    struct holder *holder = argument;
    struct fs_connection *end = holder->pair->end[0];
    CHECK_EQUAL(fs_lock(&end->record->sender, 0), 0);
    atomic_store(&holder->holds, 1);
    exact_sleep_us(200000);
    struct fs_end *other = holder->pair->end[1]->end;
    holder->has_ended = fs_end_other_left(other) || atomic_load(&other->in.shared->producer_shut);
    fs_unlock(&end->record->sender);
    return NULL;
}

TEST(no_end_is_said_before_a_send_of_another_thread_is_done, 0)
{
    for (int closes = 0; closes < 2; closes++) {
        struct pair pair = pair_attached(4096);
        struct holder holder = {.pair = &pair};
        pthread_t thread = start_thread(hold_the_sender, &holder);
        while (!atomic_load(&holder.holds)) sched_yield();
        if (closes) pair_close(&pair, 0);
        else CHECK_EQUAL(fs_leave_shutdown(pair.end[0], pair.fd[0], SHUT_WR), 0);
        join_thread(thread);
        CHECK_EQUAL(holder.has_ended, 0);
        if (closes) CHECK(fs_end_other_left(pair.end[1]->end));
        else CHECK(atomic_load(&pair.end[1]->end->in.shared->producer_shut));
        close_both(&pair);
    }
}

struct worker {
    struct pair *pair;
    fs_lock_word *lock;
    int number;
    _Atomic int holds, left;
    int has_left, is_its_socket; /* before the lock was let go */
};

/* As a thread that answers the other end by that number, and whose core is taken away. */
static void *work_by_number(void *argument)
{
    struct worker *worker = argument;
    CHECK_EQUAL(fs_lock(worker->lock, 0), 0);
    atomic_store(&worker->holds, 1);
    exact_sleep_us(200000);
    worker->has_left = atomic_load(&worker->left);
    worker->is_its_socket = fs_identity_of(worker->number) == fs_identity_of(worker->pair->fd[0]);
    fs_unlock(worker->lock);
    return NULL;
}

static void leave_by_another_stream(int number)
{
    struct pair other = pair_attached(4096);
    CHECK_EQUAL(fs_table_duplicate(other.fd[0], number), 0); /* as dup2() does before the kernel's call */
    fs_leave_descriptor(number);
    close_both(&other);
}

TEST(number_leaves_when_who_works_by_it_is_done, 0)
{
    void (*const ways[])(int) = {fs_leave_descriptor, fs_leave_number, leave_by_another_stream};
    for (int i = 0; i < 6; i++) {
        struct pair pair = pair_attached(4096);
        struct fs_record *record = pair.end[0]->record;
        int number = dup(pair.fd[0]);
        CHECK(number >= 0);
        CHECK_EQUAL(fs_table_duplicate(pair.fd[0], number), 0);
        struct worker worker = {.pair = &pair, .lock = i < 3 ? &record->sender : &record->receiver, .number = number};
        pthread_t thread = start_thread(work_by_number, &worker);
        while (!atomic_load(&worker.holds)) sched_yield();
        ways[i % 3](number);
        atomic_store(&worker.left, 1);
        join_thread(thread);
        CHECK_EQUAL(worker.has_left, 0);
        CHECK(worker.is_its_socket);
        close(number);
        close_both(&pair);
    }
}

TEST(shutdown_wakes_whoever_sleeps_at_this_end, 0)
{
    for (int i = 0; i < scaled(100); i++) {
        struct pair pair = pair_both(4096);
        if (i % 3) pair_attach(&pair);
        enum style style = (enum style)(i % STYLES);
        struct caller reader = {&pair, waiter_make(&pair, 0, FS_READABLE, style), 1};
        struct caller writer = {&pair, waiter_make(&pair, 0, FS_WRITABLE, style == EPOLL_EDGE ? POLL : style), 1};
        pthread_t threads[2] = {start_thread(receive_one, &reader), start_thread(send_until_told, &writer)};
        exact_sleep_us((uint64_t)(i % 10) * 1500);
        CHECK_EQUAL(fs_leave_shutdown(pair.end[0], pair.fd[0], SHUT_RDWR), 0);
        join_thread(threads[0]);
        join_thread(threads[1]);
        CHECK_EQUAL(reader.result, 0);
        CHECK_EQUAL(writer.result, -EPIPE);
        waiter_drop(&reader.waiter);
        waiter_drop(&writer.waiter);
        close_both(&pair);
    }
}

/* ---- numbers that are closed and come again, under threads that use them ---- */

/* Such a thread may take what is another connection's, as it may from the kernel; but nothing breaks. */

struct intruder {
    _Atomic int *fd, *stop;
    int sends;
};

static void *call_all_the_time(void *argument)
{
    struct intruder *intruder = argument;
    unsigned char block[2000];
    memset(block, 'x', sizeof block);
    while (!atomic_load(intruder->stop)) {
        int fd = atomic_load(intruder->fd);
        struct fs_connection *connection = fs_table_find(fd);
        if (connection == NULL) continue;
        struct iovec part = {block, sizeof block};
        struct fs_parts parts = fs_parts_of(&part, 1);
        ssize_t result = intruder->sends ? fs_carry_send(connection, fd, &parts, FS_NO_SIGNAL, MSG_DONTWAIT)
                                         : fs_carry_receive(connection, fd, block, sizeof block, 0, MSG_DONTWAIT);
        CHECK(result >= 0 || result == -EAGAIN || result == -EBADF || result == -EPIPE || result == -ECONNRESET ||
              result == -ENOTSOCK || result == -EINVAL || result == -EPROTO || result == -ENOTCONN);
        if (result == -EAGAIN) fs_carry_settle(connection, fd, FS_AT_ONCE);
    }
    return NULL;
}

/* The thread sanitizer would blame the test for what it tests: a close() beside a recv(). */
TEST(threads_that_come_too_late_touch_no_other_connection, NEEDS_FAULTS)
{
    _Atomic int fds[2] = {-1, -1}, stop = 0;
    struct intruder intruders[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        intruders[i] = (struct intruder){&fds[i & 1], &stop, i >> 1};
        threads[i] = start_thread(call_all_the_time, &intruders[i]);
    }
    for (int i = 0; i < scaled(400); i++) {
        struct pair pair = pair_both(4096);
        for (int side = 0; side < 2; side++) atomic_store(&fds[side], pair.fd[side]);
        for (int tries = 0; tries < 20 && pair_offer(&pair) != 0; tries++) {}
        for (int tries = 0; tries < 20 && pair_join(&pair) != 0; tries++) {}
        exact_sleep_us((uint64_t)(i % 5) * 50);
        close_both(&pair);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++) join_thread(threads[i]);
}
