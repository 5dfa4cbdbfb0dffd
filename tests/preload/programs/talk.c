/* An echo server and its clients, in two processes, every byte checked: talk SERVER CLIENT CONNECTIONS ROUNDS MOST.
 *
 * SERVER: thread, fork, poll, select, epoll, edge: how it waits.  CLIENT: recv, read, vector, message, all, polls: how it
 * sends and receives.  Four clients at once, a thread each.  Prints the bytes that came back, or says what went wrong.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS = 4, LARGEST = 1 << 20, ROOM = 1 << 16, NUMBERS = 1024 };

static const char *server_kind, *client_kind;
static int connections, rounds, most, port;

#define CHECK(condition)                                                                                \
    do                                                                                                  \
        if (!(condition)) {                                                                             \
            fprintf(stderr, "%s/%s: line %d: %s: %s\n", server_kind, client_kind, __LINE__, #condition, \
                    strerror(errno));                                                                   \
            _exit(1);                                                                                   \
        }                                                                                               \
    while (0)

/* ---- the server ---- */

struct held { /* bytes that a client has not taken back yet */
    char bytes[ROOM];
    size_t begin, end;
    int ended;
};

/* As much as goes without waiting.  1: the connection is over. */
static int serve(int number, struct held *held, int may_read)
{
    for (;;) {
        while (held->begin < held->end) {
            ssize_t sent = send(number, held->bytes + held->begin, held->end - held->begin, MSG_NOSIGNAL);
            if (sent < 0 && errno == EAGAIN) return 0;
            CHECK(sent > 0);
            held->begin += (size_t)sent;
        }
        held->begin = held->end = 0;
        if (held->ended) return 1;
        if (!may_read) return 0;
        ssize_t got = read(number, held->bytes, sizeof held->bytes);
        if (got < 0 && errno == EAGAIN) return 0;
        CHECK(got >= 0);
        held->end = (size_t)got;
        held->ended = got == 0;
    }
}

static void *serve_one(void *argument)
{
    int number = (int)(long)argument;
    struct held *held = calloc(1, sizeof *held);
    while (!serve(number, held, 1)) CHECK(0);
    free(held);
    close(number);
    return NULL;
}

static void serve_by_threads(int listener, int all)
{
    for (int i = 0; i < all; i++) {
        pthread_t thread;
        int number = accept(listener, NULL, NULL);
        CHECK(number >= 0);
        CHECK(pthread_create(&thread, NULL, serve_one, (void *)(long)number) == 0);
        pthread_detach(thread);
    }
}

static void serve_by_children(int listener, int all)
{
    for (int i = 0; i < all; i++) {
        int number = accept(listener, NULL, NULL);
        CHECK(number >= 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            serve_one((void *)(long)number);
            _exit(0);
        }
        close(number);
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
    }
    while (wait(NULL) > 0) {}
}

static struct held *held_by[NUMBERS];

static int welcome(int listener)
{
    int number = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(number >= 0 && number < NUMBERS);
    held_by[number] = calloc(1, sizeof *held_by[number]);
    return number;
}

static int part(int number) /* 1: it is over */
{
    free(held_by[number]);
    held_by[number] = NULL;
    return close(number) == 0;
}

static int wants_out(int number) { return held_by[number]->begin < held_by[number]->end; }

static void serve_by_poll(int listener, int all)
{
    for (int left = all; left > 0;) {
        struct pollfd list[NUMBERS] = {{listener, POLLIN, 0}};
        nfds_t count = 1;
        for (int i = 0; i < NUMBERS; i++)
            if (held_by[i] != NULL) list[count++] = (struct pollfd){i, wants_out(i) ? POLLOUT : POLLIN, 0};
        CHECK(poll(list, count, -1) > 0);
        for (nfds_t i = 1; i < count; i++)
            if (list[i].revents != 0 && serve(list[i].fd, held_by[list[i].fd], 1)) left -= part(list[i].fd);
        if (list[0].revents) welcome(listener);
    }
}

static void serve_by_select(int listener, int all)
{
    for (int left = all; left > 0;) {
        fd_set readers, writers;
        FD_ZERO(&readers);
        FD_ZERO(&writers);
        FD_SET(listener, &readers);
        for (int i = 0; i < NUMBERS; i++)
            if (held_by[i] != NULL) FD_SET(i, wants_out(i) ? &writers : &readers);
        CHECK(select(NUMBERS, &readers, &writers, NULL, NULL) > 0);
        for (int i = 0; i < NUMBERS; i++)
            if (held_by[i] != NULL && (FD_ISSET(i, &readers) || FD_ISSET(i, &writers)) && serve(i, held_by[i], 1))
                left -= part(i);
        if (FD_ISSET(listener, &readers)) welcome(listener);
    }
}

static void serve_by_epoll(int listener, int all)
{
    int edge = strcmp(server_kind, "edge") == 0, epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, events[16];
    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0);
    for (int left = all; left > 0;) {
        int count = epoll_wait(epoll, events, 16, -1);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            int number = events[i].data.fd;
            if (number == listener) {
                number = welcome(listener);
                event =
                    (struct epoll_event){edge ? EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET : EPOLLIN, {.fd = number}};
                CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event) == 0);
                continue;
            }
            int wanted = wants_out(number);
            if (serve(number, held_by[number], 1)) {
                left -= part(number);
            } else if (!edge && wanted != wants_out(number)) {
                event = (struct epoll_event){wanted ? EPOLLIN : EPOLLOUT, {.fd = number}};
                CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event) == 0);
            }
        }
    }
    close(epoll);
}

