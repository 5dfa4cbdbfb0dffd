/* How a connection ends: halves, resets, kills, and closes before all has gone. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "scene.h"

static void half_close_here(int number)
{
    char bytes[64];
    put(number, "question");
    say("shutdown", shutdown(number, SHUT_WR));
    say("send", send(number, "x", 1, MSG_NOSIGNAL));
    say("all", recv(number, bytes, 6, MSG_WAITALL));
    say("end", recv(number, bytes, sizeof bytes, 0));
    say("again", recv(number, bytes, sizeof bytes, 0));
}

static void half_close_there(int number)
{
    char bytes[64];
    ssize_t got = 0, now;
    while ((now = read(number, bytes, sizeof bytes)) > 0) got += now;
    put(number, now == 0 && got == 8 ? "answer" : "wrong!");
}

static void reset_here(int number)
{
    char bytes[64];
    put(number, "these bytes nobody reads");
    usleep(100000);
    struct pollfd one = {number, 0, 0};
    say("poll", poll(&one, 1, 5000));
    say("recv", recv(number, bytes, sizeof bytes, 0));
    say("send", send(number, "x", 1, MSG_NOSIGNAL));
}

static void reset_there(int number)
{
    int unread = 0;
    while (unread < 20) ioctl(number, FIONREAD, &unread);
}

static void pipe_here(int number)
{
    handle(SIGPIPE, 0);
    get(number, 1);
    struct pollfd one = {number, POLLRDHUP, 0};
    poll(&one, 1, 5000);
    ssize_t sent = 0;
    for (int i = 0; i < 100 && sent >= 0; i++) {
        sent = send(number, "x", 1, MSG_NOSIGNAL);
        usleep(2000);
    }
    say("send", sent);
    signal(SIGPIPE, SIG_IGN);
    say("write", write(number, "x", 1));
}

static void pipe_there(int number) { put(number, "z"); }

static void killed_here(int number)
{
    char byte;
    put(number, "z");
    say("recv", recv(number, &byte, 1, 0));
}

static void killed_there(int number)
{
    get(number, 1);
    kill(getpid(), SIGKILL);
}

static long fill_up(int number)
{
    static char block[50000];
    long sent = 0;
    for (ssize_t now; (now = send(number, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;) sent += now;
    return sent;
}

/* Reads to the end, and tells how much came. */
static void count_all(int number, int answers)
{
    static char block[50000];
    long count = 0;
    for (ssize_t now; (now = recv(number, block, sizeof block, 0)) > 0;) count += now;
    if (write(answers, &count, sizeof count) != sizeof count) die("write");
}

static void stopped_here(int number)
{
    char byte;
    long came = 0;
    struct timeval limit = {0, 100000};
    struct pollfd one = {number, POLLIN, 0};
    int poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(poller, EPOLL_CTL_ADD, number, &event);
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    kill(getppid(), SIGSTOP);
    put(number, "x");
    say("recv", recv(number, &byte, 1, 0));
    say("poll", poll(&one, 1, 100));
    say("epoll_wait", epoll_wait(poller, &event, 1, 100));
    long sent = 1 + fill_up(number);
    say("send", send(number, "x", 1, MSG_DONTWAIT));
    say("shutdown", shutdown(number, SHUT_WR));
    limit.tv_usec = 0;
    setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    kill(getppid(), SIGCONT);
    say("answer", recv(number, &came, sizeof came, MSG_WAITALL));
    say("lost", sent - came);
}

static void stopped_there(int number)
{
    count_all(number, number);
    await_end(number);
}

/* What was sent comes, though the close came first. */
static void left_here(int number)
{
    kill(getppid(), SIGSTOP);
    long sent = fill_up(number);
    say("close", close(number));
    kill(getppid(), SIGCONT);
    long came = 0;
    if (read(gate[0], &came, sizeof came) != sizeof came) die("read");
    say("lost", sent - came);
}

static void left_there(int number) { count_all(number, gate[1]); }

/* A close that waits (SO_LINGER with a time). */
static void lingers_here(int number)
{
    struct linger linger = {1, 5};
    long came = 0;
    setsockopt(number, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    put(number, "all of this");
    say("close", close(number));
    if (read(gate[0], &came, sizeof came) != sizeof came) die("read");
    say("came", came);
}

static void lingers_there(int number) { count_all(number, gate[1]); }

/* Its time is over before all has gone; the rest goes on. */
static void lingers_long_here(int number)
{
    struct linger linger = {1, 1};
    setsockopt(number, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    kill(getppid(), SIGSTOP);
    long sent = fill_up(number), came = 0;
    say("close", close(number));
    kill(getppid(), SIGCONT);
    if (read(gate[0], &came, sizeof came) != sizeof came) die("read");
    say("lost", sent - came);
}

static void lingers_long_there(int number) { count_all(number, gate[1]); }

const struct scene scenes_of_ends[] = {
    SCENE(half_close), SCENE(reset),   SCENE(pipe),         SCENE(killed),      SCENE(stopped),
    SCENE(left),       SCENE(lingers), SCENE(lingers_long), {NULL, NULL, NULL},
};
