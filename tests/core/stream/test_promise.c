/* What a producer says about the send under way, and how far a consumer believes it. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "connection.h"

#define SIZE (1u << 20)

static void close_both(struct connection *c)
{
    connection_close(c, 0);
    connection_close(c, 1);
}

static struct connection elsewhere(uint32_t small_bytes)
{
    struct connection c = connection_both(small_bytes, 0);
    atomic_store(&c.end[0]->header->cpu[0], UINT32_MAX); /* a core that we are not on: its promises are worth a look */
    return c;
}

TEST(no_promise_outlives_its_send, 0)
{
    struct connection c = connection_both(4096, 0);
    unsigned char *block = malloc(SIZE);
    stream_fill(1, 0, block, SIZE);
    ssize_t sent = fs_end_send(c.end[0], c.bell[0], block, SIZE, 0);
    CHECK(sent > 0 && sent < SIZE); /* cut short: what did not fit is not coming */
    CHECK_EQUAL(fs_promised(c.end[1]), 0);
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], block, SIZE, 0, 0), sent);
    stream_check(1, 0, block, (size_t)sent);
    CHECK_EQUAL(fs_promised(c.end[1]), 0);
    free(block);
    close_both(&c);
}

static void *put_the_rest(void *argument)
{
    struct connection *c = argument;
    unsigned char rest[100];
    stream_fill(1, 100, rest, sizeof rest);
    fs_ring_put(&c->end[0]->out, rest, sizeof rest);
    fs_promise(c->end[0], 0);
    return NULL;
}

TEST(a_promise_is_waited_for, 0)
{
    struct connection c = elsewhere(4096);
    unsigned char block[200];
    stream_fill(1, 0, block, 100);
    fs_promise(c.end[0], 200);
    CHECK_EQUAL(fs_promised(c.end[1]), 200);
    fs_ring_put(&c.end[0]->out, block, 100);
    CHECK_EQUAL(fs_promised(c.end[1]), 100);
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], block, 100, 0, 0), 100);
    uint64_t patience = UINT64_MAX; /* the test ends by the promise alone */
    pthread_t other = start_thread(put_the_rest, &c);
    CHECK(fs_await_promised(c.end[1], &patience) || fs_end_has_data(c.end[1])); /* it may have been kept before */
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], block, 200, 0, 0), 100);
    stream_check(1, 100, block, 100);
    join_thread(other);
    CHECK_EQUAL(fs_await_promised(c.end[1], &patience), 0);
    close_both(&c);
}

TEST(a_promise_that_is_not_kept_ends_the_wait, 0)
{
    struct connection c = elsewhere(4096);
    unsigned char *block = calloc(1, SIZE);
    const uint64_t lies[] = {1, 4096, 8 * 4096, 8 * 4096 + 1, UINT64_MAX / 2, UINT64_MAX};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        atomic_store(&c.end[0]->out.shared->promised, atomic_load(&c.end[0]->out.shared->head) + lies[i]);
        CHECK(fs_promised(c.end[1]) <= 8 * 4096);
        fs_ring_put(&c.end[0]->out, block, 10);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], block, SIZE, 0, 0), 10);
        CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], block, SIZE, 0, 0), -EAGAIN);
    }
    free(block);
    close_both(&c);
}

static int readable(int bell)
{
    struct pollfd one = {bell, POLLIN, 0};
    return poll(&one, 1, 0) > 0;
}

TEST(a_large_send_rings_for_its_first_and_last_part, 0)
{
    struct connection c = connection_both(1u << 20, 0);
    unsigned char *block = calloc(1, SIZE);
    fs_end_watch(c.end[1], c.bell[1]);
    CHECK_EQUAL(fs_end_send(c.end[0], c.bell[0], block, SIZE, 0), SIZE);
    CHECK_EQUAL(atomic_load(&c.end[0]->out.shared->bell) >> FS_BELL_SHIFT, 2);
    CHECK(readable(c.bell[1]));
    CHECK_EQUAL(fs_end_receive(c.end[1], c.bell[1], block, SIZE, 0, 0), SIZE);
    CHECK(!readable(c.bell[1]));
    free(block);
    close_both(&c);
}
