/* A number that comes to mean another file stays watched by whoever watched it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "sockets/registrations.h"

enum { POLLERS = 3 };

static const uint64_t marks[POLLERS] = {0x123456789abcdef0, 7, UINT64_MAX};

static void expect(const int *pollers, int count)
{
    for (int i = 0; i < POLLERS; i++) {
        struct epoll_event event = {0};
        CHECK_EQUAL(epoll_wait(pollers[i], &event, 1, 0), count);
        if (count == 0) continue;
        CHECK_EQUAL(event.data.u64, marks[i]);
        CHECK_EQUAL(event.events, EPOLLIN);
    }
}

TEST(number_replaced_under_its_watchers, 0)
{
    int before[2], after[2], pollers[POLLERS];
    char byte;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, before) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, after) == 0);
    int number = before[0], kept = dup(number);
    for (int i = 0; i < POLLERS; i++) {
        struct epoll_event event = {.events = EPOLLIN | (i == 1 ? (uint32_t)EPOLLET : 0), .data.u64 = marks[i]};
        pollers[i] = epoll_create1(EPOLL_CLOEXEC);
        CHECK(epoll_ctl(pollers[i], EPOLL_CTL_ADD, number, &event) == 0);
        event.data.u64 = 1;
        CHECK(epoll_ctl(pollers[i], EPOLL_CTL_ADD, after[1], &event) == 0); /* one among others */
    }
    CHECK_EQUAL(fs_replace_watched(-1, number, O_CLOEXEC), -EBADF);
    CHECK(write(before[1], "x", 1) == 1);
    expect(pollers, 1);
    CHECK(read(number, &byte, 1) == 1);
    CHECK(write(after[1], "y", 1) == 1);
    CHECK_EQUAL(fs_replace_watched(after[0], number, O_CLOEXEC), 0);
    CHECK_EQUAL(fcntl(number, F_GETFD), FD_CLOEXEC);
    expect(pollers, 1);
    CHECK(read(number, &byte, 1) == 1 && byte == 'y');
    CHECK(write(before[1], "x", 1) == 1); /* nobody asked for that any more, though the file is open */
    expect(pollers, 0);
    for (int i = 0; i < POLLERS; i++) close(pollers[i]);
    close(kept), close(number), close(before[1]), close(after[0]), close(after[1]);
}
