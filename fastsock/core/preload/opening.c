/* socket, connect, accept: which streams come into the table. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>

#include "next.h"
#include "process.h"
#include "switch/table.h"
#include "watched.h"

static int option_of(int descriptor, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    return fs_next.getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

static int is_tcp_stream(int descriptor)
{
    return option_of(descriptor, SO_PROTOCOL) == IPPROTO_TCP && option_of(descriptor, SO_TYPE) == SOCK_STREAM;
}

static void enter(int descriptor, enum fs_role role)
{
    int before = errno;
    if (fs_is_within++ > 0) {
        /* it stays plain */
    } else if (!atomic_load_explicit(&fs_stands_aside, memory_order_relaxed) && is_tcp_stream(descriptor) &&
               !fs_is_borrowed()) {
        fs_report_at_exit();
        if (fs_table_enter(descriptor, role) == 0) fs_watched_entered(descriptor);
    } else if (fs_table_find(descriptor) != NULL && !fs_is_borrowed()) {
        fs_table_lose(descriptor);
    }
    fs_is_within--;
    errno = before;
}

FS_DOOR int socket(int family, int type, int protocol)
{
    int made = fs_next.socket(family, type, protocol);
    /* that number was closed without a word */
    if (made >= 0 && fs_table_find(made) != NULL && fs_is_within == 0 && !fs_is_borrowed()) fs_table_lose(made);
    return made;
}

FS_DOOR int connect(int descriptor, const struct sockaddr *address, socklen_t size)
{
    int result = fs_next.connect(descriptor, address, size);
    int begun = result == 0 || errno == EINPROGRESS || errno == EINTR;
    if (begun && address != NULL && size >= sizeof(sa_family_t)) {
        if (address->sa_family == AF_UNSPEC) fs_table_lose(descriptor);
        else if ((address->sa_family == AF_INET || address->sa_family == AF_INET6) && fs_table_find(descriptor) == NULL)
            enter(descriptor, FS_ROLE_CONNECTED);
    }
    return result;
}

FS_DOOR int accept(int descriptor, struct sockaddr *address, socklen_t *size)
{
    int accepted = fs_next.accept(descriptor, address, size);
    if (accepted >= 0) enter(accepted, FS_ROLE_ACCEPTED);
    return accepted;
}

FS_DOOR int accept4(int descriptor, struct sockaddr *address, socklen_t *size, int flags)
{
    int accepted = fs_next.accept4(descriptor, address, size, flags);
    if (accepted >= 0) enter(accepted, FS_ROLE_ACCEPTED);
    return accepted;
}
