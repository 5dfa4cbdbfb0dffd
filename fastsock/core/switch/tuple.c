#define _GNU_SOURCE
#include "tuple.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "system.h"

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static int read_place(const union address *from, struct fs_place *place)
{
    memset(place, 0, sizeof *place);
    if (from->any.sa_family == AF_INET) {
        memcpy(place->address, mapped, sizeof mapped);
        memcpy(place->address + sizeof mapped, &from->four.sin_addr, 4);
        place->port = ntohs(from->four.sin_port);
    } else if (from->any.sa_family == AF_INET6) {
        memcpy(place->address, &from->six.sin6_addr, 16);
        place->port = ntohs(from->six.sin6_port);
        place->scope = from->six.sin6_scope_id;
    } else return -EAFNOSUPPORT;
    return 0;
}

int fs_tuple_of(int descriptor, struct fs_tuple *tuple)
{
    union address own = {.any.sa_family = AF_UNSPEC}, other = own;
    socklen_t own_size = sizeof own, other_size = sizeof other;
    if (getpeername(descriptor, &other.any, &other_size) != 0) return -errno;
    if (getsockname(descriptor, &own.any, &own_size) != 0) return -errno;
    int error = read_place(&own, &tuple->own);
    return error != 0 ? error : read_place(&other, &tuple->other);
}

static int order(const struct fs_tuple *tuple)
{
    int by_address = memcmp(tuple->own.address, tuple->other.address, sizeof tuple->own.address);
    return by_address != 0 ? by_address : (int)tuple->own.port - (int)tuple->other.port;
}

int fs_tuple_is_own(const struct fs_tuple *tuple) { return order(tuple) == 0; }
int fs_tuple_is_first(const struct fs_tuple *tuple) { return order(tuple) < 0; }

static int is_four(const struct fs_place *place) { return memcmp(place->address, mapped, sizeof mapped) == 0; }

static int is_loopback(const struct fs_place *place)
{
    static const struct in6_addr six = IN6ADDR_LOOPBACK_INIT;
    return is_four(place) ? place->address[12] == 127 : memcmp(place->address, &six, sizeof six) == 0;
}

/* Where the system lets everybody bind to any address, this says too often yes.  Then nobody is found there. */
static int can_be_bound(const struct fs_place *place)
{
    union address at;
    socklen_t size = is_four(place) ? sizeof at.four : sizeof at.six;
    memset(&at, 0, sizeof at);
    at.any.sa_family = is_four(place) ? AF_INET : AF_INET6;
    if (is_four(place)) memcpy(&at.four.sin_addr, place->address + sizeof mapped, 4);
    else {
        memcpy(&at.six.sin6_addr, place->address, 16);
        at.six.sin6_scope_id = place->scope;
    }
    fs_hold_process(); /* no child inherits the socket */
    int probe = socket(at.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int bound = probe >= 0 && bind(probe, &at.any, size) == 0;
    if (probe >= 0) close(probe);
    fs_release_process();
    return bound;
}

int fs_tuple_is_local(const struct fs_tuple *tuple)
{
    if (memcmp(tuple->own.address, tuple->other.address, sizeof tuple->own.address) == 0) return 1;
    return is_loopback(&tuple->other) || can_be_bound(&tuple->other);
}
