#define _GNU_SOURCE
#include "parts.h"

#include <sys/socket.h>

ssize_t fs_parts_send(int descriptor, const struct fs_parts *parts, size_t most, int flags)
{
    if (parts->left == 0) return send(descriptor, "", 0, flags);
    struct iovec *last = parts->next;
    size_t before = 0;
    for (; last + 1 < parts->next + parts->count && before + last->iov_len < most; last++) before += last->iov_len;
    const size_t whole = last->iov_len;
    if (whole > most - before) last->iov_len = most - before;
    struct msghdr message = {.msg_iov = parts->next, .msg_iovlen = (size_t)(last + 1 - parts->next)};
    ssize_t sent = last == parts->next ? send(descriptor, last->iov_base, last->iov_len, flags)
                                       : sendmsg(descriptor, &message, flags);
    last->iov_len = whole;
    return sent;
}
