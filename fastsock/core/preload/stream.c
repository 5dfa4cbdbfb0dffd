#define _GNU_SOURCE
#include "stream.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "next.h"
#include "switch/carry.h"
#include "switch/leave.h"
#include "switch/waiting.h"
#include "system.h"

#define FEW_PARTS 64  /* copied at once: they are changed as their bytes go */
#define PEEK_FEW 2048 /* into several parts, without an allocation */
#define PEEK_MOST ((size_t)1 << 20)
#define GIVE_UP_TRIES 4

static _Atomic int never_leaving; /* who waits is not told of a close, as TCP does not tell of one */

/* ---- how long ---- */

struct wait {
    uint64_t deadline; /* 0: not known yet */
    int again;         /* the last wait of this call was followed by nothing */
};

int fs_stream_never_waits(int descriptor)
{
    int flags = fs_next.fcntl(descriptor, F_GETFL, NULL);
    return flags < 0 || (flags & O_NONBLOCK) != 0;
}

static uint64_t kernel_limit_ns(int descriptor, int what)
{
    struct timeval limit = {0, 0};
    socklen_t size = sizeof limit;
    if (fs_next.getsockopt(descriptor, SOL_SOCKET, what == FS_READABLE ? SO_RCVTIMEO : SO_SNDTIMEO, &limit, &size) != 0)
        return 0;
    return (uint64_t)limit.tv_sec * 1000000000u + (uint64_t)limit.tv_usec * 1000u;
}

/* A handler without SA_RESTART ends the kernel's call.  Which handler ran nobody tells: so any such one counts. */
static int is_restarted(void)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0) continue;
        int handled = action.sa_flags & SA_SIGINFO ? action.sa_sigaction != NULL
                                                   : action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
        if (handled && !(action.sa_flags & SA_RESTART)) return 0;
    }
    return 1;
}

/* 0: it is worth trying again.  -ETIMEDOUT, -EINTR, ... */
static int wait_for(struct fs_connection *connection, int descriptor, int what, struct wait *wait)
{
    if (!wait->again && fs_carry_wait_awake(connection, descriptor, what)) {
        wait->again = 1;
        return 0;
    }
    if (wait->deadline == 0) {
        uint64_t limit = kernel_limit_ns(descriptor, what);
        wait->deadline = limit != 0 ? fs_now_ns() + limit : UINT64_MAX;
    }
    int result = (wait->again ? fs_carry_wait_briefly : fs_carry_doze)(connection, descriptor, what, wait->deadline,
                                                                       &never_leaving);
    if (result == FS_IN_VAIN) result = fs_carry_wait_long(connection, descriptor, what, wait->deadline, &never_leaving);
    wait->again = 1;
    return result == -EINTR && is_restarted() ? 0 : result;
}

/* What a call says that was told -EAGAIN, and could wait.  0: it tries again. */
static int wait_or_end(struct fs_connection *connection, int descriptor, int what, struct wait *wait, int *waits)
{
    if (!fs_carry_is_attached(connection)) return 0; /* an offer had come, and was withdrawn meanwhile */
    if (fs_stream_never_waits(descriptor)) {
        *waits = 0; /* once more: now also what needs a look at the kernel is told */
        return 0;
    }
    int result = wait_for(connection, descriptor, what, wait);
    return result == -ETIMEDOUT ? -EAGAIN : result;
}

static ssize_t other_file(int descriptor)
{
    fs_table_lose(descriptor);
    return -ENOTSOCK;
}

/* ---- sending ---- */

ssize_t fs_stream_send(struct fs_connection *connection, int descriptor, struct fs_parts *parts, int flags)
{
    struct wait wait = {0, 0};
    ssize_t done = 0, result;
    int waits = !(flags & MSG_DONTWAIT);
    do {
        int how = (flags & MSG_NOSIGNAL ? FS_NO_SIGNAL : 0) | (waits ? FS_PATIENT | FS_MAY_SLEEP : 0);
        result = fs_carry_send(connection, descriptor, parts, how, waits ? flags : flags | MSG_DONTWAIT);
        if (result >= 0) {
            done += result;
            if (parts->left == 0 || !waits || !fs_carry_is_attached(connection)) return done;
            wait.again = 0;
            result = 0; /* a ring takes less at once than the kernel's call that waits */
        } else if (result == FS_KERNELS_END) {
            result = -EAGAIN;
        } else if (result == -EAGAIN && waits) {
            result = wait_or_end(connection, descriptor, FS_WRITABLE, &wait, &waits);
        }
    } while (result == 0);
    if (result == -ENOTSOCK && done == 0) return other_file(descriptor);
    return done > 0 ? done : result; /* the error comes again */
}

