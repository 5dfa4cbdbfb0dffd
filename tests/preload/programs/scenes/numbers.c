/* Further numbers of one connection, and how they are closed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scene.h"

static void copies_here(int number)
{
    int copy = dup(number), other = fcntl(number, F_DUPFD_CLOEXEC, 50);
    say("other", other);
    say("close", close(number));
    put(copy, "abc");
    get(other, 3);
    say("dup2", dup2(copy, 60));
    close(copy);
    close(other);
    put(60, "def");
    get(60, 3);
    say("close_range", close_range(60, 60, 0));
    say("write", write(60, "x", 1));
}

static void copies_there(int number) { answer(number, 2, 3, "ghi"); }

static void ranges_here(int number)
{
    int copy = dup(number);
    say("no such flag", close_range((unsigned)number, (unsigned)copy, 0x100));
    say("backwards", close_range(9, 8, 0));
    put(number, "a");
    get(copy, 1);
    say("by exec", close_range((unsigned)copy, (unsigned)copy, CLOSE_RANGE_CLOEXEC));
    say("is it", fcntl(copy, F_GETFD) == FD_CLOEXEC);
    put(copy, "b");
    get(number, 1);
    say("close", close_range((unsigned)copy, (unsigned)copy, 0));
    say("send", send(copy, "x", 1, 0));
    put(number, "c");
    get(number, 1);
    say("close all", close_range((unsigned)number, ~0u, 0));
    say("send", send(number, "x", 1, 0));
}

static void ranges_there(int number) { answer(number, 3, 1, "y"); }

const struct scene scenes_of_numbers[] = {
    SCENE(copies),
    SCENE(ranges),
    {NULL, NULL, NULL},
};
