/* One thread sends while another one closes the number: closing HOW ROUNDS.  Whatever was sent comes, and then the end.
 *
 * HOW: close; dup2: another file takes the number.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { WARM = 12, FEW = 64, MOST = 4000 };

static _Atomic uint64_t sent;
static int number;

static void *send_words(void *unused)
{
    (void)unused;
    for (uint64_t word = 0; word < MOST; word++) {
        if (send(number, &word, sizeof word, MSG_NOSIGNAL) != sizeof word) break;
        atomic_store(&sent, word + 1);
    }
    return NULL;
}

static void warm(int stream, int begins)
{
    char byte = 'x';
    for (int i = 0; i < WARM; i++) {
        if (begins) CHECK(write(stream, &byte, 1) == 1);
        CHECK(read(stream, &byte, 1) == 1);
        if (!begins) CHECK(write(stream, &byte, 1) == 1);
    }
}

/* The other process: says how many words came before the end. */
static void receive(int listener, int rounds, int answers)
{
    for (int i = 0; i < rounds; i++) {
        int stream = accept(listener, NULL, NULL);
        CHECK(stream >= 0);
        warm(stream, 0);
        uint64_t word, count = 0;
        ssize_t got;
        while ((got = recv(stream, &word, sizeof word, MSG_WAITALL)) == sizeof word) CHECK(word == count++);
        if (got != 0) fprintf(stderr, "round %d: %zd behind %llu words\n", i, got, (unsigned long long)count);
        CHECK(got == 0);
        CHECK(write(answers, &count, sizeof count) == sizeof count);
        close(stream);
    }
    exit(0);
}

static void close_or_replace(const char *how)
{
    if (strcmp(how, "dup2") != 0) {
        CHECK(close(number) == 0);
        return;
    }
    int null = open("/dev/null", O_RDONLY); /* what is sent there fails */
    CHECK(null >= 0 && dup2(null, number) == number);
    close(null);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    const char *how = arguments[1];
    int rounds = atoi(arguments[2]), answers[2], listener = socket(AF_INET, SOCK_STREAM, 0), right = 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0 && pipe(answers) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(answers[0]); /* whoever waits hears of this end */
        receive(listener, rounds, answers[1]);
    }
    close(answers[1]);
    close(listener);
    unsigned seed = 1;
    for (int i = 0; i < rounds; i++) {
        pthread_t sender;
        uint64_t come;
        number = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(number, (struct sockaddr *)&address, sizeof address) == 0);
        warm(number, 1);
        atomic_store(&sent, 0);
        uint64_t until = 1 + (uint64_t)rand_r(&seed) % FEW;
        CHECK(pthread_create(&sender, NULL, send_words, NULL) == 0);
        while (atomic_load(&sent) < until) sched_yield();
        close_or_replace(how);
        pthread_join(sender, NULL);
        if (strcmp(how, "dup2") == 0) close(number);
        CHECK(read(answers[0], &come, sizeof come) == sizeof come);
        if (come != atomic_load(&sent))
            fprintf(stderr, "round %d: %llu of %llu came\n", i, (unsigned long long)come, (unsigned long long)sent);
        right += come == atomic_load(&sent);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%d of %d right\n", right, rounds);
    return status != 0 || right != rounds;
}
