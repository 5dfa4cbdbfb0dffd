/* A connection in a backlog belongs to no file yet: its inode is 0.  Nothing else tells that before accept() returned. */
#define _GNU_SOURCE
#include "accepted.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#ifndef IP_RECVERR_RFC4884
#define IP_RECVERR_RFC4884 26
#endif
#define OPTIONS_TOLD 22 /* INET_DIAG_SOCKOPT, which older headers lack, and so its content */

struct options_told {
    uint8_t seldom : 8;
    uint8_t bind_address_no_port : 1, recverr_rfc4884 : 1, others : 6;
};

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 of;
};

/* An IPv4 address mapped into IPv6 is looked up as the IPv4 one: so the kernel finds it in sockets of both kinds. */
static int place(const struct sockaddr *address, uint32_t words[4], uint16_t *port)
{
    memset(words, 0, 16);
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        words[0] = four->sin_addr.s_addr;
        *port = four->sin_port;
        return AF_INET;
    }
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    *port = six->sin6_port;
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        memcpy(words, &six->sin6_addr.s6_addr[12], 4);
        return AF_INET;
    }
    memcpy(words, &six->sin6_addr, 16);
    return AF_INET6;
}

int fs_put_address(struct sockaddr_storage *where, int family, const char *ip, int port)
{
    struct sockaddr_in *four = (struct sockaddr_in *)where;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)where;
    memset(where, 0, sizeof *where);
    where->ss_family = (sa_family_t)family;
    *(family == AF_INET ? &four->sin_port : &six->sin6_port) = htons((uint16_t)port);
    return inet_pton(family, ip, family == AF_INET ? (void *)&four->sin_addr : (void *)&six->sin6_addr) == 1 ? 0
                                                                                                             : -EINVAL;
}

static int has_sign(const struct nlmsghdr *header)
{
    const struct inet_diag_msg *found = NLMSG_DATA(header);
    const struct rtattr *each = (const struct rtattr *)(found + 1);
    size_t left = header->nlmsg_len - NLMSG_LENGTH(sizeof *found);
    struct options_told told = {0};
    for (; RTA_OK(each, left); each = RTA_NEXT(each, left))
        if (each->rta_type == OPTIONS_TOLD && RTA_PAYLOAD(each) >= sizeof told)
            memcpy(&told, RTA_DATA(each), sizeof told);
    return told.recverr_rfc4884;
}

static struct fs_acceptance ask(int netlink, const struct sockaddr *connecting, const struct sockaddr *listening)
{
    const struct fs_acceptance unknown = {FS_ACCEPTED_UNKNOWN, 0, 0};
    struct question question = {.header = {sizeof question, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0}};
    struct inet_diag_sockid *id = &question.of.id;
    _Alignas(struct nlmsghdr) char told[1024];
    question.of.sdiag_family = (uint8_t)place(listening, id->idiag_src, &id->idiag_sport);
    if (place(connecting, id->idiag_dst, &id->idiag_dport) != question.of.sdiag_family) return unknown;
    question.of.sdiag_protocol = IPPROTO_TCP;
    question.of.idiag_states = ~0u;
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (send(netlink, &question, sizeof question, 0) != (ssize_t)sizeof question) return unknown;
    ssize_t got = recv(netlink, told, sizeof told, MSG_DONTWAIT); /* it is answered within send() */
    const struct nlmsghdr *header = (const struct nlmsghdr *)told;
    if (got < (ssize_t)sizeof *header || header->nlmsg_type != SOCK_DIAG_BY_FAMILY) return unknown;
    if (header->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)) || header->nlmsg_len > (size_t)got)
        return unknown;
    const struct inet_diag_msg *found = NLMSG_DATA(header);
    /* an answer to an earlier question: nobody waited for it */
    if (found->id.idiag_sport != id->idiag_sport || found->id.idiag_dport != id->idiag_dport) return unknown;
    return (struct fs_acceptance){found->idiag_inode == 0 ? FS_ACCEPTED_NOT_YET : FS_ACCEPTED, has_sign(header),
                                  found->idiag_rqueue};
}

int fs_accepted_open(void) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG); }

/* IPv6's sockets have IPv4's options as well. */
int fs_accepted_sign(int descriptor, int has_sign)
{
    return setsockopt(descriptor, IPPROTO_IP, IP_RECVERR_RFC4884, &has_sign, sizeof has_sign) == 0 ? 0 : -errno;
}

struct fs_acceptance fs_accepted_ask(int netlink, const struct sockaddr *connecting, const struct sockaddr *listening)
{
    return netlink < 0 ? (struct fs_acceptance){FS_ACCEPTED_UNKNOWN, 0, 0} : ask(netlink, connecting, listening);
}

struct fs_acceptance fs_accepted(const struct sockaddr *connecting, const struct sockaddr *listening)
{
    int netlink = fs_accepted_open();
    struct fs_acceptance answer = fs_accepted_ask(netlink, connecting, listening);
    if (netlink >= 0) close(netlink);
    return answer;
}
