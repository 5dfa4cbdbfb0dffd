/* Streams at names in the abstract UNIX namespace. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "sockets/abstract.h"

static int listen_at(const char *name, size_t length)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(address.sun_path, name, length);
    CHECK(bind(listener, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) ==
          0);
    CHECK(listen(listener, 1) == 0);
    return listener;
}

TEST(abstract_names, 0)
{
    static const char name[] = "\0fastsock/test/name", none[] = "\0fastsock/test/none";
    pid_t process;
    uid_t user;
    for (int round = 0; round < 3; round++) {
        CHECK_EQUAL(fs_abstract_reach(none, sizeof none), -ECONNREFUSED);
        int listener = listen_at(name, sizeof name);
        CHECK_EQUAL(fs_abstract_accept(listener), -EAGAIN);
        int stream = fs_abstract_reach(name, sizeof name);
        CHECK(stream >= 0);
        int accepted = fs_abstract_accept(listener);
        CHECK(accepted >= 0 && fs_abstract_peer(accepted, &process, &user) == 0);
        CHECK_EQUAL(process, getpid());
        CHECK_EQUAL(user, geteuid());
        CHECK(fs_is_own_user(user));
        close(accepted);
        close(stream);
        close(listener);
    }
    char endless[200] = {0};
    CHECK_EQUAL(fs_abstract_reach(endless, sizeof endless), -ENAMETOOLONG);
}

TEST(abstract_pair_has_a_name, 0)
{
    static const char name[] = "\0fastsock/test/pair";
    struct sockaddr_un address;
    socklen_t size = sizeof address;
    int pair[2], other[2];
    char byte = 'x';
    CHECK_EQUAL(fs_abstract_pair(name, sizeof name, pair), 0);
    CHECK(getpeername(pair[1], (struct sockaddr *)&address, &size) == 0);
    CHECK(memcmp(address.sun_path, name, sizeof name) == 0);
    CHECK_EQUAL(fs_abstract_pair(name, sizeof name, other), -EADDRINUSE);
    CHECK(send(pair[0], &byte, 1, 0) == 1 && recv(pair[1], &byte, 1, 0) == 1);
    close(pair[0]);
    close(pair[1]);
}
