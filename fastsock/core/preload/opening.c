/* socket, connect, accept: which streams come into the table. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>

#include "borrowed.h"
#include "next.h"
#include "polled.h"
#include "passing.h"
#include "process.h"
#include "report.h"
#include "rules.h"
#include "sharing.h"
#include "switch/candidates.h"
#include "switch/descriptor.h"
#include "switch/table.h"
#include "watched.h"

static int option_of(int descriptor, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    return fs_next.getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/* A raw socket connects, too; but nobody accepts one. */
static int is_tcp_stream(int descriptor, enum fs_role role)
{
    return option_of(descriptor, SO_PROTOCOL) == IPPROTO_TCP &&
           (role == FS_ROLE_ACCEPTED || option_of(descriptor, SO_TYPE) == SOCK_STREAM);
}

union address {
    struct sockaddr any; /* AF_UNSPEC: it is not known */
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* Where the kernel connects to for that address. */
static void find_meant(union address *meant, const struct sockaddr *given)
{
    if (given->sa_family == AF_INET) {
        meant->four = *(const struct sockaddr_in *)(const void *)given;
        if (meant->four.sin_addr.s_addr == htonl(INADDR_ANY)) meant->four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        meant->six = *(const struct sockaddr_in6 *)(const void *)given;
        if (IN6_IS_ADDR_UNSPECIFIED(&meant->six.sin6_addr)) meant->six.sin6_addr = in6addr_loopback;
    }
}

/* `given`: what connect() was called with, which may be under way. */
static void heed_rules(int descriptor, enum fs_role role, const struct sockaddr *given)
{
    union address listener = {.any.sa_family = AF_UNSPEC};
    socklen_t size = sizeof listener;
    struct fs_connection *connection = fs_table_find(descriptor);
    if (!fs_rules_has(role) || connection == NULL) return;
    if (role == FS_ROLE_ACCEPTED) getsockname(descriptor, &listener.any, &size);
    else if (getpeername(descriptor, &listener.any, &size) != 0) find_meant(&listener, given);
    const struct fs_rule *rule = fs_rules_find(role, &listener.any);
    if (rule != NULL && !rule->has_memory) fs_candidate_never(connection);
}

/* `given`: connect()'s address. */
static void enter(int descriptor, enum fs_role role, const struct sockaddr *given)
{
    int before = errno;
    fs_process_begin();
    if (fs_is_within++ > 0) {
        /* it stays plain */
    } else if (fs_pass_is_alone(descriptor) && !atomic_load_explicit(&fs_stands_aside, memory_order_relaxed) &&
               is_tcp_stream(descriptor, role) && !fs_is_borrowed()) {
        fs_report_at_exit();
        if (fs_table_enter(descriptor, role) == 0) {
            fs_sharing_entered();
            heed_rules(descriptor, role, given);
            fs_report_entered(descriptor, given);
            fs_watched_entered(descriptor);
        }
    } else if (fs_table_find(descriptor) != NULL && !fs_is_borrowed()) {
        fs_table_lose(descriptor);
    }
    fs_is_within--;
    errno = before;
}

/* Behind a call that failed.  1: for want of numbers (EMFILE), and it is worth trying again, for this library had some of the numbers.  Else its share is told, once. */
static int gave_back(void)
{
    static _Atomic int is_reported;
    int error = errno, before = error == EMFILE && fs_is_within == 0 && !fs_is_borrowed() ? fs_descriptor_count() : 0;
    if (before > 0) {
        fs_is_within++;
        fs_descriptor_give_back();
        fs_watched_give_back();
        fs_polled_give_back();
        int left = fs_descriptor_count();
        if (left == before && !atomic_exchange(&is_reported, 1)) fs_report_short(left);
        fs_is_within--;
        before -= left;
    }
    errno = error;
    return before > 0;
}

FS_DOOR int socket(int family, int type, int protocol)
{
    int made = fs_next.socket(family, type, protocol);
    if (made < 0 && gave_back()) made = fs_next.socket(family, type, protocol);
    /* that number was closed without a word */
    if (made >= 0) fs_pass_begins(made);
    if (made >= 0 && fs_table_find(made) != NULL && fs_is_within == 0 && !fs_is_borrowed()) fs_table_lose(made);
    return made;
}

/* Also a second time, where the first address refused it: memory is for who may have it at both. */
static void begun_to(int descriptor, const struct sockaddr *address)
{
    int before = errno;
    if (fs_table_find(descriptor) == NULL) enter(descriptor, FS_ROLE_CONNECTED, address);
    else if (fs_is_within == 0) heed_rules(descriptor, FS_ROLE_CONNECTED, address);
    errno = before;
}

FS_DOOR int connect(int descriptor, const struct sockaddr *address, socklen_t size)
{
    int result = fs_next.connect(descriptor, address, size);
    int begun = result == 0 || errno == EINPROGRESS || errno == EINTR;
    if (begun && address != NULL && size >= sizeof(sa_family_t)) {
        if (address->sa_family == AF_UNSPEC) fs_table_lose(descriptor);
        else if (address->sa_family == AF_INET || address->sa_family == AF_INET6) begun_to(descriptor, address);
    }
    return result;
}

FS_ALIAS(connect) int __connect(int descriptor, const struct sockaddr *address, socklen_t size);

static void welcome(int accepted)
{
    if (accepted < 0) return;
    fs_pass_begins(accepted);
    enter(accepted, FS_ROLE_ACCEPTED, NULL);
}

FS_DOOR int accept(int descriptor, struct sockaddr *address, socklen_t *size)
{
    int accepted = fs_next.accept(descriptor, address, size);
    if (accepted < 0 && gave_back()) accepted = fs_next.accept(descriptor, address, size);
    welcome(accepted);
    return accepted;
}

FS_DOOR int accept4(int descriptor, struct sockaddr *address, socklen_t *size, int flags)
{
    int accepted = fs_next.accept4(descriptor, address, size, flags);
    if (accepted < 0 && gave_back()) accepted = fs_next.accept4(descriptor, address, size, flags);
    welcome(accepted);
    return accepted;
}
