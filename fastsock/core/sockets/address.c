#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

int fs_put_address(struct sockaddr_storage *where, int family, const char *ip, int port)
{
    struct sockaddr_in *four = (struct sockaddr_in *)where;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)where;
    memset(where, 0, sizeof *where);
    where->ss_family = (sa_family_t)family;
    *(family == AF_INET ? &four->sin_port : &six->sin6_port) = htons((uint16_t)port);
    void *place = family == AF_INET ? (void *)&four->sin_addr : (void *)&six->sin6_addr;
    return inet_pton(family, ip, place) == 1 ? 0 : -EINVAL;
}
