#define _GNU_SOURCE
#include "abstract.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int address_of(const char *name, size_t length, struct sockaddr_un *address, socklen_t *size)
{
    if (length > sizeof address->sun_path) return -ENAMETOOLONG;
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, length);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return 0;
}

int fs_abstract_pair(const char *name, size_t length, int pair[2])
{
    struct sockaddr_un address;
    socklen_t size;
    int error = address_of(name, length, &address, &size);
    if (error != 0) return error;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return -errno;
    if (bind(pair[0], (struct sockaddr *)&address, size) != 0) {
        error = errno;
        close(pair[0]);
        close(pair[1]);
        return -error;
    }
    return 0;
}

int fs_abstract_accept(int listener)
{
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return accepted < 0 ? -errno : accepted;
}

int fs_abstract_reach(const char *name, size_t length)
{
    struct sockaddr_un address;
    socklen_t size;
    int error = address_of(name, length, &address, &size);
    if (error != 0) return error;
    int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (stream < 0) return -errno;
    if (connect(stream, (struct sockaddr *)&address, size) == 0) return stream;
    error = errno;
    close(stream);
    return -error;
}

int fs_abstract_peer(int stream, pid_t *process, uid_t *user)
{
    struct ucred credentials;
    socklen_t size = sizeof credentials;
    if (getsockopt(stream, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return -errno;
    *process = credentials.pid;
    *user = credentials.uid;
    return 0;
}

#define EVERYBODY UINT32_MAX /* one number less than there are: the last one is nobody's */
#define USUAL_OVERFLOW 65534u

static int read_text(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, size - 1);
    if (file >= 0) close(file);
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

static uid_t overflow_user(void)
{
    char text[32];
    unsigned int user;
    return read_text("/proc/sys/kernel/overflowuid", text, sizeof text) && sscanf(text, "%u", &user) == 1
               ? user
               : USUAL_OVERFLOW;
}

/* As in the first user namespace: then nobody gets the overflow number for want of one. */
static int all_users_have_numbers(void)
{
    char text[512];
    uint32_t first, outside, count;
    if (!read_text("/proc/self/uid_map", text, sizeof text)) return 0;
    return sscanf(text, "%" SCNu32 " %" SCNu32 " %" SCNu32, &first, &outside, &count) == 3 && count == EVERYBODY;
}

int fs_is_own_user(uid_t user)
{
    static _Atomic uint64_t known; /* the overflow number, plus one */
    if (user != geteuid()) return 0;
    if (known == 0) known = (uint64_t)overflow_user() + 1;
    return user + (uint64_t)1 != known || all_users_have_numbers();
}