ssize_t fs_stream_send_list(struct fs_connection *connection, int descriptor, const struct iovec *list, size_t count,
                            int flags)
{
    struct iovec copies[FEW_PARTS];
    ssize_t done = 0, result = 0;
    if (count > IOV_MAX) return -EINVAL;
    if (count > 0 && fs_is_nowhere(list)) return -EFAULT;
    do {
        size_t few = count < FEW_PARTS ? count : FEW_PARTS;
        if (few > 0) memcpy(copies, list, few * sizeof *list);
        struct fs_parts parts = fs_parts_of(copies, (int)few);
        list += few;
        count -= few;
        result = fs_stream_send(connection, descriptor, &parts, count > 0 ? flags | MSG_MORE : flags);
        if (result > 0) done += result;
        if (parts.left != 0) break;
    } while (result >= 0 && count > 0);
    return done > 0 ? done : result;
}

/* ---- receiving ---- */

/* MSG_WAITALL while TCP carries.  -EBUSY: memory is there, or offered. */
static ssize_t receive_all_by_kernel(struct fs_connection *connection, int descriptor, void *target, size_t length,
                                     int flags)
{
    struct fs_record *within;
    int error = fs_carry_receive_begins(connection, descriptor, 1, &within);
    if (error != 0) return error;
    ssize_t got = fs_next.recv(descriptor, target, length, flags);
    if (got < 0) got = -errno;
    return fs_carry_receive_ended(connection, descriptor, 1, within, got, (flags & MSG_PEEK) != 0);
}

/* Between two peeks of a call that wants all.  0: there may be more by now. */
static int wait_behind(struct fs_connection *connection, int descriptor, struct wait *wait)
{
    if (wait->deadline == 0) {
        uint64_t limit = kernel_limit_ns(descriptor, FS_READABLE);
        wait->deadline = limit != 0 ? fs_now_ns() + limit : UINT64_MAX;
    }
    if (fs_now_ns() >= wait->deadline) return -EAGAIN;
    int result = fs_carry_wait_behind(connection, descriptor);
    if (result == -EINTR && is_restarted()) return 0;
    return result > 0 ? -EAGAIN : result;
}

ssize_t fs_stream_receive(struct fs_connection *connection, int descriptor, void *target, size_t length, int flags)
{
    struct wait wait = {0, 0};
    ssize_t done = 0, result;
    int waits = !(flags & MSG_DONTWAIT);
    if (waits && flags & MSG_WAITALL && !fs_carry_is_attached(connection)) {
        result = receive_all_by_kernel(connection, descriptor, target, length, flags);
        if (result != -EBUSY && result != -ENOTSOCK) return result;
    }
    const int peeks = (flags & MSG_PEEK) != 0;
    do {
        int how = (peeks ? FS_PEEK : 0) | (waits ? FS_WILL_WAIT | FS_MAY_SLEEP : 0);
        char *at = target == NULL ? NULL : (char *)target + (peeks ? 0 : done);
        result = fs_carry_receive(connection, descriptor, at, peeks ? length : length - (size_t)done, how,
                                  waits ? flags : flags | MSG_DONTWAIT);
        if (result == 0) return done;
        if (result > 0) {
            done = peeks ? result : done + result;
            if ((size_t)done >= length || !(flags & MSG_WAITALL) || !waits || fs_stream_never_waits(descriptor))
                return done;
            wait.again = 0;
            result = peeks ? wait_behind(connection, descriptor, &wait) : 0;
        } else if (result == FS_KERNELS_END) {
            result = -EAGAIN;
        } else if (result == -EAGAIN && waits) {
            result = wait_or_end(connection, descriptor, FS_READABLE, &wait, &waits);
        }
    } while (result == 0);
    if (result == -ENOTSOCK && done == 0) return other_file(descriptor);
    return done > 0 ? done : result; /* the error comes again */
}

