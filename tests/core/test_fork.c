/* A fork while other threads are anywhere inside the core: what the child inherits must serve it, and the parent's
 * threads must go on as if nothing had been. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection.h"
#include "engine/engine.h"

#define CONNECTIONS 6
#define SMALL 4096u

static const _Atomic int never_leaving;
static _Atomic int over;

struct user {
    struct connection c;
    uint64_t salt;
};

/* Everything that takes a lock, with so short waits that a fork mostly finds some thread within one. */
static void use_once(struct connection *c, struct random *random, unsigned char *block, size_t most)
{
    int side = (int)random_below(random, 2);
    struct fs_end *end = c->end[side];
    size_t size = random_size(random, most);
    uint64_t soon = fs_now_ns() + random_below(random, 200000);
    switch (random_below(random, 8)) {
    case 0:
    case 1: fs_end_send(end, c->bell[side], block, size, FS_NO_SIGNAL); break;
    case 2:
    case 3: fs_end_receive(end, c->bell[side], block, size, 0, 1); break;
    case 4: fs_end_wait_long(end, c->bell[side], FS_READABLE, soon, &never_leaving); break;
    case 5: fs_end_wait(end, c->bell[side], FS_WRITABLE, soon, &never_leaving); break;
    case 6: fs_end_settle(end, c->bell[side], 0); break;
    default: fs_wake_leaving(), fs_wake_leaving_done();
    }
}

static void *use_until_over(void *argument)
{
    struct user *user = argument;
    struct random random = random_from(user->salt);
    unsigned char block[3 * SMALL] = {0};
    while (!atomic_load(&over)) use_once(&user->c, &random, block, sizeof block);
    return NULL;
}

static void *open_and_close_until_over(void *argument)
{
    (void)argument;
    while (!atomic_load(&over)) {
        struct connection c = connection_both(SMALL, 0);
        for (int side = 0; side < 2; side++) connection_close(&c, side);
    }
    return NULL;
}

/* What a forked server does: uses some of what it inherited, makes some of its own, closes the lot. */
static _Noreturn void be_child(struct user *users, uint64_t salt)
{
    struct random random = random_from(salt);
    unsigned char block[SMALL];
    alarm(20);
    for (int i = 0; i < CONNECTIONS; i++) {
        for (int calls = (int)random_below(&random, 4); calls > 0; calls--)
            use_once(&users[i].c, &random, block, sizeof block);
        for (int side = 0; side < 2; side++) connection_close(&users[i].c, side);
    }
    struct connection own = connection_both(SMALL, 0);
    CHECK_EQUAL(fs_end_send(own.end[0], own.bell[0], "abc", 3, FS_NO_SIGNAL), 3);
    CHECK_EQUAL(fs_end_receive(own.end[1], own.bell[1], block, 3, 0, 1), 3);
    fs_wake_leaving(), fs_wake_leaving_done();
    _exit(0);
}

TEST(forks_while_threads_are_in_the_core, NEEDS_PROCESSES)
{
    static struct user users[CONNECTIONS];
    pthread_t threads[CONNECTIONS + 1];
    for (int i = 0; i < CONNECTIONS; i++) {
        users[i] = (struct user){connection_both(SMALL, 20), 100 + (uint64_t)i};
        threads[i] = start_thread(use_until_over, &users[i]);
    }
    threads[CONNECTIONS] = start_thread(open_and_close_until_over, NULL);
    for (int i = 0; i < scaled(2000); i++) {
        pid_t child = start_process();
        if (child == 0) be_child(users, (uint64_t)i);
        join_process(child);
    }
    atomic_store(&over, 1);
    for (int i = 0; i <= CONNECTIONS; i++) join_thread(threads[i]);
}

static const struct fs_engine_options engine_options = {4096, 65536, 0, 0};

static struct fs_engine *engine_of_two(int rank)
{
    int error = 0;
    struct fs_engine *engine = fs_engine_new(rank, 2, &engine_options, &error);
    CHECK(engine != NULL);
    return engine;
}

/* A pair as attach_local wants it: each keeps the other. */
static void open_engines(struct fs_engine **engines)
{
    for (int i = 0; i < 2; i++) engines[i] = engine_of_two(i);
    for (int i = 0; i < 2; i++) CHECK_EQUAL(fs_engine_attach_local(engines[i], !i, engines[!i]), 0);
}

static void close_engines(struct fs_engine **engines)
{
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}

static void *exchange_until_over(void *argument)
{
    struct fs_engine **engines = argument;
    unsigned char from[64] = "from", into[64];
    while (!atomic_load(&over)) {
        struct fs_request send = {.one = {from, sizeof from}}, receive = {.one = {into, sizeof into}};
        fs_request_prepare(&send, FS_SENDING, NULL, 1);
        fs_request_prepare(&receive, FS_RECEIVING, NULL, 1);
        fs_engine_receive(engines[1], &receive, 0, 7, 0);
        fs_engine_send(engines[0], &send, 1, 7, 0, FS_STANDARD);
        fs_engine_progress(engines[1]);
        fs_engine_abandon(engines[0], &send);
        fs_engine_abandon(engines[1], &receive);
    }
    return NULL;
}

static void *open_and_close_engines_until_over(void *argument)
{
    struct fs_engine *engines[2];
    (void)argument;
    while (!atomic_load(&over)) {
        open_engines(engines);
        close_engines(engines);
    }
    return NULL;
}

