/* A connection whose number others have, too: streams HOW.  Prints what came.
 *
 * HOW: early: fdopen() before connect(); standard: accept() gives the number of standard input; reused: a stream had the number
 * before, and is closed: that is no matter.  Others have it before connect(), and send there: duplicated: another number; forked:
 * another process; given: a shell.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { ROUNDS = 60 };

static void talk(int stream, int begins)
{
    char byte = 'x';
    for (int i = 0; i < ROUNDS; i++) {
        if (begins) CHECK(write(stream, &byte, 1) == 1);
        CHECK(read(stream, &byte, 1) == 1);
        if (!begins) CHECK(write(stream, &byte, 1) == 1);
    }
}

/* The other end: says a line for each that it gets. */
static void answer(int stream, int begins)
{
    char line[16];
    talk(stream, begins);
    for (int i = 0; i < 3; i++) {
        size_t got = 0;
        while (got == 0 || line[got - 1] != '\n') CHECK(read(stream, line + got++, 1) == 1);
        line[0]++;
        CHECK(write(stream, line, got) == (ssize_t)got);
    }
    CHECK(read(stream, line, 1) == 0);
    exit(0);
}

static FILE *helper; /* another process sends */

static void help(int commands, int stream)
{
    char letter;
    while (read(commands, &letter, 1) == 1) {
        char text[] = {letter, ' ', 'l', 'i', 'n', 'e', '\n'};
        if (letter != '\n') CHECK(write(stream, text, sizeof text) == sizeof text);
    }
    _exit(0);
}

static FILE *start_helper(const char *how, int stream)
{
    char text[100];
    int gate[2];
    snprintf(text, sizeof text, "while read letter; do echo $letter line >&%d; done", stream);
    if (strcmp(how, "given") == 0) return popen(text, "w");
    if (strcmp(how, "forked") != 0) return NULL;
    CHECK(pipe(gate) == 0);
    if (fork() == 0) {
        close(gate[1]);
        help(gate[0], stream);
    }
    close(gate[0]);
    return fdopen(gate[1], "w");
}

/* in: NULL: no stream has the number. */
static void ask(FILE *in, int stream)
{
    char line[16] = "";
    for (int i = 0; i < 3; i++) {
        char text[] = {(char)('a' + i), ' ', 'l', 'i', 'n', 'e', '\n'};
        if (helper == NULL) CHECK(write(stream, text, sizeof text) == sizeof text);
        else CHECK(fprintf(helper, "%c\n", text[0]) == 2 && fflush(helper) == 0);
        if (in != NULL) CHECK(fgets(line, sizeof line, in) != NULL);
        else CHECK(recv(stream, line, sizeof text, MSG_WAITALL) == sizeof text);
        printf("%s", line);
        fflush(stdout);
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    const char *how = arguments[1];
    int standard = strcmp(how, "standard") == 0, listener = socket(AF_INET, SOCK_STREAM, 0), status;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!standard) answer(accept(listener, NULL, NULL), 0);
        int stream = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(stream, (struct sockaddr *)&address, size) == 0);
        answer(stream, 1);
    }
    if (standard) {
        CHECK(close(0) == 0 && accept(listener, NULL, NULL) == 0);
        talk(0, 0);
        ask(stdin, 0);
        fclose(stdin);
    } else {
        if (strcmp(how, "reused") == 0) fclose(fdopen(dup(listener), "r"));
        int stream = socket(AF_INET, SOCK_STREAM, 0);
        FILE *both = strcmp(how, "early") == 0 ? fdopen(stream, "r+") : NULL;
        int other = strcmp(how, "duplicated") == 0 ? dup(stream) : stream;
        helper = start_helper(how, stream);
        CHECK(connect(stream, (struct sockaddr *)&address, size) == 0);
        talk(stream, 1);
        ask(both, other);
        if (helper != NULL) fclose(helper);
        if (other != stream) close(other);
        if (both != NULL) fclose(both);
        else close(stream);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status != 0;
}
