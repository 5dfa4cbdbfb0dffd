/* A descriptor that is passed, and looked at where no number is free. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "sockets/abstract.h"

TEST(passed_stays_until_the_stream_is_closed, 0)
{
    int stream[2], side[2];
    char byte = 0;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, side) == 0);
    CHECK_EQUAL(fs_abstract_passed(stream[1]), -EAGAIN);
    CHECK_EQUAL(fs_abstract_pass(stream[0], side[1]), 0);
    close(side[1]);
    struct rlimit before, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK_EQUAL(fs_abstract_passed(stream[1]), -EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    int taken = fs_abstract_passed(stream[1]);
    CHECK(taken >= 0);
    close(stream[0]);
    close(stream[1]);
    CHECK(send(taken, "x", 1, 0) == 1);
    CHECK(recv(side[0], &byte, 1, 0) == 1 && byte == 'x');
    close(taken);
    CHECK(recv(side[0], &byte, 1, 0) == 0); /* an orderly end */
    close(side[0]);
}

TEST(passed_heeds_what_others_say, 0)
{
    int stream[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0);
    CHECK(send(stream[0], "S", 1, 0) == 1);
    CHECK_EQUAL(fs_abstract_passed(stream[1]), -EPROTO);
    close(stream[1]);
    CHECK_EQUAL(fs_abstract_pass(stream[0], 0), -EPIPE);
    close(stream[0]);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0);
    close(stream[0]);
    CHECK_EQUAL(fs_abstract_passed(stream[1]), -ECONNRESET);
    close(stream[1]);
}
