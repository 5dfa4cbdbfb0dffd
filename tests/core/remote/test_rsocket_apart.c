/* Calls that may wait for a third host, over a library of the test's own whose calls end when the test says so. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "remote/rsocket_apart.h"
#include "system.h"

#define NUMBER 7

static struct {
    _Atomic uint32_t may_end; /* a futex word */
    _Atomic uint32_t closed;  /* how often; a futex word */
    _Atomic int calls;
    int error;
    struct sockaddr_in target;
} far;

static void set(int may_end, int error)
{
    atomic_store(&far.may_end, (uint32_t)may_end);
    atomic_store(&far.closed, 0);
    atomic_store(&far.calls, 0);
    far.error = error;
}

static void let_end(void)
{
    atomic_store(&far.may_end, 1);
    fs_futex_wake_all(&far.may_end);
}

static int wait_for_the_far_host(void)
{
    atomic_fetch_add(&far.calls, 1);
    while (!atomic_load(&far.may_end)) fs_futex_wait(&far.may_end, 0, 1000000000ull);
    errno = far.error;
    return far.error == 0 ? 0 : -1;
}

static int listen_slowly(int number, int backlog)
{
    CHECK(number == NUMBER && backlog == 3);
    return wait_for_the_far_host();
}

static int connect_slowly(int number, const struct sockaddr *target, socklen_t length)
{
    CHECK(number == NUMBER && length == sizeof far.target);
    CHECK(memcmp(target, &far.target, length) == 0);
    return wait_for_the_far_host();
}

static int close_counted(int number)
{
    CHECK_EQUAL(number, NUMBER);
    atomic_fetch_add(&far.closed, 1);
    fs_futex_wake_all(&far.closed);
    return 0;
}

static const struct fs_rsocket_library library = {
    .rlisten = listen_slowly, .rconnect = connect_slowly, .rclose = close_counted};

static int call(int connects, uint64_t limit_ns)
{
    return connects
               ? fs_rsocket_connect_apart(&library, NUMBER, (struct sockaddr *)&far.target, sizeof far.target, limit_ns)
               : fs_rsocket_listen_apart(&library, NUMBER, 3, limit_ns);
}

static void await_closed(void)
{
    while (!atomic_load(&far.closed)) fs_futex_wait(&far.closed, 0, 1000000000ull);
}

TEST(rsocket_call_that_ends_in_time_says_how, 0)
{
    for (int connects = 0; connects < 2; connects++) {
        set(1, 0);
        CHECK_EQUAL(call(connects, UINT64_MAX), 0);
        CHECK_EQUAL(atomic_load(&far.closed), 0);
        set(1, EADDRINUSE);
        CHECK_EQUAL(call(connects, UINT64_MAX), -EADDRINUSE);
        CHECK_EQUAL(atomic_load(&far.closed), 1);
    }
    set(1, EINPROGRESS);
    CHECK_EQUAL(call(1, UINT64_MAX), 0);
    CHECK_EQUAL(atomic_load(&far.closed), 0);
}

TEST(rsocket_call_that_waits_for_a_dead_host_is_left, 0)
{
    for (int connects = 0; connects < 2; connects++)
        for (int error = 0; error < 2; error++) {
            set(0, error ? EHOSTUNREACH : 0);
            CHECK_EQUAL(call(connects, fs_now_ns() + 1000000), -EBUSY);
            CHECK_EQUAL(atomic_load(&far.closed), 0);
            let_end();
            await_closed();
            CHECK_EQUAL(atomic_load(&far.closed), 1);
        }
}

/* Whoever comes last frees the call; the rsocket is closed once, or it is the caller's. */
TEST(rsocket_call_may_end_at_the_limit, 0)
{
    struct random when = random_from(11);
    int left = 0, made = 0;
    for (int round = 0; round < scaled(5000); round++) {
        set(1, 0);
        const int error = call(round % 2, fs_now_ns() + random_below(&when, 100000));
        CHECK(error == 0 || error == -EBUSY);
        if (error != 0) await_closed();
        CHECK_EQUAL(atomic_load(&far.closed), error != 0);
        CHECK_EQUAL(atomic_load(&far.calls), 1);
        left += error != 0;
        made += error == 0;
    }
    CHECK(left > 0 && made > 0);
}
