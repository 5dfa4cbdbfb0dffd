/* Who has a segment: each end's return, and a reservation that is either claimed or withdrawn. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sockets/abstract.h"
#include "connection.h"

#define SMALL 4096u

struct both {
    int memory;
    struct fs_segment *maker, *other; /* one memory, mapped by either end */
};

static struct both mapped(void)
{
    int error = 0;
    struct both both = {fs_segment_create(SMALL), NULL, NULL};
    CHECK(both.memory >= 0);
    both.maker = fs_segment_map(both.memory, &error);
    both.other = fs_segment_map(both.memory, &error);
    CHECK(both.maker != NULL && both.other != NULL);
    return both;
}

static void unmap(struct both *both)
{
    fs_segment_drop(both->maker);
    fs_segment_drop(both->other);
    close(both->memory);
}

static void use_and_return(struct fs_segment *segment, int side)
{
    int error = 0;
    struct fs_limits limits = {.spin_us = 1.0};
    struct fs_end *end = fs_end_open_on(segment, side, &limits, &error);
    CHECK(end != NULL);
    end->closed = 1;
    fs_end_free(end);
}

TEST(segment_serves_again_when_both_returned_it, 0)
{
    struct both both = mapped();
    CHECK(!fs_segment_renew(both.maker)); /* in use since it was made */
    use_and_return(both.maker, FS_SIDE_ACCEPTED);
    CHECK(!fs_segment_renew(both.maker) && !fs_segment_reserve(both.other, 7));
    use_and_return(both.other, FS_SIDE_CONNECTED);
    CHECK(fs_segment_renew(both.maker));
    CHECK(!fs_segment_renew(both.maker) && !fs_segment_reserve(both.other, 7));
    unmap(&both);
}

TEST(segment_held_by_an_end_is_not_given_away, 0)
{
    struct both both = mapped();
    int error = 0;
    struct fs_limits limits = {.spin_us = 1.0};
    struct fs_end *end = fs_end_open_on(both.maker, FS_SIDE_ACCEPTED, &limits, &error);
    atomic_store(&both.maker->header->possession, FS_RETURNED); /* as a hostile other end would write */
    CHECK(!fs_segment_renew(both.maker) && !fs_segment_reserve(both.maker, 7));
    atomic_store(&both.maker->header->possession, 7u << FS_TICKET_SHIFT | FS_RESERVED);
    CHECK(!fs_segment_claim(both.maker, 7));
    end->closed = 1;
    fs_end_free(end);
    unmap(&both);
}

TEST(reservation_is_claimed_by_its_ticket, 0)
{
    struct both both = mapped();
    use_and_return(both.maker, FS_SIDE_ACCEPTED);
    use_and_return(both.other, FS_SIDE_CONNECTED);
    atomic_store(&both.maker->header->direction[0].head, 99);
    CHECK(fs_segment_reserve(both.other, 7));
    CHECK_EQUAL(atomic_load(&both.maker->header->direction[0].head), 0);
    CHECK(!fs_segment_renew(both.maker) && !fs_segment_claim(both.maker, 8));
    CHECK(!fs_segment_is_claimed(both.other, 7));
    CHECK(fs_segment_claim(both.maker, 7));
    CHECK(fs_segment_is_claimed(both.other, 7));
    CHECK(!fs_segment_withdraw(both.other, 7) && !fs_segment_claim(both.maker, 7));
    use_and_return(both.maker, FS_SIDE_ACCEPTED); /* already closed there: still claimed here */
    CHECK(fs_segment_is_claimed(both.other, 7));
    use_and_return(both.other, FS_SIDE_CONNECTED);
    CHECK(fs_segment_reserve(both.other, 8));
    CHECK(fs_segment_withdraw(both.other, 8) && !fs_segment_claim(both.maker, 8));
    CHECK(fs_segment_reserve(both.other, 9) && fs_segment_claim(both.maker, 9));
    CHECK(!fs_segment_disclaim(both.maker, 8) && fs_segment_is_claimed(both.other, 9));
    CHECK(fs_segment_disclaim(both.maker, 9) && !fs_segment_is_claimed(both.other, 9));
    CHECK(fs_segment_renew(both.maker));
    unmap(&both);
}

struct race {
    struct fs_segment *segment;
    _Atomic uint64_t reserved, claims;
    _Atomic int over;
};

static void *claim_always(void *argument)
{
    struct race *race = argument;
    for (uint64_t done = 0; !atomic_load(&race->over);) {
        uint64_t ticket = atomic_load(&race->reserved);
        if (ticket == done || !fs_segment_claim(race->segment, ticket)) continue;
        done = ticket;
        atomic_fetch_add(&race->claims, 1);
        use_and_return(race->segment, FS_SIDE_ACCEPTED);
    }
    return NULL;
}