/* ---- the clients ---- */

static char byte_at(unsigned seed, size_t position) { return (char)((seed + position * 2654435761u) >> 13 ^ position); }

static void send_some(int number, char *bytes, size_t length)
{
    if (strcmp(client_kind, "vector") == 0 || strcmp(client_kind, "message") == 0) {
        struct iovec parts[3] = {
            {bytes, length / 3}, {bytes + length / 3, length / 3}, {bytes + length / 3 * 2, length - length / 3 * 2}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
        ssize_t sent = client_kind[0] == 'v' ? writev(number, parts, 3) : sendmsg(number, &message, MSG_NOSIGNAL);
        CHECK(sent == (ssize_t)length);
    } else if (strcmp(client_kind, "read") == 0) {
        CHECK(write(number, bytes, length) == (ssize_t)length);
    } else {
        CHECK(send(number, bytes, length, MSG_NOSIGNAL) == (ssize_t)length);
    }
}

static size_t receive_some(int number, char *bytes, size_t length)
{
    ssize_t got;
    struct iovec parts[2] = {{bytes, length / 2}, {bytes + length / 2, length - length / 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (strcmp(client_kind, "polls") == 0) {
        struct pollfd one = {number, POLLIN, 0};
        CHECK(poll(&one, 1, 20000) == 1);
        got = recv(number, bytes, length, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) CHECK(!"poll() lied");
    } else if (strcmp(client_kind, "read") == 0) got = read(number, bytes, length);
    else if (strcmp(client_kind, "vector") == 0) got = readv(number, parts, 2);
    else if (strcmp(client_kind, "message") == 0) got = recvmsg(number, &message, 0);
    else got = recv(number, bytes, length, strcmp(client_kind, "all") == 0 ? MSG_WAITALL : 0);
    CHECK(got > 0);
    if (strcmp(client_kind, "all") == 0) CHECK(got == (ssize_t)length);
    return (size_t)got;
}

/* A long block is sent by a thread of its own, for the echo comes back meanwhile. */
struct sending {
    int number;
    char *bytes;
    size_t length;
};

static void *send_all(void *argument)
{
    struct sending *sending = argument;
    send_some(sending->number, sending->bytes, sending->length);
    return NULL;
}

static int open_connection(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(number >= 0 && connect(number, (struct sockaddr *)&address, sizeof address) == 0);
    return number;
}

static void *talk(void *argument)
{
    unsigned seed = (unsigned)(long)argument;
    char *out = malloc(LARGEST), *in = malloc(LARGEST);
    size_t total = 0;
    for (int i = 0; i < connections; i++) {
        int number = open_connection();
        for (int round = 0; round < rounds; round++) {
            size_t length = 1 + (size_t)(rand_r(&seed) % (round % 8 == 7 ? most : most < 300 ? most : 300));
            unsigned key = (unsigned)rand_r(&seed);
            for (size_t at = 0; at < length; at++) out[at] = byte_at(key, at);
            struct sending sending = {number, out, length};
            pthread_t thread;
            int apart = length > 16384;
            if (apart) CHECK(pthread_create(&thread, NULL, send_all, &sending) == 0);
            if (!apart) send_all(&sending);
            for (size_t got = 0; got < length;) got += receive_some(number, in + got, length - got);
            if (apart) pthread_join(thread, NULL);
            CHECK(memcmp(in, out, length) == 0);
            total += length;
        }
        char rest;
        CHECK(shutdown(number, SHUT_WR) == 0);
        CHECK(recv(number, &rest, 1, 0) == 0);
        CHECK(close(number) == 0);
    }
    free(out);
    free(in);
    return (void *)total;
}

static void run_clients(void)
{
    pthread_t threads[CLIENTS];
    size_t total = 0;
    for (long i = 0; i < CLIENTS; i++) CHECK(pthread_create(&threads[i], NULL, talk, (void *)(i * 7919 + 1)) == 0);
    for (int i = 0; i < CLIENTS; i++) {
        void *part_of_it;
        pthread_join(threads[i], &part_of_it);
        total += (size_t)part_of_it;
    }
    printf("%zu bytes came back\n", total);
}

int main(int count, char **arguments)
{
    CHECK(count == 6);
    server_kind = arguments[1];
    client_kind = arguments[2];
    connections = atoi(arguments[3]);
    rounds = atoi(arguments[4]);
    most = atoi(arguments[5]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 64) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    port = ntohs(address.sin_port);
    pid_t clients = fork();
    CHECK(clients >= 0);
    if (clients == 0) {
        close(listener);
        run_clients();
        exit(0);
    }
    int all = connections * CLIENTS;
    if (strcmp(server_kind, "thread") == 0) serve_by_threads(listener, all);
    else if (strcmp(server_kind, "fork") == 0) serve_by_children(listener, all);
    else if (strcmp(server_kind, "poll") == 0) serve_by_poll(listener, all);
    else if (strcmp(server_kind, "select") == 0) serve_by_select(listener, all);
    else serve_by_epoll(listener, all);
    int status = 0;
    if (strcmp(server_kind, "fork") != 0) CHECK(waitpid(clients, &status, 0) == clients);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
