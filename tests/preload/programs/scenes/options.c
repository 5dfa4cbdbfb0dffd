/* Options, flags and ioctl() of a socket. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scene.h"

static void options_here(int number)
{
    int value = 0;
    socklen_t size = sizeof value;
    getsockopt(number, IPPROTO_TCP, TCP_NODELAY, &value, &size);
    say("nodelay", value);
    value = 1;
    say("set", setsockopt(number, IPPROTO_TCP, TCP_CORK, &value, sizeof value));
    value = 0;
    getsockopt(number, IPPROTO_TCP, TCP_CORK, &value, &size);
    say("cork", value);
    value = 0;
    setsockopt(number, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
    put(number, "z");
    get(number, 1);
}

static void options_there(int number) { answer(number, 1, 1, "z"); }

static void low_water_here(int number)
{
    int wanted = 8, set = 0;
    socklen_t size = sizeof set;
    char bytes[64];
    struct pollfd one = {number, POLLIN, 0};
    say("set", setsockopt(number, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted));
    say("get", getsockopt(number, SOL_SOCKET, SO_RCVLOWAT, &set, &size));
    say("is", set);
    put(number, "x");
    say("few", poll(&one, 1, 100));
    put(number, "x");
    say("enough", poll(&one, 1, 5000));
    say("recv", recv(number, bytes, sizeof bytes, 0));
}

static void low_water_there(int number) { answer(number, 2, 1, "1234"); }

/* By a signal, as an old server has it. */
static void asynchronous_here(int number)
{
    sigset_t arrival;
    struct timespec limit = {5, 0};
    int on = 1;
    sigemptyset(&arrival);
    sigaddset(&arrival, SIGIO);
    sigprocmask(SIG_BLOCK, &arrival, NULL);
    say("owner", fcntl(number, F_SETOWN, getpid()));
    say("flags", fcntl(number, F_SETFL, O_ASYNC));
    put(number, "q");
    say("signal", sigtimedwait(&arrival, NULL, &limit) == SIGIO);
    get(number, 1);
    say("flags", fcntl(number, F_SETFL, 0));
    say("by ioctl", ioctl(number, FIOASYNC, &on));
    while (sigtimedwait(&arrival, NULL, &(struct timespec){0, 0}) == SIGIO) {}
    put(number, "q");
    say("signal", sigtimedwait(&arrival, NULL, &limit) == SIGIO);
    get(number, 1);
}

static void asynchronous_there(int number) { answer(number, 2, 1, "r"); }

const struct scene scenes_of_options[] = {
    SCENE(options),
    SCENE(low_water),
    SCENE(asynchronous),
    {NULL, NULL, NULL},
};
