/* poll and select: the kernel looks at all that they are given each time, and so do they. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "next.h"
#include "polled.h"
#include "stream.h"
#include "system.h"
#include "watched.h"

#define READABLE FS_POLLED_READABLE

static int answer(int result, int before)
{
    errno = result < 0 ? -result : before;
    return result < 0 ? -1 : result;
}

static int is_wrong(const struct timespec *limit)
{
    return limit != NULL && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= 1000000000);
}

/* The kernel refuses a count beyond the limit of numbers before it looks at the list, which may be shorter. */
static int is_refused(const struct pollfd *list, nfds_t count)
{
    struct rlimit limit;
    if (fs_is_nowhere(list)) return 1;
    return count > FS_POLLED_FEW && getrlimit(RLIMIT_NOFILE, &limit) == 0 && count > limit.rlim_cur;
}

/* Whoever polls the number of an epoll object must see all as it is. */
static void show_objects(const struct pollfd *list, nfds_t count)
{
    for (nfds_t i = 0; i < count; i++)
        if (fs_watch_is_known(list[i].fd)) fs_watch_be_exact(list[i].fd);
}

FS_DOOR int ppoll(struct pollfd *list, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
    if (is_refused(list, count)) return fs_next.ppoll(list, count, limit, mask);
    show_objects(list, count);
    if (is_wrong(limit) || !fs_polled_concerns(list, count)) return fs_next.ppoll(list, count, limit, mask);
    int before = errno;
    uint64_t ns = limit == NULL ? UINT64_MAX : (uint64_t)limit->tv_sec * 1000000000u + (uint64_t)limit->tv_nsec;
    return answer(fs_polled_wait(list, count, ns, mask), before);
}

FS_DOOR int poll(struct pollfd *list, nfds_t count, int timeout)
{
    if (is_refused(list, count)) return fs_next.poll(list, count, timeout);
    show_objects(list, count);
    if (!fs_polled_concerns(list, count)) return fs_next.poll(list, count, timeout);
    int before = errno;
    return answer(fs_polled_wait(list, count, timeout < 0 ? UINT64_MAX : (uint64_t)timeout * 1000000u, NULL), before);
}

FS_DOOR int __poll_chk(struct pollfd *list, nfds_t count, int timeout, size_t room);
FS_DOOR int __poll_chk(struct pollfd *list, nfds_t count, int timeout, size_t room)
{
    if (room / sizeof *list < count) abort();
    return poll(list, count, timeout);
}

FS_DOOR int __ppoll_chk(struct pollfd *list, nfds_t count, const struct timespec *limit, const sigset_t *mask,
                        size_t room);
FS_DOOR int __ppoll_chk(struct pollfd *list, nfds_t count, const struct timespec *limit, const sigset_t *mask,
                        size_t room)
{
    if (room / sizeof *list < count) abort();
    return ppoll(list, count, limit, mask);
}

/* ---- select ---- */

static int is_in(const fd_set *set, int number)
{
    return set != NULL &&
           (((const long *)set)[number / (8 * (int)sizeof(long))] >> (number % (8 * (int)sizeof(long))) & 1);
}

static void put_in(fd_set *set, int number, int is_so)
{
    if (set == NULL) return;
    long *word = &((long *)set)[number / (8 * (int)sizeof(long))], bit = 1L << (number % (8 * (int)sizeof(long)));
    *word = is_so ? *word | bit : *word & ~bit;
}

/* A program may name a larger end than its sets have (getdtablesize()): the kernel looks at no more numbers than its table
 * has room for.  -1: that is unknown. */
static int bounded(int end)
{
    static _Atomic uint64_t known; /* the table grows, but for a fork */
    uint64_t now = atomic_load_explicit(&known, memory_order_relaxed);
    if (end <= FD_SETSIZE || (now >> 32 == fs_generation() && (uint64_t)end <= (uint32_t)now)) return end;
    char text[1024];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : fs_next.read(file, text, sizeof text - 1);
    if (file >= 0) fs_next.close(file);
    text[length < 0 ? 0 : length] = 0;
    const char *line = strstr(text, "\nFDSize:");
    long size = line == NULL ? 0 : strtol(line + strlen("\nFDSize:"), NULL, 10);
    if (size <= 0 || size > INT32_MAX) return -1;
    atomic_store_explicit(&known, (uint64_t)fs_generation() << 32 | (uint64_t)size, memory_order_relaxed);
    return end < size ? end : (int)size;
}

