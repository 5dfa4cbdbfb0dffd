#define _GNU_SOURCE
#include "tcp.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "sockets/address.h"
#include "connection.h"

#define PART 4096u

struct tcp tcp_connect(int family, const char *ip)
{
    struct tcp tcp = {-1, -1, {0}, {0}};
    socklen_t size = sizeof tcp.listening;
    CHECK_EQUAL(fs_put_address(&tcp.listening, family, ip, 0), 0);
    tcp.listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(tcp.listener, (struct sockaddr *)&tcp.listening, size) == 0 && listen(tcp.listener, 16) == 0);
    CHECK(getsockname(tcp.listener, (struct sockaddr *)&tcp.listening, &size) == 0);
    tcp_connect_again(&tcp);
    return tcp;
}

void tcp_connect_again(struct tcp *tcp)
{
    socklen_t length = sizeof tcp->connecting;
    tcp->client = socket(tcp->listening.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* a fuzzer's alarm may come */
    CHECK(TEMP_FAILURE_RETRY(connect(tcp->client, (struct sockaddr *)&tcp->listening, sizeof tcp->listening)) == 0);
    CHECK(getsockname(tcp->client, (struct sockaddr *)&tcp->connecting, &length) == 0);
}

int tcp_accept(const struct tcp *tcp)
{
    int accepted = TEMP_FAILURE_RETRY(accept4(tcp->listener, NULL, NULL, SOCK_CLOEXEC));
    CHECK(accepted >= 0);
    return accepted;
}

void tcp_forget(struct tcp *tcp)
{
    if (tcp->client >= 0) close(tcp->client);
    close(tcp->listener);
    tcp->client = tcp->listener = -1;
}

void tcp_send_stream(int descriptor, uint64_t stream, uint64_t from, size_t length)
{
    unsigned char part[PART];
    while (length > 0) {
        size_t now = length < sizeof part ? length : sizeof part;
        stream_fill(stream, from, part, now);
        ssize_t sent = send(descriptor, part, now, MSG_NOSIGNAL);
        CHECK(sent > 0);
        from += (uint64_t)sent;
        length -= (size_t)sent;
    }
}

static ssize_t receive(int descriptor, unsigned char *part, size_t length)
{
    struct pollfd one = {descriptor, POLLIN, 0};
    CHECK(poll(&one, 1, (int)(STALL_NS / 1000000)) == 1);
    return recv(descriptor, part, length, 0);
}

void tcp_expect_stream(int descriptor, uint64_t stream, uint64_t from, size_t length)
{
    unsigned char part[PART];
    while (length > 0) {
        ssize_t got = receive(descriptor, part, length < sizeof part ? length : sizeof part);
        CHECK(got > 0);
        stream_check(stream, from, part, (size_t)got);
        from += (uint64_t)got;
        length -= (size_t)got;
    }
}

void tcp_expect_end(int descriptor)
{
    unsigned char one;
    CHECK_EQUAL(receive(descriptor, &one, 1), 0);
}
