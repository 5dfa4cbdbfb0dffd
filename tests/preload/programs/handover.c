/* One thread waits in epoll_wait() for edges, another one reads what it was told of and answers: handover ROUNDS.
 *
 * The first one is back in its wait before the other one has read, and sleeps there as memory comes.  So do pollers of grpc.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 100, LIMIT_SECONDS = 10 };

static int stream, poller;
static sem_t told;

static void die(const char *what)
{
    perror(what);
    _exit(3);
}

static void *wait_for_edges(void *unused)
{
    struct epoll_event event;
    (void)unused;
    while (epoll_wait(poller, &event, 1, -1) == 1) sem_post(&told);
    return NULL;
}

/* All that is there, as whoever watches edges must.  0 at the end. */
static int read_all(void)
{
    char bytes[4096];
    for (;;) {
        ssize_t got = recv(stream, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0) return 0;
        if (got < 0 && errno == EAGAIN) return 1;
        if (got < 0) die("recv");
        if (got % LENGTH != 0) die("a part of a question");
        for (ssize_t i = 0; i < got / LENGTH; i++)
            if (send(stream, bytes, LENGTH, 0) != LENGTH) die("send");
    }
}

static void answer(int number)
{
    pthread_t thread;
    struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLET, {.fd = number}};
    stream = number;
    poller = epoll_create1(0);
    sem_init(&told, 0, 0);
    pthread_create(&thread, NULL, wait_for_edges, NULL);
    epoll_ctl(poller, EPOLL_CTL_ADD, number, &event);
    do sem_wait(&told);
    while (read_all());
}

static void ask(int number, int rounds)
{
    struct timeval limit = {LIMIT_SECONDS, 0};
    char bytes[LENGTH] = {0}, back[LENGTH];
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (int i = 0; i < rounds; i++) {
        memcpy(bytes, &i, sizeof i);
        if (send(number, bytes, LENGTH, 0) != LENGTH) die("send");
        if (recv(number, back, LENGTH, MSG_WAITALL) != LENGTH) {
            fprintf(stderr, "question %d has no answer\n", i);
            _exit(4);
        }
        if (memcmp(bytes, back, LENGTH) != 0) die("another answer");
    }
    printf("%d answers\n", rounds);
}

int main(int count, char **arguments)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), rounds = count > 1 ? atoi(arguments[1]) : 100, status = 2, one = 1;
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1) != 0) die("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    pid_t child = fork();
    if (child == 0) {
        int number = accept(listener, NULL, NULL);
        setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        answer(number);
        exit(0);
    }
    close(listener);
    int number = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(number, (struct sockaddr *)&address, size) != 0) die("connect");
    setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ask(number, rounds);
    close(number);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
