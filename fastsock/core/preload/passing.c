#define _GNU_SOURCE
#include "passing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "next.h"
#include "stream.h"
#include "switch/carry.h"
#include "switch/identity.h"

/* A number that the child of vfork() has by now for another file is not the connection's there. */
void fs_pass_number(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || !fs_identity_holds(connection, descriptor)) return;
    int before = errno;
    fs_stream_give_up(connection, descriptor);
    errno = before;
}

/* ---- streams of the C library ---- */

enum { WORDS = 1 << 10 }; /* numbers beyond are taken for none of a stream's */
static _Atomic uint64_t streams[WORDS];

static _Atomic uint64_t *word_of(int descriptor)
{
    return descriptor < 0 || descriptor / 64 >= WORDS ? NULL : &streams[descriptor / 64];
}

void fs_pass_to_stream(int descriptor)
{
    _Atomic uint64_t *word = word_of(descriptor);
    if (word != NULL) atomic_fetch_or(word, UINT64_C(1) << (descriptor % 64));
    fs_pass_number(descriptor);
}

void fs_pass_begins(int descriptor)
{
    _Atomic uint64_t *word = word_of(descriptor);
    uint64_t bit = UINT64_C(1) << (descriptor % 64);
    if (word != NULL && atomic_load_explicit(word, memory_order_relaxed) & bit) atomic_fetch_and(word, ~bit);
}

int fs_pass_is_to_stream(int descriptor)
{
    const _Atomic uint64_t *word = word_of(descriptor);
    if (descriptor <= STDERR_FILENO) return 1;
    return word != NULL && atomic_load_explicit(word, memory_order_relaxed) >> (descriptor % 64) & 1;
}

/* ---- other processes ---- */

void fs_pass_on(const struct msghdr *message)
{
    struct msghdr copy = *message; /* CMSG_NXTHDR takes one that may be changed */
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&copy); part != NULL; part = CMSG_NXTHDR(&copy, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS || part->cmsg_len < CMSG_LEN(0)) continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(part) + i * sizeof descriptor, sizeof descriptor);
            fs_pass_number(descriptor);
        }
    }
}

void fs_pass_inherited(void)
{
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) {
        int flags = fs_next.fcntl(i, F_GETFD, NULL);
        if (flags >= 0 && !(flags & FD_CLOEXEC)) fs_pass_number(i);
    }
}
