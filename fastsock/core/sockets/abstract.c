#define _GNU_SOURCE
#include "abstract.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct probe {
    int kind, descriptor;
    dev_t device;
    ino_t file;
};

static struct probe asks = {SOCK_DGRAM, -1, 0, 0}, reaches = {SOCK_STREAM, -1, 0, 0};
static pthread_once_t fork_watch = PTHREAD_ONCE_INIT;
static _Atomic unsigned int forks;

static int make(int kind)
{
    int made = socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return made < 0 ? -errno : made;
}

/* A program that closes every number may have given this one to a file of its own. */
static int is_ours(const struct probe *probe)
{
    struct stat status;
    return probe->descriptor >= 0 && fstat(probe->descriptor, &status) == 0 && status.st_dev == probe->device &&
           status.st_ino == probe->file;
}

static void drop(struct probe *probe)
{
    if (is_ours(probe)) close(probe->descriptor);
    probe->descriptor = -1;
}

/* The one that reaches will become somebody's connection: a child's copy would hide its end.  The one that asks would
 * ask in this network namespace, when the child may enter another. */
static void before_fork(void)
{
    forks++;
    drop(&reaches);
    drop(&asks);
}

static void watch_forks(void) { pthread_atfork(before_fork, NULL, NULL); }

/* The probe's descriptor, made anew where need be, or -errno. */
static int ready(struct probe *probe)
{
    struct stat status;
    pthread_once(&fork_watch, watch_forks);
    if (is_ours(probe)) return probe->descriptor;
    probe->descriptor = -1;
    int made = make(probe->kind);
    if (made < 0) return made;
    if (fstat(made, &status) != 0) {
        int error = errno;
        close(made);
        return -error;
    }
    probe->descriptor = made;
    probe->device = status.st_dev;
    probe->file = status.st_ino;
    return made;
}

static int address_of(const char *name, size_t length, struct sockaddr_un *address, socklen_t *size)
{
    if (length > sizeof address->sun_path) return -ENAMETOOLONG;
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, length);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return 0;
}

int fs_abstract_knock(const char *name, size_t length)
{
    struct sockaddr_un address;
    socklen_t size;
    if (address_of(name, length, &address, &size) != 0) return 0;
    int probe = ready(&asks);
    if (probe < 0) return probe;
    if (sendto(probe, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, size) == 0) return 1;
    /* told often enough already, or more than this socket may have on its way */
    return errno != ECONNREFUSED && connect(probe, (struct sockaddr *)&address, size) == 0;
}

int fs_abstract_told(int descriptor, ino_t inode, int keep)
{
    struct stat status;
    struct mmsghdr messages[16];
    int told = 0, more;
    if (fstat(descriptor, &status) != 0 || status.st_ino != inode || !S_ISSOCK(status.st_mode)) return -EBADF;
    memset(messages, 0, sizeof messages);
    if (keep) return recvmsg(descriptor, &messages[0].msg_hdr, MSG_DONTWAIT | MSG_PEEK) == 0;
    do {
        more = recvmmsg(descriptor, messages, 16, MSG_DONTWAIT, NULL);
        if (more > 0) told += more;
    } while (more == 16 && told < 1 << 16);
    return told;
}

unsigned int fs_abstract_forks(void)
{
    pthread_once(&fork_watch, watch_forks);
    return forks;
}

int fs_abstract_listen(const char *name, size_t length)
{
    struct sockaddr_un address;
    socklen_t size;
    int error = address_of(name, length, &address, &size);
    int listener = error == 0 ? make(SOCK_STREAM) : error;
    if (listener < 0) return listener;
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1) != 0) {
        error = errno;
        close(listener);
        return -error;
    }
    return listener;
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
    int stream = ready(&reaches);
    if (stream < 0) return stream;
    int refused = connect(stream, (struct sockaddr *)&address, size) != 0 ? errno : 0;
    if (refused == ECONNREFUSED) return -refused; /* it serves again */
    reaches.descriptor = -1;
    if (refused == 0) return stream;
    close(stream);
    return -refused;
}

union rights {
    char space[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
};

#define PASSED 'S' /* the one byte that a descriptor goes with */

int fs_abstract_pass(int stream, int descriptor)
{
    union rights control;
    char word = PASSED;
    struct iovec one = {&word, 1};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    memset(&control, 0, sizeof control);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(stream, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

int fs_abstract_passed(int stream)
{
    char said = 0;
    int passed = -1;
    union rights control;
    struct iovec one = {&said, 1};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    ssize_t got = recvmsg(stream, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0) return got == 0 || errno == ECONNRESET ? -ECONNRESET : -errno;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&passed, CMSG_DATA(header), sizeof passed);
    if (said == PASSED && passed >= 0) return passed;
    if (passed >= 0) close(passed);
    return said == PASSED && (message.msg_flags & MSG_CTRUNC) ? -EMFILE : -EPROTO;
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
