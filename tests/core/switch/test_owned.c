/* A connection whose ring has one owner, as the message engine's links are. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "switch/closed.h"
#include "switch/owned.h"

struct owned {
    struct pair pair;
    struct fs_end *end[2];
};

static struct owned both_owned(void)
{
    struct owned owned = {.pair = pair_by_ring(4096)};
    for (int side = 0; side < 2; side++) {
        CHECK(fs_owned_is_possible(owned.pair.end[side], owned.pair.fd[side]));
        CHECK(fs_owned_take(owned.pair.fd[side]) == owned.pair.end[side]);
        owned.end[side] = owned.pair.end[side]->end;
    }
    return owned;
}

static void leave(struct owned *owned, int side)
{
    if (owned->pair.fd[side] < 0) return;
    fs_owned_leave(owned->pair.end[side], owned->pair.fd[side]);
    close(owned->pair.fd[side]);
    owned->pair.fd[side] = -1;
}

static void leave_both(struct owned *owned)
{
    for (int side = 0; side < 2; side++) leave(owned, side);
    pair_done(&owned->pair);
}

static short shown(const struct owned *owned, int side)
{
    struct pollfd one = {owned->pair.fd[side], POLLIN | POLLRDHUP, 0};
    return poll(&one, 1, 0) > 0 ? one.revents : 0;
}

static int settle(struct owned *owned, int side)
{
    return fs_owned_settle(owned->pair.end[side], owned->end[side], owned->pair.fd[side]);
}

static void put(struct owned *owned, int side, const void *data, size_t length)
{
    CHECK_EQUAL(fs_ring_put(&owned->end[side]->out, data, length), 0);
    fs_owned_wake(owned->pair.end[side], owned->end[side], owned->pair.fd[side]);
}

static void take(struct owned *owned, int side, size_t length) { fs_ring_consume(&owned->end[side]->in, length); }

TEST(a_ring_has_no_owner_before_both_directions_go_through_it, 0)
{
    struct pair pair = pair_both(4096);
    CHECK(!fs_owned_is_possible(pair.end[0], pair.fd[0]));
    CHECK(fs_owned_take(pair.fd[0]) == NULL);
    pair_attach(&pair);
    for (int side = 0; side < 2; side++) {
        CHECK(!fs_owned_is_possible(pair.end[side], pair.fd[side]));
        CHECK(fs_owned_take(pair.fd[side]) == NULL);
        CHECK_EQUAL(send_now(&pair, side, "1", 1, 0), 1);
        expect_bytes(&pair, !side, "1");
    }
    for (int side = 0; side < 2; side++) CHECK(fs_owned_is_possible(pair.end[side], pair.fd[side]));
    CHECK_EQUAL(fs_leave_release(pair.end[0], pair.fd[0]), 0);
    for (int side = 0; side < 2; side++) {
        CHECK(fs_owned_take(pair.fd[side]) == NULL);
        pair_close(&pair, side);
    }
    pair_done(&pair);
}

TEST(an_owner_that_sleeps_hears_of_each_byte, 0)
{
    struct owned owned = both_owned();
    for (int i = 0; i < 1000; i++) {
        int side = i & 1;
        CHECK_EQUAL(settle(&owned, side), 0);
        CHECK_EQUAL(shown(&owned, side), 0);
        for (int more = 0; more < 3; more++) put(&owned, !side, "x", 1);
        CHECK_EQUAL(shown(&owned, side), POLLIN);
        CHECK_EQUAL(settle(&owned, side), 1);
        take(&owned, side, 3);
    }
    leave_both(&owned);
}

TEST(a_token_that_tcp_refuses_is_sent_later, 0)
{
    struct owned owned = both_owned();
    CHECK_EQUAL(settle(&owned, 0), 0);
    struct fs_record *record = owned.pair.end[1]->record;
    atomic_fetch_add(&record->owed, 1); /* as if */
    atomic_store(&fs_words_out(owned.end[1])->tokens,
                 (1ull << FS_TOKEN_SHIFT) + atomic_load(&fs_words_out(owned.end[1])->tokens));
    put(&owned, 1, "x", 1);
    CHECK_EQUAL(shown(&owned, 0), POLLIN);
    CHECK_EQUAL(atomic_load(&record->owed), 0);
    leave_both(&owned);
}

TEST(an_owned_connection_is_told_of_in_reports, 0)
{
    struct owned owned = both_owned();
    uint64_t before = fs_closed_attached();
    for (int side = 0; side < 2; side++) {
        struct fs_closed seen;
        fs_closed_look(owned.pair.end[side], owned.pair.fd[side], &seen);
        CHECK_EQUAL(seen.carriers.state, FS_OWNED);
        CHECK_EQUAL(seen.why, FS_WHY_ATTACHED);
        CHECK(seen.carriers.in_ring && seen.carriers.out_ring);
    }
    leave_both(&owned);
    CHECK_EQUAL(fs_closed_attached(), before + 2);
}

/* What lies in the ring stays there; and with no token unread the end is no reset. */
TEST(an_owner_that_leaves_is_seen_by_the_other_one, 0)
{
    struct owned owned = both_owned();
    CHECK_EQUAL(settle(&owned, 1), 0);
    put(&owned, 0, "last", 4);
    put(&owned, 1, "never read", 10);
    leave(&owned, 0);
    CHECK(shown(&owned, 1) & POLLRDHUP);
    CHECK_EQUAL(fs_ring_used(&owned.end[1]->in), 4);
    leave_both(&owned);
}

/* It holds the number, too, and says nothing of it: when it closes it, and when it ends. */
TEST(a_forked_child_of_an_owner_says_nothing, 0)
{
    for (int closes = 0; closes < 2; closes++) {
        struct owned owned = both_owned();
        CHECK_EQUAL(settle(&owned, 1), 0);
        pid_t child = start_process();
        if (child == 0) {
            for (int side = 0; closes && side < 2; side++) {
                fs_leave_descriptor(owned.pair.fd[side]);
                close(owned.pair.fd[side]);
            }
            fs_leave_all();
            _exit(0);
        }
        join_process(child);
        CHECK_EQUAL(shown(&owned, 1), 0);
        put(&owned, 0, "x", 1);
        CHECK_EQUAL(shown(&owned, 1), POLLIN);
        leave(&owned, 0);
        CHECK(shown(&owned, 1) & POLLRDHUP);
        leave_both(&owned);
    }
}

/* A liar ends its own connection. */
TEST(an_owner_ends_a_connection_whose_tokens_cannot_be, 0)
{
    struct owned owned = both_owned();
    atomic_store(&fs_words_out(owned.end[1])->tokens, UINT64_MAX & ~(uint64_t)FS_TOKENS_ENDED);
    CHECK_EQUAL(settle(&owned, 0), 0);
    CHECK(shown(&owned, 0) & POLLHUP);
    CHECK(shown(&owned, 1) & POLLRDHUP);
    leave_both(&owned);
}

/* The other end wants what only a sender of carry.c grants: its wish is not heard, and it waits in vain. */
TEST(an_owner_sends_nothing_again, 0)
{
    struct owned owned = both_owned();
    put(&owned, 0, "unread", 6);
    atomic_store(&fs_words_in(owned.end[1])->release, FS_RELEASE_ASKED);
    put(&owned, 0, "more", 4);
    CHECK_EQUAL(settle(&owned, 0), 0);
    CHECK_EQUAL(atomic_load(&fs_words_in(owned.end[1])->release), FS_RELEASE_ASKED);
    leave_both(&owned);
}