static int select_concerns(int end, const fd_set *readers)
{
    if (readers == NULL) return 0;
    int found = 0;
    for (int i = 0; i < end; i++) {
        if (!is_in(readers, i)) continue;
        if (fs_watch_is_known(i)) fs_watch_be_exact(i);
        found |= fs_polled_has_memory(i);
    }
    return found && fs_polled_is_due();
}

/* What select() calls readable, writable and exceptional, as the kernel has it. */
static int reported_in_sets(const struct pollfd *list, nfds_t count, fd_set *readers, fd_set *writers, fd_set *others)
{
    int reported = 0;
    for (nfds_t i = 0; i < count; i++)
        if (list[i].revents & POLLNVAL) return -EBADF;
    for (nfds_t i = 0; i < count; i++) {
        int number = list[i].fd;
        int in = is_in(readers, number) && list[i].revents & (READABLE | POLLRDBAND | POLLHUP | POLLERR);
        int out = is_in(writers, number) && list[i].revents & (POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR);
        int other = is_in(others, number) && list[i].revents & POLLPRI;
        put_in(readers, number, in);
        put_in(writers, number, out);
        put_in(others, number, other);
        reported += in + out + other;
    }
    return reported;
}

static int select_by_poll(int end, fd_set *readers, fd_set *writers, fd_set *others, uint64_t ns, const sigset_t *mask)
{
    struct pollfd few[FS_POLLED_FEW], *list = end <= FS_POLLED_FEW ? few : malloc((size_t)end * sizeof *list);
    nfds_t count = 0;
    if (list == NULL) return -ENOMEM;
    for (int i = 0; i < end; i++) {
        int events = (is_in(readers, i) ? READABLE | POLLRDBAND : 0) | (is_in(writers, i) ? POLLOUT | POLLWRBAND : 0) |
                     (is_in(others, i) ? POLLPRI : 0);
        if (events != 0) list[count++] = (struct pollfd){i, (short)events, 0};
    }
    int reported = fs_polled_wait(list, count, ns, mask);
    if (reported >= 0) reported = reported_in_sets(list, count, readers, writers, others);
    if (list != few) free(list);
    return reported;
}

FS_DOOR int select(int given, fd_set *readers, fd_set *writers, fd_set *others, struct timeval *limit)
{
    int before = errno, end = bounded(given);
    errno = before;
    if (!select_concerns(end, readers) || (limit != NULL && (limit->tv_sec < 0 || limit->tv_usec < 0)))
        return fs_next.select(given, readers, writers, others, limit);
    uint64_t ns = limit == NULL ? UINT64_MAX : (uint64_t)limit->tv_sec * 1000000000u + (uint64_t)limit->tv_usec * 1000u;
    uint64_t begun = fs_now_ns();
    int reported = select_by_poll(end, readers, writers, others, ns, NULL);
    if (limit != NULL) { /* as Linux does: what is left of it */
        uint64_t spent = fs_now_ns() - begun, left = spent < ns ? ns - spent : 0;
        *limit = (struct timeval){(time_t)(left / 1000000000u), (suseconds_t)(left % 1000000000u / 1000u)};
    }
    return answer(reported, before);
}

FS_DOOR int pselect(int given, fd_set *readers, fd_set *writers, fd_set *others, const struct timespec *limit,
                    const sigset_t *mask)
{
    int before = errno, end = bounded(given);
    errno = before;
    if (is_wrong(limit) || !select_concerns(end, readers))
        return fs_next.pselect(given, readers, writers, others, limit, mask);
    uint64_t ns = limit == NULL ? UINT64_MAX : (uint64_t)limit->tv_sec * 1000000000u + (uint64_t)limit->tv_nsec;
    return answer(select_by_poll(end, readers, writers, others, ns, mask), before);
}

FS_ALIAS(poll) int __poll(struct pollfd *list, nfds_t count, int timeout);
FS_ALIAS(select) int __select(int end, fd_set *readers, fd_set *writers, fd_set *others, struct timeval *limit);
