/* Several connections that threads wait for by poll() and its kin: polled HOW WHAT CONNECTIONS ROUNDS [tcp].
 *
 * HOW: poll, ppoll, select, mixed.  WHAT:
 *   all      each wait is for all connections
 *   some     each wait is for those that were asked
 *   threads  two threads have a half each, and change halves
 *   forked   a child of who asks goes on in its place
 *   closes   between two rounds the program closes each number that it does not know
 * With `tcp` it says how many bytes have come by TCP.  A question goes to some connections at once.  Whoever is not told of its answer within LIMIT_MS says so, and ends with 4.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { MOST = 200, LENGTH = 64, LIMIT_MS = 20000 };

static int numbers[MOST], count, rounds;
static const char *how, *what;
static pthread_barrier_t both;

/* ---- one wait ---- */

/* How many of the list are readable. */
static int wait_by_select(struct pollfd *list, int length)
{
    struct timeval limit = {LIMIT_MS / 1000, 0};
    fd_set set;
    int end = 0;
    FD_ZERO(&set);
    for (int i = 0; i < length; i++) {
        FD_SET(list[i].fd, &set);
        if (list[i].fd >= end) end = list[i].fd + 1;
    }
    int told = select(end, &set, NULL, NULL, &limit);
    for (int i = 0; i < length; i++) list[i].revents = FD_ISSET(list[i].fd, &set) ? POLLIN : 0;
    return told;
}

static int wait_for(struct pollfd *list, int length, unsigned turn)
{
    struct timespec limit = {LIMIT_MS / 1000, 0};
    const char *now = strcmp(how, "mixed") != 0 ? how : turn % 3 == 0 ? "poll" : turn % 3 == 1 ? "ppoll" : "select";
    if (strcmp(now, "select") == 0) return wait_by_select(list, length);
    return strcmp(now, "poll") == 0 ? poll(list, (nfds_t)length, LIMIT_MS) : ppoll(list, (nfds_t)length, &limit, NULL);
}

/* ---- who answers ---- */

static void answer(void)
{
    struct pollfd list[MOST];
    char bytes[LENGTH];
    int open = count;
    unsigned seed = 7;
    for (int i = 0; i < count; i++) list[i] = (struct pollfd){numbers[i], POLLIN, 0};
    while (open > 0) {
        CHECK(poll(list, (nfds_t)count, -1) > 0);
        /* so that who asks has gone to sleep at times, and at times has not: nothing waits for this */
        if (rand_r(&seed) % 4 == 0) usleep((useconds_t)(rand_r(&seed) % 300));
        for (int i = 0; i < count; i++) {
            if (list[i].fd < 0 || list[i].revents == 0) continue;
            ssize_t got = recv(list[i].fd, bytes, LENGTH, MSG_WAITALL);
            if (got == LENGTH) {
                CHECK(send(list[i].fd, bytes, LENGTH, MSG_NOSIGNAL) == LENGTH);
                continue;
            }
            CHECK(got == 0);
            list[i].fd = -1;
            open--;
        }
    }
}

/* ---- who asks ---- */

struct asker {
    int first, end; /* of `numbers` */
    unsigned seed, turns;
};

static void take_answer(int number, unsigned expected)
{
    unsigned bytes[LENGTH / sizeof(unsigned)];
    CHECK(recv(number, bytes, LENGTH, MSG_WAITALL) == LENGTH);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) CHECK(bytes[i] == expected);
}

static void round_of(struct asker *asker, unsigned round)
{
    unsigned bytes[LENGTH / sizeof(unsigned)];
    char is_asked[MOST] = {0};
    int asked = 0, waits_for_all = strcmp(what, "some") != 0;
    for (int i = asker->first; i < asker->end; i++) {
        if (rand_r(&asker->seed) % 3 == 0) continue;
        for (size_t j = 0; j < sizeof bytes / sizeof *bytes; j++) bytes[j] = round * MOST + (unsigned)i;
        CHECK(send(numbers[i], bytes, LENGTH, 0) == LENGTH);
        is_asked[i] = 1;
        asked++;
    }
    while (asked > 0) {
        struct pollfd list[MOST];
        int places[MOST], length = 0;
        for (int i = asker->first; i < asker->end; i++)
            if (waits_for_all || is_asked[i]) {
                places[length] = i;
                list[length++] = (struct pollfd){numbers[i], POLLIN, 0};
            }
        int told = wait_for(list, length, asker->turns++);
        if (told <= 0) {
            fprintf(stderr, "round %u: %d answers are not told\n", round, asked);
            _exit(4);
        }
        for (int i = 0; i < length; i++) {
            if (list[i].revents == 0) continue;
            told--;
            CHECK(is_asked[places[i]]);
            take_answer(list[i].fd, round * MOST + (unsigned)places[i]);
            is_asked[places[i]] = 0;
            asked--;
        }
        CHECK(told == 0);
    }
}

static void *ask_in_thread(void *given)
{
    struct asker asker = *(struct asker *)given;
    for (int i = 0; i < rounds; i++) {
        round_of(&asker, (unsigned)i);
        if (i % 40 != 39) continue;
        pthread_barrier_wait(&both);
        int is_first = asker.first == 0;
        asker.first = is_first ? count / 2 : 0;
        asker.end = is_first ? count : count / 2;
        pthread_barrier_wait(&both);
    }
    return NULL;
}

static void close_unknown(void)
{
    for (int number = 3; number < 1024; number++) {
        int is_known = 0;
        for (int i = 0; i < count; i++) is_known |= numbers[i] == number;
        if (!is_known) close(number);
    }
}

static void ask(void)
{
    struct asker asker = {0, count, 1, 0}, other = {count / 2, count, 2, 0};
    if (strcmp(what, "threads") == 0) {
        pthread_t thread;
        asker.end = count / 2;
        pthread_barrier_init(&both, NULL, 2);
        CHECK(pthread_create(&thread, NULL, ask_in_thread, &other) == 0);
        ask_in_thread(&asker);
        CHECK(pthread_join(thread, NULL) == 0);
        return;
    }
    for (int i = 0; i < rounds; i++) {
        if (strcmp(what, "forked") == 0 && i % 60 == 59) {
            int status;
            pid_t child = fork();
            if (child > 0) {
                CHECK(waitpid(child, &status, 0) == child);
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
            }
        }
        if (strcmp(what, "closes") == 0 && i % 50 == 49) close_unknown();
        round_of(&asker, (unsigned)i);
    }
}

static unsigned long came_by_tcp(void)
{
    unsigned long sum = 0;
    for (int i = 0; i < count; i++) {
        struct tcp_info told;
        socklen_t size = sizeof told;
        CHECK(getsockopt(numbers[i], IPPROTO_TCP, TCP_INFO, &told, &size) == 0);
        sum += told.tcpi_bytes_received;
    }
    return sum;
}

int main(int words, char **arguments)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    CHECK(words == 5 || words == 6);
    how = arguments[1];
    what = arguments[2];
    count = atoi(arguments[3]);
    rounds = atoi(arguments[4]);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, MOST) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pid_t child = fork();
    if (child != 0) alarm(60); /* with the test's own limit: nothing is left running */
    for (int i = 0; i < count; i++) {
        numbers[i] = child == 0 ? accept(listener, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);
        if (child != 0) CHECK(connect(numbers[i], (struct sockaddr *)&address, size) == 0);
        setsockopt(numbers[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    close(listener);
    if (child == 0) {
        answer();
        exit(0);
    }
    ask();
    if (words == 6) printf("%lu\n", came_by_tcp());
    else printf("%d rounds\n", rounds);
    exit(0);
}