TEST(claim_and_withdrawal_race, 0)
{
    struct both both = mapped();
    struct fs_segment *one = both.other;
    use_and_return(both.maker, FS_SIDE_ACCEPTED);
    use_and_return(both.other, FS_SIDE_CONNECTED);
    struct race race = {both.maker, 0, 0, 0};
    struct random random = random_from(1);
    pthread_t claimer = start_thread(claim_always, &race);
    uint64_t claimed = 0;
    for (uint64_t ticket = 1; ticket <= (uint64_t)scaled(200000); ticket++) {
        while (!fs_segment_reserve(one, ticket)) fs_pause();
        atomic_store(&race.reserved, ticket);
        for (uint64_t turns = random_below(&random, 60); turns > 0; turns--) fs_pause();
        if (fs_segment_withdraw(one, ticket)) continue;
        CHECK(fs_segment_is_claimed(one, ticket));
        claimed++;
        use_and_return(one, FS_SIDE_CONNECTED);
    }
    atomic_store(&race.over, 1);
    join_thread(claimer);
    CHECK_EQUAL(atomic_load(&race.claims), claimed);
    unmap(&both);
}

TEST(abstract_names, 0)
{
    static const char name[] = "\0fastsock/test/reservation", none[] = "\0fastsock/test/none";
    pid_t process;
    uid_t user;
    for (int round = 0; round < 3; round++) {
        CHECK_EQUAL(fs_abstract_reach(none, sizeof none), -ECONNREFUSED);
        CHECK_EQUAL(fs_abstract_knock(name, sizeof name), 0);
        int listener = fs_abstract_listen(name, sizeof name);
        CHECK(listener >= 0);
        CHECK_EQUAL(fs_abstract_listen(name, sizeof name), -EADDRINUSE);
        CHECK_EQUAL(fs_abstract_accept(listener), -EAGAIN);
        int stream = fs_abstract_reach(name, sizeof name);
        CHECK(stream >= 0);
        int accepted = fs_abstract_accept(listener);
        CHECK(accepted >= 0 && fs_abstract_peer(accepted, &process, &user) == 0);
        CHECK_EQUAL(process, getpid());
        CHECK_EQUAL(user, geteuid());
        close(accepted);
        close(stream);
        close(listener);
    }
    char endless[200] = {0};
    CHECK_EQUAL(fs_abstract_reach(endless, sizeof endless), -ENAMETOOLONG);
    CHECK_EQUAL(fs_abstract_knock(endless, sizeof endless), 0);
}

TEST(abstract_name_is_told, 0)
{
    struct sockaddr_un address = {AF_UNIX, "\0fastsock/test/told"};
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + 19;
    struct stat status;
    int bound = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(bind(bound, (struct sockaddr *)&address, size) == 0 && fstat(bound, &status) == 0);
    CHECK_EQUAL(fs_abstract_told(bound, status.st_ino, 0), 0);
    for (int count = 0; count < 100; count++) CHECK_EQUAL(fs_abstract_knock(address.sun_path, 19), 1);
    CHECK_EQUAL(fs_abstract_told(bound, status.st_ino, 1), 1);
    CHECK_EQUAL(fs_abstract_told(other, status.st_ino, 0), -EBADF);
    CHECK(fs_abstract_told(bound, status.st_ino, 0) > 0);
    CHECK_EQUAL(fs_abstract_told(bound, status.st_ino, 0), 0);
    CHECK_EQUAL(fs_abstract_told(bound, status.st_ino, 1), 0);
    CHECK_EQUAL(fs_abstract_knock(address.sun_path, 19), 1);
    CHECK_EQUAL(fs_abstract_told(bound, status.st_ino, 0), 1);
    close(other);
    close(bound);
    CHECK_EQUAL(fs_abstract_told(bound, status.st_ino, 0), -EBADF);

    unsigned int forks = fs_abstract_forks();
    CHECK_EQUAL(fs_abstract_forks(), forks);
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(waitpid(child, NULL, 0) == child && fs_abstract_forks() != forks);
}

/* A program that closes every number may open its own files there: they are left alone. */
TEST(abstract_probes_leave_the_numbers_of_others_alone, 0)
{
    static const char name[] = "\0fastsock/test/presence", none[] = "\0fastsock/test/none";
    int bound = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), pair[2];
    CHECK_EQUAL(fs_abstract_knock(none, sizeof none), 0);
    CHECK_EQUAL(fs_abstract_reach(none, sizeof none), -ECONNREFUSED);
    for (int number = bound + 1; number < bound + 20; number++) close(number);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK_EQUAL(fs_abstract_knock(name, sizeof name), 0);
    CHECK_EQUAL(fs_abstract_reach(none, sizeof none), -ECONNREFUSED);
    char byte = 'x';
    CHECK(send(pair[0], &byte, 1, 0) == 1 && recv(pair[1], &byte, 1, 0) == 1);
}
