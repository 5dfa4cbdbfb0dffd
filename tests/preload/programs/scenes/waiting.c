/* Calls that wait, for a time, or are not to; signals and cancelled threads end them. */
#define _GNU_SOURCE
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
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "scene.h"

static void timeout_here(int number)
{
    char byte;
    struct timeval limit = {0, 50000};
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    say("recv", recv(number, &byte, 1, 0));
    say("wait all", recv(number, &byte, 1, MSG_WAITALL));
    limit.tv_usec = 0;
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    put(number, "z");
    get(number, 1);
}

static void timeout_there(int number) { answer(number, 1, 1, "z"); }

static void nonblocking_here(int number)
{
    char bytes[8];
    say("fcntl", fcntl(number, F_SETFL, O_NONBLOCK));
    say("recv", recv(number, bytes, sizeof bytes, 0));
    say("read", read(number, bytes, sizeof bytes));
    say("peek", recv(number, bytes, sizeof bytes, MSG_PEEK));
    say("fcntl", fcntl(number, F_SETFL, 0));
    say("dont wait", recv(number, bytes, sizeof bytes, MSG_DONTWAIT));
    put(number, "z");
    get(number, 1);
}

static void nonblocking_there(int number) { answer(number, 1, 1, "z"); }

static void full_here(int number)
{
    static char block[65536];
    size_t sent = 0;
    ssize_t now;
    fcntl(number, F_SETFL, O_NONBLOCK);
    while ((now = send(number, block, sizeof block, 0)) > 0) sent += (size_t)now;
    say("send", now);
    struct pollfd one = {number, POLLOUT, 0};
    say("poll", poll(&one, 1, 0));
    fcntl(number, F_SETFL, 0);
    char text[32];
    snprintf(text, sizeof text, "%31zu", sent);
    if (write(gate[1], "g", 1) != 1) die("gate"); /* the other end begins to read */
    say("the rest", send(number, text, sizeof text, 0) == sizeof text);
    say("poll", poll(&one, 1, 5000));
    get(number, 1);
}

static void full_there(int number)
{
    static char block[65536];
    char text[32] = "";
    size_t got = 0;
    if (read(gate[0], text, 1) != 1) die("gate");
    for (;;) {
        ssize_t now = recv(number, block, sizeof block, 0);
        if (now <= 0) die("recv");
        got += (size_t)now;
        if (now >= 32) memcpy(text, block + now - 32, 32);
        else memmove(text, text + now, (size_t)(32 - now)), memcpy(text + 32 - now, block, (size_t)now);
        if (text[30] != 0 && strtoul(text, NULL, 10) == got - 32) break;
    }
    put(number, "k");
}

static void signals_here(int number)
{
    char byte;
    struct itimerval soon = {{0, 0}, {0, 50000}};
    handle(SIGALRM, 0);
    setitimer(ITIMER_REAL, &soon, NULL);
    say("recv", recv(number, &byte, 1, 0));
    handle(SIGALRM, SA_RESTART);
    setitimer(ITIMER_REAL, &soon, NULL);
    put(number, "z");
    say("recv", recv(number, &byte, 1, 0));
    struct pollfd one = {number, POLLIN, 0};
    setitimer(ITIMER_REAL, &soon, NULL);
    say("poll", poll(&one, 1, -1));
}

static void signals_there(int number)
{
    get(number, 1);
    usleep(150000);
    put(number, "z");
    await_end(number);
}

/* Threads that are cancelled while they wait: each ends, and the others go on. */
struct cancelled {
    int number, call;
    _Atomic pid_t thread;
};

enum { CANCELLED_CALLS = 7 };

static void *wait_for_ever(void *given)
{
    struct cancelled *one = given;
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct pollfd polled = {one->number, POLLIN, 0};
    struct epoll_event event = {.events = EPOLLIN};
    fd_set set;
    int epoll = epoll_create1(0);
    FD_ZERO(&set);
    FD_SET(one->number, &set);
    epoll_ctl(epoll, EPOLL_CTL_ADD, one->number, &event);
    one->thread = gettid();
    switch (one->call) {
    case 0: recv(one->number, &byte, 1, 0); break;
    case 1: read(one->number, &byte, 1); break;
    case 2: recvmsg(one->number, &message, 0); break;
    case 3: poll(&polled, 1, -1); break;
    case 4: select(one->number + 1, &set, NULL, NULL, NULL); break;
    case 5: epoll_wait(epoll, &event, 1, -1); break;
    case 6: {
        static char much[1 << 16];
        while (write(one->number, much, sizeof much) > 0) {}
    }
    }
    return NULL;
}

/* It sleeps, and goes on to sleep. */
static void await_sleep(pid_t thread)
{
    char name[64], line[512];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)thread);
    for (int asleep = 0; asleep < 50; sched_yield()) {
        FILE *file = fopen(name, "r");
        if (file == NULL || fgets(line, sizeof line, file) == NULL) die("stat");
        fclose(file);
        asleep = strstr(line, ") S ") != NULL ? asleep + 1 : 0;
    }
}

static void cancelled_here(int number)
{
    for (int call = 0; call < CANCELLED_CALLS; call++) {
        struct cancelled one = {number, call, 0};
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, wait_for_ever, &one);
        while (one.thread == 0) sched_yield();
        await_sleep(one.thread);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("%d: %s\n", call, result == PTHREAD_CANCELED ? "cancelled" : "came back");
        fflush(stdout);
        if (call == CANCELLED_CALLS - 1) break;
        put(number, "x");
        get(number, 1);
    }
    if (write(gate[1], "g", 1) != 1) die("gate"); /* the other end begins to read */
    shutdown(number, SHUT_WR);
    await_end(number);
}

static void cancelled_there(int number)
{
    for (int call = 0; call < CANCELLED_CALLS - 1; call++) {
        get(number, 1);
        put(number, "y");
    }
    char byte;
    if (read(gate[0], &byte, 1) != 1) die("gate");
    await_end(number);
}

const struct scene scenes_of_waiting[] = {
    SCENE(timeout), SCENE(nonblocking), SCENE(full), SCENE(signals), SCENE(cancelled), {NULL, NULL, NULL},
};
