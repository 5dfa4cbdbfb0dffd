/* Other processes and programs that use the connection. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

static void go_on_behind(pid_t child, int number)
{
    int status;
    waitpid(child, &status, 0);
    say("child", WEXITSTATUS(status));
    put(number, "def");
    get(number, 3);
    close(number);
}

static void fork_here(int number)
{
    pid_t child = fork();
    if (child == 0) {
        put(number, "abc");
        get(number, 3);
        _exit(7);
    }
    go_on_behind(child, number);
}

static void fork_there(int number) { answer(number, 2, 3, "ghi"); }

static void exec_here(int number)
{
    pid_t child = fork();
    if (child == 0) {
        dup2(number, 0);
        dup2(number, 1);
        execlp("sh", "sh", "-c", "printf abc; read line; test \"$line\" = ghi", (char *)NULL);
        _exit(9);
    }
    go_on_behind(child, number);
}

static void exec_there(int number)
{
    get(number, 3);
    put(number, "ghi\n");
    get(number, 3);
    put(number, "jkl");
    await_end(number);
}

static void spawn_here(int number)
{
    posix_spawn_file_actions_t actions;
    extern char **environ;
    char *words[] = {"sh", "-c", "printf abc; read line; test \"$line\" = ghi", NULL};
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, number, 0);
    posix_spawn_file_actions_adddup2(&actions, number, 1);
    say("spawn", posix_spawnp(&child, "sh", &actions, NULL, words, environ));
    go_on_behind(child, number);
}

static void spawn_there(int number) { exec_there(number); }

static void vfork_here(int number)
{
    pid_t child = vfork();
    if (child == 0) {
        dup2(number, 0);
        dup2(number, 1);
        close(number);
        execlp("sh", "sh", "-c", "printf abc; read line; test \"$line\" = ghi", (char *)NULL);
        _exit(9);
    }
    go_on_behind(child, number);
}

static void vfork_there(int number) { exec_there(number); }

static int clones_child(void *given)
{
    int number = *(int *)given;
    dup2(number, 0);
    dup2(number, 1);
    close(number);
    execlp("sh", "sh", "-c", "printf abc; read line; test \"$line\" = ghi", (char *)NULL);
    _exit(9);
}

static void clone_here(int number)
{
    static _Alignas(16) char stack[1 << 16];
    go_on_behind(clone(clones_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &number), number);
}

static void clone_there(int number) { exec_there(number); }

static void passing_here(int number)
{
    int pair[2];
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &number, sizeof number);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pid_t child = fork();
    if (child == 0) {
        char bytes[8];
        close(number);
        part.iov_base = bytes;
        if (recvmsg(pair[1], &message, 0) != 1) _exit(1);
        int passed;
        memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
        put(passed, "abc");
        get(passed, 3);
        _exit(7);
    }
    say("sendmsg", sendmsg(pair[0], &message, 0));
    go_on_behind(child, number);
}

static void passing_there(int number) { answer(number, 2, 3, "ghi"); }

/* The shell's own commands read and write the number. */
static void shell_here(int number)
{
    char text[64], bytes[64] = "";
    snprintf(text, sizeof text, "printf abc >&%d", number);
    say("system", system(text));
    get(number, 1);
    snprintf(text, sizeof text, "head -c 3 <&%d", number);
    put(number, "q");
    FILE *stream = popen(text, "r");
    say("popen", stream != NULL && fgets(bytes, sizeof bytes, stream) != NULL && strcmp(bytes, "xyz") == 0);
    say("status", pclose(stream));
    put(number, "q");
    get(number, 1);
}

static void shell_there(int number)
{
    get(number, 3);
    put(number, "k");
    get(number, 1);
    put(number, "xyz");
    get(number, 1);
    put(number, "k");
    await_end(number);
}

static void at_directory_here(int number)
{
    char text[64];
    char *words[] = {"sh", "-c", text, NULL};
    snprintf(text, sizeof text, "printf abc >&%d", number);
    pid_t child = fork();
    if (child == 0) {
        execveat(AT_FDCWD, "/bin/sh", words, environ, 0);
        _exit(9);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say("status", status);
    get(number, 1);
}

static void at_directory_there(int number) { answer(number, 1, 3, "k"); }

const struct scene scenes_of_processes[] = {
    SCENE(fork),    SCENE(exec),  SCENE(spawn),        SCENE(vfork),       SCENE(clone),
    SCENE(passing), SCENE(shell), SCENE(at_directory), {NULL, NULL, NULL},
};
