/* What becomes of standard error: said HOW FILE CONNECTIONS.  Makes connections to itself, and says how many.
 *
 * HOW: nothing; closed; data: FILE is opened as number 2; log: likewise, to be appended to; socket: one end of a pair is
 * number 2, and what came to the other one is written into FILE.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                            \
    do                                                              \
        if (!(condition)) {                                         \
            printf("line %d: %s: %m\n", __LINE__, #condition);      \
            exit(1);                                                \
        }                                                           \
    while (0)

static int other = -1;
static const char *file;

static void write_what_came(void)
{
    char bytes[4096];
    ssize_t came;
    int target = open(file, O_WRONLY | O_CREAT, 0666);
    while ((came = recv(other, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        if (write(target, bytes, (size_t)came) != came) _exit(1);
}

static void replace(const char *how)
{
    int pair[2];
    if (strcmp(how, "nothing") == 0) return;
    CHECK(close(2) == 0);
    if (strcmp(how, "data") == 0) CHECK(open(file, O_RDWR | O_CREAT, 0666) == 2 && write(2, "data", 4) == 4);
    if (strcmp(how, "log") == 0) CHECK(open(file, O_WRONLY | O_CREAT | O_APPEND, 0666) == 2);
    if (strcmp(how, "socket") == 0) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pair[0] == 2);
        other = pair[1];
    }
}

static int listener;

static void *answer(void *count)
{
    char byte;
    for (int i = 0; i < *(int *)count; i++) {
        int stream = accept(listener, NULL, NULL);
        CHECK(stream >= 0);
        while (read(stream, &byte, 1) == 1) CHECK(write(stream, &byte, 1) == 1);
        CHECK(close(stream) == 0);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    CHECK(count == 4);
    int all = atoi(arguments[3]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    pthread_t thread;
    file = arguments[2];
    atexit(write_what_came); /* behind what the library says */
    replace(arguments[1]);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    CHECK(pthread_create(&thread, NULL, answer, &all) == 0);
    for (int i = 0; i < all; i++) {
        char byte = 'x';
        int stream = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(stream, (struct sockaddr *)&address, size) == 0);
        for (int j = 0; j < 20; j++) CHECK(write(stream, &byte, 1) == 1 && read(stream, &byte, 1) == 1);
        CHECK(close(stream) == 0);
    }
    pthread_join(thread, NULL);
    printf("%d connections\n", all);
    return 0;
}
