/* Linked between the core and the system (--wrap): mappings between guard pages, and death inside a system call. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "connection.h"

#define GUARD 65536u
#define MOST_KEPT 64

int map_same_memory_once;
_Thread_local int naps;
int threads_left = -1, forks_left = -1;
int always_direct;

static struct kept {
    ino_t inode;
    void *address;
    int users;
} kept[MOST_KEPT];

void *__real_mmap(void *, size_t, int, int, int, off_t);
int __real_munmap(void *, size_t);
ssize_t __real_send(int, const void *, size_t, int);
ssize_t __real_recv(int, void *, size_t, int);
void *__wrap_mmap(void *, size_t, int, int, int, off_t);
int __wrap_munmap(void *, size_t);
ssize_t __wrap_send(int, const void *, size_t, int);
ssize_t __wrap_recv(int, void *, size_t, int);
int __real_nanosleep(const struct timespec *, struct timespec *);
int __wrap_nanosleep(const struct timespec *, struct timespec *);

static pthread_mutex_t kept_mutex = PTHREAD_MUTEX_INITIALIZER;

static void hold_kept(void) { pthread_mutex_lock(&kept_mutex); }
static void let_kept_go(void) { pthread_mutex_unlock(&kept_mutex); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(hold_kept, let_kept_go, let_kept_go); }

static struct kept *find_kept(ino_t inode, const void *address)
{
    for (int i = 0; i < MOST_KEPT; i++)
        if (kept[i].users > 0 && (address != NULL ? kept[i].address == address : kept[i].inode == inode))
            return &kept[i];
    return NULL;
}

static void keep(ino_t inode, void *address)
{
    for (int i = 0; i < MOST_KEPT; i++)
        if (kept[i].users == 0) {
            kept[i] = (struct kept){inode, address, 1};
            return;
        }
}

void *__wrap_mmap(void *where, size_t length, int protection, int flags, int descriptor, off_t offset)
{
    if (where != NULL || descriptor < 0 || !(flags & MAP_SHARED))
        return __real_mmap(where, length, protection, flags, descriptor, offset);
    struct stat status;
    int whole = fstat(descriptor, &status) == 0 && (size_t)status.st_size == length;
    pthread_mutex_lock(&kept_mutex);
    struct kept *known = whole && map_same_memory_once ? find_kept(status.st_ino, NULL) : NULL;
    if (known != NULL) known->users++;
    pthread_mutex_unlock(&kept_mutex);
    if (known != NULL) return known->address;
    size_t pages = (length + 4095) & ~(size_t)4095;
    char *room = __real_mmap(NULL, pages + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return MAP_FAILED;
    void *result = __real_mmap(room + GUARD, length, protection, flags | MAP_FIXED, descriptor, offset);
    if (result == MAP_FAILED) {
        int error = errno;
        __real_munmap(room, pages + 2 * GUARD);
        errno = error;
        return MAP_FAILED;
    }
    pthread_mutex_lock(&kept_mutex);
    keep(whole ? status.st_ino : 0, result);
    pthread_mutex_unlock(&kept_mutex);
    return result;
}

int __wrap_munmap(void *address, size_t length)
{
    pthread_mutex_lock(&kept_mutex);
    struct kept *known = find_kept(0, address);
    int users = known != NULL ? --known->users : -1;
    pthread_mutex_unlock(&kept_mutex);
    if (users > 0) return 0;
    if (users < 0) return __real_munmap(address, length);
    size_t pages = (length + 4095) & ~(size_t)4095;
    return __real_munmap((char *)address - GUARD, pages + 2 * GUARD);
}

static int countdowns[CALL_KINDS];
static enum fault_point points[CALL_KINDS];

void die_in(enum call_kind kind, int countdown, enum fault_point point)
{
    countdowns[kind] = countdown;
    points[kind] = point;
}

/* Whether this process dies in this call of one of these kinds; right now, if before it. */
static int dies_in(enum call_kind one, enum call_kind other)
{
    int now = 0;
    for (int i = 0; i < 2; i++) {
        enum call_kind kind = i == 0 ? one : other;
        if (countdowns[kind] <= 0 || --countdowns[kind] != 0) continue;
        if (points[kind] == BEFORE_CALL) kill(getpid(), SIGKILL);
        now = 1;
    }
    return now;
}

static void die(void) { kill(getpid(), SIGKILL); }

ssize_t __wrap_send(int descriptor, const void *data, size_t length, int flags)
{
    int now = dies_in(IN_SEND, IN_ANY);
    ssize_t result = __real_send(descriptor, data, length, flags);
    if (now) die();
    return result;
}

ssize_t __wrap_recv(int descriptor, void *target, size_t length, int flags)
{
    int now = dies_in(IN_RECV, IN_ANY);
    ssize_t result = __real_recv(descriptor, target, length, flags);
    if (now) die();
    return result;
}

ssize_t __real_sendmsg(int, const struct msghdr *, int);
ssize_t __wrap_sendmsg(int, const struct msghdr *, int);
int __real_shutdown(int, int);
int __wrap_shutdown(int, int);
int __real_setsockopt(int, int, int, const void *, socklen_t);
int __wrap_setsockopt(int, int, int, const void *, socklen_t);

ssize_t __wrap_sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    int now = dies_in(IN_SEND, IN_ANY);
    ssize_t result = __real_sendmsg(descriptor, message, flags);
    if (now) die();
    return result;
}

int __wrap_shutdown(int descriptor, int how)
{
    int now = dies_in(IN_SHUTDOWN, IN_ANY), result = __real_shutdown(descriptor, how);
    if (now) die();
    return result;
}

int __wrap_setsockopt(int descriptor, int level, int name, const void *value, socklen_t size)
{
    int now = dies_in(IN_SETSOCKOPT, IN_ANY), result = __real_setsockopt(descriptor, level, name, value, size);
    if (now) die();
    return result;
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    naps++;
    return __real_nanosleep(wanted, left);
}

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
pid_t __real_fork(void);
pid_t __wrap_fork(void);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
    if (threads_left == 0) return EAGAIN;
    if (threads_left > 0) threads_left--;
    return __real_pthread_create(thread, attributes, body, argument);
}

pid_t __wrap_fork(void)
{
    if (forks_left == 0) {
        errno = EAGAIN;
        return -1;
    }
    if (forks_left > 0) forks_left--;
    return __real_fork();
}

size_t __real_fs_cma_worth_asking(struct fs_end *, size_t);
size_t __wrap_fs_cma_worth_asking(struct fs_end *, size_t);

size_t __wrap_fs_cma_worth_asking(struct fs_end *end, size_t length)
{
    if (!always_direct) return __real_fs_cma_worth_asking(end, length);
    return end->limits.direct_min == 0 || length < end->limits.direct_min || end->unreadable ? 0 : length;
}