static _Noreturn void be_childs_engines(struct fs_engine **engines)
{
    struct fs_engine *own[2];
    char reason[64];
    const char *path;
    struct fs_envelope envelope;
    alarm(20);
    for (int i = 0; i < 2; i++) {
        CHECK(!fs_engine_is_usable(engines[i]));
        fs_engine_reason(engines[i], !i, reason, sizeof reason, &path);
        fs_engine_probe(engines[i], !i, 7, 0, &envelope);
        fs_engine_leave(engines[i]);
    }
    close_engines(engines);
    open_engines(own);
    close_engines(own);
    _exit(0);
}

TEST(forks_while_threads_are_in_engines, NEEDS_PROCESSES)
{
    static struct fs_engine *engines[2][2];
    pthread_t threads[3];
    for (int i = 0; i < 2; i++) {
        open_engines(engines[i]);
        threads[i] = start_thread(exchange_until_over, engines[i]);
    }
    threads[2] = start_thread(open_and_close_engines_until_over, NULL);
    for (int i = 0; i < scaled(500); i++) {
        pid_t child = start_process();
        if (child == 0) be_childs_engines(engines[i % 2]);
        join_process(child);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 3; i++) join_thread(threads[i]);
    for (int i = 0; i < 2; i++) close_engines(engines[i]);
}

struct sleeper {
    struct fs_end *end;
    int bell, result;
    _Atomic int leaving;
};

static void *sleep_until_told(void *argument)
{
    struct sleeper *sleeper = argument;
    do sleeper->result = fs_end_wait_long(sleeper->end, sleeper->bell, FS_READABLE, UINT64_MAX, &sleeper->leaving);
    while (sleeper->result == 0);
    return NULL;
}

static void until_it_sleeps(pthread_t thread)
{
    clockid_t clock;
    struct timespec before, now = {0};
    CHECK(pthread_getcpuclockid(thread, &clock) == 0);
    do {
        before = now;
        exact_sleep_us(2000);
        CHECK(clock_gettime(clock, &now) == 0);
    } while (before.tv_sec != now.tv_sec || before.tv_nsec != now.tv_nsec);
}

/* The parent's sleepers hear of a close as before it forked, whatever the child holds open. */
TEST(a_close_after_a_fork_wakes_who_sleeps_since_before, NEEDS_PROCESSES)
{
    struct connection c = connection_both(SMALL, 0);
    struct sleeper sleeper = {.end = c.end[0], .bell = c.bell[0]};
    int hold[2];
    CHECK(pipe(hold) == 0);
    pthread_t thread = start_thread(sleep_until_told, &sleeper);
    until_it_sleeps(thread);
    pid_t child = start_process();
    if (child == 0) {
        char byte;
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    atomic_store(&sleeper.leaving, 1);
    fs_end_wake(c.end[0]);
    fs_wake_leaving();
    join_thread(thread);
    CHECK_EQUAL(sleeper.result, -EBADF);
    close(hold[1]);
    join_process(child);
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

TEST(a_lock_held_during_a_fork_keeps_the_child_out, NEEDS_PROCESSES)
{
    struct connection c = connection_both(SMALL, 0);
    int told[2];
    char byte;
    CHECK(pipe(told) == 0);
    CHECK_EQUAL(fs_lock(c.end[0]->exclusion.sender, 0), 0); /* as another thread would hold it at the fork */
    pid_t child = start_process();
    if (child == 0) {
        CHECK_EQUAL(fs_end_send(c.end[0], c.bell[0], "b", 1, FS_NO_SIGNAL | FS_AT_ONCE), -EBUSY);
        CHECK(write(told[1], "x", 1) == 1);
        ssize_t sent;
        do sent = fs_end_send(c.end[0], c.bell[0], "b", 1, FS_NO_SIGNAL);
        while (sent == -EAGAIN);
        _exit(sent == 1 ? 0 : 1);
    }
    CHECK(read(told[0], &byte, 1) == 1);
    CHECK_EQUAL(fs_ring_unread(&c.end[0]->out), 0);
    fs_unlock(c.end[0]->exclusion.sender);
    join_process(child);
    CHECK_EQUAL(fs_ring_unread(&c.end[0]->out), 1);
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

/* What is opened after a fork in parent and child has locks of its own. */
TEST(locks_made_after_a_fork_are_not_shared, NEEDS_PROCESSES)
{
    struct connection before = connection_both(SMALL, 0);
    int told[2], hold[2];
    CHECK(pipe(told) == 0 && pipe(hold) == 0);
    pid_t child = start_process();
    if (child == 0) {
        char byte;
        struct connection own[40];
        for (int i = 0; i < 40; i++) own[i] = connection_both(SMALL, 0);
        for (int i = 0; i < 40; i++) CHECK_EQUAL(fs_lock(own[i].end[0]->exclusion.sender, 0), 0);
        close(hold[1]);
        CHECK(write(told[1], "x", 1) == 1);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    char byte;
    CHECK(read(told[0], &byte, 1) == 1);
    connection_close(&before, 0);
    connection_close(&before, 1);
    for (int i = 0; i < 40; i++) {
        struct connection own = connection_both(SMALL, 0);
        for (int side = 0; side < 2; side++) {
            CHECK_EQUAL(fs_lock(own.end[side]->exclusion.sender, 0), 0);
            connection_close(&own, side);
        }
    }
    close(hold[1]);
    join_process(child);
}
