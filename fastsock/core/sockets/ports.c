#define _GNU_SOURCE
#include "ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

union place {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_storage space;
};

static int port_of(const union place *place)
{
    return ntohs(place->any.sa_family == AF_INET ? place->four.sin_port : place->six.sin6_port);
}

static int bind_to(int descriptor, const union place *place, socklen_t size)
{
    return bind(descriptor, &place->any, size) == 0 ? 0 : -errno;
}

/* Only the kernel chooses the port: the option would keep it from that. */
static int bind_now(int descriptor, const union place *place, socklen_t size)
{
    int without = 0, off = 0;
    socklen_t length = sizeof without;
    if (getsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &without, &length) != 0 || !without) /* or an old kernel */
        return bind_to(descriptor, place, size);
    if (setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &off, sizeof off) != 0) return -errno;
    int error = bind_to(descriptor, place, size);
    setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &without, sizeof without);
    if (error != 0) bind_to(descriptor, place, size); /* the kernel forgets the address where no port of it is free */
    return error;
}

int fs_take_port(int descriptor, char ip[FS_ADDRESS_TEXT], int *port)
{
    union place place;
    socklen_t size = sizeof place;
    if (getsockname(descriptor, &place.any, &size) != 0) return -errno;
    if (place.any.sa_family != AF_INET && place.any.sa_family != AF_INET6) return -EAFNOSUPPORT;
    if (port_of(&place) == 0) {
        int error = bind_now(descriptor, &place, size);
        if (error != 0) return error;
        size = sizeof place;
        if (getsockname(descriptor, &place.any, &size) != 0) return -errno;
    }
    *port = port_of(&place);
    const void *address = place.any.sa_family == AF_INET ? (void *)&place.four.sin_addr : (void *)&place.six.sin6_addr;
    return inet_ntop(place.any.sa_family, address, ip, FS_ADDRESS_TEXT) == NULL ? -errno : 0;
}
