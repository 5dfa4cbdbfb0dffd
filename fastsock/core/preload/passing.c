#define _GNU_SOURCE
#include "passing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

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
