/* What the kernel tells of connections in a backlog. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sockets/accepted.h"
#include "connection.h"
#include "tcp.h"

static struct fs_acceptance found(const struct tcp *tcp)
{
    return fs_accepted((const struct sockaddr *)&tcp->connecting, (const struct sockaddr *)&tcp->listening);
}

static int told(const struct tcp *tcp) { return found(tcp).state; }

static void run(int family, const char *ip)
{
    struct tcp tcp = tcp_connect(family, ip);
    CHECK_EQUAL(told(&tcp), FS_ACCEPTED_NOT_YET);
    int accepted = tcp_accept(&tcp);
    CHECK_EQUAL(told(&tcp), FS_ACCEPTED);
    struct linger at_once = {1, 0};
    setsockopt(accepted, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(accepted);
    CHECK_EQUAL(told(&tcp), FS_ACCEPTED_UNKNOWN); /* nothing of it is left */
    tcp_forget(&tcp);
}

/* Each later connection has it, in the backlog and when it was accepted. */
static void run_signed(int family, const char *ip)
{
    struct tcp tcp = tcp_connect(family, ip);
    CHECK_EQUAL(found(&tcp).is_signed, 0);
    CHECK_EQUAL(fs_accepted_sign(tcp.listener, 1), 0);
    CHECK_EQUAL(found(&tcp).is_signed, 0);
    close(tcp.client);
    close(tcp_accept(&tcp));
    tcp_connect_again(&tcp);
    CHECK_EQUAL(told(&tcp), FS_ACCEPTED_NOT_YET);
    CHECK_EQUAL(found(&tcp).is_signed, 1);
    CHECK_EQUAL(send(tcp.client, "12345", 5, 0), 5);
    CHECK_EQUAL(found(&tcp).unread, 5);
    int accepted = tcp_accept(&tcp);
    CHECK_EQUAL(found(&tcp).is_signed, 1);
    char two[2];
    CHECK_EQUAL(recv(accepted, two, sizeof two, 0), 2);
    CHECK_EQUAL(found(&tcp).unread, 3);
    CHECK_EQUAL(fs_accepted_sign(accepted, 0), 0);
    CHECK_EQUAL(found(&tcp).is_signed, 0);
    close(accepted);
    tcp_forget(&tcp);
}

TEST(signed_over_ipv4, 0) { run_signed(AF_INET, "127.0.0.1"); }
TEST(signed_over_ipv6, 0) { run_signed(AF_INET6, "::1"); }
TEST(signed_over_ipv4_mapped_into_ipv6, 0) { run_signed(AF_INET6, "::ffff:127.0.0.1"); }

TEST(accepted_over_ipv4, 0) { run(AF_INET, "127.0.0.1"); }
TEST(accepted_over_ipv6, 0) { run(AF_INET6, "::1"); }
TEST(accepted_over_ipv4_mapped_into_ipv6, 0) { run(AF_INET6, "::ffff:127.0.0.1"); }

/* One descriptor answers many questions, each with its own answer. */
TEST(accepted_asked_of_many, 0)
{
    enum { MANY = 12 };
    struct tcp tcp[MANY];
    int accepted[MANY], netlink = fs_accepted_open();
    struct random random = random_from(1);
    CHECK(netlink >= 0);
    for (int i = 0; i < MANY; i++) {
        tcp[i] = tcp_connect(i % 2 ? AF_INET : AF_INET6, i % 2 ? "127.0.0.1" : "::1");
        accepted[i] = random_below(&random, 2) ? tcp_accept(&tcp[i]) : -1;
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < MANY; i++)
            CHECK_EQUAL(
                fs_accepted_ask(netlink, (struct sockaddr *)&tcp[i].connecting, (struct sockaddr *)&tcp[i].listening)
                    .state,
                accepted[i] >= 0 ? FS_ACCEPTED : FS_ACCEPTED_NOT_YET);
    CHECK_EQUAL(fs_accepted_ask(-1, (struct sockaddr *)&tcp[0].connecting, (struct sockaddr *)&tcp[0].listening).state,
                FS_ACCEPTED_UNKNOWN);
    for (int i = 0; i < MANY; i++) {
        if (accepted[i] >= 0) close(accepted[i]);
        tcp_forget(&tcp[i]);
    }
    close(netlink);
}

TEST(accepted_of_two_families_is_unknown, 0)
{
    struct tcp four = tcp_connect(AF_INET, "127.0.0.1"), six = tcp_connect(AF_INET6, "::1");
    CHECK_EQUAL(fs_accepted((struct sockaddr *)&four.connecting, (struct sockaddr *)&six.listening).state,
                FS_ACCEPTED_UNKNOWN);
    tcp_forget(&four);
    tcp_forget(&six);
}
