#define _GNU_SOURCE
#include "identity.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "table.h"

#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif

uint64_t fs_identity_of(int descriptor)
{
    uint64_t name = 0;
    socklen_t size = sizeof name;
    return getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &name, &size) == 0 ? name : 0;
}

static int is_tcp(int descriptor)
{
    int protocol = 0;
    socklen_t size = sizeof protocol;
    return getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP;
}

int fs_identity_check(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) return 0;
    int holds =
        atomic_load(&connection->identity) != 0 ? fs_identity_holds(connection, descriptor) : is_tcp(descriptor);
    if (!holds) fs_table_lose(descriptor);
    return holds;
}

int fs_identity_adopt(int descriptor)
{
    if (fs_identity_check(descriptor)) return 1;
    uint64_t name = is_tcp(descriptor) ? fs_identity_of(descriptor) : 0;
    for (int number = fs_table_next(0); name != 0 && number >= 0; number = fs_table_next(number + 1)) {
        const struct fs_connection *connection = fs_table_find(number);
        if (connection == NULL || atomic_load(&connection->identity) != name) continue;
        if (fs_table_duplicate(number, descriptor) == 0)
            return fs_identity_check(descriptor); /* it may have left since */
    }
    return 0;
}
