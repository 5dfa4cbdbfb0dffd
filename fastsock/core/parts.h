/* A gather: bytes that follow one another, in parts of memory.  Who sends them takes them off the front. */
#ifndef FASTSOCK_PARTS_H
#define FASTSOCK_PARTS_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fs_parts {
    struct iovec *next; /* the first that is left, not empty; parts are changed as their bytes go */
    int count;
    size_t left; /* bytes, in all; a smaller number leaves the last ones out */
};

/* `length` bytes have gone, no more than were left. */
static inline void fs_parts_advance(struct fs_parts *parts, size_t length)
{
    parts->left -= length;
    for (; parts->count > 0 && length >= parts->next->iov_len; parts->next++, parts->count--)
        length -= parts->next->iov_len;
    if (length == 0) return;
    parts->next->iov_base = (char *)parts->next->iov_base + length;
    parts->next->iov_len -= length;
}

static inline struct fs_parts fs_parts_of(struct iovec *parts, int count)
{
    struct fs_parts all = {parts, count, 0};
    for (int i = 0; i < count; i++) all.left += parts[i].iov_len;
    fs_parts_advance(&all, 0);
    return all;
}

/* Bytes that lie together at the front; 0 where none are left. */
static inline size_t fs_parts_first(const struct fs_parts *parts)
{
    if (parts->left == 0) return 0;
    return parts->next->iov_len < parts->left ? parts->next->iov_len : parts->left;
}

/* One send of the first bytes, `most` at most.  Takes none off. */
ssize_t fs_parts_send(int descriptor, const struct fs_parts *parts, size_t most, int flags);

#endif
