#define _GNU_SOURCE
#include "refusals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { NOT_TRIED, NOTHING, SOME };
static _Atomic int refused;

/* On no number a call fails by EBADF, and by another error where it is refused. */
static int is_refused(long result) { return result != -1 || errno != EBADF; }

static int try_each(void)
{
    const struct timespec at_once = {0, 0};
    struct epoll_event event;
    struct stat status;
    socklen_t size = sizeof(int);
    char byte;
    int value;
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0) return NOTHING;
    int before = errno;
    int some = ppoll(NULL, 0, &at_once, NULL) != 0 || poll(NULL, 0, 0) != 0 ||
               is_refused(epoll_wait(-1, &event, 1, 0)) || is_refused(epoll_pwait(-1, &event, 1, 0, NULL)) ||
               is_refused(recv(-1, &byte, 1, MSG_PEEK)) || is_refused(fcntl(-1, F_GETFL)) ||
               is_refused(fstat(-1, &status)) || is_refused(getsockopt(-1, SOL_SOCKET, SO_COOKIE, &value, &size));
    errno = before;
    return some ? SOME : NOTHING;
}

int fs_refusals_are_known(void)
{
    int known = atomic_load_explicit(&refused, memory_order_relaxed), tried = NOT_TRIED;
    if (known == NOT_TRIED) {
        known = try_each();
        if (!atomic_compare_exchange_strong(&refused, &tried, known)) known = tried;
    }
    return known == SOME;
}

void fs_refusals_begin(void) { atomic_store(&refused, SOME); }

int fs_is_refusal(int error) { return error == EPERM || error == EACCES || error == ENOSYS; }

int fs_poll_on(struct pollfd *list, nfds_t count, const struct timespec *limit)
{
    int ready = ppoll(list, count, limit, NULL);
    if (ready >= 0 || !fs_is_refusal(errno)) return ready;
    if (limit == NULL) return poll(list, count, -1);
    int64_t ms = (int64_t)limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000;
    return poll(list, count, ms < INT_MAX ? (int)ms : INT_MAX);
}
