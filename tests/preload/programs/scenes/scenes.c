/* What a program sees of a connection, in lines that must be the same with the library and without: scenes NAME.
 *
 * The two ends of a scene have talked for a while: so the connection has memory, if it can have.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

enum { ROUNDS = 60 };

extern const struct scene scenes_of_ends[], scenes_of_waiting[], scenes_of_moving[], scenes_of_options[],
    scenes_of_numbers[], scenes_of_processes[], scenes_of_polling[], scenes_of_past_the_doors[];

static const struct scene *const topics[] = {scenes_of_ends,    scenes_of_waiting,        scenes_of_moving,
                                             scenes_of_options, scenes_of_numbers,        scenes_of_processes,
                                             scenes_of_polling, scenes_of_past_the_doors, NULL};

int gate[2];

void die(const char *what)
{
    perror(what);
    _exit(3);
}

void say(const char *what, long result)
{
    printf("%s: %ld%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}

void put(int number, const char *text)
{
    if (write(number, text, strlen(text)) != (ssize_t)strlen(text)) die("write");
}

void get(int number, size_t length)
{
    char bytes[4096];
    for (size_t got = 0; got < length;) {
        ssize_t now = recv(number, bytes, length - got < sizeof bytes ? length - got : sizeof bytes, 0);
        if (now <= 0) die("recv");
        got += (size_t)now;
    }
}

void answer(int number, int rounds, size_t length, const char *text)
{
    for (int i = 0; i < rounds; i++) {
        get(number, length);
        put(number, text);
    }
    await_end(number);
}

static void nothing(int signal) { (void)signal; }

void handle(int signal, int flags)
{
    struct sigaction action = {.sa_handler = nothing, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

void await_end(int number)
{
    char byte;
    while (recv(number, &byte, 1, 0) > 0) {}
}

void await_bytes(int number, int wanted)
{
    for (int unread = 0; unread < wanted;)
        if (ioctl(number, FIONREAD, &unread) != 0) die("FIONREAD");
}

static void warm(int number, int begins)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (begins) put(number, "x");
        get(number, 1);
        if (!begins) put(number, "y");
    }
}

/* Or NULL, and the names of all on standard output if there is none to look for. */
static const struct scene *find(const char *name)
{
    for (const struct scene *const *topic = topics; *topic != NULL; topic++)
        for (const struct scene *scene = *topic; scene->name != NULL; scene++) {
            if (name == NULL) puts(scene->name);
            else if (strcmp(name, scene->name) == 0) return scene;
        }
    return NULL;
}

int main(int count, char **arguments)
{
    const struct scene *scene = find(count == 2 ? arguments[1] : NULL);
    if (scene == NULL) return count == 2 ? 2 : 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, size);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&address, &size);
    if (pipe(gate) != 0) die("pipe");
    pid_t here = fork();
    if (here == 0) {
        close(listener);
        alarm(0);
        int number = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(number, (struct sockaddr *)&address, sizeof address) != 0) die("connect");
        warm(number, 1);
        scene->here(number);
        exit(0);
    }
    int number = accept(listener, NULL, NULL), status;
    close(listener);
    warm(number, 0);
    if (strcmp(scene->name, "killed") == 0) { /* this process says how it went */
        pid_t there = fork();
        if (there == 0) scene->there(number);
        close(number);
        waitpid(there, NULL, 0);
    } else {
        scene->there(number);
        close(number);
    }
    waitpid(here, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
