/* Calls of a thread that keeps the interpreter's lock: they do not wait, whatever the other end does. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>

#include "connection.h"
#include "looking.h"

#define LONG_US 20000.0

static struct connection elsewhere(void)
{
    struct connection c = connection_both(4096, 0);
    atomic_store(&c.end[0]->header->cpu[0], UINT32_MAX); /* a core that we are not on */
    return c;
}

static void close_both(struct connection *c)
{
    connection_close(c, 0);
    connection_close(c, 1);
}

/* Until the looks have a tenth of the time since then: a moment in which this thread did not run may have been a look's. */
static int goes_on(uint64_t start, uint64_t looked)
{
    uint64_t passed = fs_ticks() - start;
    return (double)passed < LONG_US * fs_ticks_per_us() || fs_looked() - looked > passed / 10;
}

TEST(an_end_that_stopped_while_it_rang_costs_no_more_than_its_share, 0)
{
    struct connection c = elsewhere();
    char byte;
    fs_end_watch(c.end[1], c.bell[1]);
    uint64_t start = fs_ticks(), looked = fs_looked();
    while (goes_on(start, looked)) {
        atomic_store(&c.end[0]->out.shared->bell, FS_BELL_RINGING);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], &byte, 1, FS_AT_ONCE, 0), -EAGAIN);
    }
    CHECK(fs_looked() > looked);
    atomic_store(&c.end[0]->out.shared->bell, FS_BELL_SILENT);
    close_both(&c);
}

static void *take(void *argument)
{
    struct connection *c = argument;
    CHECK_EQUAL(fs_lock(c->end[1]->exclusion.receiver, 0), 0);
    return NULL;
}

TEST(a_busy_end_costs_no_more_than_its_share, 0)
{
    struct connection c = elsewhere();
    char byte;
    join_thread(start_thread(take, &c));
    uint64_t start = fs_ticks(), looked = fs_looked();
    while (goes_on(start, looked)) CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], &byte, 1, FS_AT_ONCE, 0), -EBUSY);
    CHECK(fs_looked() > looked);
    fs_unlock(c.end[1]->exclusion.receiver);
    close_both(&c);
}

TEST(an_end_that_left_without_a_word_is_not_waited_for, 0)
{
    struct connection c = elsewhere();
    char byte;
    atomic_fetch_or(&c.end[1]->header->left, fs_side_mark(0));
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], &byte, 1, FS_AT_ONCE, 1), -EBUSY);
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], &byte, 1, 0, 1), 0);
    close_both(&c);
}

TEST(a_block_that_may_go_past_the_ring_waits_without_the_lock, 0)
{
    struct connection c = connection_make(4096);
    char block[200] = {0};
    c.direct_min = 100;
    for (int side = 0; side < 2; side++) connection_open(&c, side, 0);
    CHECK_EQUAL(fs_end_send(c.end[0], c.bell[0], block, 100, FS_AT_ONCE), -EBUSY);
    CHECK_EQUAL(fs_end_send(c.end[0], c.bell[0], block, 99, FS_AT_ONCE), 99);
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], block, 100, FS_AT_ONCE, 0), -EBUSY);
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], block, 99, FS_AT_ONCE, 0), 99);
    close_both(&c);
}
