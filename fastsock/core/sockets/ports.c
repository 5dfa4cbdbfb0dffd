#define _GNU_SOURCE
#include "ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "system.h"

#define MOST_CHOICES 32
#define LOCAL_PORT_RANGE 51 /* IP_LOCAL_PORT_RANGE, which older headers lack */

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

static void set_port(union place *place, unsigned port)
{
    if (place->any.sa_family == AF_INET) place->four.sin_port = htons((uint16_t)port);
    else place->six.sin6_port = htons((uint16_t)port);
}

static int bind_to(int descriptor, const union place *place, socklen_t size)
{
    return bind(descriptor, &place->any, size) == 0 ? 0 : -errno;
}

static int option(int descriptor, int level, int name)
{
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(descriptor, level, name, &value, &length) == 0 ? value : 0;
}

/* The option would keep the kernel from choosing. */
static int bind_to_any(int descriptor, const union place *place, socklen_t size)
{
    const int off = 0, without = option(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT);
    if (!without) return bind_to(descriptor, place, size);
    if (setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &off, sizeof off) != 0) return -errno;
    int error = bind_to(descriptor, place, size);
    setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &without, sizeof without);
    if (error != 0) bind_to(descriptor, place, size); /* the kernel forgets the address where no port of it is free */
    return error;
}

/* ---- a number of our own choice: what the kernel chose itself it gives out again once the other end resets ---- */

static struct {
    unsigned low, high; /* both may be used; 0: it is not known what may */
    uint64_t seed;
} range;
static pthread_once_t range_known = PTHREAD_ONCE_INIT;

/* What stands in a file of the kernel's settings, or less than 0. */
static ssize_t read_setting(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    ssize_t length = read(file, text, size - 1);
    close(file);
    text[length < 0 ? 0 : length] = 0;
    return length;
}

static void learn_range(void)
{
    char text[64];
    unsigned low, high;
    if (read_setting("/proc/sys/net/ipv4/ip_local_reserved_ports", text, sizeof text) > 1)
        return; /* the kernel knows them */
    if (read_setting("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof text) <= 0) return;
    if (sscanf(text, "%u %u", &low, &high) != 2 || low == 0 || low > high || high > UINT16_MAX) return;
    if (getrandom(&range.seed, sizeof range.seed, GRND_NONBLOCK) < 0) range.seed = fs_now_ns();
    range.high = high;
    range.low = low;
}

static unsigned choose(void)
{
    static _Atomic uint64_t count;
    uint64_t mixed = range.seed + (fs_ticks() ^ atomic_fetch_add(&count, 1) << 32) * 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return range.low + (unsigned)((mixed >> 32) * (range.high - range.low + 1) >> 32);
}

/* 0: bound to a number that nobody else had. */
static int bind_to_chosen(int descriptor, const union place *place, socklen_t size)
{
    const int off = 0, reuse = option(descriptor, SOL_SOCKET, SO_REUSEADDR);
    union place chosen = *place;
    int error = -EADDRINUSE;
    pthread_once(&range_known, learn_range);
    if (range.low == 0 || option(descriptor, SOL_SOCKET, SO_REUSEPORT) ||
        option(descriptor, IPPROTO_IP, LOCAL_PORT_RANGE))
        return -EOPNOTSUPP;
    if (reuse && setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &off, sizeof off) != 0) return -errno;
    for (int i = 0; i < MOST_CHOICES && error == -EADDRINUSE; i++) {
        set_port(&chosen, choose());
        error = bind_to(descriptor, &chosen, size);
    }
    if (reuse) setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    return error;
}

int fs_take_port(int descriptor, char ip[FS_ADDRESS_TEXT], int *port)
{
    union place place;
    socklen_t size = sizeof place;
    if (getsockname(descriptor, &place.any, &size) != 0) return -errno;
    if (place.any.sa_family != AF_INET && place.any.sa_family != AF_INET6) return -EAFNOSUPPORT;
    if (port_of(&place) == 0) {
        int error = bind_to_chosen(descriptor, &place, size);
        if (error != 0) error = bind_to_any(descriptor, &place, size);
        if (error != 0) return error;
        size = sizeof place;
        if (getsockname(descriptor, &place.any, &size) != 0) return -errno;
    }
    *port = port_of(&place);
    const void *address = place.any.sa_family == AF_INET ? (void *)&place.four.sin_addr : (void *)&place.six.sin6_addr;
    return inet_ntop(place.any.sa_family, address, ip, FS_ADDRESS_TEXT) == NULL ? -errno : 0;
}
