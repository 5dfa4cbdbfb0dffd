/* Programs that set SO_SNDBUF and SO_RCVBUF: the ring keeps to them, too. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>

#include "pair.h"

enum { SMALL = 4096, LARGE = 1 << 20 };

static void set_buffer(const struct pair *pair, int side, int option, int size)
{
    CHECK_EQUAL(setsockopt(pair->fd[side], SOL_SOCKET, option, &size, sizeof size), 0);
}

static uint64_t most(const struct pair *pair) /* of what side 0 sends */
{
    return fs_ring_most_unread(&pair->end[0]->end->out);
}

static int knows_who_set_a_buffer(const struct pair *pair) /* Linux does, from 5.14 on */
{
    int locks;
    socklen_t size = sizeof locks;
    return getsockopt(pair->fd[0], SOL_SOCKET, 72, &locks, &size) == 0;
}

static void done(struct pair *pair)
{
    for (int side = 0; side < 2; side++) pair_close(pair, side);
    pair_done(pair);
}

TEST(buffers_that_were_set_before_the_attach_bound_the_ring, 0)
{
    for (int set = 0; set < 4; set++) {
        struct pair pair = pair_both(65536);
        int knows = knows_who_set_a_buffer(&pair);
        if (set & 1) set_buffer(&pair, 0, SO_SNDBUF, SMALL);
        if (set & 2) set_buffer(&pair, 1, SO_RCVBUF, SMALL);
        pair_attach(&pair);
        CHECK(!knows || (most(&pair) == UINT64_MAX) == (set != 3)); /* it takes both */
        if (knows && set == 3) CHECK_EQUAL(most(&pair), 2 * (SMALL + SMALL));
        done(&pair);
    }
}

TEST(buffers_that_are_set_later_bound_the_ring, 0)
{
    struct pair pair = pair_attached(65536);
    CHECK(most(&pair) == UINT64_MAX);
    for (int size = SMALL; size <= LARGE && knows_who_set_a_buffer(&pair); size *= 4) {
        set_buffer(&pair, 0, SO_SNDBUF, size);
        fs_options_bound(pair.end[0], pair.fd[0]);
        set_buffer(&pair, 1, SO_RCVBUF, SMALL);
        fs_options_bound(pair.end[1], pair.fd[1]);
        int given;
        socklen_t length = sizeof given;
        CHECK_EQUAL(getsockopt(pair.fd[0], SOL_SOCKET, SO_SNDBUF, &given, &length), 0); /* the system has a limit */
        CHECK_EQUAL(most(&pair), given + 2 * SMALL);
    }
    done(&pair);
}

TEST(sender_stops_at_what_both_buffers_hold_and_goes_on_when_all_was_read, 0)
{
    struct pair pair = pair_both(65536);
    if (!knows_who_set_a_buffer(&pair)) return done(&pair);
    set_buffer(&pair, 0, SO_SNDBUF, SMALL);
    set_buffer(&pair, 1, SO_RCVBUF, SMALL);
    pair_attach(&pair);
    static unsigned char block[LARGE];
    for (int round = 0; round < 2; round++) {
        ssize_t sent = 0, got = 0, part;
        while ((part = send_now(&pair, 0, block, sizeof block, 0)) > 0) sent += part;
        CHECK_EQUAL(part, -EAGAIN);
        CHECK(sent > 0 && sent <= 2 << 16); /* the ring's, and what TCP takes of its own */
        while (got < sent)
            if ((part = receive_now(&pair, 1, block, sizeof block, 0)) > 0) got += part;
        CHECK_EQUAL(got, sent);
        CHECK_EQUAL(receive_now(&pair, 1, block, 1, 0), -EAGAIN);
    }
    done(&pair);
}
