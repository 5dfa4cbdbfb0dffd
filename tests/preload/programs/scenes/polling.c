/* What select(), poll() and epoll report, and to which thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "scene.h"

static void waits_here(int number)
{
    struct timeval limit = {0, 60000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(number, &set);
    say("select", select(number + 1, &set, NULL, NULL, &limit));
    say("is set", FD_ISSET(number, &set));
    say("left", limit.tv_usec);
    struct pollfd one = {number, POLLIN | POLLOUT, 0};
    say("poll", poll(&one, 1, 0));
    say("events", one.revents);
    int inner = epoll_create1(0), outer = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLONESHOT, {.u64 = 77}}, told[4];
    epoll_ctl(inner, EPOLL_CTL_ADD, number, &event);
    event.events = EPOLLIN;
    epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event);
    say("nothing", epoll_wait(outer, told, 4, 30));
    put(number, "z");
    say("outer", epoll_wait(outer, told, 4, 5000));
    say("inner", epoll_wait(inner, told, 4, 5000));
    say("word", (long)told[0].data.u64);
    say("once", epoll_wait(inner, told, 4, 30));
    get(number, 1);
    put(number, "z");
    one.events = POLLIN;
    say("poll", poll(&one, 1, 5000));
    FD_SET(number, &set);
    say("select", select(number + 1, &set, NULL, NULL, NULL));
    get(number, 1);
}

static void waits_there(int number) { answer(number, 2, 1, "z"); }

static void level_here(int number)
{
    int epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.u64 = 5}}, told[4];
    epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event);
    for (int i = 0; i < 300; i++) {
        put(number, "z");
        if (epoll_wait(epoll, told, 4, 5000) != 1 || told[0].data.u64 != 5) die("epoll");
        if (epoll_wait(epoll, told, 4, 0) != 1) die("it is level-triggered");
        get(number, 1);
        if (i % 10 == 0 && epoll_wait(epoll, told, 4, 1) != 0) die("nothing is there");
    }
    event.data.u64 = 6;
    say("modify", epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event));
    put(number, "z");
    say("wait", epoll_wait(epoll, told, 4, 5000));
    say("word", (long)told[0].data.u64);
    say("delete", epoll_ctl(epoll, EPOLL_CTL_DEL, number, NULL));
    say("wait", epoll_wait(epoll, told, 4, 30));
    get(number, 1);
}

static void level_there(int number) { answer(number, 301, 1, "z"); }

/* Sets as select() has them, and an end beyond them, as getdtablesize() says it.  Behind the sets lies nothing. */
static void wide_here(int number)
{
    const size_t page = 4096;
    char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + page, page, PROT_NONE) != 0) die("mmap");
    fd_set *set = (fd_set *)(void *)(room + page - sizeof *set);
    struct timeval limit = {5, 0};
    struct timespec wrong = {0, 1000000000};
    FD_ZERO(set);
    FD_SET(number, set);
    put(number, "q");
    say("select", select(1 << 20, set, NULL, NULL, &limit));
    say("is it", FD_ISSET(number, set));
    get(number, 1);
    limit = (struct timeval){0, 1000};
    say("nothing", select(1 << 20, set, NULL, NULL, &limit));
    FD_SET(number, set);
    say("a limit that is none", pselect(1 << 20, set, NULL, NULL, &wrong, NULL));
    struct pollfd one = {number, POLLIN, 0};
    say("a limit that is none", ppoll(&one, 1, &wrong, NULL));
}

static void wide_there(int number)
{
    get(number, 1);
    put(number, "r");
    await_end(number);
}

static int waits_for(int epoll, uint32_t events, int limit_ms)
{
    struct epoll_event told[4];
    int count = epoll_wait(epoll, told, 4, limit_ms);
    return count == 1 && told[0].events == events && told[0].data.u64 == 5;
}

static void edge_here(int number)
{
    int epoll = epoll_create1(0), unread = 0;
    struct epoll_event event = {EPOLLIN | EPOLLRDHUP | EPOLLET, {.u64 = 5}}, told[4];
    epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event);
    say("at first", epoll_wait(epoll, told, 4, 0));
    for (int i = 0; i < 300; i++) {
        put(number, "z");
        if (!waits_for(epoll, EPOLLIN, 5000)) die("edge");
        if (epoll_wait(epoll, told, 4, i % 7 == 0) != 0) die("told twice");
        put(number, "z");
        if (!waits_for(epoll, EPOLLIN, 5000)) die("an edge while bytes are unread");
        get(number, i % 3 == 0 ? 1 : 2);
        unread += i % 3 == 0;
        if (i % 10 == 0 && epoll_wait(epoll, told, 4, 1) != 0) die("nothing new is there");
    }
    say("modify", epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event));
    say("told again", waits_for(epoll, EPOLLIN, 5000));
    say("once", epoll_wait(epoll, told, 4, 20));
    get(number, (size_t)unread);
    put(number, "z");
    for (int there = 0; there < 1;) ioctl(number, FIONREAD, &there);
    get(number, 1);
    say("read before it is told", epoll_wait(epoll, told, 4, 20));
    event.events |= EPOLLOUT;
    say("modify", epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event));
    say("room", waits_for(epoll, EPOLLOUT, 5000));
    put(number, "z");
    say("bytes and room", waits_for(epoll, EPOLLIN | EPOLLOUT, 5000));
    get(number, 1);
    put(number, "q");
    say("the end", waits_for(epoll, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 5000));
    say("once", epoll_wait(epoll, told, 4, 20));
}