static ssize_t receive_message_by_kernel(struct fs_connection *connection, int descriptor, struct msghdr *message,
                                         int flags)
{
    struct fs_record *within;
    int lasts = (flags & MSG_WAITALL) != 0;
    int error = fs_carry_receive_begins(connection, descriptor, lasts, &within);
    if (error != 0) return error;
    ssize_t got = fs_next.recvmsg(descriptor, message, flags);
    if (got < 0) got = -errno;
    ssize_t payload = fs_carry_receive_ended(connection, descriptor, lasts, within, got, (flags & MSG_PEEK) != 0);
    if (payload == -EAGAIN && got > 0) return -EBUSY; /* they were tokens */
    return payload;
}

/* What lies in the first bytes of several parts. */
static ssize_t peek_into(struct fs_connection *connection, int descriptor, const struct iovec *list, size_t count,
                         int flags)
{
    char few[PEEK_FEW], *seen = few;
    size_t wanted = 0;
    for (size_t i = 0; i < count && wanted < PEEK_MOST; i++) wanted += list[i].iov_len;
    if (wanted > PEEK_MOST) wanted = PEEK_MOST;
    if (wanted > sizeof few) seen = malloc(wanted);
    if (seen == NULL) return -ENOMEM;
    ssize_t got = fs_stream_receive(connection, descriptor, seen, wanted, flags);
    for (size_t i = 0, at = 0; got > 0 && at < (size_t)got; i++) {
        size_t part = list[i].iov_len < (size_t)got - at ? list[i].iov_len : (size_t)got - at;
        memcpy(list[i].iov_base, seen + at, part);
        at += part;
    }
    if (seen != few) free(seen);
    return got;
}

/* What is there goes into one part after the other.  Only the first receive waits, but for MSG_WAITALL. */
static ssize_t receive_into(struct fs_connection *connection, int descriptor, const struct iovec *list, size_t count,
                            int flags)
{
    ssize_t done = 0;
    if (count > 1 && flags & MSG_PEEK) return peek_into(connection, descriptor, list, count, flags);
    for (size_t i = 0; i < count; i++) {
        if (list[i].iov_len == 0) continue;
        int now = done > 0 && !(flags & MSG_WAITALL) ? flags | MSG_DONTWAIT : flags;
        ssize_t got = fs_stream_receive(connection, descriptor, list[i].iov_base, list[i].iov_len, now);
        if (got > 0) done += got;
        if (got < 0 && done == 0) return got;
        if (got < (ssize_t)list[i].iov_len) break;
    }
    return done;
}

ssize_t fs_stream_receive_message(struct fs_connection *connection, int descriptor, struct msghdr *message, int flags)
{
    if (message->msg_iovlen > IOV_MAX) return -EMSGSIZE;
    if (message->msg_iovlen > 0 && fs_is_nowhere(message->msg_iov)) return -EFAULT;
    ssize_t got = -EBUSY;
    if (!fs_carry_is_attached(connection)) got = receive_message_by_kernel(connection, descriptor, message, flags);
    if (got == -ENOTSOCK) return other_file(descriptor);
    if (got != -EBUSY) return got;
    got = receive_into(connection, descriptor, message->msg_iov, message->msg_iovlen, flags);
    message->msg_namelen = 0;
    message->msg_controllen = 0;
    message->msg_flags = flags & MSG_CMSG_CLOEXEC;
    return got;
}

/* ---- the way out ---- */

int fs_stream_give_up(struct fs_connection *connection, int descriptor)
{
    int result = -EAGAIN;
    struct fs_record *record = connection->record;
    if (record != NULL) atomic_store(&record->foreign, 1);
    for (int i = 0; i < GIVE_UP_TRIES && result == -EAGAIN; i++) result = fs_leave_release(connection, descriptor);
    return result;
}
