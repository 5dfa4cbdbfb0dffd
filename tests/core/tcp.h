/* A TCP connection within this host whose listener accepts when a test says so. */
#ifndef TCP_H
#define TCP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct tcp {
    int listener, client; /* blocking */
    struct sockaddr_storage connecting, listening;
};

struct tcp tcp_connect(int family, const char *ip);
void tcp_connect_again(struct tcp *tcp); /* what was the client is left to the caller */
int tcp_accept(const struct tcp *tcp);
void tcp_forget(struct tcp *tcp);

/* Blocking, whole, and checked against the stream's bytes. */
void tcp_send_stream(int descriptor, uint64_t stream, uint64_t from, size_t length);
void tcp_expect_stream(int descriptor, uint64_t stream, uint64_t from, size_t length);
void tcp_expect_end(int descriptor);

#endif