static void edge_there(int number)
{
    char byte;
    while (recv(number, &byte, 1, 0) == 1 && byte == 'z') put(number, "z");
    shutdown(number, SHUT_WR);
    await_end(number);
}

/* Two numbers have one word, as where a program leaves it unset; neither is a stream. */
static void share_a_word(int epoll, int *pipes)
{
    struct epoll_event event = {EPOLLIN, {.u64 = 7}};
    if (pipe(pipes) != 0 || pipe(pipes + 2) != 0) die("pipe");
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event);
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[2], &event);
}

static void shared_word_here(int number)
{
    int epoll = epoll_create1(0), pipes[4];
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = 5}}, told[4];
    share_a_word(epoll, pipes);
    epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event);
    for (int i = 0; i < 60; i++) {
        put(number, "z");
        if (!waits_for(epoll, EPOLLIN, 5000)) die("edge");
        get(number, 1);
    }
    put(pipes[1], "a");
    say("one", epoll_wait(epoll, told, 4, 5000));
    put(pipes[3], "b");
    say("both", epoll_wait(epoll, told, 4, 5000));
    close(pipes[0]); /* the word is the other one's alone */
    say("the other", epoll_wait(epoll, told, 4, 5000));
    say("word", (long)told[0].data.u64);
    event.data.u64 = 7; /* and now a stream's too */
    epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event);
    close(pipes[2]);
    put(number, "z");
    say("stream", epoll_wait(epoll, told, 4, 5000));
    say("word", (long)told[0].data.u64);
    get(number, 1);
}

static void shared_word_there(int number) { edge_there(number); }

static sem_t were_told, may_go;

static int shared_epoll;

static void *wait_once(void *unused)
{
    struct epoll_event told[4];
    (void)unused;
    if (epoll_wait(shared_epoll, told, 4, 5000) != 1) die("a thread that sleeps was not told");
    sem_post(&were_told);
    sem_wait(&may_go);
    return NULL;
}

static void wait_by_two(int number, uint32_t events)
{
    pthread_t threads[2];
    struct epoll_event event = {events, {.u64 = 5}};
    sem_init(&were_told, 0, 0);
    sem_init(&may_go, 0, 0);
    shared_epoll = epoll_create1(0);
    epoll_ctl(shared_epoll, EPOLL_CTL_ADD, number, &event);
    for (int i = 0; i < 60; i++) {
        for (int j = 0; j < 2; j++) pthread_create(&threads[j], NULL, wait_once, NULL);
        if (i % 2 == 0) usleep(2000); /* mostly both sleep by now */
        put(number, "z");
        sem_wait(&were_told);
        put(number, "z");
        sem_wait(&were_told);
        for (int j = 0; j < 2; j++) sem_post(&may_go);
        for (int j = 0; j < 2; j++) pthread_join(threads[j], NULL);
        get(number, 2);
    }
    say("both were told", 1);
}

static void two_by_edges_here(int number) { wait_by_two(number, EPOLLIN | EPOLLET); }

static void two_by_edges_there(int number) { edge_there(number); }

static void two_by_level_here(int number) { wait_by_two(number, EPOLLIN); }

static void two_by_level_there(int number) { edge_there(number); }

/* One thread waits, and others arm and disarm the number meanwhile: none of their words may be taken back. */
enum { ARMED_ROUNDS = 20000 };

struct armed {
    int epoll, number;
    sem_t told;
};

static void arm(int epoll, int operation, int number, uint32_t mask)
{
    struct epoll_event event = {.events = mask | EPOLLONESHOT, .data.fd = number};
    if (epoll_ctl(epoll, operation, number, &event) != 0) die("epoll_ctl");
}

static void *wait_for_others(void *given)
{
    struct armed *one = given;
    for (;;) {
        struct epoll_event event;
        int told = epoll_wait(one->epoll, &event, 1, -1);
        if (told == 1 && event.events & EPOLLRDHUP) return NULL;
        if (told == 1) sem_post(&one->told);
    }
}

static void armed_here(int number)
{
    struct armed one = {epoll_create1(0), number, {{0}}};
    pthread_t thread;
    int rounds = 0;
    char byte;
    sem_init(&one.told, 0, 0);
    arm(one.epoll, EPOLL_CTL_ADD, number, EPOLLIN);
    pthread_create(&thread, NULL, wait_for_others, &one);
    while (rounds < ARMED_ROUNDS) {
        sem_wait(&one.told);
        arm(one.epoll, EPOLL_CTL_MOD, number, 0);
        for (; recv(number, &byte, 1, MSG_DONTWAIT) == 1; rounds++) put(number, "y");
        arm(one.epoll, EPOLL_CTL_MOD, number, EPOLLIN);
    }
    say("rounds", rounds);
    shutdown(number, SHUT_RDWR);
    arm(one.epoll, EPOLL_CTL_MOD, number, EPOLLRDHUP);
    pthread_join(thread, NULL);
}

static void armed_there(int number)
{
    for (int i = 0; i < ARMED_ROUNDS; i++) {
        put(number, "x");
        get(number, 1);
    }
    await_end(number);
}

const struct scene scenes_of_polling[] = {
    SCENE(waits),        SCENE(level),        SCENE(wide),  SCENE(edge),        SCENE(shared_word),
    SCENE(two_by_edges), SCENE(two_by_level), SCENE(armed), {NULL, NULL, NULL},
};
