/* A number that was closed unseen, and that another socket has got. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.h"
#include "switch/identity.h"

/* Code that nobody sees closes the number of side 0; a socket of the other pair has it by now. */
static int replace(struct pair *pair, int with)
{
    int number = pair->fd[0];
    CHECK_EQUAL(close(number), 0);
    CHECK_EQUAL(dup2(with, number), number);
    return number;
}

static struct pair talked(void)
{
    struct pair pair = pair_attached(4096);
    for (int side = 0; side < 2; side++) {
        CHECK_EQUAL(send_now(&pair, side, "abc", 3, 0), 3);
        expect_bytes(&pair, !side, "abc");
    }
    return pair;
}

static void done(struct pair *pair, struct pair *other)
{
    pair_close(pair, 1);
    if (fs_table_find(pair->fd[0]) != NULL) pair_close(pair, 0);
    else close(pair->fd[0]);
    for (int side = 0; side < 2; side++) close(other->fd[side]);
    pair_done(pair);
    pair_done(other);
}

/* Nothing was sent or taken there, and what comes over it is whole. */
static void expect_untouched(const struct pair *other, int number)
{
    char got[8];
    CHECK_EQUAL(recv(other->fd[1], got, sizeof got, MSG_DONTWAIT), -1);
    CHECK_EQUAL(send(other->fd[1], "other", 5, 0), 5);
    CHECK_EQUAL(recv(number, got, sizeof got, 0), 5);
    CHECK_EQUAL(send(number, "answer", 6, 0), 6);
    CHECK_EQUAL(recv(other->fd[1], got, sizeof got, 0), 6);
}

/* Until the direction is on TCP: nobody reads. */
static void fill(struct pair *pair)
{
    static const char much[65536];
    while (atomic_load(&pair->end[0]->record->out_ring)) send_now(pair, 0, much, sizeof much, 0);
}

static ssize_t send_much(struct pair *pair)
{
    static const char much[1 << 20]; /* more than the ring takes */
    return send_now(pair, 0, much, sizeof much, 0);
}

TEST(socket_that_has_got_a_number_unseen_is_left_alone, 0)
{
    enum {
        RECEIVES,
        SENDS,
        SENDS_LATER,
        SENDS_MUCH,
        SENDS_ON_TCP,
        SENDS_URGENT,
        SENDS_AFTER_THE_END,
        SENDS_BY_ITSELF,
        SENDS_BY_ITSELF_ON_TCP,
        WATCHES,
        SETTLES,
        WAITS,
        WAITS_FOR_ROOM,
        SHUTS,
        RELEASES,
        CLOSES,
        CHECKS,
        WAYS
    };
    static const _Atomic int stays;
    for (int way = 0; way < WAYS; way++) {
        struct pair pair = talked(), other = pair_make(4096);
        struct fs_record *within;
        char got[8];
        if (way == SENDS) { /* the other end waits for a token */
            CHECK_EQUAL(fs_carry_settle(pair.end[1], pair.fd[1], 0), 0);
        }
        if (way == RELEASES || way == CHECKS) CHECK_EQUAL(send_now(&pair, 1, "unread", 6, 0), 6);
        if (way == SENDS_ON_TCP || way == SENDS_BY_ITSELF_ON_TCP) fill(&pair);
        if (way == SENDS_AFTER_THE_END) CHECK_EQUAL(fs_leave_shutdown(pair.end[0], pair.fd[0], SHUT_WR), 0);
        int number = replace(&pair, other.fd[0]);
        switch (way) {
        case RECEIVES:
            exact_sleep_us(1000); /* such a look is not for every call */
            for (int i = 0; i < 2; i++) CHECK_EQUAL(receive_now(&pair, 0, got, sizeof got, 0), -EBADF);
            break;
        case SENDS: send_now(&pair, 0, "x", 1, 0); break;
        case SENDS_LATER:
            exact_sleep_us(2000); /* such a look is not for every call */
            for (int i = 0; i < 2; i++) CHECK_EQUAL(send_now(&pair, 0, "x", 1, 0), -EBADF);
            break;
        case SENDS_MUCH:
            while (send_much(&pair) > 0) continue;
            CHECK_EQUAL(send_much(&pair), -EBADF);
            break;
        case SENDS_ON_TCP:
        case SENDS_AFTER_THE_END: CHECK_EQUAL(send_now(&pair, 0, "x", 1, 0), -EBADF); break;
        case SENDS_URGENT: {
            struct iovec part = {"x", 1};
            struct fs_parts parts = fs_parts_of(&part, 1);
            CHECK_EQUAL(fs_carry_send(pair.end[0], number, &parts, FS_NO_SIGNAL, MSG_OOB | MSG_DONTWAIT), -EBADF);
            break;
        }
        case SENDS_BY_ITSELF:
        case SENDS_BY_ITSELF_ON_TCP: CHECK_EQUAL(fs_carry_send_begins(pair.end[0], number, 0, &within), -EBADF); break;
        case WATCHES: fs_connection_watch(pair.end[0], number); break;
        case SETTLES: CHECK_EQUAL(fs_carry_settle(pair.end[0], number, 0), 0); break;
        case WAITS:
        case WAITS_FOR_ROOM: {
            int what = way == WAITS ? FS_READABLE : FS_WRITABLE;
            CHECK_EQUAL(fs_carry_wait_long(pair.end[0], number, what, fs_now_ns() + 1000000000, &stays), -EBADF);
            break;
        }
        case SHUTS: CHECK_EQUAL(fs_leave_shutdown(pair.end[0], number, SHUT_RD), 0); break;
        case RELEASES: CHECK_EQUAL(fs_leave_release(pair.end[0], number), 0); break;
        case CLOSES: fs_leave_descriptor(number); break;
        default: CHECK_EQUAL(fs_identity_check(number), 0); CHECK(fs_table_find(number) == NULL);
        }
        if (way != SHUTS) expect_untouched(&other, number);
        done(&pair, &other);
    }
}

TEST(number_that_is_the_same_socket_still_is_known, 0)
{
    struct pair pair = talked();
    int number = dup(pair.fd[0]);
    CHECK(number >= 0);
    CHECK_EQUAL(fs_table_duplicate(pair.fd[0], number), 0);
    CHECK_EQUAL(fs_identity_check(number), 1);
    pair_close(&pair, 0);
    CHECK_EQUAL(fs_identity_check(number), 1);
    pair.fd[0] = number;
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc");
    for (int side = 0; side < 2; side++) pair_close(&pair, side);
    pair_done(&pair);
}

TEST(duplicate_that_was_made_unseen_is_known_once_it_is_adopted, 0)
{
    struct pair pair = talked();
    int number = dup(pair.fd[0]), file = open("/dev/null", O_RDONLY);
    CHECK(number >= 0 && file >= 0);
    CHECK_EQUAL(fs_identity_adopt(file), 0);
    CHECK_EQUAL(fs_identity_adopt(number), 1);
    CHECK(fs_table_find(number) == pair.end[0]);
    CHECK_EQUAL(fs_identity_adopt(number), 1);
    pair_close(&pair, 0);
    pair.fd[0] = number;
    CHECK_EQUAL(send_now(&pair, 1, "abc", 3, 0), 3);
    expect_bytes(&pair, 0, "abc");
    for (int side = 0; side < 2; side++) pair_close(&pair, side);
    pair_done(&pair);
    close(file);
}
