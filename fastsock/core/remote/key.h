/* An address and port of either family, as one host names them to another one. */
#ifndef FASTSOCK_REMOTE_KEY_H
#define FASTSOCK_REMOTE_KEY_H

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

struct fs_key {
    uint8_t address[16];
    uint16_t port; /* as the network has it */
};

static inline struct fs_key fs_key_of(const struct sockaddr *address)
{
    struct fs_key key = {{0}, 0};
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
        memcpy(key.address, &six->sin6_addr, 16);
        key.port = six->sin6_port;
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        key.address[10] = key.address[11] = 0xff; /* as ::ffff: writes it */
        memcpy(key.address + 12, &four->sin_addr, 4);
        key.port = four->sin_port;
    }
    return key;
}

static inline int fs_same_key(const struct fs_key *one, const struct fs_key *other)
{
    return one->port == other->port && memcmp(one->address, other->address, 16) == 0;
}

#endif
