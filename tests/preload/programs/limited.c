/* A server whose limits are low: limited WHAT NUMBER [poll].  It prints how many connections it could have, and each one is used.
 *
 * It waits by epoll, or by poll.  numbers: at most so many descriptors.  memory: so many MiB of addresses beyond what it has.  processes: no more of them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { MOST = 200, ROUNDS = 12 };

static void limit(int what, rlim_t most)
{
    struct rlimit both = {most, most};
    CHECK(setrlimit(what, &both) == 0);
}

static rlim_t addresses(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Connects as often as it is told to, and talks with each. */
static void ask(struct sockaddr_in *address, int orders)
{
    int streams[MOST];
    char byte, came;
    for (int count = 0; read(orders, &byte, 1) == 1 && count < MOST; count++) {
        streams[count] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(streams[count] >= 0 && connect(streams[count], (struct sockaddr *)address, sizeof *address) == 0);
        for (int i = 0; i <= count; i++)
            for (int round = 0; round < (i == count ? ROUNDS : 1); round++) {
                byte = (char)(i + round);
                if (send(streams[i], &byte, 1, MSG_NOSIGNAL) != 1) _exit(0);
                if (recv(streams[i], &came, 1, 0) != 1) _exit(0);
                CHECK(came == byte);
            }
    }
}

static int poller = -1; /* -1: by poll */
static struct pollfd watched[MOST + 1];
static int watched_count;

static void watch(int number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = number};
    if (poller >= 0) CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, number, &event) == 0);
    watched[watched_count++] = (struct pollfd){number, POLLIN, 0};
}

static int next_ready(void)
{
    struct epoll_event event;
    if (poller >= 0) {
        CHECK(epoll_wait(poller, &event, 1, 20000) == 1);
        return event.data.fd;
    }
    CHECK(poll(watched, (nfds_t)watched_count, 20000) > 0);
    int i = 0;
    while (watched[i].revents == 0) i++;
    return watched[i].fd;
}

static int serve(int listener, int orders)
{
    char byte;
    int count = 0;
    watch(listener);
    for (;;) {
        if (count < MOST) CHECK(write(orders, "", 1) == 1);
        for (int answers = 0; answers < ROUNDS + count;) {
            int stream = next_ready();
            if (stream == listener) {
                stream = accept(listener, NULL, NULL);
                if (stream < 0) return count;
                watch(stream);
                continue;
            }
            CHECK(recv(stream, &byte, 1, 0) == 1 && send(stream, &byte, 1, 0) == 1);
            answers++;
        }
        if (++count == MOST) return count;
    }
}

int main(int words, char **word)
{
    struct sockaddr_in address = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), orders[2], status;
    CHECK((words == 3 || words == 4) && bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0 && pipe(orders) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(orders[1]);
        close(listener);
        ask(&address, orders[0]);
        _exit(0);
    }
    close(orders[0]);
    if (words == 3) poller = epoll_create1(0);
    rlim_t number = (rlim_t)atoi(word[2]);
    if (strcmp(word[1], "numbers") == 0) limit(RLIMIT_NOFILE, number);
    if (strcmp(word[1], "memory") == 0) limit(RLIMIT_AS, addresses() + (number << 20));
    if (strcmp(word[1], "processes") == 0) limit(RLIMIT_NPROC, number);
    int count = serve(listener, orders[1]);
    kill(child, SIGKILL);
    CHECK(waitpid(child, &status, 0) == child);
    printf("%d connections\n", count);
    return 0;
}
