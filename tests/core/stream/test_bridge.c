/* A bridge that cannot be started for want of a thread or a process leaves everything as it was. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"

typedef int starter(struct fs_end *, int, int);

static void receive_exactly(int descriptor, char *target, size_t length)
{
    for (size_t done = 0; done < length;) {
        struct pollfd one = {descriptor, POLLIN, 0};
        CHECK(poll(&one, 1, (int)(STALL_NS / 1000000)) == 1);
        ssize_t got = recv(descriptor, target + done, length - done, 0);
        CHECK(got > 0);
        done += (size_t)got;
    }
}

static void run_exhausted(starter *start, int threads, int forks)
{
    struct connection c = connection_both(4096, 0);
    int inner[2];
    char got[8];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, inner) == 0);
    CHECK_EQUAL(fs_end_send(c.end[0], c.bell[0], "unread", 6, FS_NO_SIGNAL), 6);
    threads_left = threads, forks_left = forks;
    CHECK_EQUAL(start(c.end[1], c.bell[1], inner[1]), -EAGAIN);
    threads_left = forks_left = -1;
    CHECK_EQUAL(fs_end_unread(c.end[1], c.bell[1]), 6);
    CHECK_EQUAL(recv(inner[0], got, sizeof got, MSG_DONTWAIT), -1);
    CHECK_EQUAL(fs_end_send(c.end[0], c.bell[0], "!", 1, FS_NO_SIGNAL), 1);
    CHECK_EQUAL(start(c.end[1], c.bell[1], inner[1]), 0);
    receive_exactly(inner[0], got, 7);
    CHECK(memcmp(got, "unread!", 7) == 0);
    CHECK_EQUAL(send(inner[0], "answer", 6, MSG_NOSIGNAL), 6);
    for (size_t done = 0; done < 6;) {
        ssize_t more = receive_some(c.end[0], c.bell[0], got + done, 6 - done);
        CHECK(more > 0);
        done += (size_t)more;
    }
    CHECK(memcmp(got, "answer", 6) == 0);
    fs_end_free(c.end[1]);
    c.end[1] = NULL;
    connection_close(&c, 0);
    CHECK_EQUAL(recv(inner[0], got, 1, 0), 0);
    close(inner[0]);
}

TEST(bridge_without_its_first_thread, NEEDS_FAULTS) { run_exhausted(fs_bridge_start, 0, -1); }
TEST(bridge_without_its_second_thread, NEEDS_FAULTS) { run_exhausted(fs_bridge_start, 1, -1); }
TEST(bridge_without_its_first_process, NEEDS_PROCESSES) { run_exhausted(fs_bridge_fork, -1, 0); }
TEST(bridge_without_its_second_process, NEEDS_PROCESSES) { run_exhausted(fs_bridge_fork, -1, 1); }
TEST(bridge_whose_process_gets_no_thread, NEEDS_PROCESSES) { run_exhausted(fs_bridge_fork, 0, -1); }
